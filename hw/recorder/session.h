/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Start and stop of a recording; main thread, big lock held.
 */
#ifndef RECORDER_SESSION_H
#define RECORDER_SESSION_H

#include "hw/recorder/position.h"

/*
 * Records into @directory, which is new or empty, from now on.  A guest that
 * runs is paused for the checkpoint.
 */
bool recorder_start(const char *directory, Error **errp);
bool recorder_stop(bool pause, Error **errp);

/* Where the vCPUs are, or were a moment ago; zeros if nobody counts. */
void recorder_query_point(Point *point);

#endif
