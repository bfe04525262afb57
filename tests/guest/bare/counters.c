/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without an operating system that uses its performance monitor, on each vCPU: counters
 * that run, in the kernel and in user mode; overflows, with interrupts and without; what registers
 * show of each other.  Timer interrupts come all the time.
 *
 * What it reads goes into a digest, as in bare.c.  Counts are time, so no two runs have the same.
 * The macro MODE selects what the guest does.
 */
#include "bare.h"

enum {
    COUNT,              /* all tests; needs a performance monitor */
    FILTER,             /* only a register that exists without a performance monitor, too */
};

#define PMU_INTERRUPT   23
#define PMCR_ENABLE     (1 << 0)
#define PMCR_RESET      (3 << 1)        /* event counters and the cycle counter */
#define PMCR_LONG       (1 << 6)        /* the cycle counter overflows at 64 bits */
#define CYCLES          (1ul << 31)     /* the cycle counter's bit, of all registers with bits */
#define EVENT(n)        (1ul << (n))
#define NOT_IN_KERNEL   (1ul << 31)     /* of a filter */
#define NOT_IN_USER     (1ul << 30)
#define EVENT_SOFTWARE  0x00
#define EVENT_CYCLES    0x11
#define EVENT_UNKNOWN   0x08            /* instructions: QEMU does not count them */

#define MAX_VCPUS       4
#define READ_PMCCNTR    0xd53b9d00u     /* mrs x0, pmccntr_el0 */

static volatile uint64_t overflows[MAX_VCPUS];
static volatile bool is_good[MAX_VCPUS], is_done[MAX_VCPUS];

extern uint64_t run_as_user(uint64_t address);

static unsigned self(void)
{
    return read_sysreg("mpidr_el1") & (MAX_VCPUS - 1);
}

static void note(uint64_t value)
{
    digest = mix(digest, value);
}

/* Note everything that the performance monitor shows. */
static void look(void)
{
    note(read_sysreg("pmcr_el0"));
    note(read_sysreg("pmcntenset_el0"));
    note(read_sysreg("pmcntenclr_el0"));
    note(read_sysreg("pmintenset_el1"));
    note(read_sysreg("pmintenclr_el1"));
    note(read_sysreg("pmovsset_el0"));
    note(read_sysreg("pmovsclr_el0"));
    note(read_sysreg("pmceid0_el0"));
    note(read_sysreg("pmceid1_el0"));
    note(read_sysreg("pmuserenr_el0"));
    note(read_sysreg("pmccfiltr_el0"));
    note(read_sysreg("pmccntr_el0"));
    for (uint64_t i = 0; i < 32; i++) {
        write_sysreg("pmselr_el0", i);
        note(read_sysreg("pmselr_el0"));
        note(read_sysreg("pmxevtyper_el0"));
        note(read_sysreg("pmxevcntr_el0"));
    }
    note(read_sysreg("pmevtyper0_el0"));
    note(read_sysreg("pmevcntr0_el0"));
    note(read_sysreg("pmevcntr3_el0"));
}

/* The filter of the cycle counter has two names, and each shows what was written to the other. */
static bool test_filter(void)
{
    bool good = true;

    for (uint64_t i = 0; i < 100; i++) {
        uint64_t filter = i << 30 & (NOT_IN_KERNEL | NOT_IN_USER);

        write_sysreg("pmselr_el0", 31);
        write_sysreg("pmxevtyper_el0", filter);
        good &= read_sysreg("pmccfiltr_el0") == filter;
        write_sysreg("pmccfiltr_el0", filter ^ NOT_IN_USER);
        good &= read_sysreg("pmxevtyper_el0") == (filter ^ NOT_IN_USER);
    }
    write_sysreg("pmccfiltr_el0", 0);
    return good;
}

static void start_counters(void)
{
    write_sysreg("pmevtyper0_el0", EVENT_CYCLES);
    write_sysreg("pmevtyper1_el0", EVENT_SOFTWARE);
    write_sysreg("pmevtyper2_el0", EVENT_UNKNOWN);
    write_sysreg("pmevtyper3_el0", EVENT_CYCLES | NOT_IN_KERNEL);
    write_sysreg("pmcntenset_el0", CYCLES | EVENT(0) | EVENT(1) | EVENT(2) | EVENT(3));
    write_sysreg("pmcr_el0", PMCR_ENABLE | PMCR_RESET | PMCR_LONG);
}

/* Time passes, software counts, and what QEMU does not know does not count. */
static bool test_counts(void)
{
    uint64_t before = 0, cycles;
    bool good = true;

    start_counters();
    for (uint64_t i = 0; i < 2000; i++) {
        cycles = read_sysreg("pmccntr_el0");
        good &= cycles > before;
        before = cycles;
        note(cycles);
        note(read_sysreg("pmevcntr0_el0"));
        write_sysreg("pmswinc_el0", EVENT(0) | EVENT(1));
        good &= read_sysreg("pmevcntr1_el0") == i + 1;
    }
    good &= read_sysreg("pmevcntr2_el0") == 0;
    look();
    return good;
}

/*
 * User mode may read the cycle counter, or must not; the counter of user mode's time stands still
 * meanwhile, or runs.
 */
static bool test_user_mode(void)
{
    bool good = true;

    for (uint64_t i = 0; i < 500; i++) {
        bool may = i & 1;
        uint64_t before, seen;

        write_sysreg("pmuserenr_el0", may);
        write_sysreg("pmccfiltr_el0", i & 2 ? NOT_IN_USER : 0);
        before = read_sysreg("pmccntr_el0");
        seen = run_as_user(PLAY);
        note(seen);
        good &= may ? seen >= before : seen < before;
        note(read_sysreg("pmevcntr3_el0"));
    }
    write_sysreg("pmccfiltr_el0", 0);
    write_sysreg("pmuserenr_el0", 0);
    return good;
}

/* Wait for overflows with interrupts off.  How often the flag is looked at differs in each run. */
static void test_flags(void)
{
    asm volatile("msr daifset, #2");
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t flag = i & 1 ? CYCLES : EVENT(0), looks = 0;

        write_sysreg("pmovsclr_el0", flag);
        if (i & 1) {
            write_sysreg("pmccntr_el0", -10000ul);
        } else {
            write_sysreg("pmevcntr0_el0", 0xffffffff - 10000);
        }
        while (!(read_sysreg("pmovsset_el0") & flag)) {
            looks++;
        }
        note(looks);
    }
    write_sysreg("pmovsclr_el0", CYCLES | EVENT(0));
    asm volatile("msr daifclr, #2");
}

static void overflowed(uint32_t id)
{
    uint64_t flags;

    if (id != PMU_INTERRUPT) {
        return;
    }
    flags = read_sysreg("pmovsclr_el0");
    note(flags);
    note(read_sysreg("pmccntr_el0"));
    write_sysreg("pmovsclr_el0", flags);
    write_sysreg("pmevcntr0_el0", 0xffffffff - 10000);
    overflows[self()]++;
}

static void test_overflows(void)
{
    GICD[0x100 / 4] = 1u << PMU_INTERRUPT;
    write_sysreg("pmintenset_el1", CYCLES | EVENT(0));
    write_sysreg("pmevcntr0_el0", 0xffffffff - 10000);
    while (overflows[self()] < 100) {
        note(read_sysreg("pmovsset_el0"));
    }
    write_sysreg("pmovsset_el0", CYCLES);       /* an interrupt at once */
    while (overflows[self()] == 100) {
    }
    write_sysreg("pmintenclr_el1", CYCLES | EVENT(0));
}

/*
 * Let checkpoints be made while counters run, one of them beyond 32 bits.  It shows no more than
 * these before version 3.5 of the PMU.
 */
static bool test_time(void)
{
    uint64_t before = read_sysreg("pmccntr_el0");
    bool is_long = (read_sysreg("id_aa64dfr0_el1") >> 8 & 15) >= 6;

    write_sysreg("pmevcntr0_el0", 0xffffff00);
    take_time();
    look();
    take_time();
    look();
    return read_sysreg("pmccntr_el0") - before > 500000000 &&
           read_sysreg("pmevcntr0_el0") >> 32 == is_long;
}

/* Run all tests on this vCPU. */
static void count(void)
{
    bool good = test_filter();

    start_interrupts();
    good &= test_counts();
    good &= test_user_mode();
    test_flags();
    test_overflows();
    good &= test_time();
    is_good[self()] = good;
    is_done[self()] = true;
}

void __attribute__((used, noreturn)) run_second(void)
{
    use_tables();
    count();
    for (;;) {
        asm volatile("wfi");
    }
}

static void count_everywhere(void)
{
    bool several;

    ((volatile uint32_t *)PLAY)[0] = READ_PMCCNTR;
    ((volatile uint32_t *)PLAY)[1] = SVC;
    clean_code();
    change(&level3[0], level3[0] | PTE_USER);
    handle = overflowed;
    several = start_second();
    count();
    while (several && !is_done[1]) {
    }
    report("counters", is_good[0] && (!several || is_good[1]));
    report(several ? "two" : "one", true);
}

void __attribute__((used)) run(void)
{
    start_mmu();
    if (MODE == FILTER) {
        report("filter", test_filter());
        note(read_sysreg("pmccfiltr_el0"));
    } else {
        count_everywhere();
    }
    power_off();
}
