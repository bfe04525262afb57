/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Spreads work over the host's processors.  Each call creates its own threads.
 * That costs some 50 us, where the work takes tens of milliseconds, and leaves
 * no thread behind that a fork, a signal or an exit would have to consider.
 */
#include "base/parallel.h"

#include <glib.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

typedef struct Job {
    uint64_t n_items;
    uint64_t next;              /* atomic */
    ParallelWork *work;
    void *opaque;
} Job;

typedef struct Worker {
    Job *job;
    unsigned number;
    bool running;
    pthread_t thread;
} Worker;

static void *worker_run(void *opaque)
{
    Worker *worker = opaque;
    Job *job = worker->job;

    for (;;) {
        uint64_t item = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED);

        if (item >= job->n_items) {
            return NULL;
        }
        job->work(job->opaque, item, worker->number);
    }
}

void parallel_for(uint64_t n_items, ParallelWork *work, void *opaque)
{
    Job job = { n_items, 0, work, opaque };
    Worker workers[PARALLEL_MAX_WORKERS] = { 0 };
    unsigned n = MIN(MIN(g_get_num_processors(), PARALLEL_MAX_WORKERS), n_items);
    sigset_t all, before;

    /* Workers inherit this mask: signals are for the other threads of the program. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (unsigned i = 1; i < n; i++) {
        workers[i].job = &job;
        workers[i].number = i;
        /* If no thread can be created, the other workers do its part. */
        workers[i].running =
            pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);

    workers[0].job = &job;
    worker_run(&workers[0]);
    for (unsigned i = 1; i < n; i++) {
        if (workers[i].running) {
            pthread_join(workers[i].thread, NULL);
        }
    }
}
