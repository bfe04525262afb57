/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without an operating system whose other vCPUs disturb vCPU 0 where kernels and firmware
 * do what programs do not: they poke code that others run, wait for words, use devices by string
 * instructions, load tables, switch page tables, run in real mode, and switch address line 20.
 * It ends with a triple fault, while the others run.
 *
 * Each test mixes what it sees into a digest, as in several.c.
 */
#include "others.h"

#define HPET        0xfed000f0ul        /* its counter */
#define DIVIDER     0xfee003e0ul        /* of the APIC's timer; it keeps what is written */
#define ROM         0xf8000ul           /* main memory that firmware has made read-only */
#define BIOS        0xffffff00ul        /* memory of its own */
#define IPI_OTHERS  (0x000c4000 | IPI_VECTOR)

#define SELF_NMI    0x44400             /* to the vCPU that sends it */

#define POKED_AT    (PLAY + 45 * PAGE)
#define UPPER       (BUFFER + 0x10000)  /* the frame of the page that begins there */
#define EDGE        (PLAY + 33 * PAGE)  /* stacks of tests end here */
#define BELOW       32                  /* the entry of the page below */
#define LOWER       (BUFFER + 0x20000)  /* its frame */

static void add(volatile void *address, uint64_t value)
{
    asm volatile("lock addq %1, %0" : "+m"(*(volatile uint64_t *)address) : "r"(value) :
                 "memory", "cc");
}

static void see(unsigned other, uint64_t value)
{
    seen[other][0] = mix(seen[other][0], value);
}

static void interrupt_others(void)
{
    while (APIC[APIC_COMMAND] & 0x1000) {
    }
    APIC[APIC_COMMAND] = IPI_OTHERS;
}

/* --- code that is poked -------------------------------------------------------------- */

#define INT3    0xcc
#define TRAPPED 0x33333333u

static volatile uint64_t acknowledged, trapped, torn;

/* Emulate the instruction whose first byte is INT3, and acknowledge that all code is new. */
static bool trap_or_acknowledge(Frame *frame)
{
    if (frame->vector == 3) {
        add(&trapped, 1);
        frame->rax = TRAPPED;
        frame->rip += 4;
        return true;
    }
    if (frame->vector == IPI_VECTOR) {
        cpuid(0);
        add(&acknowledged, 1);
        APIC[APIC_EOI] = 0;
        return true;
    }
    return false;
}

/* In one line, and in two pages, whose frames are not neighbours. */
static const uint64_t poked[2] = { POKED_AT - 3, POKED_AT - 512 };

static uint64_t run_poked(void)
{
    uint64_t result = 0;

    for (unsigned i = 0; i < 2; i++) {
        uint64_t (*call)(void) = (void *)poked[i];
        uint64_t value = call();

        if (value != 0x11111111 && value != 0x22222222 && value != TRAPPED) {
            add(&torn, 1);
        }
        result = mix(result, value);
    }
    return result;
}

static void run_poked_on(unsigned other)
{
    see(other, run_poked());
}

static void sync_others(void)
{
    uint64_t all = acknowledged + others;

    interrupt_others();
    while (acknowledged < all) {
        asm volatile("pause");
    }
}

/* Return where the byte can be written: elsewhere than it is run, as Linux does it. */
static volatile uint8_t *alias(uint64_t address)
{
    uint64_t frame = address < POKED_AT ? address : UPPER + address - POKED_AT;

    return (volatile uint8_t *)(HIGH + frame);
}

static void poke(uint64_t at, uint32_t value)
{
    *alias(at) = INT3;
    sync_others();
    for (unsigned i = 0; i < 4; i++) {
        *alias(at + 1 + i) = value >> 8 * i;
    }
    sync_others();
    *alias(at) = 0xb8;
    sync_others();
}

static void test_poke(void)
{
    change(&level1[45], UPPER | MAPPED);
    for (unsigned i = 0; i < 2; i++) {
        *alias(poked[i]) = 0xb8;        /* mov $..., %eax; ret */
        for (unsigned j = 1; j < 5; j++) {
            *alias(poked[i] + j) = 0x11;
        }
        *alias(poked[i] + 5) = 0xc3;
    }
    hook = trap_or_acknowledge;
    let_others(run_poked_on);
    for (unsigned i = 0; i < 60; i++) {
        poke(poked[i & 1], i & 2 ? 0x11111111 : 0x22222222);
        digest = mix(digest, run_poked());
    }
    stop_others();
    hook = 0;
    digest = mix(digest, trapped);
    report("poke", !torn && trapped);
}

/* --- waiting for a word ---------------------------------------------------------------- */

static volatile uint64_t word[8] __attribute__((aligned(64)));
static bool has_monitor;

static void wait_for_word(unsigned other)
{
    uint64_t was = word[0];

    if (has_monitor) {
        asm volatile("monitor" : : "a"(word), "c"(0), "d"(0) : "memory");
        if (word[0] == was) {
            asm volatile("mwait" : : "a"(0), "c"(0) : "memory");
        }
    } else {
        asm volatile("pause");
    }
    see(other, word[0] - was);
}

static void test_waits(void)
{
    has_monitor = cpuid(1).c >> 3 & 1;
    let_others(wait_for_word);
    for (unsigned i = 0; i < 400; i++) {
        word[0]++;
        if (i % 8 == 0) {
            wait_for_word(0);
        }
        for (uint64_t until = rdtsc() + 20000; rdtsc() < until; ) {
        }
    }
    stop_others();
    report("waits", true);
}

/* Halted vCPUs are woken by interrupts from another one. */
static volatile uint64_t woken;

static void halt(unsigned other)
{
    asm volatile("cli" : : : "memory");
    if (job) {
        asm volatile("sti; hlt" : : : "memory");
    } else {
        asm volatile("sti" : : : "memory");
    }
    add(&woken, 1);
    see(other, word[1]);
}

static void test_halts(void)
{
    uint64_t before = woken;

    let_others(halt);
    for (unsigned i = 0; i < 100; i++) {
        uint64_t was = woken;

        word[1] = i;
        while (woken == was) {
            interrupt_others();
        }
    }
    stop_others();
    report("halts", woken >= before + 100);
}

/* --- devices ----------------------------------------------------------------------------- */

static void take_buffer(unsigned other)
{
    take(other, (void *)BUFFER, (void *)(BUFFER + 256));
    take(other, (void *)(BUFFER + BLOCK - 64), (void *)(BUFFER + BLOCK + 64));
}

/* Devices and contended memory in one instruction. */
static void test_strings(void)
{
    ((volatile uint32_t *)0xfed00000)[4] = 1;   /* the HPET counts */
    let_others(take_buffer);
    for (unsigned i = 0; i < 150; i++) {
        uint64_t at = i & 1 ? BUFFER + i : BUFFER + BLOCK - i % 8, hpet = HPET, to, n;
        volatile uint32_t *there = (volatile uint32_t *)at;
        uint32_t divider = 0xb;
        bool less;

        n = 4;
        to = at;
        outw(0x510, 0);
        asm volatile("rep insb" : "+D"(to), "+c"(n) : "d"(0x511) : "memory");
        digest = mix(digest, *there);
        n = 2;
        to = at;
        asm volatile("rep movsl" : "+D"(to), "+S"(hpet), "+c"(n) : : "memory");
        digest = mix(digest, *there);
        hpet = HPET;
        to = at;
        n = 2;
        asm volatile("repne cmpsl" : "+D"(to), "+S"(hpet), "+c"(n), "=@ccb"(less) : : "memory");
        digest = mix(digest, less + n);
        hpet = HPET;
        asm volatile("scasl" : "+D"(hpet), "=@ccb"(less) : "a"(i) : "memory");
        hpet = HPET;
        asm volatile("lodsl" : "+S"(hpet), "=a"(n) : : "memory");
        digest = mix(digest, n + less);
        *there = 0xb;
        to = at;
        hpet = DIVIDER;
        asm volatile("movsl" : "+S"(to), "+D"(hpet) : : "memory");
        hpet = DIVIDER;
        asm volatile("stosl" : "+D"(hpet) : "a"(0xb) : "memory");
        to = at;
        n = 3;
        asm volatile("rep outsb" : "+S"(to), "+c"(n) : "d"(0x80) : "memory");
        asm volatile("lock addl $0, (%1); xchg %0, (%1)" : "+r"(divider) : "r"(DIVIDER) :
                     "memory", "cc");
        digest = mix(digest, divider);
    }
    stop_others();
    report("strings", true);
}

/* What each vCPU reads of its own APIC, of clocks, and of random numbers. */
static void read_inputs(unsigned other)
{
    uint64_t value, mixed = 0;
    uint32_t low, high, number;

    asm volatile("mov %1, %%cr8; mov %%cr8, %0; mov %2, %%cr8" : "=&r"(value) :
                 "r"((uint64_t)other + 12), "r"(0ul) : "memory");
    mixed = mix(mixed, value);
    mixed = mix(mixed, read_msr(0x1b));
    mixed = mix(mixed, APIC[0x390 / 4]);
    mixed = mix(mixed, inl(0x608));
    if (cpuid(0x80000001).d >> 27 & 1) {
        asm volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(number));
        mixed = mix(mix(mixed, low), high);
    }
    if (cpuid(7).b >> 18 & 1) {
        asm volatile("rdseed %0" : "=r"(value) : : "cc");
        mixed = mix(mixed, value);
    }
    see(other, mixed);
}

static void test_inputs(void)
{
    let_others(read_inputs);
    for (unsigned i = 0; i < 200; i++) {
        read_inputs(0);
    }
    stop_others();
    report("inputs", true);
}

/* --- deliveries ------------------------------------------------------------------------- */

static uint8_t fault_stack[2 * PAGE] __attribute__((aligned(PAGE)));

static void take_what_deliveries_need(unsigned other)
{
    take(other, idt, &idt[16]);
    take(other, &gdt[0], &gdt[8]);
    take(other, tss, &tss[26]);
    take(other, fault_stack + sizeof(fault_stack) - 256, fault_stack + sizeof(fault_stack));
    take(other, &level1[24], &level1[40]);
    take(other, (void *)(LOWER + PAGE - 128), (void *)(LOWER + PAGE));
    take(other, (void *)EDGE, (void *)(EDGE + 128));
}

static bool bring_back(Frame *frame)
{
    if (frame->vector != 14) {
        return false;
    }
    digest = mix(mix(digest, frame->rip), read_cr("cr2"));
    level1[BELOW] |= PTE_PRESENT;
    return true;
}

/* A frame lies in two pages: the lower one is not there, or has flags to be set. */
static void test_nested(void)
{
    uint64_t pte = LOWER | MAPPED, before = faults;

    tss[9] = (uint64_t)fault_stack + sizeof(fault_stack);
    idt[14].low |= 1ul << 32;
    hook = bring_back;
    let_others(take_what_deliveries_need);
    for (unsigned i = 0; i < 200; i++) {
        uint64_t divide = i & 2;

        asm volatile("cli" : : : "memory");
        change(&level1[BELOW], i & 1 ? pte & ~PTE_PRESENT : pte & ~(PTE_A | PTE_D));
        asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; mov %%rsp, %%r8; mov %2, %%rsp;"
                     "test %%cl, %%cl; jnz 2f; .byte 0xf1; 2: xor %%ecx, %%ecx; div %%ecx;"
                     "1: mov %%r8, %%rsp; sti" : "=m"(after_fault), "+c"(divide) :
                     "r"(EDGE + i % 6 * 8), "d"(0) : "rax", "r8", "memory", "cc");
        digest = mix(digest, level1[BELOW]);
    }
    stop_others();
    hook = 0;
    idt[14].low &= ~(7ul << 32);
    change(&level1[BELOW], pte);
    report("nested", faults == before + 200);
}

static volatile uint64_t nmis;

static bool count_nmi(Frame *frame)
{
    if (frame->vector != NMI_VECTOR) {
        return false;
    }
    digest = mix(digest, frame->rip);
    nmis++;
    return true;
}

/* What the others load clears an input of vCPU 0, which QEMU keeps beside what masks NMIs. */
static void load_float(unsigned other)
{
    static uint8_t saved[OTHERS][128] __attribute__((aligned(64)));

    asm volatile("fnsave (%0); frstor (%0); frstor (%0); frstor (%0)" : : "r"(saved[other]) :
                 "memory");
}

static void test_nmis(void)
{
    hook = count_nmi;
    let_others(load_float);
    for (uint64_t i = 0; i < 2000; i++) {
        APIC[APIC_COMMAND] = SELF_NMI;
        while (nmis <= i) {
            asm volatile("pause");
        }
    }
    stop_others();
    hook = 0;
    report("nmis", nmis == 2000);
}

/* --- tables ---------------------------------------------------------------------------- */

#define LDT     0x40
#define TASK    0x50
#define IN_LDT  0x0c
#define BUSY    (2ul << 40)

static uint64_t ldt[8] __attribute__((aligned(64)));

static void use_tables(unsigned other)
{
    take(other, &gdt[8], &gdt[16]);
    take(other, ldt, &ldt[8]);
    asm volatile("lock btrq $41, %0" : "+m"(gdt[TASK / 8]) : : "memory", "cc");
    asm volatile("lock btrq $40, %0" : "+m"(ldt[1]) : : "memory", "cc");
}

/* The others say that the task is not busy, at any time. */
static void test_tables(void)
{
    TableRegister gdtr = { sizeof(gdt) - 1, (uint64_t)gdt };
    uint64_t at = (uint64_t)ldt;

    asm volatile("lgdt %0" : : "m"(gdtr) : "memory");
    gdt[LDT / 8] = 0x000082000000003f | (at & 0xffffff) << 16 | (at >> 24 & 0xff) << 56;
    gdt[LDT / 8 + 1] = at >> 32;
    gdt[TASK / 8] = gdt[TSS / 8] & ~BUSY;
    gdt[TASK / 8 + 1] = gdt[TSS / 8 + 1];
    ldt[1] = 0x0040f2000000ffff;
    let_others(use_tables);
    for (unsigned i = 0; i < 300; i++) {
        uint32_t rights;

        asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; ltr %w1; 1:" : "=m"(after_fault) :
                     "r"(TASK) : "rax", "memory");
        digest = mix(digest, faults ^ gdt[TASK / 8]);
        asm volatile("lldt %w1; mov %2, %%fs; mov %2, %%gs; lar %2, %0; mov %3, %%fs; mov %3, %%gs"
                     : "=r"(rights) : "r"(LDT), "r"(IN_LDT), "r"(0) : "memory", "cc");
        digest = mix(digest, rights ^ ldt[1]);
    }
    stop_others();
    report("tables", true);
}

/* --- page tables ------------------------------------------------------------------------ */

#define IGNORED (1ul << 9)

static uint64_t other4[512] __attribute__((aligned(PAGE)));

static void change_roots(unsigned other)
{
    volatile uint64_t *top = &other4[511];

    *top ^= IGNORED;
    asm volatile("lock xorq %1, %0" : "+m"(level4[511]) : "r"(IGNORED << other % 3) :
                 "memory", "cc");
    see(other, *(volatile uint64_t *)(HIGH + (uint64_t)&word[2]));
    take(other, &other4[0], &other4[1]);
    see(other, level1[47]);
}

/* Switch roots, and let fetches set flags, while others change and read the entries. */
static void test_bases(void)
{
    uint64_t pte = level1[47];
    void (*call)(void) = (void *)(PLAY + 47 * PAGE);

    *(volatile uint8_t *)call = 0xc3;
    for (unsigned i = 0; i < 512; i++) {
        other4[i] = level4[i];
    }
    let_others(change_roots);
    for (unsigned i = 0; i < 300; i++) {
        asm volatile("lock andq %1, %0" : "+m"(level1[47]) : "r"(~(PTE_A | PTE_D)) :
                     "memory", "cc");
        write_cr("cr3", i & 1 ? other4 : level4);
        call();
        digest = mix(mix(digest, level1[47]), level4[511] ^ other4[511]);
        digest = mix(digest, *(volatile uint64_t *)(HIGH + (uint64_t)&word[2]));
    }
    write_cr("cr3", level4);
    stop_others();
    level1[47] = pte;
    report("bases", true);
}

/* --- memory that is not as it seems ---------------------------------------------------- */

static void store_ports(unsigned other)
{
    outb(0x80, other);
    see(other, inb(COM1 + 7));
    outb(COM1 + 7, other);
    touch((void *)(BUFFER + 8));
}

/* Only vCPU 0 has this gate.  The others store to ports, which do not switch it. */
static void test_a20(void)
{
    volatile uint64_t *even = (uint64_t *)BUFFER, *odd = (uint64_t *)(BUFFER + BLOCK / 2);
    bool good = true;

    let_others(store_ports);
    for (uint64_t i = 0; i < 300; i++) {
        *even = i;
        *odd = i + 1000;
        outb(0x92, 0);
        good &= *odd == i;
        digest = mix(digest, odd[1]);
        outb(0x92, 2);
        good &= *odd == i + 1000 && *even == i;
    }
    stop_others();
    report("a20", good);
}

static void store_to_rom(unsigned other)
{
    volatile uint64_t *rom = (uint64_t *)ROM, *bios = (uint64_t *)BIOS;

    rom[other] = other;
    bios[other] = other;
    see(other, rom[0] ^ bios[0]);
}

static void test_rom(void)
{
    uint64_t was[2] = { *(volatile uint64_t *)ROM, *(volatile uint64_t *)BIOS };
    bool good = true;

    let_others(store_to_rom);
    for (unsigned i = 0; i < 100; i++) {
        uint64_t at = i & 1 ? BIOS : ROM, n = 30;
        volatile uint64_t *rom = (volatile uint64_t *)at;

        asm volatile("movq %1, (%0); lock addq $1, (%0); sgdt 60(%0); movdqu %%xmm0, 8(%0)" : :
                     "r"(at), "r"((uint64_t)i) : "memory", "cc");
        asm volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(i) : "memory");
        asm volatile("xchg %0, %1" : "+r"(n), "+m"(*rom) : : "memory");
        good &= *rom == was[i & 1] && n == was[i & 1];
    }
    stop_others();
    report("rom", good);
}

/* --- real mode ------------------------------------------------------------------------ */

#define REAL        0x9000ul            /* code */
#define REAL_STACK  0x7000ul
#define REAL_COUNT  0x6000ul
#define INIT_ONE    0x4500
#define START_REAL  (0x4600 | REAL / PAGE)

/* Interrupts, far calls and instructions with several stores, on a stack whose top moves. */
asm(".code16\n"
    "real:\n"
    "    cli\n"
    "    xor %ax, %ax\n"
    "    mov %ax, %ds\n"
    "    mov %ax, %es\n"
    "    mov %ax, %ss\n"
    "    mov $300, %bx\n"
    "1:  mov %bx, %sp\n"
    "    and $62, %sp\n"
    "    add $0x7000, %sp\n"
    "    sti\n"
    "    int $0x20\n"
    "    lcall $0, $0x9000 + real_far - real\n"
    "    pusha\n"
    "    popa\n"
    "    pushal\n"
    "    popal\n"
    "    mov %sp, %bp\n"
    "    enter $4, $2\n"
    "    leave\n"
    "    sgdtl 0x6f00\n"
    "    mov $20, %cx\n"
    "    mov $0x6f00, %si\n"
    "    mov $0x6f20, %di\n"
    "    cld\n"
    "    rep movsb\n"
    "    lock incw 0x6000\n"
    "    dec %bx\n"
    "    jnz 1b\n"
    "2:  lock incw 0x6002\n"
    "    cli\n"
    "    hlt\n"
    "    jmp 2b\n"
    "real_interrupt:\n"
    "    lock incw 0x6004\n"
    "    iret\n"
    "real_far:\n"
    "    lret\n"
    "real_end:\n"
    ".code64\n");

/* INIT and SIPI let vCPU 1 run in real mode, and this vCPU takes the lines that it needs. */
static void test_real(void)
{
    extern char real[], real_interrupt[], real_end[];
    volatile uint16_t *counts = (uint16_t *)REAL_COUNT;

    for (unsigned i = 0; &real[i] < real_end; i++) {
        ((volatile char *)REAL)[i] = real[i];
    }
    counts[0] = counts[1] = counts[2] = 0;
    *(volatile uint32_t *)(HIGH + 0x80) = REAL + (real_interrupt - real);
    APIC[APIC_COMMAND + 4] = 1 << 24;
    APIC[APIC_COMMAND] = INIT_ONE;
    for (uint64_t until = rdtsc() + 20000000; rdtsc() < until; ) {
        asm volatile("pause");
    }
    APIC[APIC_COMMAND] = START_REAL;
    while (!counts[1]) {
        take(0, (void *)(HIGH + 0x80), (void *)(HIGH + 0x84));
        take(0, (void *)(REAL_STACK - 64), (void *)(REAL_STACK + 64));
        take(0, (void *)0x6f00, (void *)0x6f40);
    }
    digest = mix(digest, seen[0][0]);
    report("real", counts[0] == 300 && counts[2] == 300);
    start_others();
}

void __attribute__((used)) run(void)
{
    TableRegister nothing = { 0, 0 };

    start_processor();
    map_play_by_pages();
    start_interrupts();
    others = N_OTHERS;
    start_others();
    test_poke();
    test_waits();
    test_halts();
    test_strings();
    test_inputs();
    test_nested();
    test_nmis();
    test_tables();
    test_bases();
    test_a20();
    test_rom();
    test_real();
    digest = interrupts;
    report("interrupts", interrupts > 0);
    let_others(read_inputs);
    asm volatile("lidt %0; ud2" : : "m"(nothing));
}
