/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Other vCPUs of guests without an operating system: vCPU 0 starts them, and gives them a job that
 * they do again and again, until it stops them.  N_OTHERS says how many they are.
 */
#ifndef OTHERS_H
#define OTHERS_H

#include "pc.h"

#define OTHERS      3                   /* at most */
#define TRAMPOLINE  0x8000ul
#define INIT_OTHERS     0x000c4500
#define START_OTHERS    (0x000c4600 | TRAMPOLINE / PAGE)

static uint8_t stacks[OTHERS][4 * PAGE] __attribute__((aligned(PAGE), used));
static volatile uint64_t started __attribute__((used));
static volatile uint64_t seen[OTHERS][8] __attribute__((aligned(64)));
static void (*volatile job)(unsigned other);
static volatile uint64_t idle[OTHERS][8] __attribute__((aligned(64)));

/* From real mode to long mode, with the tables that vCPU 0 has. */
asm(".code16\n"
    "trampoline:\n"
    "    cli\n"
    "    xor %ax, %ax\n"
    "    mov %ax, %ds\n"
    "    mov %cr4, %eax\n"
    "    or $0x620, %eax\n"
    "    mov %eax, %cr4\n"
    "    mov $level4, %eax\n"
    "    mov %eax, %cr3\n"
    "    mov $0xc0000080, %ecx\n"
    "    rdmsr\n"
    "    or $0x901, %eax\n"
    "    wrmsr\n"
    "    lgdtl 0x8000 + other_gdtr - trampoline\n"
    "    mov %cr0, %eax\n"
    "    and $~4, %eax\n"
    "    or $0x80010023, %eax\n"
    "    mov %eax, %cr0\n"
    "    ljmpl $8, $other_start\n"
    "other_gdtr:\n"
    "    .short 63\n"
    "    .long gdt\n"
    "trampoline_end:\n"
    ".code64\n"
    "other_start:\n"
    "    mov $0x10, %eax\n"
    "    mov %eax, %ds\n"
    "    mov %eax, %es\n"
    "    mov %eax, %ss\n"
    "    mov $1, %edi\n"
    "    lock xadd %rdi, started(%rip)\n"
    "    mov %rdi, %rax\n"
    "    inc %rax\n"
    "    shl $14, %rax\n"
    "    lea stacks(%rax), %rsp\n"
    "    call run_other\n");

static inline uint64_t touch(volatile void *address)
{
    uint64_t value = 0;

    asm volatile("lock xadd %0, %1" : "+r"(value), "+m"(*(volatile uint64_t *)address) : :
                 "memory");
    return value;
}

/* Take all lines from @first to @last, and note what is there. */
static inline void take(unsigned other, volatile void *first, volatile void *last)
{
    for (uint64_t at = (uint64_t)first & -64ul; at < (uint64_t)last; at += 64) {
        seen[other][0] = mix(seen[other][0], touch((void *)(at + 8)));
    }
}

void __attribute__((used)) run_other(unsigned other)
{
    load_vectors();
    start_timer();
    for (;;) {
        void (*now)(unsigned) = job;

        if (now) {
            idle[other][0] = 0;
            now(other);
        } else {
            idle[other][0] = 1;
            asm volatile("pause");
        }
    }
}

static unsigned others;

static inline void start_others(void)
{
    extern char trampoline[], trampoline_end[];

    for (unsigned i = 0; &trampoline[i] < trampoline_end; i++) {
        ((volatile char *)TRAMPOLINE)[i] = trampoline[i];
    }
    started = 0;
    APIC[APIC_COMMAND] = INIT_OTHERS;
    for (uint64_t until = rdtsc() + 20000000; rdtsc() < until; ) {
        asm volatile("pause");
    }
    APIC[APIC_COMMAND] = START_OTHERS;
    while (started < others) {
        asm volatile("pause");
    }
}

static inline void let_others(void (*what)(unsigned))
{
    job = what;
}

static inline void stop_others(void)
{
    job = 0;
    for (unsigned i = 0; i < others; i++) {
        while (!idle[i][0]) {
            asm volatile("pause");
        }
        digest = mix(digest, seen[i][0]);
    }
}

#endif
