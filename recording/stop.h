/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a replay ends, if that is before the end of the recording.
 */
#ifndef REPLAY_STOP_H
#define REPLAY_STOP_H

#include <glib.h>
#include <stdint.h>

#include "recording/manifest.h"
#include "recording/place.h"
#include "recording/position.h"

/*
 * Positions of all streams, or CUT_NONE (cut.h), to be freed: of the moment *@until (total-order.h),
 * or of what can be replayed of a recording that is not complete.  NULL without an error: nobody
 * stops before its end.  @place is where replay begins; NULL: at the start.
 *
 * First, all logs are checked: a byte that is wrong would look like a divergence, or a wait like a
 * hang.
 */
Position *stop_find(const char *directory, const Manifest *manifest, const Place *place,
                    const uint64_t *until, GError **error);

/* The best checkpoint to begin at: the last one before *@until, or the first if that is NULL. */
unsigned stop_checkpoint(const char *directory, const Manifest *manifest, const uint64_t *until);

#endif
