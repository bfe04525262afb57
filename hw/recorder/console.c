/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See console.h.
 */
#include "qemu/osdep.h"

#include "hw/recorder/console.h"

/* The line control register of a 16550, and its bit that shows the divisor's registers. */
#define LINE_CONTROL 3
#define DIVISOR_LATCH 0x80

void console_init(Console *console, const Manifest *manifest)
{
    *console = (Console) {
        .address = manifest->console_address,
        .is_16550 = g_strcmp0(manifest->console, "16550") == 0,
    };
}

/*
 * If a debugger goes back in time, @sets_rate is wrong until the next store to the line control
 * register.  Guests store to it before they set the rate, and after that.
 */
bool console_shows(Console *console, hwaddr address, uint64_t value)
{
    if (console->is_16550 && address == console->address + LINE_CONTROL) {
        console->sets_rate = value & DIVISOR_LATCH;
    }
    return console->address && address == console->address && !console->sets_rate;
}
