/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registers that somebody changes while the guest is paused.
 */
#ifndef RECORDER_PAUSED_H
#define RECORDER_PAUSED_H

#include "hw/core/cpu.h"

#include "recording/registers.h"

/* The guest is paused, or goes on. */
void recorder_paused(void);
void recorder_goes_on(void);
/* True if somebody has changed registers meanwhile, so that the recording is about to end. */
bool recorder_check_registers(void);
/* Work that was queued for @cpu has changed them.  In its thread. */
void recorder_work_changed(CPUState *cpu, const Registers *before);

#endif
