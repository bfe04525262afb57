/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A standby: a replay that follows a recording (epoch-check.h) on a machine with the recorded
 * devices, and goes on with the guest when the recorder has died.  Main thread, BQL held, unless
 * said otherwise.
 */
#ifndef REPLAY_STANDBY_H
#define REPLAY_STANDBY_H

#include "qapi/error.h"

/*
 * Let this machine answer nobody until it goes live.  player.manifest describes the recording in
 * @directory.  Return false and set @errp if it is of another machine, was not made for a standby,
 * or another standby has taken over.
 */
bool standby_open(const char *directory, Error **errp);
/* End that.  May be called at any time. */
void standby_close(void);
/* Keep a byte that the guest writes to its console.  A vCPU's thread. */
void standby_keep(uint8_t byte);
/*
 * Go on with the guest from the end of epoch @number, where the replay is.  Write first what it
 * wrote to its console in epochs behind @released.  Send RECORDER_LIVE; if that is not possible,
 * end the replay as one that has diverged.
 */
void standby_go_live(uint64_t number, uint64_t released);

#endif
