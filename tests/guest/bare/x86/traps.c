/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without an operating system that lets deliveries fault, nest and cross pages, steps
 * through code, and enters its kernel by every gate, on one vCPU, while timer interrupts come all
 * the time.  It ends with a triple fault.
 *
 * Each test mixes what it sees into a digest, as in one.c.
 */
#include "gates.h"

#define EDGE        (PLAY + 33 * PAGE)  /* stacks of tests end here */
#define BELOW       32                  /* the entry of the page below */
#define UNUSED_CODE 0x50                /* a descriptor whose accessed flag is clear */
#define UNUSED_DATA 0x58
#define EXTERNAL_VECTOR 0x30            /* from the PIC */
#define SELF        0x40000             /* the shorthand of the APIC's command */
#define SELF_NMI    (SELF | 0x4400)
#define SELF_START  (SELF | 0x4600 | 8)
#define TF          0x100
#define RF          0x10000

enum { ON_TIMER = 1, ON_FAULT, ON_DOUBLE, ON_NMI, ON_STEP };

static uint8_t stacks[6][2 * PAGE] __attribute__((aligned(PAGE)));
static uint64_t table[32] __attribute__((aligned(64)));
static volatile uint64_t doubles, lost, steps, nmis, depth, deepest;

static void let_stack(unsigned vector, unsigned number)
{
    idt[vector].low = (idt[vector].low & ~(7ul << 32)) | (uint64_t)number << 32;
}

static void start_stacks(void)
{
    for (unsigned i = 1; i < 6; i++) {
        tss[7 + i * 2] = (uint64_t)stacks[i] + sizeof(stacks[i]);
    }
    let_stack(TIMER_VECTOR, ON_TIMER);
    let_stack(8, ON_DOUBLE);
    let_stack(NMI_VECTOR, ON_NMI);
}

static void start_table(void)
{
    TableRegister gdtr = { sizeof(table) - 1, (uint64_t)table };

    for (unsigned i = 0; i < 7; i++) {
        table[i] = gdt[i];
    }
    table[UNUSED_CODE / 8] = 0x00cffa000000ffff;
    table[UNUSED_DATA / 8] = 0x00cff2000000ffff;
    asm volatile("lgdt %0" : : "m"(gdtr) : "memory");
}

static void end_interrupt(void)
{
    APIC[APIC_COUNT] = 2000;
    APIC[APIC_EOI] = 0;
}

static void mix_frame(const Frame *frame)
{
    digest = mix(digest, frame->vector);
    digest = mix(digest, frame->error);
    digest = mix(digest, frame->rip);
    digest = mix(digest, frame->rsp);
    digest = mix(digest, frame->rflags);
    digest = mix(digest, read_cr("cr2"));
}

/* --- deliveries that fault ----------------------------------------------------------- */

/* Raise #UD, or #DE, with the stack pointer @rsp. */
static void raise_at(uint64_t rsp, bool divide)
{
    asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; mov %%rsp, %%r8; mov %1, %%rsp;"
                 "test %%cl, %%cl; jnz 2f; ud2; 2: xor %%ecx, %%ecx; div %%ecx; 1: mov %%r8, %%rsp"
                 : "=m"(after_fault) : "r"(rsp), "c"(divide), "d"(0) :
                 "rax", "r8", "memory", "cc");
}

/* Frames that cross a line, and a page whose flags the pushes set. */
static void test_split(void)
{
    uint64_t pte = level1[BELOW], before = faults;
    bool good = true;

    watched = &level1[BELOW];
    for (uint64_t i = 0; i < 400; i++) {
        if (i & 1) {
            change(&level1[BELOW], pte & ~(PTE_A | PTE_D));
        }
        raise_at(EDGE + i % 13 * 8, i & 2);
        good &= level1[BELOW] == pte;
    }
    watched = 0;
    report("split", good && faults == before + 400);
}

/* Bring the page below back, and let the instruction run again, or skip it. */
static bool bring_back(Frame *frame)
{
    if (frame->vector != 14 && frame->vector != 8) {
        return false;
    }
    mix_frame(frame);
    doubles += frame->vector == 8;
    if (frame->vector == 8) {
        frame->rip = after_fault;
    }
    change(&level1[BELOW], (EDGE - PAGE) | MAPPED);
    return true;
}

/* The lower page is not there: a fault in a delivery, on another stack, or a double fault. */
static void test_absent(void)
{
    uint64_t before = faults;

    hook = bring_back;
    for (uint64_t i = 0; i < 300; i++) {
        let_stack(14, i % 3 ? ON_FAULT : 0);
        change(&level1[BELOW], 0);
        raise_at(EDGE + i % 6 * 8, i & 4);
    }
    let_stack(14, 0);
    hook = 0;
    report("absent", doubles == 100 && faults == before + 200);
}

/* A fault while an interrupt is delivered: the interrupt is lost. */
static bool lose_interrupt(Frame *frame)
{
    if (frame->vector != 14) {
        return false;
    }
    mix_frame(frame);
    lost++;
    change(&level1[BELOW], (EDGE - PAGE) | MAPPED);
    end_interrupt();
    return true;
}

static void test_lost(void)
{
    uint64_t before = interrupts;

    let_stack(14, ON_FAULT);
    let_stack(TIMER_VECTOR, 0);
    hook = lose_interrupt;
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t was = lost;

        asm volatile("cli" : : : "memory");
        change(&level1[BELOW], 0);
        asm volatile("mov %%rsp, %%r8; mov %0, %%rsp; sti; 1: pause; cmp %1, %2; je 1b;"
                     "cli; mov %%r8, %%rsp; sti" : : "r"(EDGE + i % 3 * 8), "r"(was), "m"(lost) :
                     "r8", "memory", "cc");
    }
    hook = 0;
    let_stack(TIMER_VECTOR, ON_TIMER);
    let_stack(14, 0);
    report("lost", lost == 200 && interrupts >= before);
}

/* A fault in the handler of a fault, several deep. */
static bool fault_again(Frame *frame)
{
    uint64_t after = after_fault;

    if (frame->vector != 14) {
        return false;
    }
    mix_frame(frame);
    if (++depth > deepest) {
        deepest = depth;
    }
    if (depth < 5) {
        asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; sti; mov %1, %%rax; mov (%%rax), %%rax;"
                     "1: cli" : "=m"(after_fault) : "r"(0x7fff00000000 + depth * 64) :
                     "rax", "memory");
    }
    depth--;
    frame->rip = after;
    return true;
}

static void test_nested(void)
{
    hook = fault_again;
    for (int i = 0; i < 200; i++) {
        asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; mov 0x7fff00000000, %%rax; 1:"
                     : "=m"(after_fault) : : "rax", "memory");
    }
    hook = 0;
    report("nested", deepest == 5 && depth == 0);
}

/* Send the next NMI from the handler, where it must wait for IRET; faults come there as well. */
static bool count_nmi(Frame *frame)
{
    if (frame->vector != NMI_VECTOR) {
        return false;
    }
    mix_frame(frame);
    nmis++;
    if (++depth > deepest) {
        deepest = depth;
    }
    if (nmis % 10) {
        APIC[APIC_COMMAND] = SELF_NMI;
    }
    for (int i = 0; i < 20; i++) {
        digest = mix(digest, i);
    }
    depth--;
    return true;
}

static void test_nmis(void)
{
    depth = deepest = 0;
    hook = count_nmi;
    for (uint64_t i = 0; i < 50; i++) {
        APIC[APIC_COMMAND] = SELF_NMI;
        while (nmis < (i + 1) * 10) {
            asm volatile("pause");
        }
    }
    hook = 0;
    report("nmis", nmis == 500 && deepest == 1);
}

/* --- one instruction at a time ------------------------------------------------------- */

static bool count_step(Frame *frame)
{
    uint64_t why;

    if (frame->vector == 3) {
        mix_frame(frame);
        return true;
    }
    if (frame->vector != 1) {
        return false;
    }
    asm volatile("mov %%dr6, %0; mov %1, %%dr6" : "=&r"(why) : "r"(0ul));
    digest = mix(digest, why);
    mix_frame(frame);
    digest = mix(digest, frame->rcx);
    steps++;
    return true;
}

#define STEPPED(code) \
    "pushfq; orq $0x100, (%%rsp); popfq;" code "; pushfq; andq $~0x100, (%%rsp); popfq"

static void test_steps(void)
{
    uint64_t each = 0;
    bool good = true;

    hook = count_step;
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t to = BUFFER, from = BUFFER + BLOCK, n = 7, before = steps, selector;

        asm volatile(STEPPED("rep movsb; nop; hlt; nop; mov %%ss, %3; mov %3, %%ss; nop;"
                             "cli; sti; nop; lock incl (%%rsp); decl (%%rsp); cpuid")
                     : "+D"(to), "+S"(from), "+c"(n), "=&r"(selector) :
                     "a"(0) : "rbx", "rdx", "memory", "cc");
        n = 3;
        asm volatile(STEPPED("1: repne scasb; pause; dec %%ebx; jnz 1b; int3; rdtsc;"
                             "in $0x40, %%al")
                     : "+D"(to), "+c"(n) : "a"(1), "b"(3) : "rdx", "memory", "cc");
        if (i == 0) {
            each = steps - before;
        }
        good &= steps - before == each;
    }
    hook = 0;
    report("steps", good && each > 30);
}

/* --- debug registers ------------------------------------------------------------ */

static bool hit(Frame *frame)
{
    if (!count_step(frame)) {
        return false;
    }
    frame->rflags |= RF;                /* and the instruction runs */
    return true;
}

static void set_points(uint64_t control)
{
    asm volatile("mov %0, %%dr7" : : "r"(control) : "memory");
}

static void test_points(void)
{
    uint64_t exact = 0, count = 0, at;

    hook = hit;
    asm volatile("lea point(%%rip), %0; mov %0, %%dr0; lea point_of_rep(%%rip), %0; mov %0, %%dr1"
                 : "=&r"(at) : : "memory");
    asm volatile("mov %0, %%dr2" : : "r"(0x43ul));
    write_cr("cr4", read_cr("cr4") | 8);        /* DE */
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t to = BUFFER, n = 5, before = steps;

        /* QEMU sets RF when it delivers an interrupt, and a point there does not hit. */
        if (i & 8) {
            asm volatile("cli" : : : "memory");
        }
        set_points(i % 4 == 0 ? 0 : i % 4 == 1 ? 2 : 0x0200002a);
        asm volatile("point: inc %0; point_of_rep: rep stosb; outb %%al, $0x43; nop"
                     : "+r"(count), "+D"(to), "+c"(n) : "a"(0) : "memory", "cc");
        exact += i & 8 ? steps - before : 0;
        asm volatile("sti" : : : "memory");
    }
    set_points(0);
    hook = 0;
    report("points", count == 200 && exact == 24 + 48 * 3);
}

/* --- gates and segments ------------------------------------------------------------ */

USER_OF_GATES(20,
    "    mov $0x58, %ecx\n"
    "    mov %ecx, %fs\n"
    "    mov %ecx, %gs\n"
    "    lsl %ecx, %esi\n"
    "    lar %ecx, %edi\n"
    "    add %edi, %esi\n"
    "    verr %cx\n"
    "    setz %al\n"
    "    verw %cx\n"
    "    adc %esi, %eax\n"
    "    mov $0x08, %ecx\n"             /* the kernel's: not allowed */
    "    lsl %ecx, %esi\n"
    "    verr %cx\n"
    "    mov $0x123, %ecx\n"            /* behind the table's end */
    "    lar %ecx, %esi\n"
    "    mov %fs, %ecx\n");

static void test_gates(void)
{
    unsigned entries = start_gates(table);
    uint64_t accessed = 1ul << 40;
    bool good = true;

    watched = &table[UNUSED_DATA / 8];
    for (int i = 0; i < 200; i++) {
        ((volatile uint64_t *)table)[UNUSED_DATA / 8] &= ~accessed;
        good &= run_as_user(USER) == 42;
        good &= !!(table[UNUSED_DATA / 8] & accessed);
    }
    watched = 0;
    digest = mix(digest, gate_calls);
    report("gates", good && gate_calls == entries * 4000);
}

/* Segments with bases, in the kernel. */
static void test_segments(void)
{
    bool good = true;

    for (uint64_t i = 0; i < 300; i++) {
        uint64_t base = PLAY + i * 8, value, limit, rights;

        table[UNUSED_DATA / 8] = 0x0040f2000000ffff | (base & 0xffffff) << 16;
        asm volatile("mov %0, %%fs; mov %0, %%gs" : : "r"(UNUSED_DATA) : "memory");
        good &= read_msr(0xc0000100) == base;
        *(volatile uint64_t *)base = i;
        asm volatile("mov %%gs:0, %0" : "=r"(value) : : "memory");
        good &= value == i;
        write_msr(0xc0000102, base + 1);
        asm volatile("swapgs; mov %%gs:-1, %0; swapgs" : "=r"(value) : : "memory");
        good &= value == i;
        asm volatile("lsl %2, %0; lar %2, %1" : "=&r"(limit), "=&r"(rights)
                     : "r"((uint64_t)UNUSED_DATA) : "cc");
        digest = mix(mix(digest, limit), rights);
        asm volatile("mov %0, %%fs; mov %0, %%gs" : : "r"(0) : "memory");
    }
    report("segments", good);
}

/* --- inputs ------------------------------------------------------------ */

static volatile uint64_t external;

static bool count_external(Frame *frame)
{
    if (frame->vector != EXTERNAL_VECTOR) {
        return false;
    }
    mix_frame(frame);
    external++;
    outb(0x20, 0x20);
    return true;
}

/* The PIT interrupts through the PIC; the ACPI timer and the PIT are read. */
static void test_pit(void)
{
    hook = count_external;
    outb(0x20, 0x11);
    outb(0x21, EXTERNAL_VECTOR);
    outb(0x21, 4);
    outb(0x21, 1);
    outb(0x21, 0xfe);
    outb(0x43, 0x34);
    outb(0x40, 1193 & 0xff);            /* every millisecond */
    outb(0x40, 1193 >> 8);
    APIC[0x350 / 4] = 0x700;            /* LINT0: from the PIC */
    while (external < 30) {
        digest = mix(digest, inl(0x608));
        outb(0x43, 0);
        digest = mix(digest, inb(0x40));
        digest = mix(digest, inb(0x40));
        asm volatile("hlt");
    }
    outb(0x21, 0xff);
    APIC[0x350 / 4] = 0x10700;
    hook = 0;
    report("pit", true);
}

/* A vCPU that does not wait for it ignores a start. */
static void test_start(void)
{
    for (int i = 0; i < 100; i++) {
        APIC[APIC_COMMAND] = SELF_START;
        digest = mix(digest, rdtsc());
    }
    report("start", true);
}

static bool serve_x2apic(Frame *frame)
{
    if (frame->vector != TIMER_VECTOR && frame->vector != IPI_VECTOR) {
        return false;
    }
    interrupts++;
    mix_frame(frame);
    if (frame->vector == TIMER_VECTOR) {
        write_msr(0x838, 2000);
    }
    write_msr(0x80b, 0);
    return true;
}

static void read_bad_msr(uint32_t number)
{
    asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; rdmsr; 1:" : "=m"(after_fault) : "c"(number)
                 : "rax", "rdx", "memory");
}

static void write_bad_msr(uint32_t number, uint32_t value)
{
    asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; mov %2, %%eax; xor %%edx, %%edx; wrmsr; 1:"
                 : "=m"(after_fault) : "c"(number), "r"(value) : "rax", "rdx", "memory");
}

/* The guest does not come back from this mode, which would disable the APIC. */
static void test_x2apic(void)
{
    uint64_t before = faults, was = interrupts;

    if (cpuid(1).c >> 21 & 1) {
        asm volatile("cli");
        hook = serve_x2apic;
        write_msr(0x1b, read_msr(0x1b) | 1 << 10);
        asm volatile("sti");
        for (int i = 0; i < 200; i++) {
            digest = mix(digest, read_msr(0x802));
            digest = mix(digest, read_msr(0x839));
            write_msr(0x83f, IPI_VECTOR);
            write_msr(0x808, i & 1);
            read_bad_msr(0x8ff);
            write_bad_msr(0x802, i);
        }
    } else {
        faults += 400;
        interrupts += 200;
    }
    report("x2apic", faults == before + 400 && interrupts >= was + 200);
}

void __attribute__((used)) run(void)
{
    TableRegister nothing = { 0, 0 };

    start_processor();
    start_stacks();
    start_table();
    map_play_by_pages();
    start_interrupts();
    test_split();
    test_absent();
    test_lost();
    test_nested();
    test_nmis();
    test_steps();
    test_points();
    test_gates();
    test_segments();
    test_pit();
    test_start();
    test_x2apic();
    digest = interrupts;
    report("interrupts", interrupts > 200);
    asm volatile("lidt %0; ud2" : : "m"(nothing));
}
