/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Logs the episodes of the orders other than FDR's: Karma's and Rerun's (protocol/karma.c,
 * rerun.c).  With FDR alone nothing happens here.
 */
#ifndef RECORDER_EPISODES_H
#define RECORDER_EPISODES_H

#include "protocol/sphere.h"
#include "recording/log-writer.h"
#include "recording/orders.h"
#include "recording/position.h"

/* For the sphere: log an episode in the LogStream @log. */
void recorder_log_karma(void *log, const KarmaClosed *closed);
void recorder_log_rerun(void *log, const RerunClosed *closed);

/*
 * Log episodes of @sphere with @writer, from now until recorder_episodes_stop().  Main thread, no
 * vCPU runs.
 */
void recorder_episodes_start(LogWriter *writer, Sphere *sphere, const Orders *orders);
void recorder_episodes_stop(void);

/* Return where an episode of @processor should end; UINT64_MAX: nowhere.  Its own thread. */
Position recorder_episode_limit(const Processor *processor);
/*
 * End and log episodes of a vCPU that reach their largest size within @room more steps, and all if
 * the log writer wants what is old.  Its own thread, at a boundary where replay can stop.
 */
void recorder_episodes_boundary(Processor *processor, LogStream *log, Position position,
                                Position room);

/*
 * End all episodes, and log a barrier if the recording goes on: a checkpoint.  All vCPUs stand
 * still at @point, devices do not write.  Main thread.
 */
void recorder_episodes_cut(const Point *point, Position dma_steps, bool goes_on);

/* Return how many edges or episodes the first order has, for the manifest.  Main thread. */
uint64_t recorder_episode_edges(void);

#endif
