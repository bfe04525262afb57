/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Karma's episodes (Basu, Bobba, Hill: Karma, ICS 2011, sections 3 and 4), without the machine that
 * makes them: the live recorder and the converter of recordings both drive this.
 *
 * An *episode* is a run of steps of one stream.  An *edge* from an episode of one stream to an
 * episode of another: replay makes no step of the target before all steps of the source.  The log
 * of a stream has its episodes, each with how many steps it has, the streams from which edges come
 * (PRED), and the streams to which edges lead (SUCC).  No edge names an episode: the k-th mention
 * of i in the SUCCs of j belongs to the k-th mention of j in the PREDs of i (section 4.3).
 *
 * The caller tells *pairs*, (from, s) ~> (to, f): the steps of @from below s come before the steps
 * of @to from f on.  karma_follow() tells where a pair begins, karma_emit() where all pairs end
 * that were told since the last time.  Every pair becomes a path of edges and program order.
 * Karma's filter of addresses answers whether a block was touched in the present episode.  Here s
 * answers that: it is a bound behind the last access of @from that matters.  With a filter s is the
 * present position or one of an earlier episode; without it s is the last published position.
 *
 * The caller keeps these promises; karma-episodes.c says what rests on them.
 *
 * P1. @from has ended all steps below s when karma_follow() is called.
 * P2. A stream emits (f) and ends an episode only at or behind all positions s that it has given,
 *     and at or behind the end of its last episode.  (karma_split() checks that by itself.)
 * P3. Positions f of a stream never decrease, and a step that needs the pairs lies at or behind f.
 * P4. If karma_emit() returns true, the stream makes a step before it gives away what it got: then
 *     s > f.  If it returns false, s >= f.  (Invariant 4 of protocol/sphere.h.  Waits of an FDR log
 *     keep that by themselves: a converter need not look at the result.)
 * P5. At a cut, every stream has emitted what it was told, and has made the step of P4.  Replay
 *     makes no step behind a cut before all streams have come to it.
 *
 * No locks inside.  Each field names the lock that the live recorder must hold.  A function needs
 * the locks of the fields that it uses: "owner" is the stream's own thread.
 */
#ifndef RECORDING_KARMA_EPISODES_H
#define RECORDING_KARMA_EPISODES_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "recording/episode-queue.h"
#include "recording/position.h"

/* Sets of streams are words of 32 bits. */
#define KARMA_MAX_STREAMS 32

typedef enum KarmaReduction {
    KARMA_REDUCTION_PAPER,      /* leave out edges that previouslyOrdered covers (section 4.3) */
    KARMA_REDUCTION_VECTOR,     /* also those that vectors of episodes imply: ours */
} KarmaReduction;

typedef struct KarmaOptions {
    unsigned n_streams;
    Position max;               /* steps of an episode (section 3.2, the bound); 0: unbounded */
    KarmaReduction reduction;
    bool extend;                /* false: an episode ends where it gives (section 3.1, Figure 2) */
    /*
     * An edge orders whole episodes, and so more steps than its pair: it leaves the end of an
     * episode that was extended, and enters the begin of one that had begun before.  This is how
     * many steps more, at each end; 0: any number, as in the paper.
     */
    Position slack;
} KarmaOptions;

/* With this slack, a replay waits little more than by FDR's arcs: docs/measurements.md, Orders. */
#define KARMA_SLACK 512

/* Return the options for episodes of at most @max steps; 0: of any number, with any slack. */
KarmaOptions karma_options(unsigned n_streams, Position max);

/* An episode that has ended and gets no more edges. */
typedef struct KarmaClosed {
    uint64_t index;             /* grows along a stream; relays that are not logged leave gaps */
    Position begin, end;        /* end - begin is the paper's REFS; 0 in a relay */
    uint32_t pred, succ;        /* streams, a bit for each */
    uint16_t again[KARMA_MAX_STREAMS];   /* how many more edges come from a stream of @pred */
    uint64_t time;              /* for checks; the log does not have it (section 3.2) */
} KarmaClosed;

/* Return how many edges lead to @closed. */
unsigned karma_n_preds(const KarmaClosed *closed);

typedef struct KarmaEpisode {
    uint64_t index;
    Position begin;
    uint32_t pred, succ;
    uint16_t again[KARMA_MAX_STREAMS];
    uint64_t time;              /* Lamport's; fixed once @succ is not empty */
    uint64_t before[KARMA_MAX_STREAMS]; /* at least so many episodes of each come before it */
} KarmaEpisode;

typedef struct KarmaStream {
    unsigned stream;            /* constant */
    const KarmaOptions *options;

    /* Under the stream's lock.  @now.begin may move while its owner runs: karma_split(). */
    KarmaEpisode now;           /* open: the paper's PRED1, SUCC1, TS1 */
    KarmaEpisode last;          /* closed, but may still get successors: PRED0, SUCC0, TS0 */
    bool fresh;                 /* there is no @last: at the start, and at a cut */
    Position given;             /* the largest s in @now; its begin, if there is none */
    Position gave;              /* the s of the first edge that left @now, if @now.succ */
    Position cut;               /* where the stream was at the last cut */
    EpisodeQueue closed;        /* of KarmaClosed */

    /* Owner; while the owner has a request, under the lock of the requested page. */
    Position covered[KARMA_MAX_STREAMS];        /* the largest s that was told of each stream */
    uint64_t known[KARMA_MAX_STREAMS];  /* at least so many episodes come before the next step */
    /* What was told since the last emit: */
    struct {
        unsigned edges[KARMA_MAX_STREAMS];      /* new edges from each, mostly 0 or 1 */
        uint64_t need;          /* the least time for the episode of the next step */
        uint64_t known[KARMA_MAX_STREAMS];
    } told;
} KarmaStream;

/* Initialise @stream, at position 0.  @options must outlive it. */
void karma_init(KarmaStream *stream, unsigned index, const KarmaOptions *options);
void karma_clear(KarmaStream *stream);

/*
 * Return true if a pair from position @s of stream @from is covered by pairs that were told to @to
 * before.  Then karma_follow() does nothing, and needs no lock of @from.  Owner's locks of @to.
 */
bool karma_is_covered(const KarmaStream *to, unsigned from, Position s);
/*
 * Order the next step of @to after the steps of @from below @s: the left half of Figure 6.  Locks:
 * that of @from, and the owner's of @to.
 */
void karma_follow(KarmaStream *to, KarmaStream *from, Position s);
/*
 * Let the edges that were told lead to the step at @floor: the right half of Figure 6.  Return true
 * if the stream must make a step before it gives (P4).  Owner, with the stream's lock.
 */
bool karma_emit(KarmaStream *to, Position floor);

/*
 * Return where the present episode must end: the bound of section 3.2, and the slack.  It is lower
 * once the episode has given.  Stream's lock.
 */
Position karma_limit(const KarmaStream *stream);
/* End the present episode at @at, behind its begin.  Stream's lock; @at is a boundary. */
void karma_end_episode(KarmaStream *stream, Position at);
/*
 * End the present episode at @at, though its stream may be further.  Return false if @at is not
 * behind its begin, or if the stream has given a later position.  Any thread, stream's lock.
 */
bool karma_split(KarmaStream *stream, Position at);
/*
 * Close all episodes of a stream that rests at @at; later edges leave an empty relay.  Return false
 * if nothing could be closed: an edge leads to the step at @at, which was not made.  Stream's lock.
 */
bool karma_flush(KarmaStream *stream, Position at);
/* The same, at a cut or at the end of the recording.  All streams rest. */
void karma_cut(KarmaStream *stream, Position at);

/* Return true if an episode is closed and was not taken.  Any thread, without a lock. */
bool karma_has_closed(const KarmaStream *stream);
/* Move the oldest closed episode to @closed.  Return false if there is none.  Stream's lock. */
bool karma_take_closed(KarmaStream *stream, KarmaClosed *closed);

#endif
