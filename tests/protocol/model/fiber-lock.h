/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Locks and waits at which other fibers may run.  Replaces protocol/sphere-lock.h, whose include
 * guard this file defines.
 */
#ifndef PROTOCOL_SPHERE_LOCK_H
#define PROTOCOL_SPHERE_LOCK_H

#include "tests/protocol/model/broken-rule.h"
#include "tests/protocol/model/actors.h"

/* Return a time that advances with each call, so that a seed decides this, too. */
static inline int64_t sphere_now_us(void)
{
    static int64_t us;

    return us++;
}

/* Return less time than has passed, as if other processes had used the host, too. */
static inline int64_t sphere_cpu_us(void)
{
    return sphere_now_us() / 2;
}

static inline void sphere_relax(void)
{
    actor_wait();
}

static inline void sphere_yield(void)
{
    actor_wait();
}

static inline void sphere_sleep_while(int *word, int value)
{
    while (*word == value) {
        actor_wait();
    }
}

static inline void sphere_nap_while(int *word, int value, unsigned us)
{
    (void)us;
    for (int i = 0; i < 10 && *word == value; i++) {
        actor_wait();
    }
}

static inline void sphere_wake_one(int *word)
{
    (void)word;
}

static inline void sphere_seam(void)
{
    actor_pause();
}

static inline void sphere_lock(int *lock)
{
    actor_pause();
    while (*lock) {
        actor_wait();
    }
    *lock = 1;
}

static inline void sphere_unlock(int *lock)
{
    *lock = 0;
    actor_pause();
}

#endif
