/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is looked at now and then while a recording is made: its limits, its rate,
 * the space that is left on the disk.  Main thread, big lock held.
 */
#ifndef RECORDER_LIMITS_H
#define RECORDER_LIMITS_H

#include "qapi/qapi-types-recorder.h"

#include "hw/recorder/session.h"
#include "recording/log-writer.h"

/* The recording has begun.  @directory and @writer live until it ends. */
void recorder_limits_start(const char *directory, LogWriter *writer, const RecorderLimits *limits);
/* It has ended, like this. */
void recorder_limits_end(bool complete, const char *reason);

/* Adds what is known of the recording under way, and of the last one. */
void recorder_limits_query(RecorderInfo *info);

#endif
