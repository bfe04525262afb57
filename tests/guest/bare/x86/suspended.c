/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A guest without an operating system that suspends to RAM.  Woken up, it starts anew. */
#include "pc.h"

#define SLEEP       (0x2000 | 1 << 10)
#define CMOS        0x70                /* its bytes outlive a reset */
#define MARK        0x50

static uint8_t take_mark(void)
{
    uint8_t mark;

    outb(CMOS, MARK);
    mark = inb(CMOS + 1);
    outb(CMOS, MARK);
    outb(CMOS + 1, !mark);
    return mark;
}

void __attribute__((used)) run(void)
{
    start_processor();
    start_interrupts();
    if (take_mark()) {
        report("woken-up", true);
        power_off();
    }
    report("suspended", true);
    outw(SHUTDOWN, SLEEP);
    for (;;) {
        asm volatile("hlt");
    }
}
