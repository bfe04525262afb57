/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Let the whole machine stand still for a moment: vCPUs, clocks and devices.  Main thread, BQL
 * held.
 */
#ifndef RECORDER_STAND_STILL_H
#define RECORDER_STAND_STILL_H

/* Stop a machine that runs, so that the state of all devices can be saved. */
void recorder_stand_still(void);
void recorder_go_on(void);

#endif
