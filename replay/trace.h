/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Digests of a replay, to be compared with those of another: logs of their own.  Main thread, all
 * vCPUs stopped.
 */
#ifndef REPLAY_TRACE_H
#define REPLAY_TRACE_H

#include "hw/recorder/recorder-internal.h"
#include "replay/player.h"

/* From now on, each of the vCPUs @v logs digests. */
bool trace_start(const PlayerTrace *trace, RecorderVcpu *v[], unsigned n_vcpus, Error **errp);
/* After the last vCPU, if there was one. */
void trace_end(void);
/* As if its process had died, if it was not ended. */
void trace_drop(void);

#endif
