/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without an operating system that uses state which is easily forgotten: results that the
 * host computes, selectors and addresses of floating point instructions, and registers that QEMU
 * saves only if they are not as after a reset.
 *
 * Each test mixes what it sees into a digest, as in one.c.
 */
#include "pc.h"

#define MISC_ENABLE     0x1a0
#define WAIT            10000000        /* cycles in which a checkpoint may be made */

static void spend(uint64_t cycles)
{
    uint64_t end = rdtsc() + cycles;

    while (rdtsc() < end) {
    }
}

/* FSIN, FCOS, FSINCOS and FPTAN of @value: QEMU lets the host's libm compute them. */
static void mix_functions(double *value)
{
    double seen[6];

    asm volatile("fldl %6; fsin; fstpl %0; fldl %6; fcos; fstpl %1;"
                 "fldl %6; fsincos; fstpl %2; fstpl %3; fldl %6; fptan; fstpl %4; fstpl %5"
                 : "=m"(seen[0]), "=m"(seen[1]), "=m"(seen[2]), "=m"(seen[3]), "=m"(seen[4]),
                   "=m"(seen[5]) : "m"(*value));
    for (unsigned i = 0; i < 6; i++) {
        digest = mix(digest, ((volatile uint64_t *)seen)[i]);
    }
}

static void test_functions(void)
{
    union { uint64_t bits; double value; } x;

    asm volatile("fninit");
    for (uint64_t i = 0; i < 20000; i++) {
        x.bits = mix(1, i);
        x.bits = (x.bits & 0x800ffffffffffffful) | (1023 - 8 + i % 20) << 52;
        mix_functions(&x.value);
    }
    report("functions", true);
}

/* What FNSTENV tells of the last instruction, long after it. */
static void test_last_instruction(void)
{
    static float operand = 1;
    uint32_t environment[7];
    bool good = true;

    asm volatile("fninit");
    for (unsigned i = 0; i < 30; i++) {
        asm volatile("flds %0; fstp %%st" : : "m"(operand));
        spend(WAIT);
        asm volatile("fnstenv %0" : "=m"(environment));
        for (unsigned j = 0; j < 7; j++) {
            digest = mix(digest, environment[j]);
        }
        good &= environment[3] != 0 && environment[5] == (uint32_t)(uint64_t)&operand &&
                (environment[4] & 0xffff) == CODE && (environment[6] & 0xffff) == DATA;
    }
    report("last-instruction", good);
}

/* Registers that a reset sets, and that stay so for a while. */
static void test_late_registers(void)
{
    uint32_t features = cpuid(7).c;

    write_msr(MISC_ENABLE, read_msr(MISC_ENABLE) ^ 1 << 18);
    digest = mix(digest, read_msr(MISC_ENABLE));
    if (features & 1 << 3) {
        write_cr("cr4", read_cr("cr4") | 1 << 22);
        asm volatile("wrpkru" : : "a"(0x10), "c"(0), "d"(0));
    }
    if (features & 1u << 31) {
        write_cr("cr4", read_cr("cr4") | 1 << 24);
        write_msr(0x6e1, 0x20);
    }
    report("late-registers", true);
}

void __attribute__((used)) run(void)
{
    start_processor();
    start_interrupts();
    test_functions();
    test_last_instruction();
    test_late_registers();
    report("interrupts", interrupts > 10);
    power_off();
}
