/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Logs closed episodes of Karma and Rerun: for the live recorder and the converter of recordings.
 * Called where log_episode() and log_stamped() may be (log-writer.h).
 */
#ifndef RECORDING_EPISODE_LOG_H
#define RECORDING_EPISODE_LOG_H

#include "recording/karma-episodes.h"
#include "recording/log-writer.h"
#include "recording/rerun-episodes.h"

void episode_log_karma(LogStream *stream, const KarmaClosed *closed);
void episode_log_rerun(LogStream *stream, const RerunClosed *closed);

#endif
