/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What x86_64 guests without an operating system share: entry, page tables, interrupts, exceptions,
 * user mode and console.
 *
 * For machines q35 and pc.  A guest is linked at 2 MiB and started with `-kernel`, through its PVH
 * note, in 32-bit mode.  It runs in long mode, at the lowest privilege level.  The first 4 GiB are
 * mapped to themselves, and again at the top of the address space.  The guest defines run().
 */
#ifndef PC_H
#define PC_H

#include "io.h"

#define PAGE        4096
#define BLOCK       0x200000ul
#define PLAY        0x800000ul          /* a block that is mapped by pages, which tests remap */
#define USER        (PLAY + 7 * PAGE)   /* code of user mode */
#define BUFFER      0x1000000ul
#define BUFFER_SIZE (2 * BLOCK)
#define HIGH        0xffffff8000000000ul    /* where memory is mapped again */

#define PTE_PRESENT 1ul
#define PTE_WRITE   2ul
#define PTE_USER    4ul
#define PTE_A       (1ul << 5)
#define PTE_D       (1ul << 6)
#define PTE_LARGE   (1ul << 7)
#define PTE_NX      (1ul << 63)
#define MAPPED      (PTE_PRESENT | PTE_WRITE | PTE_A | PTE_D)

#define APIC        ((volatile uint32_t *)0xfee00000)
#define APIC_EOI    (0xb0 / 4)
#define APIC_SVR    (0xf0 / 4)
#define APIC_COMMAND (0x300 / 4)        /* to another vCPU */
#define APIC_TIMER  (0x320 / 4)
#define APIC_COUNT  (0x380 / 4)
#define APIC_DIVIDE (0x3e0 / 4)

#define CODE        0x08
#define DATA        0x10
#define USER_DATA   0x1b
#define USER_CODE   0x23
#define TSS         0x28
#define NMI_VECTOR      2
#define TIMER_VECTOR    0x40
#define IPI_VECTOR      0x41            /* from another vCPU */
#define CALL_VECTOR     0x80            /* user mode returns from run_as_user() */

static uint64_t level4[512] __attribute__((aligned(PAGE), used));
static uint64_t level3[512] __attribute__((aligned(PAGE), used));
static uint64_t level2[4][512] __attribute__((aligned(PAGE), used));
static volatile uint64_t level1[512] __attribute__((aligned(PAGE)));
static uint8_t stack[16 * PAGE] __attribute__((aligned(PAGE), used));
static uint8_t interrupt_stack[PAGE] __attribute__((aligned(PAGE), used));

static volatile uint64_t *watched;      /* a word that the interrupt handler reads; NULL: none */
static volatile uint64_t digest, interrupts, faults;
static volatile uint64_t after_fault;   /* where to go on after a fault */

#define read_cr(name) ({                                                    \
    uint64_t value_;                                                        \
    asm volatile("mov %%" name ", %0" : "=r"(value_) : : "memory");         \
    value_;                                                                 \
})
#define write_cr(name, value) \
    asm volatile("mov %0, %%" name : : "r"((uint64_t)(value)) : "memory")

/* --- exceptions ------------------------------------------------------------------ */

/* What entry() has pushed: registers, the vector, and what the processor pushes. */
typedef struct Frame {
    uint64_t r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax;
    uint64_t vector, error, rip, cs, rflags, rsp, ss;
} Frame;

asm(".balign 16\n"
    "vectors:\n"
    ".set n, 0\n"
    ".rept 256\n"
    "    .balign 16\n"
    "    .if n >= 32\n"
    "    push $0\n"
    "    .elseif !((0x227d00 >> n) & 1)\n"     /* the processor pushes no error code */
    "    push $0\n"
    "    .endif\n"
    "    .byte 0x68\n"                 /* push $n */
    "    .long n\n"
    "    jmp entry\n"
    "    .set n, n + 1\n"
    ".endr\n"
    "entry:\n"
    "    push %rax; push %rcx; push %rdx; push %rsi; push %rdi\n"
    "    push %r8; push %r9; push %r10; push %r11\n"
    "    mov %rsp, %rdi\n"
    "    cld\n"
    "    call exception\n"
    "    pop %r11; pop %r10; pop %r9; pop %r8\n"
    "    pop %rdi; pop %rsi; pop %rdx; pop %rcx; pop %rax\n"
    "    add $16, %rsp\n"
    "    iretq\n"
    "run_as_user:\n"
    "    push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
    "    mov %rsp, kernel_rsp(%rip)\n"
    "    pushq $0x1b\n"
    "    pushq $0\n"
    "    pushq $0x202\n"
    "    pushq $0x23\n"
    "    push %rdi\n"
    "    iretq\n"
    "back_in_kernel:\n"
    "    mov kernel_rsp(%rip), %rsp\n"
    "    pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
    "    sti\n"
    "    ret\n"
    "syscall_entry:\n"
    "    mov kernel_rsp(%rip), %rsp\n"
    "    incq calls(%rip)\n"
    "    cmp $2, %rdi\n"
    "    je back_in_kernel\n"
    "    sysretq\n");

static uint64_t kernel_rsp __attribute__((used));
static volatile uint64_t calls __attribute__((used));

/* A test may handle interrupts and faults itself: then this returns true. */
static bool (*volatile hook)(Frame *frame);

/* Handle an interrupt or a fault.  A fault is counted, and the guest goes on at after_fault. */
void __attribute__((used)) exception(Frame *frame)
{
    extern char back_in_kernel[];

    if (hook && hook(frame)) {
        return;
    }
    if (frame->vector == TIMER_VECTOR || frame->vector == IPI_VECTOR ||
        frame->vector == NMI_VECTOR) {
        interrupts++;
        digest = mix(digest, frame->rip);
        digest = mix(digest, frame->rcx);
        digest = mix(digest, frame->rflags);
        digest = mix(digest, watched ? *watched : 0);
        if (frame->vector == TIMER_VECTOR) {
            APIC[APIC_COUNT] = 2000;
        }
        if (frame->vector != NMI_VECTOR) {
            APIC[APIC_EOI] = 0;
        }
    } else if (frame->vector == CALL_VECTOR) {
        frame->rip = (uint64_t)back_in_kernel;
        frame->cs = CODE;
        frame->ss = DATA;
        frame->rsp = (uint64_t)interrupt_stack + PAGE;
    } else {
        faults++;
        digest = mix(digest, frame->vector);
        digest = mix(digest, frame->error);
        digest = mix(digest, frame->rflags);
        digest = mix(digest, frame->rip);
        if (frame->vector == 14) {
            digest = mix(digest, read_cr("cr2"));
        }
        frame->rip = after_fault;
    }
}

/* --- tables of the processor ------------------------------------------------------- */

static uint64_t gdt[24] __attribute__((aligned(16), used)) = {
    0,
    0x00af9b000000ffff,                 /* CODE */
    0x00cf93000000ffff,                 /* DATA */
    0x00cff3000000ffff,                 /* USER_DATA */
    0x00affb000000ffff,                 /* USER_CODE */
};

static struct { uint64_t low, high; } idt[256] __attribute__((aligned(16)));
static uint32_t tss[26] __attribute__((aligned(16)));

typedef struct __attribute__((packed)) TableRegister {
    uint16_t limit;
    uint64_t base;
} TableRegister;

static inline void set_vectors(void)
{
    extern char vectors[];

    for (unsigned i = 0; i < 256; i++) {
        uint64_t address = (uint64_t)vectors + i * 16;

        idt[i].low = (address & 0xffff) | CODE << 16 | (address & 0xffff0000) << 32 |
                     (i == CALL_VECTOR ? 0xee00ul : 0x8e00ul) << 32;
        idt[i].high = address >> 32;
    }
}

static inline void load_vectors(void)
{
    TableRegister idtr = { sizeof(idt) - 1, (uint64_t)idt };

    asm volatile("lidt %0" : : "m"(idtr) : "memory");
}

static inline void start_processor(void)
{
    TableRegister gdtr = { sizeof(gdt) - 1, (uint64_t)gdt };
    uint64_t base = (uint64_t)tss, top = (uint64_t)interrupt_stack + PAGE;

    set_vectors();
    tss[1] = top;
    tss[2] = top >> 32;
    gdt[5] = 0x0000890000000067 | (base & 0xffffff) << 16 | (base >> 24 & 0xff) << 56;
    gdt[6] = base >> 32;
    load_vectors();
    asm volatile("lgdt %0; ltr %w1" : : "m"(gdtr), "r"(TSS) : "memory");
}

static inline void start_timer(void)
{
    APIC[APIC_SVR] = 0x1ff;
    APIC[APIC_DIVIDE] = 0xb;
    APIC[APIC_TIMER] = TIMER_VECTOR;
    APIC[APIC_COUNT] = 2000;
    asm volatile("sti");
}

static inline void start_interrupts(void)
{
    outb(0x21, 0xff);
    outb(0xa1, 0xff);
    start_timer();
}

static inline void map_play_by_pages(void)
{
    for (unsigned i = 0; i < 512; i++) {
        level1[i] = (PLAY + i * PAGE) | MAPPED;
    }
    level2[0][PLAY / BLOCK] = (uint64_t)level1 | MAPPED | PTE_USER;
    write_cr("cr3", level4);
}

static inline void change(volatile uint64_t *pte, uint64_t value)
{
    *pte = value;
    write_cr("cr3", level4);
}

/* --- user mode --------------------------------------------------------------------- */

/* Return what @address, run in user mode, leaves in RAX. */
extern uint64_t run_as_user(uint64_t address);

/* Let user mode run @code at USER, and call the kernel. */
static inline void put_user_code(const uint8_t *code, unsigned size)
{
    extern char syscall_entry[];

    write_msr(0xc0000081, (uint64_t)(DATA | 3) << 48 | (uint64_t)CODE << 32);
    write_msr(0xc0000082, (uint64_t)syscall_entry);
    write_msr(0xc0000084, 0x200);
    for (unsigned i = 0; i < size; i++) {
        ((volatile uint8_t *)USER)[i] = code[i];
    }
    change(&level1[7], level1[7] | PTE_USER);
}

/* --- console ---------------------------------------------------------------------- */

static inline void report(const char *name, bool good)
{
    say_result(name, good, digest, 16);
}

static inline void power_off(void)
{
    outw(SHUTDOWN, 0x2000);
    outw(0xb004, 0x2000);               /* pc */
    for (;;) {
        asm volatile("cli; hlt");
    }
}

/* --- entry --------------------------------------------------------------------------- */

asm(".pushsection .note.pvh, \"a\", @note\n"
    "    .balign 4\n"
    "    .long 4, 4, 18\n"
    "    .asciz \"Xen\"\n"
    "    .long _start\n"
    ".popsection\n"
    ".pushsection .text.start, \"ax\"\n"
    ".code32\n"
    ".globl _start\n"
    "_start:\n"
    "    cli\n"
    "    mov $level3, %eax\n"
    "    or $7, %eax\n"
    "    mov %eax, level4\n"
    "    mov %eax, level4 + 511 * 8\n"
    "    mov $level2, %eax\n"
    "    or $7, %eax\n"
    "    xor %ecx, %ecx\n"
    "1:  mov %eax, level3(,%ecx,8)\n"
    "    add $4096, %eax\n"
    "    inc %ecx\n"
    "    cmp $4, %ecx\n"
    "    jne 1b\n"
    "    mov $0xe3, %eax\n"             /* present, writable, accessed, dirty, large */
    "    xor %ecx, %ecx\n"
    "1:  mov %eax, level2(,%ecx,8)\n"
    "    add $0x200000, %eax\n"
    "    inc %ecx\n"
    "    cmp $2048, %ecx\n"
    "    jne 1b\n"
    "    mov $level4, %eax\n"
    "    mov %eax, %cr3\n"
    "    mov %cr4, %eax\n"
    "    or $0x620, %eax\n"             /* PAE, OSFXSR, OSXMMEXCPT */
    "    mov %eax, %cr4\n"
    "    mov $0xc0000080, %ecx\n"       /* EFER: SCE, LME, NXE */
    "    rdmsr\n"
    "    or $0x901, %eax\n"
    "    wrmsr\n"
    "    mov %cr0, %eax\n"
    "    and $~4, %eax\n"               /* no emulation of floating point */
    "    or $0x80010022, %eax\n"        /* PG, WP, NE, MP */
    "    mov %eax, %cr0\n"
    "    lgdt first_gdtr\n"
    "    ljmp $8, $1f\n"
    "first_gdtr:\n"
    "    .short 63\n"
    "    .long gdt, 0\n"
    ".code64\n"
    "1:  mov $0x10, %eax\n"
    "    mov %eax, %ds\n"
    "    mov %eax, %es\n"
    "    mov %eax, %ss\n"
    "    xor %eax, %eax\n"
    "    mov %eax, %fs\n"
    "    mov %eax, %gs\n"
    "    mov $stack + 65536, %rsp\n"
    "    call run\n"
    ".popsection\n");

#endif
