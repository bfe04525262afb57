/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Actors as real threads, more than the host has cores, so that a thread for which others wait is
 * often preempted.  The caller's thread checks that there is progress.
 */
#include <glib.h>
#include <sched.h>
#include <unistd.h>

#include "tests/protocol/model/actors.h"
#include "tests/protocol/model/random.h"

#define PATIENCE_S 30           /* seconds without progress; the host may be busy */

static struct {
    Actor *actor;
    unsigned n, started, ended;
    unsigned progress;
} all;

static __thread uint64_t my_random;

typedef struct Start {
    void *opaque;
    uint64_t seed;
} Start;

static void *thread_main(void *opaque)
{
    Start *start = opaque;

    my_random = start->seed;
    __atomic_fetch_add(&all.started, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&all.started, __ATOMIC_SEQ_CST) < all.n) {
        sched_yield();
    }
    all.actor(start->opaque);
    __atomic_fetch_add(&all.ended, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

void actor_pause(void)
{
    unsigned dice = random_below(&my_random, 256);

    if (dice < 8) {
        sched_yield();
    } else if (dice < 32) {
        for (volatile unsigned i = random_below(&my_random, 500); i; i--) {
        }
    } else if (dice == 32) {
        usleep(1);
    }
}

void actor_wait(void)
{
    sched_yield();
}

void actor_progress(void)
{
    __atomic_fetch_add(&all.progress, 1, __ATOMIC_RELAXED);
}

bool actors_run(unsigned n, Actor *actor, void *opaque[], uint64_t seed, void (*dump)(void))
{
    GThread *thread[ACTORS_MAX];
    Start start[ACTORS_MAX];
    unsigned before = 0;
    int64_t since = g_get_monotonic_time();

    all.actor = actor;
    all.n = n;
    all.started = all.ended = 0;
    for (unsigned i = 0; i < n; i++) {
        start[i] = (Start){ opaque[i], seed * ACTORS_MAX + i };
        thread[i] = g_thread_new("actor", thread_main, &start[i]);
    }
    while (__atomic_load_n(&all.ended, __ATOMIC_SEQ_CST) < n) {
        unsigned progress = __atomic_load_n(&all.progress, __ATOMIC_RELAXED);

        if (progress != before) {
            before = progress;
            since = g_get_monotonic_time();
        } else if (g_get_monotonic_time() - since > PATIENCE_S * G_USEC_PER_SEC) {
            dump();
            return false;
        }
        usleep(200);
    }
    for (unsigned i = 0; i < n; i++) {
        g_thread_join(thread[i]);
    }
    return true;
}
