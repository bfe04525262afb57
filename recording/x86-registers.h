/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The registers of an x86_64 vCPU that the log shows and replay compares, in one
 * list: names (registers.c, for the tool too) and values (target-x86.c) cannot
 * drift.
 *
 * The list has all state that decides what the vCPU does next, except state of
 * the outside (the local APIC, the TSC) and what is computed lazily from
 * registers (the condition codes).  Segments are numbered as in instructions: es, cs,
 * ss, ds, fs, gs.
 *
 * X(name, count, value): '#' in the name stands for the index; @value is the
 * expression for register i of a CPUX86State *env.
 */
#ifndef RECORDING_X86_REGISTERS_H
#define RECORDING_X86_REGISTERS_H

#define X86_REGISTERS(X) \
    X("rax",           1, env->regs[R_EAX]) \
    X("rcx",           1, env->regs[R_ECX]) \
    X("rdx",           1, env->regs[R_EDX]) \
    X("rbx",           1, env->regs[R_EBX]) \
    X("rsp",           1, env->regs[R_ESP]) \
    X("rbp",           1, env->regs[R_EBP]) \
    X("rsi",           1, env->regs[R_ESI]) \
    X("rdi",           1, env->regs[R_EDI]) \
    X("r8",            1, env->regs[8]) \
    X("r9",            1, env->regs[9]) \
    X("r10",           1, env->regs[10]) \
    X("r11",           1, env->regs[11]) \
    X("r12",           1, env->regs[12]) \
    X("r13",           1, env->regs[13]) \
    X("r14",           1, env->regs[14]) \
    X("r15",           1, env->regs[15]) \
    X("rip",           1, env->eip) \
    X("eflags",        1, cpu_compute_eflags(env)) \
    X("segment#",      6, env->segs[i].selector) \
    X("segment#.base", 6, env->segs[i].base) \
    X("segment#.limit", 6, env->segs[i].limit) \
    X("segment#.flags", 6, env->segs[i].flags) \
    X("ldtr",          1, env->ldt.selector) \
    X("ldtr.base",     1, env->ldt.base) \
    X("ldtr.limit",    1, env->ldt.limit) \
    X("ldtr.flags",    1, env->ldt.flags) \
    X("tr",            1, env->tr.selector) \
    X("tr.base",       1, env->tr.base) \
    X("tr.limit",      1, env->tr.limit) \
    X("tr.flags",      1, env->tr.flags) \
    X("gdtr.base",     1, env->gdt.base) \
    X("gdtr.limit",    1, env->gdt.limit) \
    X("idtr.base",     1, env->idt.base) \
    X("idtr.limit",    1, env->idt.limit) \
    X("cr#",           5, env->cr[i]) \
    X("dr#",           8, env->dr[i]) \
    X("xcr0",          1, env->xcr0) \
    X("pkru",          1, env->pkru) \
    X("pkrs",          1, env->pkrs) \
    X("efer",          1, env->efer) \
    X("star",          1, env->star) \
    X("lstar",         1, env->lstar) \
    X("cstar",         1, env->cstar) \
    X("fmask",         1, env->fmask) \
    X("kernel-gs.base", 1, env->kernelgsbase) \
    X("sysenter-cs",   1, env->sysenter_cs) \
    X("sysenter-esp",  1, env->sysenter_esp) \
    X("sysenter-eip",  1, env->sysenter_eip) \
    X("tsc-aux",       1, env->tsc_aux) \
    X("pat",           1, env->pat) \
    X("misc-enable",   1, env->msr_ia32_misc_enable) \
    X("hidden-flags",  1, env->hflags) \
    X("hidden-flags2", 1, env->hflags2) \
    X("a20-mask",      1, (uint32_t)env->a20_mask) \
    X("fpu-control",   1, env->fpuc) \
    X("fpu-status",    1, (env->fpus & ~0x3800) | (env->fpstt & 7) << 11) \
    X("fpu-empty#",    8, env->fptags[i]) \
    X("st#.low",       8, env->fpregs[i].d.low) \
    X("st#.high",      8, env->fpregs[i].d.high) \
    X("mxcsr",         1, mxcsr_of(env)) \
    X("xmm#.low",     16, env->xmm_regs[i].ZMM_Q(0)) \
    X("xmm#.high",    16, env->xmm_regs[i].ZMM_Q(1)) \
    X("other-digest",  1, digest_of_others(env))

#endif
