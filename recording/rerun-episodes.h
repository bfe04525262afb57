/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rerun's episodes (Hower, Hill: Rerun, ISCA 2008, as section 2.2 of Karma, ICS 2011, tells it),
 * without the machine that makes them.
 *
 * An episode ends where its stream gives something to another.  Each has a Lamport time.  Replay
 * makes the episodes in the order of their times; those of one time have no conflicts, so their
 * order does not matter.  Times of streams are not made equal at a cut: so replay first makes all
 * episodes before a cut, and compares the times of episodes between the same two cuts only.
 *
 * The caller tells pairs, and keeps the promises P1 to P5, as for karma-episodes.h.  A stream gives
 * in the sense of P4 by rerun_follow().  The locks of fields are those there, too.
 */
#ifndef RECORDING_RERUN_EPISODES_H
#define RECORDING_RERUN_EPISODES_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "recording/episode-queue.h"
#include "recording/position.h"

#define RERUN_MAX_STREAMS 32

typedef struct RerunOptions {
    unsigned n_streams;
    Position max;               /* steps of an episode; 0: unbounded */
} RerunOptions;

/* The log has the length of each episode and its time.  It may be empty: rerun_flush(). */
typedef struct RerunClosed {
    Position begin, end;
    uint64_t time;
} RerunClosed;

typedef struct RerunStream {
    unsigned stream;            /* constant */
    const RerunOptions *options;

    /* Under the stream's lock. */
    Position begin;             /* of the present episode; nothing from here on was given */
    uint64_t time;              /* of the present episode; may be raised; atomic: rerun_time() */
    uint64_t after;             /* later than the time of the episode before; 0: there is none */
    EpisodeQueue closed;        /* of RerunClosed */

    /* Owner; while the owner has a request, under the lock of the requested page. */
    Position covered[RERUN_MAX_STREAMS];        /* the largest s that was told of each stream */
    uint64_t need;              /* the least time for the episode of the next step */
} RerunStream;

/* Initialise @stream, at position 0.  @options must outlive it. */
void rerun_init(RerunStream *stream, unsigned index, const RerunOptions *options);
void rerun_clear(RerunStream *stream);

/* As karma_is_covered(). */
bool rerun_is_covered(const RerunStream *to, unsigned from, Position s);
/*
 * Order the next step of @to after the steps of @from below @s, and end the episode of @from there.
 * Locks: that of @from, and the owner's of @to.
 */
void rerun_follow(RerunStream *to, RerunStream *from, Position s);
/*
 * Give the present episode, which has the step at @floor, a time later than all that was told.
 * Return true if the stream must make a step before it gives (P4).  Owner, with the stream's lock.
 */
bool rerun_emit(RerunStream *to, Position floor);

/* Return the time of the present episode, which may be raised at any moment.  Any thread. */
uint64_t rerun_time(const RerunStream *stream);
/* Return where the present episode must end, as karma_limit().  Stream's lock. */
Position rerun_limit(const RerunStream *stream);
/*
 * End the present episode at @at, unless it is empty: at the limit, at a cut, and at the end of the
 * recording.  Stream's lock.
 */
void rerun_end_episode(RerunStream *stream, Position at);

/*
 * End the present episode at @at, where the stream is, and give what follows a time of at least
 * @least.  An empty episode tells that in the log.  If the logs are cut off later, replay knows by
 * it that this stream has no further episode with a smaller time.  Stream's lock.
 */
void rerun_flush(RerunStream *stream, Position at, uint64_t least);

/* Return true if an episode is closed and was not taken.  Any thread, without a lock. */
bool rerun_has_closed(const RerunStream *stream);
/* Move the oldest closed episode to @closed.  Return false if there is none.  Stream's lock. */
bool rerun_take_closed(RerunStream *stream, RerunClosed *closed);

#endif
