/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * User mode that enters its kernel by a call gate and, where 64-bit mode has it, by SYSENTER.
 */
#ifndef GATES_H
#define GATES_H

#include "pc.h"

#define GATE        0x40
#define FAST_CODE   0x80                /* SYSENTER: then the kernel's data, user code and data */

static volatile uint64_t gate_calls __attribute__((used));

asm("gate_entry:\n"
    "    incq gate_calls(%rip)\n"
    "    lretq\n"
    "sysenter_entry:\n"
    "    incq gate_calls(%rip)\n"
    "    mov %r12, %rdx\n"
    "    mov %r13, %rcx\n"
    "    sti\n"
    "    sysexitq\n");

/* The code of user mode: so many rounds of @code, and then of all entries. */
#define USER_OF_GATES(rounds, code) \
    asm("user_begin:\n" \
        "    mov $" #rounds ", %ebx\n" \
        "1:\n" code \
        "    lea user_stack_top(%rip), %rsp\n" \
        "    lcall *user_gate(%rip)\n" \
        "    cmpb $0, user_sysenter(%rip)\n" \
        "    je 2f\n" \
        "    mov %rsp, %r13\n" \
        "    lea 2f(%rip), %r12\n" \
        "    sysenter\n" \
        "2:  dec %ebx\n" \
        "    jnz 1b\n" \
        "    mov $42, %eax\n" \
        "    int $0x80\n" \
        "    .balign 8\n" \
        "user_gate:\n" \
        "    .long 0\n" \
        "    .short 0x43\n" \
        "user_sysenter:\n" \
        "    .byte 0\n" \
        "    .balign 16\n" \
        "    .skip 64\n" \
        "user_stack_top:\n" \
        "user_end:\n")

/* Put that code at USER, and its gates into @table.  Return how many entries a round makes. */
static inline unsigned start_gates(uint64_t *table)
{
    extern uint8_t user_begin[], user_end[], user_sysenter[], gate_entry[], sysenter_entry[];
    uint64_t entry = (uint64_t)gate_entry;

    *user_sysenter = cpuid(0).b == 0x756e6547;  /* Intel; AMD has it in 32-bit mode only */
    put_user_code(user_begin, user_end - user_begin);
    write_msr(0x174, FAST_CODE);
    write_msr(0x175, (uint64_t)interrupt_stack + PAGE);
    write_msr(0x176, (uint64_t)sysenter_entry);
    table[FAST_CODE / 8] = gdt[CODE / 8];
    table[FAST_CODE / 8 + 1] = gdt[DATA / 8];
    table[FAST_CODE / 8 + 4] = gdt[USER_CODE / 8];
    table[FAST_CODE / 8 + 5] = gdt[USER_DATA / 8];
    table[GATE / 8] = (entry & 0xffff) | CODE << 16 | 0xecul << 40 | (entry >> 16 & 0xffff) << 48;
    table[GATE / 8 + 1] = entry >> 32;
    return 1 + *user_sysenter;
}

#endif
