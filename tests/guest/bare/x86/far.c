/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without an operating system that uses memory above 4 GiB: words, code, page tables,
 * stacks and DMA.  Other vCPUs use the same lines.  With 5 GiB of memory, what is at LOW lies
 * behind 2 GiB of main memory, and what is at TOP behind more than 4 GiB.
 *
 * Each test mixes what it sees into a digest, as in several.c.
 */
#include "others.h"

#define LOW     0x100000000ul
#define TOP     0x1a0000000ul
#define WORDS   0x0                     /* in both */
#define CODE_AT 0x1000
#define STACK   0x3000                  /* below this */
#define TABLE   0x4000
#define DMA     0x6000
#define LAST    0x6800                  /* only vCPU 0 stores here, 1 and then 2 */
#define FRAMES  0x10000
#define ROUNDS  600
#define MADE    (3ul << 39)             /* what TABLE maps */

static uint64_t far2[3][512] __attribute__((aligned(PAGE)));
static uint64_t made3[512] __attribute__((aligned(PAGE)));
static uint64_t made2[512] __attribute__((aligned(PAGE)));

static const uint64_t bases[2] = { LOW, TOP };

static volatile uint64_t *at(uint64_t address)
{
    return (volatile uint64_t *)address;
}

static void map_far(void)
{
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned j = 0; j < 512; j++) {
            far2[i][j] = ((4ul + i) << 30 | j * BLOCK) | MAPPED | PTE_LARGE;
        }
        level3[4 + i] = (uint64_t)far2[i] | MAPPED;
    }
    level4[3] = (uint64_t)made3 | MAPPED;
    for (unsigned i = 0; i < 2; i++) {
        volatile uint64_t *table = at(bases[i] + TABLE);

        made3[i] = (uint64_t)made2 | MAPPED;
        made2[i] = (uint64_t)table | MAPPED;
        for (unsigned j = 0; j < 8; j++) {
            table[j] = (bases[i] + FRAMES + j * PAGE) | MAPPED;
        }
    }
    write_cr("cr3", level4);
}

static void add(volatile uint64_t *word)
{
    asm volatile("lock addq $1, %0" : "+m"(*word) : : "memory", "cc");
}

static void use_all(unsigned other)
{
    for (unsigned i = 0; i < 2; i++) {
        volatile uint64_t *words = at(bases[i] + WORDS), *table = at(bases[i] + TABLE);
        volatile uint8_t *code = (uint8_t *)(bases[i] + CODE_AT);

        add(&words[0]);
        words[1 + other] = seen[other][0];
        seen[other][0] = mix(seen[other][0], words[7] ^ words[512 - 2]);
        code[1]++;
        seen[other][0] = mix(seen[other][0], ((uint64_t (*)(void))code)());
        seen[other][0] = mix(seen[other][0], *at(MADE + i * BLOCK + 3 * PAGE) ^ table[2]);
        take(other, (void *)(bases[i] + STACK - 256), (void *)(bases[i] + STACK));
        take(other, (void *)table, (void *)(table + 8));
        take(other, (void *)(bases[i] + DMA - 64), (void *)(bases[i] + DMA + 128));
    }
}

static void test_words(uint64_t base)
{
    volatile uint64_t *words = at(base + WORDS);

    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t to = (uint64_t)&words[9], n = 40;

        add(&words[0]);
        digest = mix(digest, words[0] ^ words[1]);
        words[7] = i;
        words[512 - 2] = i;
        asm volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(i) : "memory");
    }
}

static void test_code(uint64_t base)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        digest = mix(digest, ((uint64_t (*)(void))(base + CODE_AT))());
    }
}

/* Let walks set flags, and let pages change without a flush. */
static void test_tables(uint64_t base)
{
    uint64_t made = MADE + (base == TOP ? BLOCK : 0);
    volatile uint64_t *table = at(base + TABLE);

    for (uint64_t i = 0; i < ROUNDS; i++) {
        volatile uint64_t *pte = &table[2];

        asm volatile("lock andq %1, %0" : "+m"(*pte) : "er"(~(PTE_A | PTE_D)) : "memory", "cc");
        asm volatile("invlpg (%0)" : : "r"(made + 2 * PAGE) : "memory");
        *at(made + 2 * PAGE) = i;
        digest = mix(digest, *pte);
        table[3] = (base + FRAMES + (i & 1) * PAGE) | MAPPED;
        digest = mix(digest, *at(made + 3 * PAGE));
    }
}

static void fault(void)
{
    asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; ud2; 1:" : "=m"(after_fault) : :
                 "rax", "memory");
}

static bool test_stack(uint64_t base)
{
    uint64_t before = faults;

    for (unsigned i = 0; i < ROUNDS; i++) {
        asm volatile("mov %%rsp, %%rbx; mov %0, %%rsp; call *%1; mov %%rbx, %%rsp" : :
                     "r"(base + STACK - i % 8 * 8), "r"(fault) :
                     "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory",
                     "cc");
    }
    return faults == before + ROUNDS;
}

/* The device fw_cfg writes its directory into memory, and then that it has done so. */
static bool test_dma(uint64_t base)
{
    volatile uint32_t *request = (uint32_t *)(base + DMA + 256);
    uint64_t where = (uint64_t)request, to = base + DMA - 30;
    bool good = true;

    for (unsigned i = 0; i < 20; i++) {
        request[0] = __builtin_bswap32(0x19 << 16 | 8 | 2);
        request[1] = __builtin_bswap32(60 + i);
        request[2] = __builtin_bswap32(to >> 32);
        request[3] = __builtin_bswap32(to);
        outl(0x514, __builtin_bswap32(where >> 32));
        outl(0x518, __builtin_bswap32(where));
        good &= request[0] == 0;
        digest = mix(mix(digest, *at(to + 8)), *at(to + 40));
    }
    return good;
}

void __attribute__((used)) run(void)
{
    bool good = true;

    start_processor();
    map_play_by_pages();
    map_far();
    for (unsigned i = 0; i < 2; i++) {
        static const uint8_t code[] = { 0xb8, 0, 0, 0, 0, 0xc3 };   /* mov $0, %eax; ret */

        for (unsigned j = 0; j < sizeof(code); j++) {
            ((volatile uint8_t *)(bases[i] + CODE_AT))[j] = code[j];
        }
    }
    start_interrupts();
    others = N_OTHERS;
    start_others();
    let_others(use_all);
    for (unsigned i = 0; i < 2; i++) {
        test_words(bases[i]);
        report("words", true);
        test_code(bases[i]);
        report("code", true);
        test_tables(bases[i]);
        report("tables", true);
        report("stack", test_stack(bases[i]));
        report("dma", test_dma(bases[i]));
    }
    stop_others();
    for (unsigned i = 0; i < 2; i++) {
        *at(bases[i] + LAST) = 1;
        *at(bases[i] + LAST) = 2;
        good &= *at(bases[i] + LAST) == 2;
    }
    digest = interrupts;
    report("interrupts", good && interrupts > 0);
    power_off();
}
