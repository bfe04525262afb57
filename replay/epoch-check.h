/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Compares a replay with its recording at the end of each epoch.  Main thread, BQL held.
 */
#ifndef REPLAY_EPOCH_CHECK_H
#define REPLAY_EPOCH_CHECK_H

#include "qapi/error.h"

/*
 * Open the epochs of the recording in @directory, which player.manifest describes; if it has none,
 * nothing will be compared.  With @follow, it is still being made, and must have epochs.  The
 * machine is at the checkpoint where replay begins.  Return false and set @errp on failure.
 */
bool epoch_check_open(const char *directory, bool follow, Error **errp);
/* Called when the vCPUs are attached: they stop where they are, and then at each epoch. */
void epoch_check_begin(void);
/* End that.  May be called at any time. */
void epoch_check_close(void);
/*
 * Let the guest of a standby go on live behind the last epoch that the recorder has written, once
 * replay is there.  @released: see standby_go_live().  Return false and set @errp if this is no
 * standby, or the recorder still runs.
 */
bool epoch_check_take_over(uint64_t released, Error **errp);
/* Return the number of the epoch that is being replayed.  Any thread, while vCPUs run. */
uint64_t epoch_check_current(void);
/* Return how many epochs were compared in this replay or the last one. */
uint64_t epoch_check_compared(void);

#endif
