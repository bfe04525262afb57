/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Epochs: while recording, all of the guest's memory is compared with itself at short intervals.
 * Main thread, BQL held.
 */
#ifndef RECORDER_EPOCHS_H
#define RECORDER_EPOCHS_H

#include "recording/log-writer.h"

/*
 * Begin to end an epoch every @interval_ms, @with_devices so that a standby can go on from there.
 * The directory is open as @directory_fd, and has no epochs yet; it and the writer must live until
 * recorder_epochs_stop().  Return false and set @errp on failure.
 */
bool recorder_epochs_start(const char *directory, int directory_fd, LogWriter *writer,
                           unsigned interval_ms, bool with_devices, Error **errp);
/* The guest has been paused, vCPUs stand still: end the epoch, so that all it did can be seen. */
void recorder_epochs_paused(void);
/* End that, once the last epoch is on disk. */
void recorder_epochs_stop(void);
/* The first output of this epoch is held: end it within 50 ms of its begin (Respec, 4.1). */
void recorder_epochs_has_output(void);
/* Wait until the last epoch that has ended is written, and tell clients of it. */
void recorder_epochs_settle(void);
/* Remove what a standby would need of all epochs.  Also after the stop. */
void recorder_epochs_forget_states(void);
/* Return the number of the epoch that has not ended yet. */
uint64_t recorder_epochs_current(void);
/* Return how many epochs were written; 0 also if there are none. */
uint64_t recorder_epochs_written(void);

#endif
