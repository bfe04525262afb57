/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Yields of a thread's host core to other threads.  A policy: it changes speed, never correctness.
 *
 * Threads of this process that yield likewise give the core back soon.  Another process keeps it
 * for milliseconds, and a thread that yielded its core every few steps would hardly advance.  Which
 * thread had the core cannot be seen.  But if the core was gone for YIELD_LONG_US, and since the
 * latest check all threads of this process together used less than n_cores - 1/2 cores, another
 * process had the core.  Then there is no yielding for YIELD_REST_US.
 */
#ifndef PROTOCOL_CORE_YIELD_H
#define PROTOCOL_CORE_YIELD_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/sphere-lock.h"

#ifndef YIELD_LONG_US
#define YIELD_LONG_US 500
/* Over a shorter time the process's use of cores tells nothing. */
#define YIELD_LOOK_US 10000
#define YIELD_REST_US 100000
#endif

/* The yields of one thread; zero at first.  Times are in microseconds. */
typedef struct CoreYield {
    int64_t next;               /* not before this time */
    int64_t looked, used;       /* latest check: its time, and the process's CPU time */
} CoreYield;

/* Return true if the thread may yield its core now. */
static inline bool core_yield_is_due(const CoreYield *yield, int64_t now)
{
    return now >= yield->next;
}

/* Yield the core, one of @n_cores, to any thread that waits for it; not again for @pause. */
static inline void core_yield(CoreYield *yield, unsigned n_cores, int64_t pause)
{
    int64_t began = sphere_now_us(), now, used;

    sphere_yield();
    now = sphere_now_us();
    yield->next = now + pause;
    if (now - began > YIELD_LONG_US && now - yield->looked > YIELD_LOOK_US) {
        used = sphere_cpu_us();
        if (yield->looked &&
            2 * (used - yield->used) < (2 * n_cores - 1) * (now - yield->looked)) {
            yield->next = now + YIELD_REST_US;
        }
        yield->looked = now;
        yield->used = used;
    }
}

#endif
