/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a replay ends, if that is before the end of the recording.
 */
#ifndef RECORDING_REPLAY_END_H
#define RECORDING_REPLAY_END_H

#include <glib.h>
#include <stdint.h>

#include "recording/manifest.h"
#include "recording/checkpoint-position.h"
#include "recording/position.h"

/*
 * Positions of all streams, or CUT_NONE (cut.h), to be freed: of the moment *@until (total-order.h),
 * or of what can be replayed of a recording that is not complete.  NULL without an error: nobody
 * stops before its end.  @place is where replay begins; NULL: at the start.
 *
 * First, all logs are checked: a byte that is wrong would look like a divergence, or a wait like a
 * hang.
 */
Position *replay_end_find(const char *directory, const Manifest *manifest,
                          const CheckpointPosition *place, const uint64_t *until, GError **error);

/* The best checkpoint to begin at: the last one before *@until, or the first if that is NULL. */
unsigned replay_end_checkpoint(const char *directory, const Manifest *manifest,
                               const uint64_t *until);

#endif
