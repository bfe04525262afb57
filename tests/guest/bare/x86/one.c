/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without an operating system that does on one vCPU what Linux does not do, or not often
 * enough, while timer interrupts come all the time.
 *
 * Each test mixes what it sees into a digest.  Each interrupt mixes in the interrupted address,
 * RCX, flags and a watched word.  The digests differ from run to run, so a replay that prints the
 * same digests is exact.  `NAME bad` instead means that this run already broke a rule.
 */
#include "pc.h"

#define SAVED (PLAY + 24 * PAGE)        /* nothing else is stored here */
#define WORD (PLAY + 28 * PAGE)         /* nor here */
#define ROM  0xf8000ul                  /* main memory that firmware has made read-only */
#define BIOS 0xffffff00ul               /* memory of its own */

static uint64_t other4[512] __attribute__((aligned(PAGE)));
static uint64_t other3[512] __attribute__((aligned(PAGE)));
static uint64_t other2[512] __attribute__((aligned(PAGE)));
static uint64_t other1[512] __attribute__((aligned(PAGE)));

static void set(uint64_t to, uint8_t value, uint64_t n)
{
    asm volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(value) : "memory");
}

static void copy(uint64_t to, uint64_t from, uint64_t n)
{
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

/* --- repeated instructions ------------------------------------------------------------- */

/* Interrupts come between iterations: the handler sees RCX, and RF in the flags. */
static void test_rep(void)
{
    static const uint64_t sizes[] = { 0, 1, 2, 63, 65535, 65536, 65537, 1000000 };
    bool good = true;

    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t n = sizes[i], at = BUFFER + BLOCK, left, place;
        bool equal;

        watched = (uint64_t *)(BUFFER + n / 2 / 8 * 8);
        set(BUFFER, i + 1, n);
        watched = (uint64_t *)(at + n / 2 / 8 * 8);
        copy(at, BUFFER, n);
        left = n;
        place = at;
        asm volatile("repe scasb" : "+D"(place), "+c"(left), "=@ccz"(equal) : "a"(i + 1)
                     : "memory");
        good &= left == 0;
        if (n > 2) {
            uint64_t from = BUFFER;

            *(uint8_t *)(at + n - 2) = 0;
            left = n;
            place = at;
            asm volatile("repe cmpsb" : "+D"(place), "+S"(from), "+c"(left), "=@ccz"(equal) : :
                         "memory");
            good &= left == 1 && !equal;
        }
        /* Downwards, and overlapping. */
        place = BUFFER + n + 8;
        left = n / 8;
        asm volatile("std; rep movsq; cld" : "+D"(place), "+c"(left) : "S"(BUFFER + n) : "memory");
        digest = mix(digest, *watched);
    }
    watched = 0;
    report("rep", good);
}

/* A page in the middle is not there: the fault leaves RCX where it was. */
static void test_rep_faults(void)
{
    bool good = true;

    for (uint64_t i = 0; i < 200; i++) {
        uint64_t left = 3 * PAGE, to = PLAY + PAGE;

        change(&level1[3], 0);
        asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %2; mov $7, %%eax; rep stosb; 1:"
                     : "+D"(to), "+c"(left), "=m"(after_fault) : : "rax", "memory");
        good &= left == PAGE && to == PLAY + 3 * PAGE;
        digest = mix(digest, left);
        change(&level1[3], (PLAY + 3 * PAGE) | MAPPED);
    }
    report("rep-faults", good && faults >= 200);
}

/* --- exceptions ---------------------------------------------------------------------------- */

static void test_exceptions(void)
{
    uint64_t before = faults;

    for (int i = 0; i < 300; i++) {
        asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; ud2; 1:" : "=m"(after_fault) : :
                     "rax", "memory");
        asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; xor %%edx, %%edx; mov $5, %%eax;"
                     "xor %%ecx, %%ecx; div %%ecx; 1:" : "=m"(after_fault) : :
                     "rax", "rcx", "rdx", "memory", "cc");
        asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; int3; 1:" : "=m"(after_fault) : :
                     "rax", "memory");
        asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; .byte 0xf1; 1:" : "=m"(after_fault) : :
                     "rax", "memory");  /* ICEBP */
        asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; mov 0x7fff00000000, %%rax; 1:"
                     : "=m"(after_fault) : : "rax", "memory");
        asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; mov $0x100, %%eax; mov %%eax, %%fs; 1:"
                     : "=m"(after_fault) : : "rax", "memory");
    }
    report("exceptions", faults == before + 1800);
}

/* --- page tables --------------------------------------------------------------------------- */

/* Let walks set accessed and dirty flags on all levels, while the interrupt handler reads them. */
static void test_flags(void)
{
    volatile uint8_t *code = (uint8_t *)PLAY;
    volatile uint64_t *data = (uint64_t *)(PLAY + PAGE);
    void (*call)(void) = (void *)PLAY;
    uint64_t code_pte = level1[0], data_pte = level1[1];
    bool good = true;

    code[0] = 0xc3;
    watched = &level1[0];
    for (int i = 0; i < 5000; i++) {
        change(&level1[0], code_pte & ~(PTE_A | PTE_D));
        call();
        good &= level1[0] == (code_pte & ~PTE_D);
    }
    watched = &level1[1];
    for (int i = 0; i < 5000; i++) {
        level2[0][PLAY / BLOCK] &= ~PTE_A;
        change(&level1[1], data_pte & ~(PTE_A | PTE_D));
        digest = mix(digest, *data);
        good &= level1[1] == (data_pte & ~PTE_D) && level2[0][PLAY / BLOCK] & PTE_A;
        *data = i;
        good &= level1[1] == data_pte;
    }
    watched = 0;
    level1[0] = code_pte;
    report("flags", good);
}

/* Switch between two sets of tables; the guest never invalidates a single translation. */
static void test_bases(void)
{
    bool good = true;

    for (unsigned i = 0; i < 512; i++) {
        other4[i] = level4[i];
        other3[i] = level3[i];
        other2[i] = level2[0][i];
        other1[i] = level1[i];
    }
    other4[0] = (uint64_t)other3 | MAPPED | PTE_USER;
    other3[0] = (uint64_t)other2 | MAPPED | PTE_USER;
    other2[PLAY / BLOCK] = (uint64_t)other1 | MAPPED | PTE_USER;
    other1[3] = level1[4];
    *(volatile uint64_t *)(PLAY + 3 * PAGE) = 1;
    *(volatile uint64_t *)(PLAY + 4 * PAGE) = 2;
    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t other = i % 3 == 1;
        bool high_differs = i / 500 % 2;        /* the kernel's part of the root */

        ((volatile uint64_t *)other4)[511] = high_differs ? other4[0] : level4[511];
        write_cr("cr3", other ? other4 : level4);
        good &= !(i & 1) || *(volatile uint64_t *)(PLAY + 3 * PAGE) == 1 + other;
        good &= !(i & 2) || *(volatile uint64_t *)(HIGH + PLAY + 3 * PAGE) ==
                            1 + (high_differs ? other : 0);
        if (i % 8 == 0) {               /* global pages toggled, as Linux flushes all */
            write_cr("cr4", read_cr("cr4") ^ 1 << 7);
        }
    }
    write_cr("cr3", level4);
    report("bases", good);
}

/* Change an entry without telling the processor: it may use either, but both runs the same. */
static void test_stale(void)
{
    volatile uint64_t *page = (uint64_t *)(PLAY + 5 * PAGE);

    *(volatile uint64_t *)(PLAY + 6 * PAGE) = 6;
    *page = 5;
    for (uint64_t i = 0; i < 3000; i++) {
        level1[5] = (PLAY + (i & 1 ? 6 : 5) * PAGE) | MAPPED;
        digest = mix(digest, *page);
    }
    change(&level1[5], (PLAY + 5 * PAGE) | MAPPED);
    report("stale", true);
}

/* --- code ------------------------------------------------------------------------------------ */

/* Run code that changes its own next instruction. */
static void test_own_code(void)
{
    static const uint8_t code[] = {
        0x89, 0x37,                     /* mov %esi, (%rdi) */
        0xb8, 0, 0, 0, 0,               /* mov $0, %eax */
        0xc3,
    };
    uint64_t (*call)(uint32_t *, uint32_t) = (void *)PLAY;
    bool good = true;

    for (unsigned i = 0; i < sizeof(code); i++) {
        ((volatile uint8_t *)PLAY)[i] = code[i];
    }
    for (uint32_t i = 1; i < 1000; i++) {
        good &= call((uint32_t *)(PLAY + 3), i) == i;
    }
    report("own-code", good);
}

/* Code that lies in two pages, of which the second changes. */
static void test_code_across(void)
{
    volatile uint8_t *at = (uint8_t *)(PLAY + 9 * PAGE - 2);
    uint64_t (*call)(void) = (void *)at;
    bool good = true;

    at[0] = 0xb8;
    at[2] = at[3] = at[4] = 0;
    at[5] = 0xc3;
    for (int i = 0; i < 500; i++) {
        at[1] = i;
        at[2] = i >> 8;
        good &= call() == (uint64_t)i;
    }
    report("code-across", good);
}

/* --- user mode ----------------------------------------------------------------------------- */

static void test_user(void)
{
    static const uint8_t code[] = {
        0xbf, 1, 0, 0, 0,               /* mov $1, %edi */
        0x0f, 0x05,                     /* syscall */
        0x0f, 0x05,                     /* syscall */
        0x8c, 0xd8,                     /* mov %ds, %eax */
        0x8e, 0xd8,                     /* mov %eax, %ds */
        0xb8, 0x2a, 0, 0, 0,            /* mov $42, %eax */
        0xcd, 0x80,                     /* int $0x80 */
    };
    bool good = true;

    put_user_code(code, sizeof(code));
    for (int i = 0; i < 1000; i++) {
        good &= run_as_user(USER) == 42;
    }
    digest = mix(digest, calls);
    report("user", good && calls == 2000);
}

/* --- inputs ----------------------------------------------------------------------------------- */

/* What CPUID tells is part of the machine: replay must have the same CPU. */
static void note_cpuid(void)
{
    static const uint32_t leaves[] = { 0, 1, 2, 4, 6, 7, 0xb, 0xd, 0x80000000, 0x80000001,
                                       0x80000002, 0x80000006, 0x80000008, 0x8000000a };

    for (unsigned i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++) {
        Cpuid is = cpuid(leaves[i]);

        digest = mix(mix(mix(mix(digest, is.a), is.b), is.c), is.d);
    }
}

static void test_inputs(void)
{
    bool has_random = cpuid(1).c >> 30 & 1, has_seed = cpuid(7).b >> 18 & 1;
    bool has_tscp = cpuid(0x80000001).d >> 27 & 1, good = true;
    uint64_t value;
    uint8_t has;

    note_cpuid();
    if (has_tscp) {
        write_msr(0xc0000103, 77);
    }
    for (int i = 0; i < 1000; i++) {
        digest = mix(digest, rdtsc());
        asm volatile("mov %%cr8, %0" : "=r"(value));
        digest = mix(digest, value);
        asm volatile("mov %0, %%cr8" : : "r"((uint64_t)(i & 1)));
        digest = mix(digest, read_msr(0x1b));
        digest = mix(digest, APIC[0x390 / 4]);
        outb(0x43, 0);                  /* the PIT's counter */
        digest = mix(digest, inb(0x40));
        outb(0x70, 0);
        digest = mix(digest, inb(0x71));
        if (has_random) {
            asm volatile("rdrand %0; setc %1" : "=r"(value), "=q"(has) : : "cc");
            digest = mix(digest, value);
            good &= has;
        }
        if (has_seed) {
            asm volatile("rdseed %0; setc %1" : "=r"(value), "=q"(has) : : "cc");
            digest = mix(digest, value);
            good &= has;
        }
        if (has_tscp) {
            uint32_t low, high, number;

            asm volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(number));
            digest = mix(mix(digest, low), high);
            good &= number == 77;
        }
    }
    asm volatile("mov %0, %%cr8" : : "r"(0ul));
    report("inputs", good);
}

/* A task priority that holds the timer's interrupts back. */
static void test_priority(void)
{
    bool good = true;

    for (uint64_t i = 0; i < 100; i++) {
        uint64_t before, until;

        asm volatile("mov %0, %%cr8" : : "r"(15ul) : "memory");
        before = interrupts;
        until = rdtsc() + 100000;
        while (rdtsc() < until) {
        }
        good &= interrupts == before;
        asm volatile("mov %0, %%cr8" : : "r"(i % 4) : "memory");
        while (interrupts == before) {
            digest = mix(digest, read_cr("cr8"));
        }
    }
    asm volatile("mov %0, %%cr8" : : "r"(0ul) : "memory");
    report("priority", good);
}

/* A device and memory in one instruction: fw_cfg by INS, the HPET by MOVS. */
static void test_strings(void)
{
    volatile uint32_t *hpet = (uint32_t *)0xfed00000;
    bool good = true;

    hpet[0x10 / 4] = 1;
    for (int i = 0; i < 100; i++) {
        uint64_t to = BUFFER, n = 4, from = (uint64_t)&hpet[0xf0 / 4];

        outw(0x510, 0);                 /* the signature */
        asm volatile("rep insb" : "+D"(to), "+c"(n) : "d"(0x511) : "memory");
        good &= *(volatile uint32_t *)BUFFER == 0x554d4551;
        n = 1;
        asm volatile("rep movsl" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
        digest = mix(digest, *(volatile uint32_t *)(BUFFER + 4));
    }
    report("strings", good);
}

/* Floating point: flags that are collected lazily, registers, and a save area in two pages. */
static void test_float(void)
{
    uint32_t mxcsr = 0x1f80;
    uint16_t status;

    for (int i = 1; i < 500; i++) {
        asm volatile("ldmxcsr %0" : : "m"(mxcsr));
        asm volatile("cvtsi2sd %0, %%xmm0; mov $3, %%eax; cvtsi2sd %%eax, %%xmm1;"
                     "divsd %%xmm1, %%xmm0" : : "r"(i) : "rax");
        asm volatile("fninit; fld1; fldpi; fdivrp; fnstsw %0; fstpl %1"
                     : "=m"(status), "=m"(*(uint64_t *)BUFFER));
        asm volatile("stmxcsr %0; movq %%xmm0, %1" : "=m"(mxcsr), "=m"(*(uint64_t *)(BUFFER + 8)));
        digest = mix(digest, mxcsr ^ status ^ *(uint64_t *)BUFFER ^ *(uint64_t *)(BUFFER + 8));
        mxcsr &= 0x1f80;
    }
    asm volatile("fxsave (%0)" : : "r"(SAVED) : "memory");
    asm volatile("fnsave (%0); fninit" : : "r"(SAVED + 2 * PAGE - 50) : "memory");
    report("float", true);
}

/* Access WORD in all ways: one step each, two of them to its neighbours. */
static void test_accesses(void)
{
    uint64_t to = WORD - 8, count = 3;

    asm volatile("cli; movq $1, 8(%0); mov 8(%0), %%rax; addq $2, 8(%0); lock addq $2, 8(%0);"
                 "xchg %%rax, 8(%0); lock cmpxchg %1, 8(%0); cmpxchg %1, 8(%0); rep stosq; sti"
                 : "+D"(to), "+c"(count) : : "rax", "memory");
    report("accesses", to == WORD + 16 && !count);
}

/* What @code leaves of the flags that an addition has set, and what it sets. */
#define MIX_FLAGS(code) do {                                                        \
    uint64_t flags_, a_ = i, c_ = i * 7, d_ = 0x123456789abcdeful;                    \
    asm volatile("push %%rbx; mov $0x7fffffff, %%ebx; add %%ecx, %%ebx; mov %%ecx, %%ebx;"  \
                 code "; pushfq; pop %0; pop %%rbx"                                 \
                 : "=&r"(flags_), "+a"(a_), "+c"(c_), "+d"(d_) : : "memory", "cc"); \
    digest = mix(mix(digest, flags_), a_ ^ d_);                                     \
} while (0)

/* Flags that the manual leaves undefined must not depend on blocks, either. */
static void test_undefined(void)
{
    for (uint64_t i = 0; i < 100; i++) {
        MIX_FLAGS("bt %%ecx, %%edx");
        MIX_FLAGS("bts %%rcx, %%rdx; btr $3, %%dx");
        MIX_FLAGS("push %%rcx; lock btcl $5, (%%rsp); lea 8(%%rsp), %%rsp");
        MIX_FLAGS("bsf %%ecx, %%eax; bsr %%ecx, %%edx");
        MIX_FLAGS("mul %%dl");
        MIX_FLAGS("imul %%rcx, %%rdx");
        MIX_FLAGS("shl %%cl, %%dl; rcl %%cl, %%ax");
        MIX_FLAGS("sar %%cl, %%edx; ror %%cl, %%eax");
        MIX_FLAGS("shld %%cl, %%ax, %%dx; shrd $20, %%dx, %%ax");
        MIX_FLAGS("rol $5, %%edx; inc %%eax; rcr $3, %%rax");
        MIX_FLAGS("and %%ecx, %%eax; bt $2, %%eax; adc %%eax, %%edx");
        MIX_FLAGS("xor %%edx, %%edx; or $9, %%ecx; div %%ecx");
        MIX_FLAGS("cmpxchg %%ecx, %%edx; bt $1, %%ecx; dec %%eax");
    }
    report("undefined", true);
}

static void test_halts(void)
{
    for (int i = 0; i < 200; i++) {
        asm volatile("hlt");
        digest = mix(digest, interrupts);
    }
    report("halts", true);
}

/* With one vCPU, MWAIT halts. */
static void test_waits(void)
{
    bool has_monitor = cpuid(1).c >> 3 & 1;
    uint64_t before = faults;

    for (int i = 0; i < 200; i++) {
        if (has_monitor) {
            asm volatile("monitor; mwait" : : "a"(WORD), "c"(0), "d"(0) : "memory");
        }
        asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; monitor; 1:" : "=m"(after_fault) :
                     "c"(1) : "rax", "memory"); /* #GP, or #UD */
        digest = mix(digest, interrupts);
    }
    report("waits", faults == before + 200);
}

/* --- tables of the processor -------------------------------------------------------------- */

#define LDT     0x40
#define TSS_2   0x50
#define IN_LDT  0x0c                    /* a segment of the LDT */

/* Load tables from descriptors, whose flags say that they are used. */
static void test_tables(void)
{
    static uint64_t ldt[4] __attribute__((aligned(16)));
    TableRegister gdtr = { sizeof(gdt) - 1, (uint64_t)gdt };
    uint64_t before = faults, ldt_at = (uint64_t)ldt;
    volatile uint64_t *tasks[2] = { &gdt[TSS / 8], &gdt[TSS_2 / 8] };
    bool good = true;

    asm volatile("lgdt %0" : : "m"(gdtr) : "memory");
    gdt[LDT / 8] = 0x000082000000001f | (ldt_at & 0xffffff) << 16 | (ldt_at >> 24 & 0xff) << 56;
    gdt[LDT / 8 + 1] = ldt_at >> 32;
    gdt[TSS_2 / 8] = gdt[TSS / 8] & ~(2ul << 40);
    gdt[TSS_2 / 8 + 1] = gdt[TSS / 8 + 1];
    watched = &ldt[1];
    for (uint64_t i = 0; i < 200; i++) {
        uint16_t number;
        uint32_t rights;

        ((volatile uint64_t *)ldt)[1] = 0x0040f2000000ffff | ((PLAY + i * 8) & 0xffffff) << 16;
        asm volatile("lldt %w2; mov %3, %%fs; sldt %0; lar %3, %1; mov %4, %%fs"
                     : "=r"(number), "=r"(rights) : "r"(LDT), "r"(IN_LDT), "r"(0) : "memory", "cc");
        good &= number == LDT && ldt[1] >> 40 & 1;
        digest = mix(digest, rights);
        /* A task that is busy cannot be loaded again. */
        *tasks[i & 1] &= ~(2ul << 40);
        asm volatile("ltr %w1; str %0" : "=r"(number) : "r"(i & 1 ? TSS_2 : TSS) : "memory");
        asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; ltr %w1; 1:" : "=m"(after_fault) :
                     "r"(i & 1 ? TSS_2 : TSS) : "rax", "memory");
        good &= number == (i & 1 ? TSS_2 : TSS) && *tasks[i & 1] >> 41 & 1;
        asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; lldt %w1; 1:" : "=m"(after_fault) :
                     "r"(DATA) : "rax", "memory");
    }
    watched = 0;
    report("tables", good && faults == before + 400);
}

/* --- memory that is not as it seems --------------------------------------------------------- */

/* Without address line 20, every second MiB is the one before it. */
static void test_a20(void)
{
    volatile uint64_t *even = (uint64_t *)BUFFER, *odd = (uint64_t *)(BUFFER + BLOCK / 2);
    bool good = true;

    for (uint64_t i = 0; i < 200; i++) {
        *even = i;
        *odd = i + 1000;
        if (i & 1) {
            outb(0x92, 0);
        } else {
            outb(0x64, 0xdd);           /* the keyboard controller */
        }
        good &= *odd == i;
        *odd = i + 2000;
        digest = mix(digest, *even);
        if (i & 2) {
            outb(0x92, 2);
        } else {
            outb(0x64, 0xdf);
        }
        good &= *odd == i + 1000 && *even == i + 2000;
        outb(0x92, 2);
        outb(0x64, 0xdf);
    }
    report("a20", good);
}

/* Stores to ROM are discarded, however they are made. */
static void test_rom(void)
{
    static const uint64_t places[] = { ROM, BIOS };
    bool good = true;

    for (unsigned i = 0; i < 2; i++) {
        volatile uint64_t *rom = (uint64_t *)places[i];
        uint64_t to = places[i], n = 64, was = *rom, seen = ~was;

        asm volatile("movq %3, (%2); rep stosb" : "+c"(n), "+D"(to) : "r"(rom), "r"(~was),
                     "a"(0x5a) : "memory");
        good &= *rom == was;
        asm volatile("lock addq $1, (%1); xchg %0, (%1)" : "+r"(seen) : "r"(rom) : "memory", "cc");
        good &= *rom == was && seen == was;
        asm volatile("movdqu %%xmm0, (%0); sgdt 5(%0); fnstcw 2(%0); incq (%0)" : : "r"(rom) :
                     "memory", "cc");
        good &= *rom == was;
        asm volatile("cli; mov %%rsp, %%r8; lea 8(%0), %%rsp; push %%rax; mov %%r8, %%rsp; sti" : :
                     "r"(rom) : "r8", "memory");
        good &= *rom == was;
        digest = mix(digest, was);
    }
    report("rom", good);
}

void __attribute__((used)) run(void)
{
    start_processor();
    map_play_by_pages();
    start_interrupts();
    test_rep();
    test_rep_faults();
    test_exceptions();
    test_flags();
    test_bases();
    test_stale();
    test_own_code();
    test_code_across();
    test_user();
    test_inputs();
    test_priority();
    test_strings();
    test_float();
    test_accesses();
    test_undefined();
    test_halts();
    test_waits();
    test_tables();
    test_a20();
    test_rom();
    digest = interrupts;
    report("interrupts", interrupts > 200);
    power_off();
}
