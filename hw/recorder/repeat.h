/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Many iterations of REP MOVS and REP STOS at once: repeat-x86.c.  Part of recorder.h.
 */
#ifndef RECORDER_REPEAT_H
#define RECORDER_REPEAT_H

#include "hw/core/cpu.h"

/* What is repeated. */
typedef struct RecorderRepeat {
    vaddr to;                   /* where the next iteration stores */
    vaddr from;                 /* where it loads, if @moves */
    uint64_t value;             /* what it stores, if not; the low bytes */
    uint64_t left;              /* iterations, at least one */
    unsigned size;              /* of an element: 1, 2, 4 or 8 */
    int mmu_idx;
    bool moves;
    bool checked;               /* generated code looks at the L1 (CF_RECORD) */
} RecorderRepeat;

/*
 * Make and charge as many iterations as generated code could without an event: all accesses hit,
 * the budget lasts, and the last iteration is left.  Return how many.
 */
uint64_t recorder_repeat(CPUState *cpu, const RecorderRepeat *repeat);

#endif
