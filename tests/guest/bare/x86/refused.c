/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without an operating system that does one thing which cannot be recorded: MODE names the
 * function.
 */
#include "others.h"

/* A division by zero that the processor is to report by an interrupt. */
static inline void use_ferr(void)
{
    uint16_t control = 0x37b;

    write_cr("cr0", read_cr("cr0") & ~0x20ul);
    asm volatile("fninit; fldcw %0; fld1; fldz; fdivrp; fwait" : : "m"(control));
}

static inline void use_ignne(void)
{
    outb(0xf0, 0);
}

static inline void disable_apic(void)
{
    write_msr(0x1b, read_msr(0x1b) & ~0x800ul);
}

static inline void enable_svm(void)
{
    write_msr(0xc0000080, read_msr(0xc0000080) | 1 << 12);
}

/* Page tables in ROM. */
static inline void use_tables_in_rom(void)
{
    level4[1] = 0xffffe000ul | PTE_PRESENT | PTE_A;
    asm volatile("mov %0, %%rax" : : "m"(*(volatile uint64_t *)(1ul << 39)) : "rax");
}

static void switch_a20_of_another(unsigned other)
{
    seen[other][0]++;
    outb(0x92, 0);
    outb(0x92, 2);
}

static inline void let_another_switch_a20(void)
{
    let_others(switch_a20_of_another);
    for (;;) {
        asm volatile("pause");
    }
}

static void see_memory(unsigned other)
{
    seen[other][0] = mix(seen[other][0], *(volatile uint64_t *)0xd0000);
}

static inline void let_another_run_while_memory_moves(void)
{
    let_others(see_memory);
    for (unsigned i = 0; ; i++) {
        map_memory(i & 1);
    }
}

static void take_stack(unsigned other)
{
    take(other, (void *)BUFFER, (void *)(BUFFER + 64));
}

/* Push what a device has, on a stack that another vCPU takes. */
static inline void push_device(void)
{
    let_others(take_stack);
    for (;;) {
        asm volatile("cli; mov %%rsp, %%r8; mov %0, %%rsp; pushq (%1); mov %%r8, %%rsp; sti" : :
                     "r"(BUFFER + 64), "r"(0xfed00000ul) : "r8", "memory");
    }
}

/* The device is read first. */
static inline void compare_device(void)
{
    let_others(take_stack);
    for (;;) {
        uint64_t memory = BUFFER, device = 0xfed00000;

        asm volatile("cmpsl" : "+S"(memory), "+D"(device) : : "memory", "cc");
    }
}

void __attribute__((used)) run(void)
{
    start_processor();
    start_interrupts();
    others = N_OTHERS;
    start_others();
    report("before", true);
    MODE();
    report("after", true);
    power_off();
}
