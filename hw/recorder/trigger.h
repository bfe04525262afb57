/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What ends the recording of a flight recorder.
 */
#ifndef RECORDER_TRIGGER_H
#define RECORDER_TRIGGER_H

#include "exec/hwaddr.h"

void recorder_trigger_set(hwaddr console);
void recorder_trigger_clear(void);
/* Has the guest said so?  Then the recording is about to end. */
bool recorder_trigger_panicked(void);
/* A vCPU stores to a device. */
void recorder_trigger_console(hwaddr address, uint64_t value);

#endif
