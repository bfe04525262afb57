/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * TLBs, of which recording and replay may differ.
 */
#ifndef RECORDER_TLB_H
#define RECORDER_TLB_H

#include "hw/core/cpu.h"

/* Forget translations, as if others had taken their place: a random one, or an MMU index. */
void recorder_evict(CPUState *cpu, bool all);

#endif
