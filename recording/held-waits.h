/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Waits of one stream that are not logged yet, so that a later wait on the same source can be
 * merged into an earlier one (FDR, section 4.3, "receive observation": the target of an arc may lie
 * before the step that needs it).
 *
 * A wait may be moved to an earlier position of its stream as long as no step from there on has
 * been published: nothing comes after these steps yet, so no circle of waits can form.  So all held
 * waits must be released before the stream publishes a position, and before any other event of its
 * order log.  The merged wait is stricter: replay waits earlier, and for more.  So the two may not
 * lie far apart.
 *
 * No locks: held waits belong to the thread that writes the stream.
 */
#ifndef RECORDING_HELD_WAITS_H
#define RECORDING_HELD_WAITS_H

#include <stdbool.h>

#include "recording/position.h"

#define HELD_WAITS_MOST 17

typedef struct HeldWait {
    Position position;          /* of the step that waits */
    unsigned stream;            /* the source, and how many steps it must have ended */
    Position steps;
} HeldWait;

typedef struct HeldWaits {
    unsigned n;
    HeldWait wait[HELD_WAITS_MOST];     /* in the order of positions */
} HeldWaits;

/* Told of a wait that is held no longer: log it. */
typedef void HeldWaitsRelease(const HeldWait *wait, void *opaque);

/*
 * Hold a wait, or merge it into one on the same source that is at most @most steps earlier.
 * Releases all others first if it can do neither.  Return false if the wait was merged.  Positions
 * do not go back.
 */
bool held_waits_add(HeldWaits *held, const HeldWait *wait, Position most,
                    HeldWaitsRelease *release, void *opaque);
/* Release all, in the order of positions. */
void held_waits_release(HeldWaits *held, HeldWaitsRelease *release, void *opaque);

#endif
