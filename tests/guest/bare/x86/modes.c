/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without an operating system whose translations depend on more than tables: pages of all
 * sizes with four and with five levels, tables that map themselves, and bits of control registers
 * that the guest changes without a flush.  It also runs 32-bit code in user mode.  It runs on one
 * vCPU, while timer interrupts come all the time.
 *
 * Each test mixes what it sees into a digest, as in one.c.
 */
#include "pc.h"

#define KERNEL_32   0x38
#define USER_32     0x43
#define SLOT        (1ul << 39)         /* own tables translate what is there */
#define AT_1G       SLOT
#define AT_2M       (SLOT + (1ul << 30))
#define AT_4K       (SLOT + (1ul << 30) + BLOCK)
#define WINDOW      0xffffff0000000000ul        /* slot 510: the tables themselves */
#define FRAME       (PLAY + 50 * PAGE)

#define CR4_PGE     (1ul << 7)
#define CR4_LA57    (1ul << 12)
#define CR4_SMEP    (1ul << 20)
#define CR4_SMAP    (1ul << 21)
#define CR4_PKE     (1ul << 22)

static volatile uint64_t own3[512] __attribute__((aligned(PAGE)));
static volatile uint64_t own2[512] __attribute__((aligned(PAGE)));
static volatile uint64_t own1[512] __attribute__((aligned(PAGE)));
static uint64_t level5[512] __attribute__((aligned(PAGE)));
static uint64_t copy4[512] __attribute__((aligned(PAGE)));
static uint64_t copy5[512] __attribute__((aligned(PAGE)));
static uint32_t leaf7_b, leaf7_c;
static bool five;

static void *root(void)
{
    return five ? level5 : level4;
}

static void say_mode(const char *name, bool good)
{
    if (five) {
        say("five-");
    }
    report(name, good);
}

/* --- five levels ------------------------------------------------------------------- */

asm("switch_levels:\n"                  /* (root, CR4) */
    "    pushq $0x38\n"
    "    lea 1f(%rip), %rax\n"
    "    push %rax\n"
    "    lretq\n"
    ".code32\n"
    "1:  mov %cr0, %eax\n"
    "    and $0x7fffffff, %eax\n"
    "    mov %eax, %cr0\n"
    "    mov %esi, %cr4\n"
    "    mov %edi, %cr3\n"
    "    or $0x80000000, %eax\n"
    "    mov %eax, %cr0\n"
    "    ljmp $8, $2f\n"
    ".code64\n"
    "2:  ret\n");

extern void switch_levels(void *root, uint64_t cr4);

static void let_five(bool on)
{
    asm volatile("cli" : : : "memory");
    five = on;
    switch_levels(root(), on ? read_cr("cr4") | CR4_LA57 : read_cr("cr4") & ~CR4_LA57);
    asm volatile("sti" : : : "memory");
}

static void make_tables(void)
{
    own3[0] = PTE_LARGE | MAPPED | PTE_USER;
    own3[1] = (uint64_t)own2 | MAPPED | PTE_USER;
    own2[0] = BUFFER | PTE_LARGE | MAPPED | PTE_USER;
    own2[1] = (uint64_t)own1 | MAPPED | PTE_USER;
    for (unsigned i = 0; i < 512; i++) {
        own1[i] = (FRAME + i % 16 * PAGE) | MAPPED;
    }
    level4[1] = (uint64_t)own3 | MAPPED | PTE_USER;
    level4[510] = (uint64_t)level4 | MAPPED;
    level5[0] = level5[511] = (uint64_t)level4 | MAPPED | PTE_USER;
    for (unsigned i = 0; i < 512; i++) {
        copy4[i] = level4[i];
    }
    copy5[0] = copy5[511] = (uint64_t)copy4 | MAPPED | PTE_USER;
    gdt[KERNEL_32 / 8] = 0x00cf9b000000ffff;
    gdt[USER_32 / 8] = 0x00cffb000000ffff;
    write_cr("cr3", root());
}

/* --- flags ------------------------------------------------------------------------- */

/* Clear the flags of all levels, and let one access of each kind set them. */
static bool use(uint64_t address, volatile uint64_t *leaf, unsigned i)
{
    volatile uint64_t *top = &level4[1], *first = &level5[0];
    void (*call)(void) = (void *)(address + 8);
    uint64_t both = PTE_A | PTE_D;
    bool good = true;

    *leaf &= ~both;
    *top &= ~PTE_A;
    own3[1] &= leaf == &own3[0] ? ~0ul : ~PTE_A;
    own2[1] &= leaf == &own1[0] ? ~PTE_A : ~0ul;
    *first &= ~PTE_A;
    write_cr("cr3", root());
    if (i % 3 == 0) {
        digest = mix(digest, *(volatile uint64_t *)address);
    } else if (i % 3 == 1) {
        call();
    } else {
        *(volatile uint64_t *)address = i;
    }
    good &= (*leaf & both) == (i % 3 == 2 ? both : PTE_A);
    good &= *top & PTE_A && own3[1] & PTE_A && own2[1] & PTE_A;
    *(volatile uint64_t *)address = i;
    digest = mix(mix(digest, *leaf), *first);
    return good && (*leaf & both) == both;
}

static void test_flags(void)
{
    bool good = true;

    ((volatile uint8_t *)FRAME)[8] = 0xc3;
    ((volatile uint8_t *)BUFFER)[8] = 0xc3;
    ((volatile uint8_t *)0x7000)[8] = 0xc3;
    for (unsigned i = 0; i < 200; i++) {
        watched = &own1[0];
        good &= use(AT_4K, &own1[0], i);
        watched = &own2[0];
        good &= use(AT_2M, &own2[0], i);
        watched = &own3[0];
        good &= use(AT_1G + 0x7000, &own3[0], i);
    }
    watched = 0;
    say_mode("flags", good);
}

/* Change a page of each size without a flush. */
static void test_stale(void)
{
    *(volatile uint64_t *)FRAME = 1;
    *(volatile uint64_t *)(FRAME + PAGE) = 2;
    *(volatile uint64_t *)BUFFER = 3;
    *(volatile uint64_t *)(BUFFER + BLOCK) = 4;
    for (unsigned i = 0; i < 200; i++) {
        own1[1] = (FRAME + i % 2 * PAGE) | MAPPED;
        digest = mix(digest, *(volatile uint64_t *)(AT_4K + PAGE));
        own2[0] = (BUFFER + i % 2 * BLOCK) | PTE_LARGE | MAPPED;
        digest = mix(digest, *(volatile uint64_t *)AT_2M);
        own3[0] = i % 4 ? PTE_LARGE | MAPPED : (uint64_t)level2[0] | MAPPED;
        digest = mix(digest, *(volatile uint64_t *)(AT_1G + BUFFER));
        own2[2] = i % 8 ? (uint64_t)own1 | MAPPED : BUFFER | PTE_LARGE | MAPPED;
        digest = mix(digest, *(volatile uint64_t *)(AT_4K + BLOCK));
    }
    own3[0] = PTE_LARGE | MAPPED | PTE_USER;
    own2[0] = BUFFER | PTE_LARGE | MAPPED | PTE_USER;
    write_cr("cr3", root());
    say_mode("stale", true);
}

/* Return where the tables show the entry that translates @address. */
static volatile uint64_t *entry_of(uint64_t address)
{
    return (volatile uint64_t *)(WINDOW | (address >> 9 & 0x7ffffffff8ul));
}

/* Change tables where they map themselves. */
static void test_recursion(void)
{
    volatile uint64_t *entry = entry_of(AT_4K);
    bool good = true;

    *(volatile uint64_t *)FRAME = 1;
    *(volatile uint64_t *)(FRAME + PAGE) = 2;
    for (unsigned i = 0; i < 500; i++) {
        entry[3] = (FRAME + i % 2 * PAGE) | (i & 2 ? MAPPED : MAPPED & ~(PTE_A | PTE_D));
        asm volatile("invlpg (%0)" : : "r"(AT_4K + 3 * PAGE) : "memory");
        good &= *(volatile uint64_t *)(AT_4K + 3 * PAGE) == 1 + i % 2;
        digest = mix(digest, entry[3]);
        digest = mix(digest, *entry_of((uint64_t)entry));
        own2[1] &= ~PTE_A;
    }
    say_mode("recursion", good);
}

static void test_bases(void)
{
    bool good = true;

    for (unsigned i = 0; i < 500; i++) {
        void *other = five ? copy5 : copy4;

        copy4[1] = i & 4 ? level4[1] : 0;
        write_cr("cr3", i & 1 ? other : root());
        if (!(i & 1) || i & 4) {
            good &= *(volatile uint64_t *)(AT_4K + PAGE) <= 2;
        }
        digest = mix(digest, *(volatile uint64_t *)(HIGH + FRAME));
    }
    write_cr("cr3", root());
    say_mode("bases", good);
}

/* --- registers that translations depend on -------------------------------------------- */

static void read_at(uint64_t address)
{
    asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; mov (%1), %%rax; 1:" : "=m"(after_fault) :
                 "r"(address) : "rax", "memory");
}

static void write_at(uint64_t address)
{
    asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; incq (%1); 1:" : "=m"(after_fault) :
                 "r"(address) : "rax", "memory", "cc");
}

static void call_at(uint64_t address)
{
    asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; mov %%rsp, %%r8; call *%1;"
                 "1: mov %%r8, %%rsp" : "=m"(after_fault) : "r"(address) : "rax", "r8", "memory");
}

static void use_all(uint64_t address)
{
    read_at(address);
    write_at(address);
    call_at(address + 8);
    digest = mix(digest, faults);
}

static void toggle(uint64_t bit)
{
    write_cr("cr4", read_cr("cr4") ^ bit);
}

static void test_registers(void)
{
    uint64_t user = AT_4K + 4 * PAGE, no_code = AT_4K + 5 * PAGE, fixed = AT_4K + 6 * PAGE;
    uint64_t before = faults, efer = read_msr(0xc0000080), cr4 = read_cr("cr4");
    uint64_t key = AT_4K + 7 * PAGE;

    own1[4] |= PTE_USER;
    own1[5] |= PTE_NX;
    own1[6] &= ~PTE_WRITE;
    own1[7] |= PTE_USER | 5ul << 59;
    write_cr("cr3", root());
    for (unsigned i = 4; i < 8; i++) {
        ((volatile uint8_t *)FRAME)[i * PAGE + 8] = 0xc3;
    }
    for (unsigned i = 0; i < 140; i++) {
        if (leaf7_b >> 7 & i & 1) {
            toggle(CR4_SMEP);
        }
        if (leaf7_b >> 20 & (i % 3 == 0)) {
            toggle(CR4_SMAP);
        }
        if (leaf7_c >> 3 & (i % 5 == 0)) {
            toggle(CR4_PKE);
        }
        if (i % 7 == 0) {
            toggle(CR4_PGE);
        }
        if (i % 4 == 0) {
            write_msr(0xc0000080, read_msr(0xc0000080) ^ 1 << 11);
        }
        if (i % 6 == 0) {
            write_cr("cr0", read_cr("cr0") ^ 1 << 16);
        }
        if (read_cr("cr4") & CR4_PKE) {
            asm volatile("wrpkru" : : "a"((i & 3) << 10), "c"(0), "d"(0) : "memory");
        }
        if (read_cr("cr4") & CR4_SMAP && i & 8) {
            asm volatile("stac" : : : "memory", "cc");
        }
        use_all(user);
        use_all(key);
        if (read_cr("cr4") & CR4_SMAP) {
            asm volatile("clac" : : : "memory", "cc");
        }
        use_all(no_code);
        use_all(fixed);
    }
    write_msr(0xc0000080, efer);
    write_cr("cr4", cr4);
    write_cr("cr0", read_cr("cr0") | 1 << 16);
    own1[5] &= ~PTE_NX;
    write_cr("cr3", root());
    say_mode("registers", faults > before + 140);
}

/* --- 32-bit code in user mode ------------------------------------------------------------ */

asm("user_begin:\n"
    "    lea user_stack_top(%rip), %rsp\n"
    "    mov %rsp, %rbp\n"
    "    mov $20, %ebx\n"
    "    ljmp *user_far(%rip)\n"
    ".code32\n"
    "user_32:\n"
    "1:  pusha\n"
    "    popa\n"
    "    push %ds\n"
    "    pop %ds\n"
    "    enter $4, $2\n"
    "    leave\n"
    "    pushaw\n"
    "    popaw\n"
    "    mov $3, %eax\n"
    "    daa\n"
    "    dec %ebx\n"
    "    jnz 1b\n"
    "    mov $42, %eax\n"
    "    int $0x80\n"
    ".code64\n"
    "    .balign 8\n"
    "user_far:\n"
    "    .long 0\n"
    "    .short 0x43\n"
    "    .balign 16\n"
    "    .skip 256\n"
    "user_stack_top:\n"
    "    .skip 16\n"
    "user_end:\n");

static void test_narrow_user(void)
{
    extern uint8_t user_begin[], user_end[], user_32[], user_far[];
    bool good = true;

    *(uint32_t *)user_far = USER + (user_32 - user_begin);
    asm volatile("mov %0, %%ds" : : "r"(USER_DATA));
    put_user_code(user_begin, user_end - user_begin);
    write_cr("cr3", root());
    for (int i = 0; i < 300; i++) {
        good &= (uint32_t)run_as_user(USER) == 42;
    }
    say_mode("narrow-user", good);
}

void __attribute__((used)) run(void)
{
    leaf7_b = cpuid(7).b;
    leaf7_c = cpuid(7).c;
    start_processor();
    map_play_by_pages();
    make_tables();
    start_interrupts();
    for (unsigned i = 0; i < 3; i++) {
        if (i && leaf7_c >> 16 & 1) {
            let_five(i == 1);
        }
        test_flags();
        test_stale();
        test_recursion();
        test_bases();
        test_registers();
        if (!five) {
            test_narrow_user();
        }
    }
    digest = interrupts;
    report("interrupts", interrupts > 100);
    power_off();
}
