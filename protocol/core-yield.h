/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Offers of a thread's host core to other threads.  A policy: it changes speed, never correctness.
 *
 * Threads of this process that yield likewise give the core back soon.  Another process keeps it
 * for milliseconds, and a thread that offered its core every few steps would hardly advance.  Which
 * thread had the core cannot be seen.  But if the core was gone for OFFER_LONG_US, and since the
 * latest check all threads of this process together used less than n_cores - 1/2 cores, another
 * process had the core.  Then there is no offer for OFFER_REST_US.
 */
#ifndef PROTOCOL_CORE_YIELD_H
#define PROTOCOL_CORE_YIELD_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/sphere-lock.h"

#ifndef OFFER_LONG_US
#define OFFER_LONG_US 500
/* Over a shorter time the process's use of cores tells nothing. */
#define OFFER_LOOK_US 10000
#define OFFER_REST_US 100000
#endif

/* The offers of one thread; zero at first.  Times are in microseconds. */
typedef struct Offer {
    int64_t next;               /* no offer before this time */
    int64_t looked, used;       /* latest check: its time, and the process's CPU time */
} Offer;

/* Return true if the thread may offer its core now. */
static inline bool offer_is_due(const Offer *offer, int64_t now)
{
    return now >= offer->next;
}

/* Yield the core, one of @n_cores, to any thread that waits for it; no new offer for @pause. */
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
