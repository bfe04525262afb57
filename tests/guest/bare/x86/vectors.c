/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without an operating system that accesses memory by wide, masked, gathered, locked and
 * split instructions, while other vCPUs change words of the same lines all the time.  The lines lie
 * at the edge of two pages whose frames are not neighbours, in a page of tables, and in a page of
 * code.
 *
 * Each test mixes what it sees into a digest, as in several.c.
 */
#include "gates.h"
#include "others.h"

#define EDGE    (PLAY + 21 * PAGE)
#define LOWER   (BUFFER + 0x20000)      /* the frame below the edge */
#define UPPER   (BUFFER + 0x10000)      /* the frame above */
#define MADE    (PLAY + BLOCK)          /* what the page of tables maps */
#define CODE_AT (PLAY + 40 * PAGE)      /* others run code there */
#define ROUNDS  150

static volatile uint64_t spare[512] __attribute__((aligned(PAGE)));
static bool has_avx2, has_movbe, has_mpx;
static volatile uint64_t sum[64] __attribute__((aligned(64)));

/* Run instructions that may fault, and go on behind them. */
#define MAY_FAULT(code) \
    "lea 9f(%%rip), %%rax; mov %%rax, after_fault(%%rip);" code "; 9:"

static void set_up(void)
{
    Cpuid basic = cpuid(1), extended = cpuid(7);

    has_avx2 = extended.b >> 5 & 1 && basic.c >> 28 & 1 && basic.c >> 26 & 1;
    has_movbe = basic.c >> 22 & 1;
    has_mpx = has_avx2 && extended.b >> 14 & 1;
    if (has_avx2) {
        write_cr("cr4", read_cr("cr4") | 1 << 18);
        asm volatile("xsetbv" : : "a"(has_mpx ? 0x1f : 7), "d"(0), "c"(0));
    }
    if (has_mpx) {
        write_msr(0xd90, 1);
    }
    level1[20] = LOWER | MAPPED;
    change(&level1[21], UPPER | MAPPED);
    for (unsigned i = 0; i < 64; i++) {
        spare[i] = (MADE + i * PAGE) | MAPPED;
    }
    change(&level2[0][MADE / BLOCK], (uint64_t)spare | MAPPED);
    *(volatile uint8_t *)CODE_AT = 0xc3;
}

/* Return a place for round @i: at the edge, in tables, or in code; others use all of them. */
static uint64_t place(unsigned i)
{
    switch (i % 4) {
    case 0:
        return (uint64_t)&spare[256] + i % 60;
    case 1:
        return CODE_AT + 1024 + i % 60;
    default:
        return EDGE - i % 60;
    }
}

static void add(volatile void *address)
{
    asm volatile("lock addq $1, %0" : "+m"(*(volatile uint64_t *)address) : : "memory", "cc");
}

/* Change the lines, and see what is there. */
static void disturb(unsigned other)
{
    void (*call)(void) = (void *)CODE_AT;

    for (unsigned i = 0; i < 4; i++) {
        add((void *)(LOWER + PAGE - 64 + i * 16));
        add((void *)(UPPER + i * 48));
        add((void *)&spare[256 + i * 10]);
        add((void *)(CODE_AT + 1024 + i * 80));
        seen[other][0] = mix(seen[other][0], *(volatile uint64_t *)(MADE + (i + other) * PAGE));
        call();
    }
    take(other, (void *)(LOWER + PAGE - 128), (void *)(LOWER + PAGE));
    take(other, (void *)UPPER, (void *)(UPPER + 640));
    take(other, &spare[256], &spare[320]);
    take(other, (void *)(CODE_AT + 1024), (void *)(CODE_AT + 1536));
}

static void see(uint64_t at)
{
    digest = mix(digest, *(volatile uint64_t *)at);
}

/* Let the upper page be there, or not, or have flags to be set. */
static void choose_upper(unsigned i)
{
    uint64_t pte = UPPER | MAPPED;

    change(&level1[21], i % 5 == 2 ? 0 : i % 5 == 3 ? pte & ~(PTE_A | PTE_D) : pte);
}

/* --- gathers and masks ---------------------------------------------------------- */

static void test_gather(void)
{
    static const int32_t near[8] = { 0, 4, 16, -12, 40, 3, -1, 30 };

    let_others(disturb);
    for (unsigned i = 0; has_avx2 && i < ROUNDS; i++) {
        uint64_t at = place(i);

        choose_upper(i);
        asm volatile("vpcmpeqd %%ymm2, %%ymm2, %%ymm2; vpxor %%ymm0, %%ymm0, %%ymm0;"
                     "vmovdqu (%0), %%ymm1;"
                     MAY_FAULT("vpgatherdd %%ymm2, (%1, %%ymm1, 4), %%ymm0")
                     "vmovdqu %%ymm0, (%2); vmovdqu %%ymm2, 32(%2)" : : "r"(near), "r"(at),
                     "r"(BUFFER) : "rax", "memory");
        see(BUFFER + 8);
        see(BUFFER + 24);
        see(BUFFER + 32 + i % 32);
        asm volatile("vpcmpeqd %%ymm2, %%ymm2, %%ymm2; vpmovsxdq (%0), %%ymm1;"
                     MAY_FAULT("vgatherqpd %%ymm2, (%1, %%ymm1, 2), %%ymm0")
                     "vmovdqu %%ymm0, (%2)" : : "r"(near), "r"(at), "r"(BUFFER) :
                     "rax", "memory");
        see(BUFFER + 16);
    }
    choose_upper(0);
    stop_others();
    report("gather", true);
}

static void test_masks(void)
{
    static const uint32_t masks[4][8] = {
        { -1u, 0, -1u, 0, 0, 0, 0, -1u }, { -1u, -1u, 0, 0, 0, 0, 0, 0 },
        { 0 }, { -1u, -1u, -1u, -1u, -1u, -1u, -1u, -1u },
    };

    let_others(disturb);
    for (unsigned i = 0; has_avx2 && i < ROUNDS; i++) {
        uint64_t at = place(i);

        choose_upper(i);
        asm volatile("vmovdqu (%0), %%ymm1;"
                     MAY_FAULT("vpmaskmovd (%1), %%ymm1, %%ymm0; vpmaskmovd %%ymm0, %%ymm1, 4(%1);"
                               "vmaskmovps %%ymm0, %%ymm1, 8(%1);"
                               "vmaskmovpd (%1), %%ymm1, %%ymm3; vmaskmovpd %%ymm3, %%ymm1, 1(%1);"
                               "vpmaskmovq %%ymm3, %%ymm1, 3(%1)")
                     "vmovdqu %%ymm0, (%2)" : : "r"(masks[i / 4 % 4]), "r"(at), "r"(BUFFER) :
                     "rax", "memory");
        see(BUFFER + 4);
        asm volatile(MAY_FAULT("vmovdqu (%1), %%xmm1; maskmovdqu %%xmm1, %%xmm0") : :
                     "D"(at), "r"(masks[i / 4 % 4]) : "rax", "memory");
    }
    choose_upper(0);
    stop_others();
    report("masks", true);
}

/* --- wide accesses --------------------------------------------------------------- */

static void test_wide(void)
{
    let_others(disturb);
    for (unsigned i = 0; has_avx2 && i < ROUNDS; i++) {
        uint64_t at = place(i);

        choose_upper(i);
        asm volatile(MAY_FAULT("vmovdqu (%0), %%ymm0; vmovdqu %%ymm0, 1(%0)")
                     MAY_FAULT("vmovups 33(%0), %%ymm1; vaddps (%0), %%ymm1, %%ymm0;"
                               "vmovupd %%ymm0, 2(%0); vextracti128 $1, %%ymm0, 7(%0);"
                               "movups %%xmm0, -9(%0); vmovlps %%xmm1, 3(%0)")
                     "vmovdqu %%ymm0, (%1)" : : "r"(at), "r"(BUFFER) : "rax", "memory");
        see(BUFFER + 12);
        asm volatile("vmovdqa (%0), %%ymm0; vmovdqa %%ymm0, 32(%0); vmovntdq %%ymm0, 64(%0)" : :
                     "r"(i & 1 ? LOWER + PAGE - 128 : (uint64_t)&spare[256]) : "memory");
    }
    choose_upper(0);
    stop_others();
    report("wide", true);
}

/* Save areas at the edge, over tables, and over code. */
static void test_saves(void)
{
    let_others(disturb);
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t at = i % 4 == 0 ? (uint64_t)&spare[256] : i % 4 == 1 ? CODE_AT + 1024 :
                      EDGE - i % 8 * 64;

        choose_upper(i);
        if (has_avx2) {
            asm volatile(MAY_FAULT("mov $-1, %%eax; mov %%eax, %%edx; xsave64 (%0)")
                         MAY_FAULT("mov $-1, %%eax; mov %%eax, %%edx; xsaveopt (%0)") : :
                         "r"(at) : "rax", "rdx", "memory");
            /* The header belongs to others, too: a bad one raises #GP. */
            asm volatile(MAY_FAULT("mov $7, %%eax; xor %%edx, %%edx; xrstor64 (%0)") : : "r"(at) :
                         "rax", "rdx", "memory");
        }
        asm volatile(MAY_FAULT("fxsave64 (%0)") MAY_FAULT("fnsave 3(%0)") "fninit; fldpi;"
                     MAY_FAULT("fstpt 5(%0)") "fninit; fldpi;" MAY_FAULT("fbstp 60(%0)")
                     MAY_FAULT("fnstenv 50(%0)") "fninit; fld1;" MAY_FAULT("fldt 58(%0)")
                     "fninit" : : "r"(at) : "rax", "memory");
        see(at & -64ul);
        asm volatile("mov $0x1f80, %%eax; push %%rax; ldmxcsr (%%rsp); pop %%rax" : : : "rax");
    }
    choose_upper(0);
    stop_others();
    report("saves", true);
}

static void test_bounds(void)
{
    let_others(disturb);
    for (unsigned i = 0; has_mpx && i < ROUNDS; i++) {
        uint64_t at = place(i);

        choose_upper(i);
        asm volatile("bndmk 5(%0), %%bnd0;" MAY_FAULT("bndmov %%bnd0, (%0)")
                     MAY_FAULT("bndmov (%0), %%bnd1") MAY_FAULT("bndmov %%bnd1, 7(%0)") : :
                     "r"(at) : "rax", "memory");
        see(at & -8ul & -64ul);
    }
    choose_upper(0);
    stop_others();
    report("bounds", true);
}

/* --- locked accesses -------------------------------------------------------------- */

/* At places that cross nothing, a line, and the edge of two pages. */
static volatile void *shared_word(unsigned i)
{
    return (void *)(i % 3 == 0 ? (uint64_t)&sum[2] :
                    i % 3 == 1 ? (uint64_t)&sum[16] - 3 : EDGE - 5);
}

static void add_16(volatile uint64_t *pair)
{
    uint64_t low = pair[0], high = pair[1];
    bool done;

    do {
        asm volatile("lock cmpxchg16b (%3)" : "+a"(low), "+d"(high), "=@ccz"(done) :
                     "r"(pair), "b"(low + 1), "c"(high + (low + 1 == 0)) : "memory");
    } while (!done);
}

static volatile uint64_t added[OTHERS + 1][8] __attribute__((aligned(64)));

static void add_locked(unsigned other)
{
    for (unsigned i = 0; i < 3; i++) {
        add(shared_word(i));
    }
    add_16(&sum[32]);
    asm volatile("lock btcl %1, %0" : "+m"(sum[40]) : "r"(other * 3) : "memory", "cc");
    added[other][0]++;
}

static void test_locked(void)
{
    uint64_t total;
    bool good = true;

    for (unsigned i = 0; i < 3; i++) {
        *(volatile uint64_t *)shared_word(i) = 0;
    }
    sum[32] = -100ul;
    sum[33] = 0;
    let_others(add_locked);
    for (unsigned i = 0; i < 300; i++) {
        uint64_t value = 1, low, high = 0;

        add_locked(OTHERS);
        asm volatile("lock xadd %0, %1; lock subq $1, %1" : "+r"(value),
                     "+m"(*(volatile uint64_t *)shared_word(i)) : : "memory", "cc");
        digest = mix(digest, value);
        asm volatile("cmpxchg16b (%2)" : "=a"(low), "+d"(high) : "r"(&sum[32]), "a"(0ul),
                     "b"(0ul), "c"(0ul) : "memory", "cc");
        digest = mix(mix(digest, low), high);
        asm volatile("lock negq %0; lock notq %0; lock decq %0" : "+m"(sum[50]) : : "memory", "cc");
    }
    stop_others();
    total = added[OTHERS][0];
    for (unsigned i = 0; i < others; i++) {
        total += added[i][0];
    }
    for (unsigned i = 0; i < 3; i++) {
        good &= *(volatile uint64_t *)shared_word(i) == total;
    }
    good &= sum[32] == total - 100 && sum[33] == 1;
    digest = mix(digest, total);
    report("locked", good);
}

/* --- stacks ---------------------------------------------------------------------- */

/* Push and pop operands in memory, where both the operand and the stack may be split. */
static void test_stacks(void)
{
    let_others(disturb);
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t at = place(i), from = place(i + 1), copy = 0;

        choose_upper(i);
        asm volatile("mov %%rsp, %%r8; cli;"
                     "lea 9f(%%rip), %%rax; mov %%rax, after_fault(%%rip);"
                     "mov (%1), %%rax; mov (%0), %%rax; mov 12(%1), %%rax; mov 12(%0), %%rax;"
                     "lea 8(%0), %%rsp; pushq (%1); popq 3(%1);"
                     "lea 5(%0), %%rsp; pushw (%1); popw 1(%1); pushfq; popq %2;"
                     "9: mov %%r8, %%rsp; sti" : :
                     "r"(at), "r"(from), "r"(copy) : "rax", "r8", "memory", "cc");
        if (has_movbe) {
            asm volatile(MAY_FAULT("movbe (%0), %%rdx; movbe %%rdx, 2(%0)") : : "r"(at) :
                         "rax", "rdx", "memory");
        }
        asm volatile(MAY_FAULT("btsq %1, (%0); xchg %1, (%0); cmpxchg %1, 3(%0);"
                               "addq $3, 1(%0)") : : "r"(at), "r"((uint64_t)i * 7) :
                     "rax", "memory", "cc");
        see(from & -64ul);
    }
    choose_upper(0);
    stop_others();
    report("stacks", true);
}

/* Load segments whose accessed flag is clear, while others use the line of the descriptor. */
static void take_descriptors(unsigned other)
{
    take(other, gdt, &gdt[8]);
}

static void test_segments(void)
{
    let_others(take_descriptors);
    for (unsigned i = 0; i < 300; i++) {
        asm volatile("lock btrq $40, %0" : "+m"(gdt[3]) : : "memory", "cc");
        asm volatile("mov %0, %%fs; mov %0, %%gs; lsl %0, %%eax; verw %w0" : : "r"(USER_DATA) :
                     "rax", "memory", "cc");
        digest = mix(digest, gdt[3]);
        asm volatile("mov %0, %%fs; mov %0, %%gs" : : "r"(0));
    }
    stop_others();
    report("segments", gdt[3] >> 40 & 1);
}

/* --- gates --------------------------------------------------------------------------- */

USER_OF_GATES(10,
    "    mov $0x1b, %ecx\n"
    "    mov %ecx, %fs\n"
    "    lar %ecx, %edi\n"
    "    verw %cx\n");

static void take_what_gates_need(unsigned other)
{
    take(other, gdt, &gdt[24]);
    take(other, tss, &tss[26]);
    take(other, interrupt_stack + PAGE - 512, interrupt_stack + PAGE);
    take(other, &gate_calls, &gate_calls + 1);
    take(other, &kernel_rsp, &kernel_rsp + 1);
    asm volatile("lock btrq $40, %0" : "+m"(gdt[3]) : : "memory", "cc");
}

/* User mode enters the kernel while others take the lines that the kernel needs for it. */
static void test_gates(void)
{
    unsigned entries = start_gates(gdt);
    bool good = true;

    let_others(take_what_gates_need);
    for (int i = 0; i < 100; i++) {
        good &= run_as_user(USER) == 42;
        digest = mix(digest, gdt[3]);
    }
    stop_others();
    report("gates", good && gate_calls == entries * 1000);
}

/* --- repeated instructions --------------------------------------------------------- */

/* Copies that overlap those of all others, upwards and downwards. */
static void copy_around(unsigned other)
{
    uint64_t to = BUFFER + 200 + other * 70, from = BUFFER + 100 - other * 30, n = 500;

    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
    n = 60;
    asm volatile("std; rep movsq; cld" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

static void test_rep_race(void)
{
    for (unsigned i = 0; i < 300; i++) {
        ((volatile uint32_t *)BUFFER)[i] = i;
    }
    let_others(copy_around);
    for (unsigned i = 0; i < 100; i++) {
        uint64_t at = BUFFER + 64 + i, n = 400, other = BUFFER + 300;
        bool equal;

        copy_around(i & 1);
        asm volatile("repe cmpsb" : "+D"(at), "+S"(other), "+c"(n), "=@ccz"(equal) : : "memory");
        digest = mix(digest, n + equal);
        n = 300;
        asm volatile("repne scasb" : "+D"(at), "+c"(n) : "a"(i) : "memory", "cc");
        digest = mix(digest, n);
    }
    stop_others();
    report("rep-race", true);
}

void __attribute__((used)) run(void)
{
    start_processor();
    map_play_by_pages();
    set_up();
    start_interrupts();
    others = N_OTHERS;
    start_others();
    test_gather();
    test_masks();
    test_wide();
    test_saves();
    test_bounds();
    test_locked();
    test_stacks();
    test_segments();
    test_gates();
    test_rep_race();
    digest = interrupts;
    report("interrupts", interrupts > 0);
    power_off();
}
