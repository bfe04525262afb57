/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Actors run the simulated processors.  There are two implementations.  With fibers, a seed decides
 * everything, so that a failure can be repeated and thousands of interleavings take seconds.  Real
 * threads are for ThreadSanitizer, memory ordering and sleeping.
 */
#ifndef TESTS_ACTORS_H
#define TESTS_ACTORS_H

#include <stdbool.h>
#include <stdint.h>

#define ACTORS_MAX 8

typedef void Actor(void *opaque);

/*
 * Run an actor for each of the @n elements of @opaque until all have returned.  Return false if
 * there is no progress; then @dump was called, actors still exist, and the process must end.
 */
bool actors_run(unsigned n, Actor *actor, void *opaque[], uint64_t seed, void (*dump)(void));

/* Let other actors run, perhaps.  Called by an actor. */
void actor_pause(void);
/* Let other actors run, since the caller, an actor, waits for one of them. */
void actor_wait(void);
/* Tell that there was progress. */
void actor_progress(void);

#endif
