/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What chance does to a vCPU between two of its steps, if a test wants that: see chaos.h.
 *
 * All of it may happen there at any time in any case, if rarely: translations are dropped, since
 * the TLB is small or another vCPU changed a table; somebody wants the vCPU to look up; the host
 * lets another thread run.  Runs in the vCPU's own thread.
 */
#include "qemu/osdep.h"
#include "hw/core/cpu.h"

#include "hw/recorder/chaos-vcpu.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/tlb.h"
#include "hw/recorder/vcpu.h"
#include "protocol/chaos.h"

static void kick_others(CPUState *cpu)
{
    CPUState *other;

    CPU_FOREACH(other) {
        if (other != cpu && chaos_one_in(&cpu->recorder->random, 2)) {
            recorder_kick(other);
        }
    }
}

void recorder_nap_slow(RecorderVcpu *v)
{
    if (chaos_one_in(&v->random, chaos.nap)) {
        g_usleep(chaos_up_to(&v->random, chaos.nap_us));
    }
}

void recorder_chaos_slow(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    if (recorder_recording() && chaos_one_in(&v->random, chaos.drop_all)) {
        v->translations.flush_due = true;
    }
    if (chaos_one_in(&v->random, chaos.evict)) {
        recorder_evict(cpu, false);
    }
    if (chaos_one_in(&v->random, chaos.evict_all)) {
        recorder_evict(cpu, true);
    }
    if (chaos_one_in(&v->random, chaos.kick)) {
        kick_others(cpu);
    }
    recorder_nap(v);
}
