/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Let the whole machine stand still for a moment: vCPUs, clocks and devices.  Main thread, BQL
 * held.
 */
#ifndef RECORDER_STAND_STILL_H
#define RECORDER_STAND_STILL_H

/*
 * Let vCPUs that are stopped do the work that is queued for them: one that ran for longer may have
 * queued it for one that had stopped.  PSCI turns a vCPU on so.  No saved state has such work, so a
 * guest that goes on from there would wait for that vCPU for ever.
 */
void recorder_finish_work(void);
/* Clocks that were stopped: how they were before. */
typedef struct RecorderClocks {
    bool were_running;
    int64_t ticks, ns;          /* their distances to the host's clocks */
} RecorderClocks;

/*
 * Stop the clocks that a saved state has, and let them go on as if they had not been stopped.  QEMU
 * saves the distance to the host's clock, if it runs: a value that no other process can use.
 */
void recorder_stop_clocks(RecorderClocks *clocks);
void recorder_restart_clocks(const RecorderClocks *clocks);
/* Stop a machine that runs, so that the state of all devices can be saved. */
void recorder_stand_still(void);
void recorder_go_on(void);

#endif
