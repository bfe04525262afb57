/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What chaos (protocol/chaos.h) does to vCPUs.
 */
#ifndef RECORDER_CHAOS_VCPU_H
#define RECORDER_CHAOS_VCPU_H

#include "hw/recorder/vcpu.h"
#include "protocol/chaos.h"

/* Between two steps, recording or replaying: what may happen there at any time. */
void recorder_chaos_slow(CPUState *cpu);
/* The vCPU sleeps for a moment, perhaps. */
void recorder_nap_slow(RecorderVcpu *v);

static inline void recorder_chaos(CPUState *cpu)
{
    if (unlikely(chaos.seed)) {
        recorder_chaos_slow(cpu);
    }
}

static inline void recorder_nap(RecorderVcpu *v)
{
    if (unlikely(chaos.nap)) {
        recorder_nap_slow(v);
    }
}

#endif
