/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The registers of an Arm vCPU that the log shows and replay compares, in one
 * list: names (registers.c, for the tool too) and values (target-arm.c) cannot
 * drift.
 *
 * The list has all state that decides what the vCPU does next, except state of
 * the outside (timers, interrupt lines) and copies that are updated lazily.
 *
 * X(name, count, value): '#' in the name stands for the index; @value is the
 * expression for register i of a CPUARMState *env.
 */
#ifndef RECORDING_ARM_REGISTERS_H
#define RECORDING_ARM_REGISTERS_H

#define ARM_REGISTERS(X) \
    X("x#",           32, env->xregs[i]) \
    X("pc",            1, env->aarch64 ? env->pc : env->regs[15]) \
    X("pstate",        1, is_a64(env) ? pstate_read(env) : cpsr_read(env)) \
    X("r#",           15, is_a64(env) ? 0 : env->regs[i]) \
    X("elr_el#",       4, env->elr_el[i]) \
    X("sp_el#",        4, env->sp_el[i]) \
    X("esr_el#",       4, env->cp15.esr_el[i]) \
    X("far_el#",       4, env->cp15.far_el[i]) \
    X("vbar_el#",      4, env->cp15.vbar_el[i]) \
    X("sctlr_el#",     4, env->cp15.sctlr_el[i]) \
    X("tcr_el#",       4, env->cp15.tcr_el[i]) \
    X("mair_el#",      4, env->cp15.mair_el[i]) \
    X("ttbr0_el#",     4, env->cp15.ttbr0_el[i]) \
    X("ttbr1_el#",     4, env->cp15.ttbr1_el[i]) \
    X("tpidr_el#",     4, env->cp15.tpidr_el[i]) \
    X("contextidr_el#", 4, env->cp15.contextidr_el[i]) \
    X("spsr#",         8, env->banked_spsr[i]) \
    X("tpidrro_el0",   1, env->cp15.tpidrro_el[0]) \
    X("v#.low",       32, env->vfp.zregs[i].d[0]) \
    X("v#.high",      32, env->vfp.zregs[i].d[1]) \
    X("fpcr",          1, vfp_get_fpcr(env)) \
    X("fpsr",          1, vfp_get_fpsr(env)) \
    X("par_el1",       1, env->cp15.par_el[1]) \
    X("cpacr_el1",     1, env->cp15.cpacr_el1) \
    X("exclusive-address", 1, env->exclusive_addr) \
    X("exclusive-low", 1, env->exclusive_val) \
    X("exclusive-high", 1, env->exclusive_high) \
    X("pauth-key#",   10, ((const uint64_t *)&env->keys)[i]) \
    X("gcr_el1",       1, env->cp15.gcr_el1) \
    X("rgsr_el1",      1, env->cp15.rgsr_el1) \
    X("sve-digest",    1, digest_of_vectors(env))

#endif
