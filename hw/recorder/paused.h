/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registers that are changed, not by the guest, while the guest is paused.
 */
#ifndef RECORDER_PAUSED_H
#define RECORDER_PAUSED_H

#include "hw/core/cpu.h"

#include "recording/registers.h"

/* Keep the registers of all vCPUs as the guest left them: the guest was just paused. */
void recorder_paused(void);
/* Forget those registers: the vCPUs are about to run. */
void recorder_goes_on(void);
/* Return true if registers were changed, not by the guest: then the recording is about to end. */
bool recorder_check_registers(void);
/*
 * Stop @cpu and end the recording: a work item has changed its registers, which were @before.  In
 * the vCPU's thread.
 */
void recorder_work_changed(CPUState *cpu, const Registers *before);

#endif
