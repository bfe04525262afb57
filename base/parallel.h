/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Spreads work over the host's processors while the guest stands still.
 */
#ifndef BASE_PARALLEL_H
#define BASE_PARALLEL_H

#include <stdint.h>

/* The guest waits, so its processors are free; more than a few need not be. */
#define PARALLEL_MAX_WORKERS 4

/*
 * Calls @work for every item from 0 to @n_items - 1, each once, in several
 * threads (the caller's is one), and returns when all are done.  @worker, below
 * PARALLEL_MAX_WORKERS, is different in all threads that run at the same time:
 * it finds a thread's own buffers.
 */
typedef void ParallelWork(void *opaque, uint64_t item, unsigned worker);
void parallel_for(uint64_t n_items, ParallelWork *work, void *opaque);

#endif
