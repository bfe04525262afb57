/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which device stores are output on the guest's console.
 */
#ifndef RECORDER_CONSOLE_H
#define RECORDER_CONSOLE_H

#include "exec/hwaddr.h"
#include "recording/manifest.h"

/* The UART of a recording.  All zero: there is none.  The thread that makes the store uses it. */
typedef struct Console {
    hwaddr address;             /* of the data register */
    bool is_16550;
    bool sets_rate;             /* the 16550's data register is that of its bit rate now */
} Console;

void console_init(Console *console, const Manifest *manifest);
/* Return true if a store of @value to @address is a byte of output. */
bool console_shows(Console *console, hwaddr address, uint64_t value);

#endif
