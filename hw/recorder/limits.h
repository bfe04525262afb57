/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Periodic checks of a recording: limits, rate, free space on the disk.  Main thread, BQL held.
 */
#ifndef RECORDER_LIMITS_H
#define RECORDER_LIMITS_H

#include "qapi/qapi-types-recorder.h"

#include "hw/recorder/session.h"
#include "recording/log-writer.h"

/*
 * Begin the checks of a recording.  @directory and @writer must live until recorder_limits_end().
 */
void recorder_limits_start(const char *directory, LogWriter *writer, const RecorderLimits *limits);
/* End the checks.  Keep how the recording ended, for recorder_limits_query(). */
void recorder_limits_end(bool complete, const char *reason);

/* Add what is known of the current recording, and of the last one. */
void recorder_limits_query(RecorderInfo *info);

#endif
