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
 * Return the position where each stream stops, or CUT_NONE (cut.h), to be freed by the caller.
 * These are the positions at the moment *@until (total-order.h), or else the largest cut of a
 * recording that is not complete.  Return NULL without an error if no stream stops before its end.
 * @place is where replay begins; NULL: at the start.
 *
 * All logs that replay by @manifest->follow needs are verified first: replay would report a damaged
 * byte as a divergence, and hang on an impossible wait.
 */
Position *replay_end_find(const char *directory, const Manifest *manifest,
                          const CheckpointPosition *place, const uint64_t *until, GError **error);

/*
 * Return the number of the best checkpoint to begin at: the last that is not after *@until, or the
 * first if @until is NULL.
 */
unsigned replay_end_checkpoint(const char *directory, const Manifest *manifest,
                               const uint64_t *until);

#endif
