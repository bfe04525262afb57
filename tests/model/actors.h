/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who runs the simulated processors.  There are two implementations: fibers, where
 * a seed decides everything, so that a failure can be repeated and thousands of
 * interleavings take seconds; and real threads, for ThreadSanitizer, memory
 * ordering and sleeping.
 */
#ifndef TESTS_ACTORS_H
#define TESTS_ACTORS_H

#include <stdbool.h>
#include <stdint.h>

#define ACTORS_MAX 8

typedef void Actor(void *opaque);

/*
 * Run one actor for each of @opaque until all have returned.  False if they go on
 * without any progress; @dump was called then, and the process must end.
 */
bool actors_run(unsigned n, Actor *actor, void *opaque[], uint64_t seed, void (*dump)(void));

/* Somebody else may go on here. */
void actor_pause(void);
/* Somebody else must go on here: the caller waits for something. */
void actor_wait(void);
/* Something was achieved. */
void actor_progress(void);

#endif
