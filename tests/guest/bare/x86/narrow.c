/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without an operating system in 32-bit mode: tables of two levels and of PAE, 16-bit code,
 * call gates with parameters, task switches, virtual-8086 mode, and instructions that 64-bit mode
 * has not, while timer interrupts come all the time.  It runs on one vCPU.  If there is another one
 * (N_OTHERS), that one takes the lines which instructions with several accesses need.
 *
 * Each test mixes what it sees into a digest, as in one.c.
 */
#include "io.h"

#define PAGE        4096u
#define PLAY        0x1000000u          /* mapped by pages, in both modes */
#define PAGES       512u
#define LARGE       0x4000000u          /* mapped by large pages, which nothing else uses */
#define CODE_16     0x9000u             /* below 1 MiB */
#define STACK_16    0xa000u
#define EDGE        (PLAY + 100 * PAGE)

#define P_PRESENT   1u
#define P_WRITE     2u
#define P_USER      4u
#define P_A         0x20u
#define P_D         0x40u
#define P_LARGE     0x80u
#define MAPPED      (P_PRESENT | P_WRITE | P_A | P_D)

#define CODE        0x08
#define DATA        0x10
#define USER_CODE   0x1b
#define USER_DATA   0x23
#define TSS         0x28
#define TASK        0x30
#define GATE        0x38
#define CODE_OF_16  0x40
#define TIMER       0x30
#define CALL        0x31                /* user mode ends */
#define TASK_CALL   0x32                /* a task gate */

#define TRAMPOLINE  0x8000u
#define INIT_OTHERS     0x000c4500
#define START_OTHERS    (0x000c4600 | TRAMPOLINE / PAGE)

#define APIC        ((volatile uint32_t *)0xfee00000)

typedef struct Frame {
    uint32_t es, ds, edi, esi, ebp, unused, ebx, edx, ecx, eax;
    uint32_t vector, error, eip, cs, eflags, esp, ss;
} Frame;

static uint8_t stack[4 * PAGE] __attribute__((aligned(4096), used));
static uint8_t kernel_stack[2 * PAGE] __attribute__((aligned(4096)));
static uint8_t task_stack[2 * PAGE] __attribute__((aligned(4096)));
static uint8_t other_stack[PAGE] __attribute__((aligned(4096), used));
static volatile uint32_t directory[2][1024] __attribute__((aligned(4096)));
static volatile uint32_t table[2][1024] __attribute__((aligned(4096)));
static volatile uint64_t pointers[2][4] __attribute__((aligned(4096)));
static volatile uint64_t directory_pae[2][4][512] __attribute__((aligned(4096)));
static volatile uint64_t table_pae[2][512] __attribute__((aligned(4096)));

static uint64_t gdt[16] __attribute__((aligned(16), used)) = {
    0,
    0x00cf9b000000ffff,                 /* CODE */
    0x00cf93000000ffff,                 /* DATA */
    0x00cffb000000ffff,                 /* USER_CODE */
    0x00cff3000000ffff,                 /* USER_DATA */
};
static uint64_t idt[64] __attribute__((aligned(16)));
static volatile uint32_t tss[26] __attribute__((aligned(16)));
static volatile uint32_t task[26] __attribute__((aligned(16)));

static volatile uint64_t digest;
static volatile uint32_t interrupts, faults, after_fault, tasks, calls;
static volatile uint32_t *watched;
static uint32_t kernel_esp __attribute__((used));
static bool pae;

#define read_cr(name) ({                                                    \
    uint32_t value_;                                                        \
    asm volatile("mov %%" name ", %0" : "=r"(value_) : : "memory");         \
    value_;                                                                 \
})
#define write_cr(name, value) \
    asm volatile("mov %0, %%" name : : "r"((uint32_t)(value)) : "memory")

/* --- entry ------------------------------------------------------------------------ */

asm(".pushsection .note.pvh, \"a\", @note\n"
    "    .balign 4\n"
    "    .long 4, 4, 18\n"
    "    .asciz \"Xen\"\n"
    "    .long _start\n"
    ".popsection\n"
    ".globl _start\n"
    "_start:\n"
    "    cli\n"
    "    mov $stack + 16384, %esp\n"
    "    lgdt first_gdtr\n"
    "    ljmp $8, $1f\n"
    "first_gdtr:\n"
    "    .short 127\n"
    "    .long gdt\n"
    "1:  mov $0x10, %eax\n"
    "    mov %eax, %ds\n"
    "    mov %eax, %es\n"
    "    mov %eax, %ss\n"
    "    call run\n"
    ".balign 16\n"
    "vectors:\n"
    ".set n, 0\n"
    ".rept 64\n"
    "    .balign 16\n"
    "    .if n >= 32 || !((0x227d00 >> (n & 31)) & 1)\n"
    "    push $0\n"
    "    .endif\n"
    "    .byte 0x68\n"
    "    .long n\n"
    "    jmp entry\n"
    "    .set n, n + 1\n"
    ".endr\n"
    "entry:\n"
    "    pusha\n"
    "    push %ds\n"
    "    push %es\n"
    "    mov $0x10, %eax\n"
    "    mov %eax, %ds\n"
    "    mov %eax, %es\n"
    "    cld\n"
    "    push %esp\n"
    "    call exception\n"
    "    add $4, %esp\n"
    "    pop %es\n"
    "    pop %ds\n"
    "    popa\n"
    "    add $8, %esp\n"
    "    iret\n"
    "leave_user:\n"
    "    mov kernel_esp, %esp\n"
    "    popa\n"
    "    sti\n"
    "    ret\n"
    /* enter(eflags, cs, eip, ss, esp): as IRET to user mode, or virtual-8086 mode */
    "enter:\n"
    "    pusha\n"
    "    mov %esp, kernel_esp\n"
    "    lea 36(%esp), %ebx\n"
    "    push $0; push $0; push $0; push $0\n"      /* GS, FS, DS, ES of virtual-8086 mode */
    "    push 12(%ebx)\n"
    "    push 16(%ebx)\n"
    "    push 0(%ebx)\n"
    "    push 4(%ebx)\n"
    "    push 8(%ebx)\n"
    "    iret\n");

/* Another vCPU: from real mode to 32-bit mode without paging. */
asm(".code16\n"
    "trampoline:\n"
    "    cli\n"
    "    xor %ax, %ax\n"
    "    mov %ax, %ds\n"
    "    lgdtl 0x8000 + other_gdtr - trampoline\n"
    "    mov %cr0, %eax\n"
    "    or $1, %eax\n"
    "    mov %eax, %cr0\n"
    "    ljmpl $8, $other_start\n"
    "other_gdtr:\n"
    "    .short 127\n"
    "    .long gdt\n"
    "trampoline_end:\n"
    ".code32\n"
    "other_start:\n"
    "    mov $0x10, %eax\n"
    "    mov %eax, %ds\n"
    "    mov %eax, %es\n"
    "    mov %eax, %ss\n"
    "    mov $other_stack + 4096, %esp\n"
    "    call disturb\n");

extern void enter(uint32_t eflags, uint32_t cs, uint32_t eip, uint32_t ss, uint32_t esp);
extern void leave_user(void) __attribute__((noreturn));

void __attribute__((used)) exception(Frame *frame)
{
    digest = mix(digest, frame->vector);
    digest = mix(digest, frame->eip);
    digest = mix(digest, frame->eflags);
    digest = mix(digest, frame->ecx);
    if (frame->vector == TIMER) {
        interrupts++;
        digest = mix(digest, watched ? *watched : 0);
        APIC[0x380 / 4] = 2000;
        APIC[0xb0 / 4] = 0;
    } else if (frame->vector == CALL || frame->eflags & 1 << 17) {
        calls++;
        leave_user();
    } else {
        faults++;
        digest = mix(digest, frame->error);
        if (frame->vector == 14) {
            digest = mix(digest, read_cr("cr2"));
        }
        frame->eip = after_fault;
    }
}

#define MAY_FAULT(code) "movl $9f, after_fault;" code "; 9:"

static void report(const char *name, bool good)
{
    say(name);
    say_result(pae && good ? "-pae" : "", good, digest, 8);
}

/* --- tables of the processor --------------------------------------------------------- */

static void set_segment(unsigned selector, uint32_t base, uint64_t rest)
{
    gdt[selector / 8] = rest | (uint64_t)(base & 0xffffff) << 16 | (uint64_t)(base >> 24) << 56;
}

static void start_processor(void)
{
    extern char vectors[];
    struct __attribute__((packed)) { uint16_t limit; uint32_t base; } idtr;

    for (unsigned i = 0; i < 64; i++) {
        uint32_t at = (uint32_t)vectors + i * 16;

        idt[i] = (at & 0xffff) | CODE << 16 | (uint64_t)(at & 0xffff0000) << 32 |
                 (i == CALL ? 0xee00ull : 0x8e00ull) << 32;
    }
    idt[TASK_CALL] = (uint64_t)TASK << 16 | 0x8500ull << 32;
    idtr.limit = sizeof(idt) - 1;
    idtr.base = (uint32_t)idt;
    tss[1] = (uint32_t)kernel_stack + sizeof(kernel_stack);
    tss[2] = DATA;
    tss[25] = 104 << 16;
    set_segment(TSS, (uint32_t)tss, 0x0000890000000067);
    set_segment(TASK, (uint32_t)task, 0x0000890000000067);
    set_segment(CODE_OF_16, CODE_16, 0x00009b000000ffff);
    asm volatile("lidt %0; ltr %w1" : : "m"(idtr), "r"(TSS) : "memory");
    outb(0x21, 0xff);
    outb(0xa1, 0xff);
    APIC[0xf0 / 4] = 0x1ff;
    APIC[0x3e0 / 4] = 0xb;
    APIC[0x320 / 4] = TIMER;
    APIC[0x380 / 4] = 2000;
}

/* --- another vCPU --------------------------------------------------------------------- */

static volatile bool disturbs, has_stopped;
static volatile uint64_t seen;

/* Take all lines from @first to @last, by adding 0, and note what is there. */
static void take(volatile void *first, volatile void *last)
{
    for (uint32_t at = (uint32_t)first & -64u; at < (uint32_t)last; at += 64) {
        uint32_t value = 0;

        asm volatile("lock xadd %0, %1" : "+r"(value), "+m"(*(volatile uint32_t *)at) : :
                     "memory");
        seen = mix(seen, value);
    }
}

void __attribute__((used, noreturn)) disturb(void)
{
    while (disturbs) {
        take(gdt, &gdt[16]);
        take(&idt[TIMER], &idt[TASK_CALL + 1]);
        take(idt, &idt[16]);
        take(tss, &tss[26]);
        take(task, &task[26]);
        take(stack + sizeof(stack) - 512, stack + sizeof(stack));
        take(kernel_stack + sizeof(kernel_stack) - 256, kernel_stack + sizeof(kernel_stack));
        take(task_stack + sizeof(task_stack) - 256, task_stack + sizeof(task_stack));
        take((void *)(EDGE - 128), (void *)(EDGE + 128));
        take((void *)(STACK_16 - 64), (void *)(STACK_16 + 64));
        take(&table[0][96], &table[0][112]);
        take(&table_pae[0][96], &table_pae[0][104]);
    }
    has_stopped = true;
    for (;;) {
        asm volatile("cli; hlt");
    }
}

static void start_other(void)
{
    extern char trampoline[], trampoline_end[];

    for (unsigned i = 0; &trampoline[i] < trampoline_end; i++) {
        ((volatile char *)TRAMPOLINE)[i] = trampoline[i];
    }
    APIC[0x300 / 4] = INIT_OTHERS;
    for (uint64_t until = rdtsc() + 20000000; rdtsc() < until; ) {
        asm volatile("pause");
    }
    APIC[0x300 / 4] = START_OTHERS;
}

static void let_disturb(bool on)
{
    disturbs = on;
    if (N_OTHERS && on) {
        has_stopped = false;
        start_other();
    } else if (N_OTHERS) {
        while (!has_stopped) {
            asm volatile("pause");
        }
        digest = mix(digest, seen);
    }
}

/* --- page tables -------------------------------------------------------------------- */

static void make_tables(unsigned set)
{
    for (unsigned i = 0; i < 1024; i++) {
        directory[set][i] = i << 22 | P_LARGE | MAPPED | P_USER;
        table[set][i] = (PLAY + i * PAGE) | MAPPED | P_USER;
    }
    directory[set][PLAY >> 22] = (uint32_t)table[set] | MAPPED | P_USER;
    for (unsigned i = 0; i < 2048; i++) {
        directory_pae[set][i / 512][i % 512] = i << 21 | P_LARGE | MAPPED | P_USER;
    }
    for (unsigned i = 0; i < 512; i++) {
        table_pae[set][i] = (PLAY + i * PAGE) | MAPPED | P_USER;
    }
    directory_pae[set][0][PLAY >> 21] = (uint32_t)table_pae[set] | MAPPED | P_USER;
    for (unsigned i = 0; i < 4; i++) {
        pointers[set][i] = (uint32_t)directory_pae[set][i] | P_PRESENT;
    }
}

static uint32_t root(unsigned set)
{
    return pae ? (uint32_t)pointers[set] : (uint32_t)directory[set];
}

static uint32_t get(unsigned set, unsigned i)
{
    return pae ? table_pae[set][i] : table[set][i];
}

static void put_entry(unsigned set, unsigned i, uint32_t value)
{
    if (pae) {
        table_pae[set][i] = value;
    } else {
        table[set][i] = value;
    }
}

static void change(unsigned i, uint32_t value)
{
    put_entry(0, i, value);
    write_cr("cr3", root(0));
}

static volatile uint32_t *upper(uint32_t address)
{
    return pae ? (volatile uint32_t *)&directory_pae[0][address >> 30][address >> 21 & 511] :
                 &directory[0][address >> 22];
}

static volatile uint32_t *word(unsigned page)
{
    return (volatile uint32_t *)(PLAY + page * PAGE);
}

static void start_paging(bool with_pae)
{
    asm volatile("cli");
    write_cr("cr0", read_cr("cr0") & ~0x80000000u);
    pae = with_pae;
    write_cr("cr4", pae ? 0x620 : 0x610);       /* PAE or PSE */
    write_cr("cr3", root(0));
    write_cr("cr0", read_cr("cr0") | 0x80010023u);
    asm volatile("sti");
}

static void test_flags(void)
{
    void (*call)(void) = (void *)PLAY;
    bool good = true;

    *(volatile uint8_t *)PLAY = 0xc3;
    watched = pae ? (volatile uint32_t *)&table_pae[0][1] : &table[0][1];
    for (unsigned i = 0; i < 1000; i++) {
        volatile uint32_t *large = upper(LARGE), *play = upper(PLAY);

        change(0, get(0, 0) & ~(P_A | P_D));
        call();
        good &= (get(0, 0) & (P_A | P_D)) == P_A;
        *play &= ~P_A;
        *large &= ~(P_A | P_D);
        change(1, get(0, 1) & ~(P_A | P_D));
        digest = mix(digest, word(1)[0]);
        good &= (get(0, 1) & (P_A | P_D)) == P_A && *play & P_A;
        word(1)[0] = i;
        good &= (get(0, 1) & (P_A | P_D)) == (P_A | P_D);
        digest = mix(digest, *(volatile uint32_t *)(LARGE + i * 8));
        good &= (*large & (P_A | P_D)) == P_A;
        *(volatile uint32_t *)(LARGE + i * 4) = i;
        good &= (*large & (P_A | P_D)) == (P_A | P_D);
    }
    watched = 0;
    report("flags", good);
}

static void test_bases(void)
{
    bool good = true;

    put_entry(1, 3, get(0, 4));
    word(3)[0] = 1;
    word(4)[0] = 2;
    for (unsigned i = 0; i < 1000; i++) {
        unsigned set = i % 3 == 1;

        write_cr("cr3", root(set));
        good &= word(3)[0] == 1 + set;
        if (i % 8 == 0) {
            write_cr("cr4", read_cr("cr4") ^ 1 << 7);
        }
    }
    write_cr("cr3", root(0));
    report("bases", good);
}

/* Change entries without a flush; two entries lie in one word of eight bytes. */
static void test_stale(void)
{
    word(6)[0] = 6;
    word(7)[0] = 7;
    for (unsigned i = 0; i < 1000; i++) {
        put_entry(0, 8 + i % 2, (PLAY + (6 + i / 2 % 2) * PAGE) | MAPPED);
        digest = mix(digest, word(8)[0]);
        digest = mix(digest, word(9)[0]);
        word(8)[1] = i;
    }
    change(8, (PLAY + 8 * PAGE) | MAPPED);
    change(9, (PLAY + 9 * PAGE) | MAPPED);
    report("stale", true);
}

static void touch(volatile uint32_t *at)
{
    asm volatile(MAY_FAULT("movl (%0), %%eax; incl (%0)") : : "r"(at) : "eax", "memory", "cc");
}

static void test_faults(void)
{
    uint32_t before = faults;

    for (unsigned i = 0; i < 600; i++) {
        if (i % 6 == 3) {
            write_cr("cr0", read_cr("cr0") & ~0x10000);         /* WP */
        }
        change(11, (PLAY + 11 * PAGE) | (i % 3 == 0 ? MAPPED & ~P_WRITE : i % 3 == 1 ? P_A :
                                         P_PRESENT | P_WRITE));
        touch(word(11));
        write_cr("cr0", read_cr("cr0") | 0x10000);
        digest = mix(digest, get(0, 11));
    }
    change(11, (PLAY + 11 * PAGE) | MAPPED);
    report("faults", faults == before + 300);
}

/* The directory maps itself, and the guest changes its tables there. */
static void test_recursion(void)
{
    bool good = true;
    volatile uint32_t *window = (volatile uint32_t *)0xff800000;

    if (pae) {
        for (unsigned i = 0; i < 4; i++) {
            directory_pae[0][3][508 + i] = (uint32_t)directory_pae[0][i] | MAPPED;
        }
        window = (volatile uint32_t *)(0xff800000 + (PLAY >> 21) * PAGE);
    } else {
        directory[0][1022] = (uint32_t)directory[0] | MAPPED;
        window += (PLAY >> 22) * 1024;
    }
    write_cr("cr3", root(0));
    word(12)[0] = 12;
    word(13)[0] = 13;
    for (unsigned i = 0; i < 500; i++) {
        window[14 << pae] = (PLAY + (12 + i % 2) * PAGE) | MAPPED;
        asm volatile("invlpg (%0)" : : "r"(word(14)) : "memory");
        good &= word(14)[0] == 12 + i % 2;
        digest = mix(digest, window[14 << pae] ^ *upper(0xff800000 + (PLAY >> 22) * PAGE));
        *upper(PLAY) &= ~P_A;
    }
    change(14, (PLAY + 14 * PAGE) | MAPPED);
    report("recursion", good);
}

/* Forbid execution, and forbid the bit that forbids it, without a flush. */
static void test_execution(void)
{
    void (*call)(void) = (void *)PLAY;
    uint32_t before = faults;

    table_pae[0][0] |= 1ull << 63;
    for (unsigned i = 0; i < 300; i++) {
        write_msr(0xc0000080, i & 1 ? 0x800 : 0);
        asm volatile(MAY_FAULT("movl (%0), %%eax") : : "r"(PLAY) : "eax", "memory");
        asm volatile("mov %%esp, %%esi;" MAY_FAULT("call *%0") "mov %%esi, %%esp" : : "r"(call) :
                     "esi", "memory");
    }
    table_pae[0][0] &= ~(1ull << 63);
    write_cr("cr3", root(0));
    report("execution", faults >= before + 150);      /* QEMU alone flushes nothing */
}

/* --- instructions of 32 bits ---------------------------------------------------------- */

static void test_instructions(void)
{
    uint32_t before = faults;
    static const int32_t limits[2] = { 1, 5 };

    for (unsigned i = 0; i < 300; i++) {
        uint32_t at = EDGE + i % 40, result;

        change(99, (EDGE - PAGE) | (i & 1 ? MAPPED : MAPPED & ~(P_A | P_D)));
        asm volatile("mov %%esp, %%esi; cli; mov %1, %%esp; pusha; popa; pushaw; popaw;"
                     "lea 40(%%esp), %%ebp; enter $8, $4; leave; pushfl; popfl;"
                     "push %%ds; pop %%ds;"
                     "mov %%esi, %%esp; sti; mov %%esp, %0" : "=r"(result) : "r"(at) :
                     "esi", "ebp", "memory", "cc");
        asm volatile(MAY_FAULT("mov $0x7fffffff, %%eax; add $1, %%eax; into")
                     MAY_FAULT("bound %0, (%1)") : : "r"(i % 8), "r"(limits) :
                     "eax", "memory", "cc");
        asm volatile("mov %1, %%eax; aaa; das; aam; aad; xlat; .byte 0xd6; mov %%eax, %0"
                     : "=r"(result) : "r"(i), "b"(PLAY) : "eax", "memory", "cc");
        digest = mix(digest, result);
        asm volatile(MAY_FAULT("lds (%0), %%eax; les 3(%0), %%eax") : : "r"(at) : "eax", "memory");
        asm volatile("mov %0, %%ds; mov %0, %%es" : : "r"(DATA) : "memory");
        digest = mix(digest, get(0, 99));
    }
    report("instructions", faults > before + 300);
}

/* 16-bit code in a segment of its own, with a stack that wraps, and in virtual-8086 mode. */
asm("code_16:\n"
    ".code16\n"
    "    push %ax\n"
    "    pusha\n"
    "    mov $3, %cx\n"
    "1:  incw (%bx)\n"
    "    loop 1b\n"
    "    popa\n"
    "    pop %ax\n"
    "    lretl\n"
    "code_vm86:\n"
    "    mov $50, %cx\n"
    "1:  pusha\n"
    "    lodsw\n"
    "    stosw\n"
    "    xor %ax, %ax\n"
    "    mov %ax, %ds\n"
    "    popa\n"
    "    loop 1b\n"
    "    hlt\n"
    "code_16_end:\n"
    ".code32\n");

static void test_16(void)
{
    extern uint8_t code_16[], code_vm86[], code_16_end[];
    uint32_t before = calls;
    static struct __attribute__((packed)) { uint32_t offset; uint16_t selector; } far;

    for (unsigned i = 0; &code_16[i] < code_16_end; i++) {
        ((volatile uint8_t *)CODE_16)[i] = code_16[i];
    }
    far.offset = 0;
    far.selector = CODE_OF_16;
    for (unsigned i = 0; i < 300; i++) {
        asm volatile("lcall *%0" : : "m"(far), "b"(0xb000) : "memory", "cc");
        digest = mix(digest, *(volatile uint16_t *)0xb000);
        enter(0x20202, CODE_16 >> 4, code_vm86 - code_16, STACK_16 >> 4, i % 64);
    }
    report("code-16", calls == before + 300 && *(volatile uint16_t *)0xb000 >= 900);
}

/* --- gates and tasks -------------------------------------------------------------------- */

asm("gate_entry:\n"
    "    mov 8(%esp), %eax\n"
    "    add 12(%esp), %eax\n"
    "    lret $8\n"
    "user_begin:\n"
    "    mov $0x23, %eax\n"
    "    mov %eax, %ds\n"
    "    mov %eax, %es\n"
    "    mov $10, %esi\n"
    "1:  push $40\n"
    "    push $2\n"
    "    lcall $0x3b, $0\n"
    "    lsl %ax, %ecx\n"
    "    pusha\n"
    "    popa\n"
    "    dec %esi\n"
    "    jnz 1b\n"
    "    int $0x31\n"
    "user_end:\n"
    "task_entry:\n"
    "    incl tasks\n"
    "    pusha\n"
    "    popa\n"
    "    iret\n"
    "    jmp task_entry\n");

static void test_gates(void)
{
    extern uint8_t gate_entry[], user_begin[], user_end[];
    uint32_t before = calls, at = (uint32_t)gate_entry;

    gdt[GATE / 8] = (at & 0xffff) | CODE << 16 | 0xec02ull << 32 | (uint64_t)(at >> 16) << 48;
    for (unsigned i = 0; &user_begin[i] < user_end; i++) {
        ((volatile uint8_t *)word(20))[i] = user_begin[i];
    }
    for (unsigned i = 0; i < 200; i++) {
        enter(0x202, USER_CODE, (uint32_t)word(20), USER_DATA, (uint32_t)word(22) + i % 16);
        digest = mix(digest, calls);
    }
    report("gates", calls == before + 200);
}

static void test_tasks(void)
{
    extern uint8_t task_entry[];
    bool good = true;

    for (unsigned i = 0; i < 200; i++) {
        bool carry;

        task[1] = 0;
        task[7] = root(i & 1);
        task[8] = (uint32_t)task_entry;
        task[9] = i & 2 ? 0x202 : 2;
        task[14] = (uint32_t)task_stack + sizeof(task_stack) - i % 64;
        task[18] = task[20] = task[21] = DATA;
        task[19] = CODE;
        task[22] = task[23] = task[24] = 0;
        tss[7] = root(0);
        /* Each task has flags of its own. */
        if (i % 3) {
            asm volatile("stc; lcall $0x30, $0; setc %0" : "=q"(carry) : : "memory", "cc");
        } else {
            asm volatile("stc; int $0x32; setc %0" : "=q"(carry) : : "memory", "cc");
        }
        good &= carry && !(task[9] & 1) && !!(task[9] & 0x10) == !(tasks & 15);
        digest = mix(digest, task[9]);
        digest = mix(digest, tss[8]);
    }
    report("tasks", good && tasks % 200 == 0);
}

void __attribute__((used)) run(void)
{
    make_tables(0);
    make_tables(1);
    start_processor();
    for (unsigned i = 0; i < 2; i++) {
        start_paging(i);
        test_flags();
        test_bases();
        test_stale();
        test_faults();
        test_recursion();
        if (pae) {
            test_execution();
        }
        let_disturb(true);
        test_instructions();
        test_16();
        test_gates();
        test_tasks();
        let_disturb(false);
    }
    asm volatile("cli");
    pae = false;
    digest = interrupts;
    report("interrupts", interrupts > 100);
    asm volatile("cli");
    outw(SHUTDOWN, 0x2000);
    for (;;) {
        asm volatile("hlt");
    }
}
