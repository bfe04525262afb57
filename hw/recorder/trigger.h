/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What ends the recording of a flight recorder.  Main thread, BQL held, unless said otherwise.
 */
#ifndef RECORDER_TRIGGER_H
#define RECORDER_TRIGGER_H

#include "exec/hwaddr.h"
#include "recording/manifest.h"

/* Arm the triggers.  @manifest tells which console the guest has. */
void recorder_trigger_set(const Manifest *manifest);
void recorder_trigger_clear(void);
/* Return true if the guest has panicked, so that the recording is about to end. */
bool recorder_trigger_panicked(void);
/*
 * Search the console's output for a panic: a vCPU stores @value to a device at @address.  Called in
 * the vCPU's thread, with the BQL held.
 */
void recorder_trigger_console(hwaddr address, uint64_t value);

#endif
