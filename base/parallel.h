/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Spreads work over the host's processors, mostly while the guest is stopped.
 */
#ifndef BASE_PARALLEL_H
#define BASE_PARALLEL_H

#include <stdint.h>

/* A stopped guest leaves the host processors of its vCPUs idle; others may be busy. */
#define PARALLEL_MAX_WORKERS 4

/*
 * Call @work once for every item from 0 to @n_items - 1, in several threads (the
 * caller's is one), and return when all calls have returned.  @worker is below
 * PARALLEL_MAX_WORKERS and differs between threads that run at the same time, so
 * @work can use it as an index to buffers of its own.
 */
typedef void ParallelWork(void *opaque, uint64_t item, unsigned worker);
void parallel_for(uint64_t n_items, ParallelWork *work, void *opaque);

#endif
