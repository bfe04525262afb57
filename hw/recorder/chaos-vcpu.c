/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random disturbances of a vCPU at its boundaries, if a test wants them: see protocol/chaos.h.
 *
 * Each of them may happen there at any time anyway, if rarely.  Translations are dropped because
 * the TLB is small or another vCPU changed a table.  Another thread kicks the vCPU.  The host
 * preempts the vCPU's thread.
 *
 * All functions run in the vCPU's thread.
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
