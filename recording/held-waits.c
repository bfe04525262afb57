/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See held-waits.h. */
#include "recording/held-waits.h"

#include <glib.h>

static HeldWait *find(HeldWaits *held, unsigned stream)
{
    for (unsigned i = 0; i < held->n; i++) {
        if (held->wait[i].stream == stream) {
            return &held->wait[i];
        }
    }
    return NULL;
}

bool held_waits_add(HeldWaits *held, const HeldWait *wait, Position most,
                    HeldWaitsRelease *release, void *opaque)
{
    HeldWait *earlier = find(held, wait->stream);

    if (earlier && wait->position - earlier->position <= most) {
        earlier->steps = MAX(earlier->steps, wait->steps);
        return false;
    }
    if (earlier || held->n == HELD_WAITS_MOST) {
        held_waits_release(held, release, opaque);
    }
    g_assert(held->n == 0 || held->wait[held->n - 1].position <= wait->position);
    held->wait[held->n++] = *wait;
    return true;
}

/* None is held any more when @release is called: it may log an event, which releases all. */
void held_waits_release(HeldWaits *held, HeldWaitsRelease *release, void *opaque)
{
    HeldWaits all = *held;

    held->n = 0;
    for (unsigned i = 0; i < all.n; i++) {
        release(&all.wait[i], opaque);
    }
}
