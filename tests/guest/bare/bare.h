/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What guests without an operating system share: entry points, page tables, interrupts, exceptions
 * and console.
 *
 * For machine virt with GICv2, or GICv3 if the guest defines WITH_GICV3.  A guest is linked at
 * 0x40200000 and started with `-kernel`.  It runs at EL1, with 4 KiB pages.  All memory is mapped
 * to itself, at low addresses (TTBR0) and again at high addresses (TTBR1).  The guest defines
 * run(), where the first vCPU begins, and run_second(), where other vCPUs begin.
 */
#ifndef BARE_H
#define BARE_H

#include <stdbool.h>
#include <stdint.h>

#define UART ((volatile uint32_t *)0x09000000)
#define GICD ((volatile uint32_t *)0x08000000)
#define GICC ((volatile uint32_t *)0x08010000)
#define TIMER_INTERRUPT 27
#define FETCH_ABORT     0x21            /* exception class: instruction abort, same level */
#define PC_ALIGNMENT    0x22            /* exception class: jump to an odd address */
#define PSTATE_BTYPE    (3ul << 10)

#define PAGE        4096
#define RAM         0x40000000ul
#define BLOCK       0x00200000ul        /* of level 2; the block at PLAY is mapped by pages */

#define PTE_PAGE    3ul
#define PTE_BLOCK   1ul
#define PTE_ATTR(n) ((uint64_t)(n) << 2)
#define PTE_USER    (1ul << 6)
#define PTE_RO      (1ul << 7)
#define PTE_INNER   (3ul << 8)
#define PTE_AF      (1ul << 10)
#define PTE_GUARDED (1ul << 50)
#define PTE_DBM     (1ul << 51)
#define NORMAL      (PTE_ATTR(1) | PTE_INNER)

#define MAIR        0x4400ff00ul        /* 0: device, 1: normal, 3: normal, not cached */
#define MAIR_DEVICE 0x0400ff00ul        /* 3: device */


#define read_sysreg(name) ({                                    \
    uint64_t value_;                                            \
    asm volatile("mrs %0, " name : "=r"(value_) : : "memory");  \
    value_;                                                     \
})
#define write_sysreg(name, value) \
    asm volatile("msr " name ", %0; isb" : : "r"((uint64_t)(value)) : "memory")

static uint64_t level1[512] __attribute__((aligned(PAGE)));
static uint64_t level2[512] __attribute__((aligned(PAGE)));
static volatile uint64_t level3[512] __attribute__((aligned(PAGE)));
static uint8_t stack[16 * PAGE] __attribute__((aligned(PAGE), used));
static uint8_t second_stack[PAGE] __attribute__((aligned(PAGE)));

/* Above the guest's own memory: a block of pages that the tests remap, and a buffer. */
#define PLAY        (RAM + 8 * BLOCK)
#define BUFFER      (RAM + 16 * BLOCK)
#define BUFFER_SIZE (2 * BLOCK)

static volatile uint64_t *watched;      /* a word that the interrupt handler reads; NULL: none */
static void (*handle)(uint32_t id);     /* what else to do in an interrupt; NULL: nothing */
static bool (*mend)(void);              /* mend a fault, or return false; NULL: never */
static volatile uint64_t digest, interrupts, faults;
static volatile uint64_t fetch_return;  /* where to go on after a failed instruction fetch */

static inline uint64_t mix(uint64_t digest, uint64_t value)
{
    digest = (digest ^ value) * 0x9e3779b97f4a7c15ul;
    return digest ^ digest >> 32;
}

/* Return the period of timer interrupts, 20 us, in ticks of the counter. */
static inline uint64_t ticks(void)
{
    return read_sysreg("cntfrq_el0") / 50000;
}

static inline void arm_timer(void)
{
    write_sysreg("cntv_tval_el0", ticks());
    write_sysreg("cntv_ctl_el0", 1);
}

/* --- the interrupt controller ---------------------------------------------------- */

#ifdef WITH_GICV3

/* The redistributor of vCPU @n: registers of its own, and 64 KiB above them those of its PPIs. */
#define GICR(n)     ((volatile uint32_t *)(0x080a0000 + (n) * 0x20000ul))
#define ICC_IAR1    "s3_0_c12_c12_0"
#define ICC_EOIR1   "s3_0_c12_c12_1"
#define ICC_PMR     "s3_0_c4_c6_0"
#define ICC_IGRPEN1 "s3_0_c12_c12_7"

static inline uint32_t acknowledge(void)
{
    return read_sysreg(ICC_IAR1);
}

static inline void end_interrupt(uint32_t id)
{
    write_sysreg(ICC_EOIR1, id);
}

static inline void open_controller(void)
{
    volatile uint32_t *ppis = GICR(read_sysreg("mpidr_el1") & 0xff) + 0x10000 / 4;

    GICD[0] = 1 << 4 | 1 << 1;          /* affinity routing, group 1 */
    ppis[0x80 / 4] = ~0u;               /* all in group 1 */
    ppis[0x100 / 4] = 1u << TIMER_INTERRUPT;
    write_sysreg(ICC_PMR, 0xff);
    write_sysreg(ICC_IGRPEN1, 1);
}

#else

static inline uint32_t acknowledge(void)
{
    return GICC[3];
}

static inline void end_interrupt(uint32_t id)
{
    GICC[4] = id;
}

static inline void open_controller(void)
{
    GICD[0] = 1;
    GICD[0x100 / 4] = 1u << TIMER_INTERRUPT;
    GICC[1] = 0xff;
    GICC[0] = 1;
}

#endif

/* --- exceptions ------------------------------------------------------------------ */

asm(".balign 2048\n"
    "vectors:\n"
    ".org vectors + 0x200\n"
    "    stp x0, x1, [sp, #-192]!\n"
    "    mov x0, #0\n"
    "    b entry\n"
    ".org vectors + 0x280\n"
    "    stp x0, x1, [sp, #-192]!\n"
    "    mov x0, #1\n"
    "    b entry\n"
    ".org vectors + 0x400\n"           /* system call of user mode: run_as_user() returns */
    "    ldp x29, x30, [sp], #16\n"
    "    msr daifclr, #2\n"
    "    ret\n"
    ".org vectors + 0x800\n"
    "entry:\n"
    "    stp x2, x3, [sp, #16]\n   stp x4, x5, [sp, #32]\n   stp x6, x7, [sp, #48]\n"
    "    stp x8, x9, [sp, #64]\n   stp x10, x11, [sp, #80]\n stp x12, x13, [sp, #96]\n"
    "    stp x14, x15, [sp, #112]\n stp x16, x17, [sp, #128]\n stp x18, x19, [sp, #144]\n"
    "    stp x29, x30, [sp, #160]\n"
    "    bl exception\n"
    "    ldp x2, x3, [sp, #16]\n   ldp x4, x5, [sp, #32]\n   ldp x6, x7, [sp, #48]\n"
    "    ldp x8, x9, [sp, #64]\n   ldp x10, x11, [sp, #80]\n ldp x12, x13, [sp, #96]\n"
    "    ldp x14, x15, [sp, #112]\n ldp x16, x17, [sp, #128]\n ldp x18, x19, [sp, #144]\n"
    "    ldp x29, x30, [sp, #160]\n"
    "    ldp x0, x1, [sp], #192\n"
    "    eret\n"
    "run_as_user:\n"
    "    stp x29, x30, [sp, #-16]!\n"
    "    msr daifset, #2\n"
    "    msr elr_el1, x0\n"
    "    mov x0, #0x3c0\n"              /* EL0, no interrupts */
    "    msr spsr_el1, x0\n"
    "    eret\n");

/*
 * Handle an interrupt or a fault.  A fault is counted, and its instruction skipped unless the fault
 * was mended.  After a failed instruction fetch, the guest goes on at fetch_return.
 */
void __attribute__((used)) exception(bool is_interrupt)
{
    uint64_t from = read_sysreg("elr_el1");

    if (is_interrupt) {
        uint32_t id = acknowledge();

        interrupts++;
        digest = mix(digest, from);
        digest = mix(digest, watched ? *watched : 0);
        if (handle) {
            handle(id);
        }
        arm_timer();
        end_interrupt(id);
    } else {
        uint64_t syndrome = read_sysreg("esr_el1");

        faults++;
        digest = mix(digest, syndrome);
        if (syndrome >> 26 == FETCH_ABORT || syndrome >> 26 == PC_ALIGNMENT) {
            digest = mix(digest, read_sysreg("far_el1"));
            write_sysreg("elr_el1", fetch_return);
        } else if (!mend || !mend()) {
            write_sysreg("elr_el1", from + 4);
            write_sysreg("spsr_el1", read_sysreg("spsr_el1") & ~PSTATE_BTYPE);
        }
    }
}

static inline void start_interrupts(void)
{
    extern char vectors[];

    write_sysreg("vbar_el1", (uint64_t)vectors);
    open_controller();
    arm_timer();
    asm volatile("msr daifclr, #2");
}

static inline void use_tables(void)
{
    write_sysreg("mair_el1", MAIR);
    /* Addresses of 39 bits; HA and HD, which only some CPU models have. */
    write_sysreg("tcr_el1", 25 | 25ul << 16 | 2ul << 30 | 2ul << 32 | 1ul << 39 | 1ul << 40);
    write_sysreg("ttbr1_el1", (uint64_t)level1);
    write_sysreg("ttbr0_el1", (uint64_t)level1);
    write_sysreg("sctlr_el1", read_sysreg("sctlr_el1") | 1 | 1 << 2 | 1 << 12);
}

static inline void start_mmu(void)
{
    level1[0] = PTE_BLOCK | PTE_ATTR(0) | PTE_AF;
    level1[1] = (uint64_t)level2 | PTE_PAGE;
    for (unsigned i = 0; i < 512; i++) {
        level2[i] = (RAM + i * BLOCK) | PTE_BLOCK | NORMAL | PTE_AF;
        level3[i] = (PLAY + i * PAGE) | PTE_PAGE | NORMAL | PTE_AF;
    }
    level2[(PLAY - RAM) / BLOCK] = (uint64_t)level3 | PTE_PAGE;
    use_tables();
}

static inline int64_t psci(uint64_t function, uint64_t argument1, uint64_t argument2,
                           uint64_t argument3)
{
    register uint64_t x0 asm("x0") = function, x1 asm("x1") = argument1,
                      x2 asm("x2") = argument2, x3 asm("x3") = argument3;

    asm volatile("hvc #0" : "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3) : : "memory");
    return x0;
}

/*
 * Start vCPU @n (PSCI CPU_ON) in run_second(), with the stack below @stack_end.  Return false if
 * there is no such vCPU.
 */
static inline bool start_vcpu(uint64_t n, uint8_t *stack_end)
{
    extern char second_start[];

    return psci(0xc4000003ul, n, (uint64_t)second_start, (uint64_t)stack_end) == 0;
}

static inline bool start_second(void)
{
    return start_vcpu(1, second_stack + PAGE);
}

/* Power off (PSCI SYSTEM_OFF). */
static inline void power_off(void)
{
    psci(0x84000008ul, 0, 0, 0);
}

/* --- console ---------------------------------------------------------------------- */

static inline void say(const char *text)
{
    while (*text) {
        *UART = *text++;
    }
}

static inline void report(const char *name, bool good)
{
    say(name);
    if (good) {
        say(" ");
        for (int shift = 60; shift >= 0; shift -= 4) {
            *UART = "0123456789abcdef"[digest >> shift & 15];
        }
    } else {
        say(" bad");
    }
    say("\r\n");
}

/* --- tables and code ---------------------------------------------------------------- */

static inline void change(volatile uint64_t *pte, uint64_t value)
{
    *pte = value;
    asm volatile("dsb ish; tlbi vmalle1; dsb ish; isb" : : : "memory");
}

static inline void clean_code(void)
{
    asm volatile("dsb ish; ic iallu; dsb ish; isb" : : : "memory");
}

#define RET         0xd65f03c0u
#define SVC         0xd4000001u
#define NOP         0xd503201fu
#define LOOP        0x14000000u
#define MOV_X0(n)   (0xd2800000u | (n) << 5)

/* Spin for half a second, so that a checkpoint can be made meanwhile. */
static inline void take_time(void)
{
    uint64_t until = read_sysreg("cntvct_el0") + read_sysreg("cntfrq_el0") / 2;

    while (read_sysreg("cntvct_el0") < until) {
        for (volatile int i = 0; i < 100000; i++) {
        }
    }
}

asm(".pushsection .text.start, \"ax\"\n"
    ".globl _start\n"
    "_start:\n"
    "    adrp x0, stack + 65536\n"
    "    add x0, x0, :lo12:stack + 65536\n"
    "    mov sp, x0\n"
    "    b run\n"
    ".globl second_start\n"
    "second_start:\n"
    "    mov sp, x0\n"
    "    b run_second\n"
    ".popsection\n");

#endif
