/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See held-waits.h. */
#include "recording/held-waits.h"

#include <glib.h>

static HeldWait *find(const HeldWaits *held, unsigned stream)
{
    for (unsigned i = 0; i < held->n; i++) {
        if (held->wait[i].stream == stream) {
            return (HeldWait *)&held->wait[i];
        }
    }
    return NULL;
}

bool held_waits_merge(HeldWaits *held, Position position, unsigned stream, Position steps,
                      Position most)
{
    HeldWait *wait = find(held, stream);

    if (!wait || position - wait->position > most) {
        return false;
    }
    wait->steps = MAX(wait->steps, steps);
    return true;
}

bool held_waits_can_add(const HeldWaits *held, unsigned stream)
{
    return held->n < HELD_WAITS_MOST && !find(held, stream);
}

void held_waits_add(HeldWaits *held, Position position, unsigned stream, Position steps)
{
    g_assert(held_waits_can_add(held, stream));
    g_assert(held->n == 0 || held->wait[held->n - 1].position <= position);
    held->wait[held->n++] = (HeldWait) { position, stream, steps };
}
