/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without an operating system whose vCPUs disturb each other where that is hard: vCPU 0
 * runs tests, and the others take the lines that it needs for them, all the time.
 *
 * They take lines by adding 0 atomically, which changes nothing, and mix what they see into
 * digests. So a replay that prints the same digests has ordered every access.  `NAME bad` instead
 * means that this run already broke a rule.
 */
#include "others.h"

#define HPET        0xfed000f0ul        /* its counter */
#define IPI_OTHERS      (0x000c4000 | IPI_VECTOR)
#define NMI_OTHERS      0x000c4400

/* --- deliveries ---------------------------------------------------------------------------- */

static void take_what_deliveries_need(unsigned other)
{
    take(other, idt, &idt[64]);
    take(other, gdt, &gdt[8]);
    take(other, tss, &tss[26]);
    take(other, stack + sizeof(stack) - 1024, stack + sizeof(stack));
}

static void fault(void)
{
    asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; ud2; 1:" : "=m"(after_fault) : :
                 "rax", "memory");
    asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; mov 0x7fff00000000, %%rax; 1:"
                 : "=m"(after_fault) : : "rax", "memory");
}

/* Also with frames that cross a line, and a page. */
static void test_deliveries(void)
{
    uint64_t before = faults;

    let_others(take_what_deliveries_need);
    for (int i = 0; i < 600; i++) {
        uint64_t drop = i % 80 * 16;

        asm volatile("sub %0, %%rsp; call *%1; add %0, %%rsp" : : "r"(drop), "r"(fault) :
                     "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
    }
    stop_others();
    report("deliveries", faults == before + 1200);
}

/* Interrupts from other vCPUs: vCPU 0 sends them, and takes its own timer's. */
static void test_ipis(void)
{
    let_others(take_what_deliveries_need);
    for (int i = 0; i < 300; i++) {
        while (APIC[APIC_COMMAND] & 0x1000) {
        }
        APIC[APIC_COMMAND] = i % 3 ? IPI_OTHERS : NMI_OTHERS;
        fault();
    }
    stop_others();
    report("ipis", true);               /* vCPUs race to count them */
}

/* --- user mode ------------------------------------------------------------------------------- */

static void take_what_the_kernel_has(unsigned other)
{
    take(other, &kernel_rsp, &kernel_rsp + 1);
    take(other, &calls, &calls + 1);
    take(other, interrupt_stack + PAGE - 512, interrupt_stack + PAGE);
    take_what_deliveries_need(other);
}

static void test_user(void)
{
    static const uint8_t code[] = {
        0xbf, 1, 0, 0, 0,               /* mov $1, %edi */
        0xb9, 20, 0, 0, 0,              /* mov $20, %ecx */
        0x89, 0xcb,                     /* mov %ecx, %ebx */
        0x0f, 0x05,                     /* syscall */
        0x8c, 0xd8,                     /* mov %ds, %eax */
        0x8e, 0xd8,                     /* mov %eax, %ds */
        0x0f, 0x03, 0xc0,               /* lsl %eax, %eax */
        0x0f, 0x05,                     /* syscall */
        0x89, 0xd9,                     /* mov %ebx, %ecx */
        0xe2, 0xef,                     /* loop to mov %ecx, %ebx */
        0xb8, 0x2a, 0, 0, 0,            /* mov $42, %eax */
        0xcd, 0x80,                     /* int $0x80 */
    };
    bool good = true;

    put_user_code(code, sizeof(code));
    let_others(take_what_the_kernel_has);
    for (int i = 0; i < 100; i++) {
        good &= run_as_user(USER) == 42;
    }
    stop_others();
    report("user", good && calls == 4000);
}

/* --- memory ------------------------------------------------------------------------------ */

static void copy_back(unsigned other)
{
    uint64_t to = BUFFER + other * 100, from = BUFFER + BLOCK, n = 3000;

    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

static void test_rep(void)
{
    let_others(copy_back);
    for (int i = 0; i < 200; i++) {
        uint64_t to = BUFFER + BLOCK, from = BUFFER, n = 3000, left = 1000;

        asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
        to = BUFFER + i;
        asm volatile("rep stosb" : "+D"(to), "+c"(left) : "a"(i) : "memory");
        digest = mix(digest, *(volatile uint64_t *)(BUFFER + BLOCK + i * 8));
    }
    stop_others();
    report("rep", true);
}

/* The others use the pages whose flags vCPU 0 clears, and read and write the tables. */
static void use_pages(unsigned other)
{
    for (unsigned i = 8; i < 16; i++) {
        volatile uint64_t *word = (uint64_t *)(PLAY + i * PAGE);

        seen[other][0] = mix(seen[other][0], word[other]);
        word[other] = i;
        seen[other][0] = mix(seen[other][0], level1[i]);
    }
    take(other, &level1[8], &level1[16]);
    take(other, &level2[0][PLAY / BLOCK], &level2[0][PLAY / BLOCK] + 1);
}

static void test_flags(void)
{
    let_others(use_pages);
    for (int i = 0; i < 400; i++) {
        unsigned page = 8 + i % 8;
        volatile uint64_t *pte = &level1[page], *word = (uint64_t *)(PLAY + page * PAGE);

        asm volatile("lock andq %1, %0" : "+m"(*pte) : "er"(~(PTE_A | PTE_D)) : "memory");
        if (i % 4 == 0) {
            asm volatile("lock andq %1, %0" : "+m"(level2[0][PLAY / BLOCK]) : "er"(~PTE_A) :
                         "memory");
        }
        write_cr("cr3", level4);
        digest = mix(digest, word[5]);
        digest = mix(digest, *pte);
        word[5] = i;
        digest = mix(digest, *pte);
    }
    stop_others();
    report("flags", true);
}

static void take_buffer(unsigned other)
{
    take(other, (void *)BUFFER, (void *)(BUFFER + 512));
    take(other, (void *)(BUFFER + BLOCK - 64), (void *)(BUFFER + BLOCK + 64));
}

/* Instructions with several accesses, at places that cross lines and pages. */
static void test_several_accesses(void)
{
    uint64_t low = 1, high = 2;

    let_others(take_buffer);
    for (int i = 0; i < 300; i++) {
        uint64_t at = i & 1 ? BUFFER + i : BUFFER + BLOCK - i % 40;
        uint64_t place = at;

        asm volatile("sgdt (%0); sidt 10(%0); movdqu (%0), %%xmm0; movdqu %%xmm0, 5(%0)" : :
                     "r"(at) : "memory");
        asm volatile("fxsave (%0); fxrstor (%0)" : : "r"(BUFFER + 64 + i % 4 * 16) : "memory");
        asm volatile("fnsave (%0); frstor (%0)" : : "r"(BUFFER + BLOCK - i % 100) : "memory");
        asm volatile("movdqu (%0), %%xmm0; pcmpeqd %%xmm1, %%xmm1; maskmovdqu %%xmm1, %%xmm0" : :
                     "r"(at + 16), "D"(place) : "memory");
        asm volatile("lock addq $1, (%0)" : : "r"(at) : "memory", "cc");
        asm volatile("mov %%rsp, %%r8; mov %%rbp, %%r9; lea 256(%0), %%rsp; lea 96(%0), %%rbp;"
                     "enter $16, $3; mov %%r9, %%rbp; mov %%r8, %%rsp" : :
                     "r"(at & -16ul) : "r8", "r9", "memory");
        asm volatile("lock cmpxchg16b (%4)" : "+a"(low), "+d"(high) : "b"(low + 1), "c"(high + i),
                     "r"(BUFFER + 128) : "memory", "cc");
        digest = mix(digest, *(volatile uint64_t *)at ^ low);
    }
    stop_others();
    report("several-accesses", true);
}

#define EDGE (PLAY + 21 * PAGE)

static void take_edge(unsigned other)
{
    take(other, (void *)(EDGE - 64), (void *)EDGE);
    seen[other][0] = mix(seen[other][0], level1[21]);
}

/* The same where the second page is not there, or has flags to be set; with flags of its own. */
static void test_edges(void)
{
    uint64_t pte = level1[21], before = faults;

    let_others(take_edge);
    for (int i = 0; i < 300; i++) {
        change(&level1[21], i % 3 == 0 ? 0 : i % 3 == 1 ? pte & ~(PTE_A | PTE_D) : pte);
        asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; stc; std; sgdt -4(%1); 1: cld"
                     : "=m"(after_fault) : "r"(EDGE) : "rax", "memory", "cc");
        change(&level1[21], i % 3 == 0 ? 0 : i % 3 == 1 ? pte & ~(PTE_A | PTE_D) : pte);
        asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; pcmpeqd %%xmm1, %%xmm1;"
                     "movq %2, %%xmm0; stc; std; maskmovdqu %%xmm1, %%xmm0; 1: cld"
                     : "=m"(after_fault) : "D"(EDGE - 8), "r"((uint64_t)i) : "rax", "memory", "cc");
        change(&level1[21], i % 3 == 1 ? pte & ~(PTE_A | PTE_D) : pte);
        asm volatile("mov %%rsp, %%r8; mov %%rbp, %%r9; lea 16(%0), %%rsp; lea 40(%0), %%rbp;"
                     "cli; enter $16, $3; mov %%r9, %%rbp; mov %%r8, %%rsp; sti" : :
                     "r"(EDGE) : "r8", "r9", "memory");
        digest = mix(digest, *(volatile uint64_t *)(EDGE - 8) ^ level1[21]);
    }
    change(&level1[21], pte);
    stop_others();
    report("edges", faults == before + 200);
}

/* A device is read, and memory is written, by one instruction. */
static void test_strings(void)
{
    let_others(take_buffer);
    for (int i = 0; i < 200; i++) {
        uint64_t to = BUFFER + i % 64, n = 4, from = HPET;

        outw(0x510, 0);
        asm volatile("rep insb" : "+D"(to), "+c"(n) : "d"(0x511) : "memory");
        n = 1;
        asm volatile("rep movsl" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
        digest = mix(digest, *(volatile uint32_t *)(BUFFER + i % 64));
    }
    stop_others();
    report("strings", true);
}

/* --- code -------------------------------------------------------------------------------- */

static void change_code(unsigned other)
{
    volatile uint8_t *code = (uint8_t *)PLAY;

    code[1]++;
    seen[other][0] = mix(seen[other][0], code[1]);
}

static void test_cross_code(void)
{
    volatile uint8_t *code = (uint8_t *)PLAY;
    uint64_t (*call)(void) = (void *)PLAY;
    static const uint8_t bytes[] = { 0xb8, 0, 0, 0, 0, 0xc3 };  /* mov $0, %eax; ret */

    for (unsigned i = 0; i < sizeof(bytes); i++) {
        code[i] = bytes[i];
    }
    let_others(change_code);
    for (int i = 0; i < 3000; i++) {
        digest = mix(digest, call());
    }
    stop_others();
    report("cross-code", true);
}

/* --- starts ------------------------------------------------------------------------------ */

/* INIT stops the others wherever they are, and they start again. */
static void test_starts(void)
{
    for (int i = 0; i < 5; i++) {
        let_others(take_buffer);
        for (uint64_t until = rdtsc() + 1000000; rdtsc() < until; ) {
            asm volatile("pause");
        }
        job = 0;
        start_others();
        stop_others();
    }
    report("starts", true);
}

void __attribute__((used)) run(void)
{
    volatile uint32_t *version = APIC + 0x30 / 4;

    digest = *version;
    start_processor();
    map_play_by_pages();
    start_interrupts();
    others = N_OTHERS;
    start_others();
    report("start", true);
    test_deliveries();
    test_ipis();
    test_user();
    test_rep();
    test_flags();
    test_several_accesses();
    test_edges();
    test_strings();
    test_cross_code();
    test_starts();
    digest = interrupts;
    report("interrupts", interrupts > 0);
    power_off();
}
