/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A guest without an operating system that sets a data breakpoint, which cannot be recorded. */
#include "pc.h"

void __attribute__((used)) run(void)
{
    start_processor();
    start_interrupts();
    report("before", true);
    asm volatile("mov %0, %%dr0; mov %1, %%dr7" : : "r"(&digest), "r"(0x10002ul) : "memory");
    digest = 1;
    report("after", true);
    power_off();
}
