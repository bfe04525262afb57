/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without an operating system that uses x87, MMX and SSE on memory which other vCPUs want,
 * too.  A store may change the status or the tags before it has to wait for its line, and nobody
 * may see that until it has run again.  Interrupt handlers note status and tags.
 */
#include "others.h"

#define AT      (PLAY + 28 * PAGE)      /* two lines that all vCPUs use */
#define ENOUGH  300                     /* interrupts of a test */

static volatile uint64_t interrupted;   /* how often vCPU 0 was */

static bool is_first(void)
{
    return APIC[0x20 / 4] >> 24 == 0;
}

/* Note status and tags of x87, and the status of SSE.  Then handle the interrupt as usual. */
static bool see_state(Frame *frame)
{
    struct {
        uint16_t control, status, tags, opcode;
        uint64_t ip, data;
        uint32_t sse;
        uint8_t rest[484];
    } area __attribute__((aligned(16)));

    if (is_first() && frame->vector == TIMER_VECTOR) {
        asm volatile("fxsave64 %0" : "=m"(area));
        digest = mix(digest, area.status | area.tags << 16 | (uint64_t)area.sse << 32);
        interrupted++;
    }
    return false;
}

static void want(unsigned other)
{
    take(other, (void *)AT, (void *)(AT + 128));
}

static void see(void)
{
    digest = mix(digest, *(volatile uint64_t *)AT);
}

/* Each store is inexact; before it, the status says that nothing was. */
static void test_x87(void)
{
    static const double third = 1.0 / 3;
    uint64_t enough = interrupted + ENOUGH;

    let_others(want);
    for (unsigned i = 0; interrupted < enough; i++) {
        asm volatile("fninit; fldl %0; fnclex; fsts (%1); fnclex; fists 8(%1);"
                     "fnclex; fistl 16(%1); fld %%st(0); fnclex; fistpll 64(%1);"
                     "fld %%st(0); fnclex; fstps 12(%1);"
                     "fld %%st(0); fnclex; fstpl 72(%1); fld %%st(0); fnclex; fistps 10(%1);"
                     "fnclex; fadds (%1); fnclex; fiadds 8(%1); fildll 64(%1); fbstp 80(%1);"
                     "fnclex; fstpt 100(%1); fninit" : : "m"(third), "r"(AT + i % 3) : "memory");
        see();
    }
    stop_others();
    report("x87", true);
}

/* Each instruction finds all tags empty. */
static void test_mmx(void)
{
    uint64_t enough = interrupted + ENOUGH;

    let_others(want);
    for (unsigned i = 0; interrupted < enough; i++) {
        asm volatile("emms; movq (%0), %%mm0; emms; movd 64(%0), %%mm1; emms; paddb 8(%0), %%mm0;"
                     "emms; movq %%mm0, 16(%0); emms; movd %%mm1, 72(%0); emms; movntq %%mm0, (%1);"
                     "emms; cvtpi2ps 80(%0), %%xmm0; emms; cvttps2pi 24(%0), %%mm3;"
                     "emms; pshufw $3, 88(%0), %%mm4; emms; pinsrw $2, 96(%0), %%mm4;"
                     "emms; movdq2q %%xmm0, %%mm2; movq %%mm2, 32(%0); emms;"
                     "lea 40(%0), %%rdi; maskmovq %%mm0, %%mm1; emms" : :
                     "r"(AT + i % 3), "r"(AT + 112) : "rdi", "memory");
        see();
    }
    stop_others();
    report("mmx", true);
}

static void set_status_of_sse(uint32_t status)
{
    asm volatile("ldmxcsr %0" : : "m"(status));
}

/* The same of SSE: operations with memory, and the one that computes what it stores. */
static void test_sse(void)
{
    static const float thirds[4] __attribute__((aligned(16))) = { 1.0f / 3, 2.0f / 3, 5e7f, 1e-9f };
    bool converts = cpuid(1).c >> 29 & 1 && cpuid(1).c >> 26 & 1;
    uint64_t enough = interrupted + ENOUGH;

    if (converts) {
        write_cr("cr4", read_cr("cr4") | 1 << 18);
        asm volatile("xsetbv" : : "a"(7), "d"(0), "c"(0));
    }
    let_others(want);
    for (unsigned i = 0; interrupted < enough; i++) {
        asm volatile("movups %0, %%xmm0" : : "m"(thirds));
        set_status_of_sse(0x1f80);
        if (converts) {
            asm volatile("vcvtps2ph $0, %%xmm0, (%0)" : : "r"(AT + i % 3) : "memory");
            set_status_of_sse(0x1f80);
        }
        asm volatile("addss 64(%0), %%xmm0; cvtss2si 72(%0), %%eax; stmxcsr 80(%0)" : :
                     "r"(AT + i % 3) : "rax", "memory");
        see();
    }
    set_status_of_sse(0x1f80);
    stop_others();
    report("sse", true);
}

void __attribute__((used)) run(void)
{
    start_processor();
    map_play_by_pages();
    hook = see_state;
    start_interrupts();
    others = N_OTHERS;
    start_others();
    test_x87();
    test_mmx();
    test_sse();
    digest = interrupts;
    report("interrupts", interrupts > 0);
    power_off();
}
