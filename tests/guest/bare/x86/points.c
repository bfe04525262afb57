/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without an operating system that sets data breakpoints, on any number of vCPUs: on what
 * instructions of all kinds access, deliveries push and other vCPUs change, while timer interrupts
 * come all the time.
 *
 * Each test counts how often the vCPU traps, and mixes what it sees then into a digest, as in
 * several.c.
 */
#include "others.h"

#define EDGE        (PLAY + 21 * PAGE)
#define LOWER       (BUFFER + 0x20000)  /* the frame below the edge */
#define UPPER       (BUFFER + 0x10000)  /* the frame above */
#define TF          0x100
#define SINGLE      0x4000              /* in DR6: a single step */
#define PORT        0x80

enum { ON_TIMER = 1, ON_FAULT, ON_DEBUG };

enum { WRITES = 1, PORTS = 2, ALL = 3 };

/* The bits of DR7 that make DR@number a breakpoint. */
#define POINT(number, type, size) \
    (2ul << 2 * (number) | \
     ((type) | ((size) == 8 ? 2ul : (size) - 1ul) << 2) << (16 + 4 * (number)))

/* Of each vCPU: how often it has trapped, by which breakpoints, and where RCX was. */
typedef struct __attribute__((aligned(64))) Hits {
    uint64_t count, by, rcx;
    bool is_set;
    uint64_t expected;
} Hits;

static volatile Hits hits[OTHERS + 1];
static volatile uint64_t area[128] __attribute__((aligned(64)));
static uint8_t own_stacks[4][2 * PAGE] __attribute__((aligned(PAGE)));
static bool has_avx2;

static void let_stack(unsigned vector, unsigned number)
{
    idt[vector].low = (idt[vector].low & ~(7ul << 32)) | (uint64_t)number << 32;
}

/* vCPU 0 is the last. */
static unsigned number_of(const Frame *frame)
{
    uint64_t at = (uint64_t)frame - (uint64_t)stacks;

    return at < sizeof(stacks) ? at / sizeof(stacks[0]) : OTHERS;
}

static bool note_hit(Frame *frame)
{
    volatile Hits *mine = &hits[number_of(frame)];
    uint64_t why;

    if (frame->vector != 1) {
        return false;
    }
    asm volatile("mov %%dr6, %0; mov %1, %%dr6" : "=&r"(why) : "r"(0ul));
    mine->count++;
    mine->by |= why & (SINGLE | 0xf);
    mine->rcx = frame->rcx;
    digest = mix(digest, why);
    digest = mix(digest, frame->rip);
    digest = mix(digest, frame->rcx);
    digest = mix(digest, frame->rsp);
    digest = mix(digest, frame->rflags);
    return true;
}

static void set_point(unsigned number, volatile void *address)
{
    switch (number) {
    case 0:
        asm volatile("mov %0, %%dr0" : : "r"(address) : "memory");
        break;
    case 1:
        asm volatile("mov %0, %%dr1" : : "r"(address) : "memory");
        break;
    case 2:
        asm volatile("mov %0, %%dr2" : : "r"(address) : "memory");
        break;
    default:
        asm volatile("mov %0, %%dr3" : : "r"(address) : "memory");
        break;
    }
}

static void set_points(uint64_t control)
{
    asm volatile("mov %0, %%dr7" : : "r"(control) : "memory");
}

/* Return how often vCPU 0 has trapped since the last call, and set *@by. */
static uint64_t hits_of(uint64_t *by)
{
    uint64_t count = hits[OTHERS].count;

    *by = hits[OTHERS].by;
    hits[OTHERS].count = hits[OTHERS].by = 0;
    return count;
}

static bool were_hit(uint64_t count, uint64_t by)
{
    uint64_t seen_by, seen = hits_of(&seen_by);

    return seen == count && (count == 0 || seen_by == by);
}

static void set_up(void)
{
    uint32_t a = 7, b, c = 0, d, a1 = 1, b1, c1 = 0, d1;

    asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    asm volatile("cpuid" : "+a"(a1), "=b"(b1), "+c"(c1), "=d"(d1));
    has_avx2 = b >> 5 & 1 && c1 >> 28 & 1 && c1 >> 26 & 1;
    if (has_avx2) {
        write_cr("cr4", read_cr("cr4") | 1 << 18);
        asm volatile("xsetbv" : : "a"(7), "d"(0), "c"(0));
    }
    write_cr("cr4", read_cr("cr4") | 8);        /* DE */
    level1[20] = LOWER | MAPPED;
    change(&level1[21], UPPER | MAPPED);
    for (unsigned i = 1; i < 4; i++) {
        uint64_t top = (uint64_t)own_stacks[i] + sizeof(own_stacks[i]);

        tss[7 + i * 2] = top;
        tss[8 + i * 2] = top >> 32;
    }
}

/* Let vCPU 0 handle these on stacks of their own.  Others have no TSS. */
static void use_own_stacks(bool use)
{
    let_stack(1, use ? ON_DEBUG : 0);
    let_stack(TIMER_VECTOR, use ? ON_TIMER : 0);
}

/* --- what is accessed ----------------------------------------------------------------- */

static void load(uint64_t address, unsigned size)
{
    uint64_t value = 0;

    switch (size) {
    case 1:
        asm volatile("movb (%1), %b0" : "+r"(value) : "r"(address) : "memory");
        break;
    case 2:
        asm volatile("movw (%1), %w0" : "+r"(value) : "r"(address) : "memory");
        break;
    case 4:
        asm volatile("movl (%1), %k0" : "+r"(value) : "r"(address) : "memory");
        break;
    default:
        asm volatile("movq (%1), %0" : "+r"(value) : "r"(address) : "memory");
        break;
    }
    digest = mix(digest, value);
}

static void store(uint64_t address, unsigned size, uint64_t value)
{
    switch (size) {
    case 1:
        asm volatile("movb %b0, (%1)" : : "r"(value), "r"(address) : "memory");
        break;
    case 2:
        asm volatile("movw %w0, (%1)" : : "r"(value), "r"(address) : "memory");
        break;
    case 4:
        asm volatile("movl %k0, (%1)" : : "r"(value), "r"(address) : "memory");
        break;
    default:
        asm volatile("movq %0, (%1)" : : "r"(value), "r"(address) : "memory");
        break;
    }
}

/* All lengths and types; accesses beside a breakpoint, over its ends, and over two pages. */
static void test_lengths(void)
{
    bool good = true;

    for (unsigned i = 0; i < 32; i++) {
        unsigned length = 1 << i % 4, type = i & 4 ? ALL : WRITES, number = i / 8 % 4;
        uint64_t at = (i & 16 ? EDGE : (uint64_t)&area[16]) - (i & 8 ? length : 0);

        set_point(number, (void *)at);
        set_points(POINT(number, type, length));
        for (unsigned j = 0; j < 4 * 20; j++) {
            unsigned size = 1 << j % 4;
            uint64_t to = at - 10 + j / 4;
            bool meets = to < at + length && at < to + size;

            store(to, size, to + i);
            good &= were_hit(meets, 1 << number);
            load(to, size);
            good &= were_hit(meets && type == ALL, 1 << number);
        }
    }
    set_points(0);
    report("lengths", good);
}

/* Each iteration is a step: the vCPU traps behind it. */
static void test_rep(void)
{
    bool good = true;

    for (uint64_t i = 0; i < 200; i++) {
        uint64_t n = 1 + i % 23, at = i % 17, count = n, step = i & 32 ? -8 : 8;
        uint64_t from = EDGE - 64 + (i & 32 ? 8 * 16 : 0), to = BUFFER + 1024;

        set_point(0, (void *)(from + at * step));
        set_point(1, (void *)(to + at * step));
        set_points(POINT(0, ALL, 8) | (i % 4 == 1 ? 0 : POINT(1, WRITES, 8)));
        if (i & 32) {
            asm volatile("std");
        }
        switch (i % 4) {
        case 0:
        case 1:
            asm volatile("rep movsq" : "+S"(from), "+D"(to), "+c"(count) : : "memory");
            break;
        case 2:
            asm volatile("rep stosq" : "+D"(to), "+c"(count) : "a"(i) : "memory");
            break;
        default:
            asm volatile("rep lodsq" : "+S"(from), "+c"(count) : : "rax", "memory");
            break;
        }
        asm volatile("cld");
        good &= were_hit(at < n, (const uint64_t[]) { 3, 1, 2, 1 }[i % 4]) &&
                (at >= n || hits[OTHERS].rcx == n - at - 1);
    }
    set_points(0);
    report("rep", good);
}

/* One instruction that hits several breakpoints, and several that trap after each of them. */
static void test_several(void)
{
    uint64_t low, high;
    bool good = true;

    for (uint64_t i = 0; i < 60; i++) {
        uint64_t at = i & 1 ? (uint64_t)&area[32] : EDGE - 16, to = BUFFER + 2048;
        uint64_t value = i;

        set_point(0, (void *)at);
        set_point(1, (void *)(at + 7));
        set_point(2, (void *)to);
        set_point(3, (void *)(to + 4));
        set_points(POINT(0, ALL, 4) | POINT(1, ALL, 1) | POINT(2, WRITES, 2) |
                   POINT(3, WRITES, 4));
        asm volatile("movsq" : "=S"(low), "=D"(high) : "0"(at), "1"(to) : "memory");
        good &= were_hit(1, 0xf);
        asm volatile("lock incq (%0); nop" : : "r"(at) : "memory", "cc");
        good &= were_hit(1, 3);
        asm volatile("xchg %0, (%1)" : "+r"(value) : "r"(at) : "memory");
        good &= were_hit(1, 3);
        asm volatile("pushq (%0); popq (%1)" : : "r"(at), "r"(to) : "memory");
        good &= were_hit(2, 0xf);
        low = high = 0;
        asm volatile("lock cmpxchg16b (%2)" : "+a"(low), "+d"(high) : "r"(at & -16ul), "b"(i),
                     "c"(i) : "memory", "cc");
        good &= were_hit(1, 3);
        asm volatile("fxsave64 (%0)" : : "r"((at - 128) & -16ul) : "memory");
        good &= were_hit(1, 3);
        asm volatile("cmpsb" : "=S"(low), "=D"(high) : "0"(at + 7), "1"(at + 3) : "memory", "cc");
        good &= were_hit(1, 3);
        if (has_avx2) {
            asm volatile("vmovdqu (%0), %%ymm0; vmovdqu %%ymm0, -20(%1)" : : "r"(at - 9), "r"(to)
                         : "memory");
            good &= were_hit(2, 0xf);
        }
        asm volatile("mov %%ss, %%eax; mov %%eax, (%0); mov (%0), %%ss; nop" : : "r"(at) :
                     "rax", "memory");
        good &= were_hit(2, 1);
        asm volatile("enter $16, $0; leave; call 1f; jmp 2f; 1: ret; 2:" : : : "memory");
        good &= were_hit(0, 0);
    }
    set_points(0);
    report("several", good);
}

/* A single step, or an access to a port, and a data breakpoint: the vCPU traps once. */
static void test_together(void)
{
    uint64_t at = (uint64_t)&area[8], from, by;
    bool good = true;

    set_point(0, (void *)at);
    set_point(1, (void *)PORT);
    for (unsigned i = 0; i < 60; i++) {
        set_points(POINT(0, ALL, 8));
        asm volatile("pushfq; orq $0x100, (%%rsp); popfq; incq (%0); nop;"
                     "pushfq; andq $~0x100, (%%rsp); popfq" : : "r"(at) : "memory", "cc");
        good &= hits_of(&by) == 5 && by == (SINGLE | 1);
        set_points(POINT(0, ALL, 8) | POINT(1, PORTS, 1));
        asm volatile("outsb" : "=S"(from) : "0"(at), "d"(PORT) : "memory");
        good &= were_hit(1, 3);
        asm volatile("insb" : "=D"(from) : "0"(at), "d"(PORT) : "memory");
        good &= were_hit(1, 3);
        asm volatile("outb %%al, $0x80" : : "a"(i));
        good &= were_hit(1, 2);
    }
    set_points(0);
    report("together", good);
}

/* --- faults and deliveries ------------------------------------------------------------ */

static bool bring_back(Frame *frame)
{
    if (frame->vector != 14) {
        return note_hit(frame);
    }
    faults++;
    digest = mix(digest, read_cr("cr2"));
    digest = mix(digest, frame->rcx);
    change(&level1[20], LOWER | MAPPED);
    change(&level1[21], UPPER | MAPPED);
    return true;
}

/* Raise #UD with the stack pointer @rsp. */
static void raise_at(uint64_t rsp)
{
    asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; mov %%rsp, %%r8; mov %1, %%rsp; ud2;"
                 "1: mov %%r8, %%rsp" : "=m"(after_fault) : "r"(rsp) : "rax", "r8", "memory",
                 "cc");
}

/* What an access hits does not count if the step faults behind it. */
static void test_faults(void)
{
    uint64_t before = faults, from, to, n;
    bool good = true;

    hook = bring_back;
    let_stack(14, ON_FAULT);
    set_point(0, &area[8]);
    set_point(1, (void *)(EDGE - 8));
    for (unsigned i = 0; i < 60; i++) {
        set_points(POINT(0, ALL, 8) | POINT(1, WRITES, 8));
        change(&level1[21], 0);
        asm volatile("movsq" : "=S"(from), "=D"(to) : "0"(&area[8]), "1"(EDGE) : "memory");
        good &= were_hit(1, 1);
        change(&level1[21], 0);
        n = 4;
        asm volatile("rep movsq" : "=S"(from), "=D"(to), "+c"(n) : "0"(&area[7]), "1"(EDGE - 16) :
                     "memory");
        good &= were_hit(1, 3);
        change(&level1[21], 0);
        asm volatile("mov %%rsp, %%r8; cli; lea 8(%1), %%rsp; pushq (%0); mov %%r8, %%rsp; sti"
                     : : "r"(&area[8]), "r"(EDGE) : "r8", "memory", "cc");
        good &= were_hit(1, 1);
        /* The delivery pushes to the upper page, and faults below. */
        set_point(0, (void *)(EDGE + 8));
        set_points(POINT(0, WRITES, 8));
        change(&level1[20], 0);
        raise_at(EDGE + 32);
        good &= were_hit(1, 1);
        set_point(0, &area[8]);
    }
    set_points(0);
    let_stack(14, 0);
    hook = note_hit;
    report("faults", good && faults == before + 300);
}

/* The vCPU traps at the entry of the handler, and again at IRET. */
static void test_pushes(void)
{
    bool good = true;
    uint64_t by, before;

    for (unsigned i = 0; i < 100; i++) {
        uint64_t top = EDGE + i % 6 * 16, slot = 1 + i % 4;

        set_point(2, (void *)(top - slot * 8));
        set_points(POINT(2, i & 16 ? ALL : WRITES, 8));
        raise_at(top);
        good &= i & 16 ? hits_of(&by) >= 2 && by == 4 : were_hit(1, 4);
    }
    for (unsigned i = 0; i < 20; i++) {
        asm volatile("cli" : : : "memory");
        set_point(3, own_stacks[ON_TIMER] + sizeof(own_stacks[0]) - 8 * (1 + i % 4));
        set_points(POINT(3, i & 1 ? ALL : WRITES, 8));
        before = interrupts;
        asm volatile("sti" : : : "memory");
        while (interrupts < before + 10) {
            asm volatile("pause");
        }
        asm volatile("cli" : : : "memory");
        set_points(0);
        before = interrupts - before;
        asm volatile("sti" : : : "memory");
        good &= i & 1 ? hits_of(&by) >= 2 * before && by == 8 : were_hit(before, 8);
    }
    report("pushes", good);
}

/* --- user mode ------------------------------------------------------------------------- */

asm("user_begin:\n"
    "    mov $20, %ebx\n"
    "1:  lea user_stack_top(%rip), %rsp\n"
    "    incq user_word(%rip)\n"
    "    push %rbx\n"
    "    pop %rax\n"
    "    xor %edi, %edi\n"
    "    syscall\n"
    "    dec %ebx\n"
    "    jnz 1b\n"
    "    mov user_word(%rip), %rax\n"
    "    int $0x80\n"
    "    .balign 8\n"
    "user_word:\n"
    "    .quad 0\n"
    "    .skip 64\n"
    "user_stack_top:\n"
    "user_end:\n");

static void test_user(void)
{
    extern uint8_t user_begin[], user_end[], user_word[], user_stack_top[];
    uint64_t by;
    bool good = true;

    put_user_code(user_begin, user_end - user_begin);
    for (unsigned i = 0; i < 40; i++) {
        set_point(0, (void *)(USER + (user_word - user_begin)));
        set_point(1, (void *)(USER + (user_stack_top - user_begin) - 8));
        set_point(2, &calls);
        set_points(POINT(0, WRITES, 8) | POINT(1, ALL, 8) | POINT(2, WRITES, 8));
        good &= run_as_user(USER) == 20 * (i + 1);
        set_points(0);
        good &= hits_of(&by) == 20 * 4 && by == 7;
    }
    report("user", good);
}

/* --- the memory map -------------------------------------------------------------------- */

/* One instruction loads from a breakpoint and changes the map.  Other vCPUs are halted. */
static void test_maps(void)
{
    volatile uint8_t *settings = (volatile uint8_t *)&area[40];
    bool good = true;
    uint64_t from;

    settings[0] = 0x33;
    settings[1] = 0;
    set_point(0, settings);
    set_points(POINT(0, ALL, 2));
    outl(PCI_ADDRESS, PAM3);
    for (unsigned i = 0; i < 40; i++) {
        asm volatile("outsb" : "=S"(from) : "0"(&settings[i & 1]), "d"(PCI_DATA + 3) : "memory");
        good &= were_hit(1, 1);
        digest = mix(digest, *(volatile uint64_t *)0xd0000);
    }
    set_points(0);
    report("maps", good);
}

/* --- races ---------------------------------------------------------------------------- */

/* Words that nothing crosses, a line, and the edge of two pages; a word of tables; of code. */
static volatile void *shared_word(unsigned i)
{
    switch (i % 5) {
    case 0:
        return &area[2];
    case 1:
        return (uint8_t *)&area[16] - 3;
    case 2:
        return (void *)(EDGE - 5);
    case 3:
        return (void *)&level1[300];
    default:
        return (void *)(PLAY + 40 * PAGE + 1024);
    }
}

static void add(volatile void *address)
{
    asm volatile("lock addq $1, %0" : "+m"(*(volatile uint64_t *)address) : : "memory", "cc");
}

/* Change all words.  Each vCPU has breakpoints of its own there. */
static void add_and_trap(unsigned me)
{
    void (*call)(void) = (void *)(PLAY + 40 * PAGE);
    volatile Hits *mine = &hits[me];

    if (!mine->is_set) {
        mine->is_set = true;
        for (unsigned i = 0; i < 4; i++) {
            set_point(i, shared_word(i + me));
        }
        set_points(POINT(0, WRITES, 8) | POINT(1, ALL, 4) | POINT(2, WRITES, 1) |
                   POINT(3, ALL, 8));
    }
    for (unsigned i = 0; i < 5; i++) {
        add(shared_word(i));
        call();
    }
    mine->expected += 4;
}

static void test_race(void)
{
    bool good = true;

    *(volatile uint8_t *)(PLAY + 40 * PAGE) = 0xc3;
    use_own_stacks(false);
    let_others(add_and_trap);
    for (unsigned i = 0; i < 400; i++) {
        uint64_t to, from, before = hits[OTHERS].count;

        add_and_trap(OTHERS);
        good &= hits[OTHERS].count == before + 4;
        digest = mix(digest, *(volatile uint64_t *)shared_word(i));
        asm volatile("rep movsb" : "=S"(from), "=D"(to) : "0"(shared_word(i)),
                     "1"(BUFFER + 4096), "c"(9ul) : "memory");
    }
    stop_others();
    set_points(0);
    for (unsigned i = 0; i < others; i++) {
        good &= hits[i].count == hits[i].expected;
        digest = mix(digest, hits[i].count);
    }
    hits[OTHERS].count = hits[OTHERS].by = 0;
    report("race", good);
}

/* Others take the lines of what deliveries read and push to, and clear flags of the pages. */
static void take_deliveries(unsigned other)
{
    uint64_t flags = PTE_A | PTE_D;

    set_points(0);
    take(other, idt, &idt[8]);
    take(other, gdt, &gdt[8]);
    take(other, tss, &tss[26]);
    take(other, (void *)(LOWER + PAGE - 128), (void *)(LOWER + PAGE));
    take(other, (void *)UPPER, (void *)(UPPER + 128));
    take(other, own_stacks[ON_TIMER] + sizeof(own_stacks[0]) - 128,
         own_stacks[ON_TIMER] + sizeof(own_stacks[0]));
    asm volatile("lock andq %1, %0" : "+m"(level1[20]) : "r"(~flags) : "memory", "cc");
}

static void test_deliveries(void)
{
    bool good = true;
    uint64_t by;

    use_own_stacks(others == 0);
    let_others(take_deliveries);
    for (unsigned i = 0; i < 200; i++) {
        uint64_t top = EDGE + i % 6 * 16, from, to;

        set_point(0, (void *)(top - 8 * (1 + i % 4)));
        set_point(1, own_stacks[ON_TIMER] + sizeof(own_stacks[0]) - 8);
        set_points(POINT(0, WRITES, 8) | POINT(1, WRITES, 8));
        asm volatile("cli" : : : "memory");
        raise_at(top);
        asm volatile("sti" : : : "memory");
        good &= hits_of(&by) >= 1 && by & 1;
        asm volatile("movsq; cmpsq" : "=S"(from), "=D"(to) : "0"(EDGE - 5), "1"(top - 16) :
                     "memory", "cc");
        change(&level1[20], LOWER | (i & 1 ? MAPPED : MAPPED & ~(PTE_A | PTE_D)));
    }
    stop_others();
    set_points(0);
    hits_of(&by);
    report("deliveries", good);
}

void __attribute__((used)) run(void)
{
    start_processor();
    map_play_by_pages();
    set_up();
    use_own_stacks(true);
    start_interrupts();
    hook = note_hit;
    test_lengths();
    test_rep();
    test_several();
    test_together();
    test_faults();
    test_pushes();
    test_user();
    test_maps();
    use_own_stacks(false);
    others = N_OTHERS;
    if (others) {
        start_others();
    }
    test_race();
    test_deliveries();
    digest = interrupts;
    report("interrupts", interrupts > 200);
    power_off();
}
