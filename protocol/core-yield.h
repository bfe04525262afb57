/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Offers of one's host core to others.
 *
 * Threads of ours that do the same give it back soon.  Other work of the host keeps it for
 * milliseconds, and who offered it every few steps would hardly get on.  Who had it we cannot see.
 * But if all of ours together have had less of the host than all its cores, or nearly all, while
 * somebody kept a core for long, then it was not ours; and there is no offer for a much longer time
 * than that.
 */
#ifndef PROTOCOL_CORE_YIELD_H
#define PROTOCOL_CORE_YIELD_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/sphere-lock.h"

#ifndef OFFER_LONG_US
#define OFFER_LONG_US 500
/* For a shorter time one cannot tell. */
#define OFFER_LOOK_US 10000
#define OFFER_REST_US 100000
#endif

/* Of one thread, zero at first.  Times are in microseconds. */
typedef struct Offer {
    int64_t next;               /* not before */
    int64_t looked, used;       /* by then our threads had used so much time of cores */
} Offer;

static inline bool offer_is_due(const Offer *offer, int64_t now)
{
    return now >= offer->next;
}

/* Offer it to whoever waits for one of the @n_cores, and not again before @pause. */
static inline void offer_core(Offer *offer, unsigned n_cores, int64_t pause)
{
    int64_t began = sphere_now_us(), now, used;

    sphere_yield();
    now = sphere_now_us();
    offer->next = now + pause;
    if (now - began > OFFER_LONG_US && now - offer->looked > OFFER_LOOK_US) {
        used = sphere_cpu_us();
        if (offer->looked &&
            2 * (used - offer->used) < (2 * n_cores - 1) * (now - offer->looked)) {
            offer->next = now + OFFER_REST_US;
        }
        offer->looked = now;
        offer->used = used;
    }
}

#endif
