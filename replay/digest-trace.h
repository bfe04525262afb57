/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Digests of a replay, to be compared with those of another: logs of their own.  Main thread, all
 * vCPUs stopped.
 */
#ifndef REPLAY_DIGEST_TRACE_H
#define REPLAY_DIGEST_TRACE_H

#include "hw/recorder/vcpu.h"
#include "replay/player.h"

/* From now on, each of the vCPUs @v logs digests. */
bool digest_trace_start(const PlayerTrace *trace, RecorderVcpu *v[], unsigned n_vcpus,
                        Error **errp);
/* After the last vCPU, if there was one. */
void digest_trace_end(void);
/* As if its process had died, if it was not ended. */
void digest_trace_drop(void);

#endif
