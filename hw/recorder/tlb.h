/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sizes and evictions of TLBs, in which recording and replay may differ.
 */
#ifndef RECORDER_TLB_H
#define RECORDER_TLB_H

#include "hw/core/cpu.h"

/*
 * Evict a random entry of the vCPU's TLB, as if another entry took its place; if @all, all entries
 * of one MMU index.  In the vCPU's thread.
 */
void recorder_evict(CPUState *cpu, bool all);

#endif
