/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checks, while a recording is replayed, that copies are coherent: that each translation in a
 * vCPU's TLB, and each block of code that it finds without a walk, is what a fresh walk of memory
 * gives.  For developers; it is slow, and changes nothing that the guest can see.
 */
#ifndef REPLAY_PARANOID_H
#define REPLAY_PARANOID_H

#include "hw/core/cpu.h"
#include "hw/recorder/recorder.h"

/* What was compared, on all vCPUs. */
typedef struct ParanoidCounts {
    uint64_t checks;
    uint64_t translations;
    uint64_t blocks;
} ParanoidCounts;

/*
 * Begin and end; main thread, all vCPUs stopped.  recorder_translations_start() comes before.
 * @interval: in steps of a vCPU; 1: at every boundary.
 */
void paranoid_start(uint64_t interval);
/* Return false if there were no checks. */
bool paranoid_end(ParanoidCounts *counts);

/* In the vCPU's thread, at a boundary, when all events at its position are applied. */
void paranoid_check_slow(CPUState *cpu);

static inline void paranoid_check(CPUState *cpu)
{
    if (unlikely(recorder_paranoid)) {
        paranoid_check_slow(cpu);
    }
}

/* Return true if a test wants stale translations: then a DROP is not applied. */
bool paranoid_ignores_drops(void);

#endif
