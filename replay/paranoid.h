/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checks, while a recording is replayed, that copies of memory are coherent: each translation in a
 * vCPU's TLB, and each TB that the vCPU finds without a page walk, must be what a fresh walk of
 * memory gives.  For developers: checks are slow, and change nothing that the guest can see.
 */
#ifndef REPLAY_PARANOID_H
#define REPLAY_PARANOID_H

#include "hw/core/cpu.h"
#include "hw/recorder/recorder.h"

/* How much was compared, of all vCPUs. */
typedef struct ParanoidCounts {
    uint64_t checks;            /* calls that compared a vCPU's copies */
    uint64_t translations;
    uint64_t blocks;            /* TBs */
} ParanoidCounts;

/*
 * Start checks, every @interval steps of a vCPU; 1: at every boundary.  Main thread, all vCPUs
 * stopped, after recorder_translations_start().
 */
void paranoid_start(uint64_t interval);
/* End checks and set *@counts.  Return false if none were started.  Threads as paranoid_start(). */
bool paranoid_end(ParanoidCounts *counts);

/*
 * Compare @cpu's copies with memory if a check is due, and report a divergence.  The vCPU thread,
 * at a boundary, after all events at its position are applied.
 */
void paranoid_check_slow(CPUState *cpu);

static inline void paranoid_check(CPUState *cpu)
{
    if (unlikely(recorder_paranoid)) {
        paranoid_check_slow(cpu);
    }
}

/* Return true if a test wants stale translations.  Then the player does not apply DROPs. */
bool paranoid_ignores_drops(void);

#endif
