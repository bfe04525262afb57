/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A stop that nobody is told of: no event goes to QMP, and nothing is flushed to disks.  A client
 * would take a guest that has many checkpoints for paused all the time.
 *
 * The order is that of QEMU's own stop and start.  Requests that disks have begun are completed:
 * their writes to memory are steps of DMA, like others.
 */
#include "qemu/osdep.h"
#include "block/block.h"
#include "hw/core/cpu.h"
#include "qemu/seqlock.h"
#include "system/cpu-timers.h"
#include "system/cpu-timers-internal.h"
#include "system/cpus.h"
#include "system/runstate.h"

#include "hw/recorder/stand-still.h"

static void nothing(CPUState *cpu, run_on_cpu_data data)
{
}

static bool finish_work(void)
{
    bool was_some = false;
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        if (!cpu_work_list_empty(cpu)) {
            run_on_cpu(cpu, nothing, RUN_ON_CPU_NULL);
            was_some = true;
        }
    }
    return was_some;
}

void recorder_finish_work(void)
{
    while (finish_work()) {
    }
}

void recorder_stop_clocks(RecorderClocks *clocks)
{
    *clocks = (RecorderClocks) {
        .were_running = timers_state.cpu_ticks_enabled,
        .ticks = timers_state.cpu_ticks_offset,
        .ns = timers_state.cpu_clock_offset,
    };
    cpu_disable_ticks();
}

void recorder_restart_clocks(const RecorderClocks *clocks)
{
    if (!clocks->were_running) {
        return;
    }
    seqlock_write_lock(&timers_state.vm_clock_seqlock, &timers_state.vm_clock_lock);
    timers_state.cpu_ticks_offset = clocks->ticks;
    timers_state.cpu_clock_offset = clocks->ns;
    timers_state.cpu_ticks_enabled = 1;
    seqlock_write_unlock(&timers_state.vm_clock_seqlock, &timers_state.vm_clock_lock);
}

void recorder_stand_still(void)
{
    runstate_set(RUN_STATE_PAUSED);
    cpu_disable_ticks();
    pause_all_vcpus();
    vm_state_notify(false, RUN_STATE_PAUSED);
    bdrv_drain_all();
}

void recorder_go_on(void)
{
    cpu_enable_ticks();
    runstate_set(RUN_STATE_RUNNING);
    vm_state_notify(true, RUN_STATE_RUNNING);
    resume_all_vcpus();
}
