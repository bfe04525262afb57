/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Wake-ups between streams, by which Karma's episodes are replayed (Basu, Bobba, Hill: Karma, ICS
 * 2011, section 4.5).  A stream that has ended an episode wakes the successors of that episode.  A
 * stream begins an episode when it was woken by all predecessors.
 *
 * A wake-up is a count, so it may come early, and any number of them may be on their way.  The
 * paper's counters have 3 bits, and overflow into software ("limitless").  Here they have 64 bits,
 * and do not overflow.
 *
 * Ours, not the paper's: a stream announces its wake-ups before it comes to them.  So it need not
 * stop at the end of an episode unless another stream waits for that: it sends late what it has
 * passed.  It cannot announce more than WAKE_UPS_AHEAD before it sends some.
 */
#ifndef PROTOCOL_WAKE_UPS_H
#define PROTOCOL_WAKE_UPS_H

#include <glib.h>
#include <stdbool.h>

#include "recording/position.h"

/* How many wake-ups a stream may announce before it sends them. */
#define WAKE_UPS_AHEAD 64
/* Sets of streams are words of 32 bits. */
#define WAKE_UPS_STREAMS 32

typedef struct WakeUps WakeUps;

/* Return the wake-ups between @n_streams streams: none so far. */
WakeUps *wake_ups_new(unsigned n_streams);
void wake_ups_free(WakeUps *wakes);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WakeUps, wake_ups_free)
/* Return a copy, and the memory that it takes.  No thread uses @wakes meanwhile. */
WakeUps *wake_ups_copy(const WakeUps *wakes);
/* Let @wakes be as @from, of as many streams.  No thread uses them meanwhile. */
void wake_ups_set(WakeUps *wakes, const WakeUps *from);
size_t wake_ups_size(const WakeUps *wakes);

/*
 * Announce that @stream wakes @successors when it has ended @position steps, which never decreases.
 * Return false if it has announced too many.  @stream's thread.
 */
bool wake_ups_announce(WakeUps *wakes, unsigned stream, Position position, uint32_t successors);
/* Send all wake-ups that @stream has announced up to @position.  @stream's thread. */
void wake_ups_send(WakeUps *wakes, unsigned stream, Position position);
/*
 * Return where @stream first wakes one of @successors, by what it has announced; UINT64_MAX: it
 * wakes none.  @stream's thread.
 */
Position wake_ups_next(const WakeUps *wakes, unsigned stream, uint32_t successors);
/* Return how often @by has woken @stream.  What @by did before is seen.  Any thread. */
uint64_t wake_ups_count(const WakeUps *wakes, unsigned stream, unsigned by);

#endif
