/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Steps that run again, in parallel or exclusively.  The vCPU's thread; recording only.
 */
#ifndef RECORDER_EXCLUSIVE_H
#define RECORDER_EXCLUSIVE_H

#include "hw/core/cpu.h"

/*
 * Longjmp to run the restored instruction again, or to make the delivery again, with no boundary
 * before it.
 */
G_NORETURN void recorder_run_step_again(CPUState *cpu);
/* The same, while no other vCPU runs: then all lines are granted at once. */
G_NORETURN void recorder_run_exclusively(CPUState *cpu);

#endif
