/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checkpoints that are made while recording, after the first.  Main thread, BQL held.
 */
#ifndef RECORDER_CHECKPOINTER_H
#define RECORDER_CHECKPOINTER_H

#include "recording/checkpoint-position.h"
#include "recording/log-writer.h"
#include "recording/manifest.h"

/*
 * Begin to make checkpoints every @interval_s seconds (0: only on request), and to keep the last
 * @keep_s seconds (0: all).  The other arguments must live until recorder_checkpointer_stop().
 */
void recorder_checkpointer_start(const char *directory, int directory_fd, Manifest *manifest,
                                 LogWriter *writer, double interval_s, double keep_s);
/* End that.  Wait until the last checkpoint is on disk. */
void recorder_checkpointer_stop(void);

/*
 * Make a checkpoint now.  Return its name, which the caller frees, or NULL with @errp set.  The
 * event RECORDER_CHECKPOINT is sent when the checkpoint is on disk.
 */
char *recorder_checkpoint(Error **errp);

/*
 * Return how far everybody is, to be freed by the caller: a place where a replay can begin or stop.
 * All vCPUs are at a boundary, and recorder_dma_hold() keeps devices from writing.
 */
CheckpointPosition *recorder_position_now(LogWriter *writer);

#endif
