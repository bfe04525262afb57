/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traces: logs of digests of a replay, to be compared with those of another replay.  Main thread,
 * all vCPUs stopped.
 */
#ifndef REPLAY_DIGEST_TRACE_H
#define REPLAY_DIGEST_TRACE_H

#include "hw/recorder/vcpu.h"
#include "replay/player.h"

/* Make each vCPU of @v log digests as @trace says.  Return false and set @errp on failure. */
bool digest_trace_start(const PlayerTrace *trace, RecorderVcpu *v[], unsigned n_vcpus,
                        Error **errp);
/* Complete the trace, if there is one.  No vCPU logs to it any more. */
void digest_trace_end(void);
/* Abandon the trace, if there is one: its logs are cut off, as if the process had died. */
void digest_trace_drop(void);

#endif
