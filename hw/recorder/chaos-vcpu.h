/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random disturbances of vCPUs, for tests (protocol/chaos.h).
 */
#ifndef RECORDER_CHAOS_VCPU_H
#define RECORDER_CHAOS_VCPU_H

#include "hw/recorder/vcpu.h"
#include "protocol/chaos.h"

/* Do at random what may happen at a boundary at any time.  Recording or replaying. */
void recorder_chaos_slow(CPUState *cpu);
/* Sleep for a moment, at random. */
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
