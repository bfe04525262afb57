/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checkpoints that are made while recording, after the first.
 */
#ifndef RECORDER_CHECKPOINTER_H
#define RECORDER_CHECKPOINTER_H

#include "recording/log-writer.h"
#include "recording/manifest.h"

void recorder_checkpointer_start(const char *directory, int directory_fd, Manifest *manifest,
                                 LogWriter *writer, double interval_s, double keep_s);
/* Waits until the last one is on disk. */
void recorder_checkpointer_stop(void);

/* One more, now: its name, to be freed.  RECORDER_CHECKPOINT is sent when it is on disk. */
char *recorder_checkpoint(Error **errp);

#endif
