/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Karma's recorder of order: tells the pairs of the sphere to recording/karma-episodes.h, which has
 * the rules and the proof.  The sphere keeps the promises P1 to P5:
 *
 * P1. A pair begins at a position that its source has published, at its entry to user mode, at its
 *     last store to a line that it gave away, or where it dropped its translations.  The step that
 *     drops them may not have ended; but it touches no memory any more, and no episode ends in it.
 * P2, P3. A processor emits at its floor.  Floors never go back, and lie at or behind all positions
 *     that the processor has published (sphere.h).  Episodes also end at boundaries, at or behind
 *     the floor.
 * P4. sphere_arcs() sets Processor.ordered if emit() returns true, and no position before that is
 *     published (invariant 4).
 * P5. sphere_cut_episodes() is called while all processors are SAFE, with nothing told.
 *
 * Karma's filter of addresses (section 4.4) tells whether a block was touched in the present
 * episode.  Accesses that hit are not seen here, so nothing can tell.  Two rules replace the filter
 * where the answer matters most: the episode of a processor in user mode is split where user mode
 * was entered, by the taker of a line that user mode cannot reach; and an episode ends where a vCPU
 * halts.
 */
#include "protocol/order.h"
#include "recording/karma-episodes.h"

G_STATIC_ASSERT(SPHERE_MAX_PROCESSORS <= KARMA_MAX_STREAMS);

typedef struct Karma {
    KarmaOptions options;
    KarmaStream stream;         /* which field belongs to which lock: karma-episodes.h */
} Karma;

static KarmaStream *stream_of(const Processor *p)
{
    Karma *karma = p->order[RACE_KARMA];

    return &karma->stream;
}

static void *karma_new(unsigned index, unsigned n, Position max)
{
    Karma *karma = g_new0(Karma, 1);

    karma->options = karma_options(n, max);
    karma_init(&karma->stream, index, &karma->options);
    return karma;
}

static void karma_free(void *state)
{
    Karma *karma = state;

    karma_clear(&karma->stream);
    g_free(karma);
}

static void after(Processor *to, Processor *from, Position position, OrderOrigin origin)
{
    if (origin == ORDER_USER_MODE) {
        karma_split(stream_of(from), position);
    }
    karma_follow(stream_of(to), stream_of(from), position);
}

static bool is_covered(const Processor *to, const Processor *from, Position position)
{
    return karma_is_covered(stream_of(to), from->index, position);
}

static bool emit(Processor *to)
{
    return karma_emit(stream_of(to), to->floor);
}

static Position limit(const Processor *p)
{
    return karma_limit(stream_of(p));
}

static void end(Processor *p, Position position)
{
    karma_split(stream_of(p), position);
}

static void flush(Processor *p, Position position)
{
    karma_flush(stream_of(p), position);
}

static void cut(Processor *p, Position position)
{
    karma_cut(stream_of(p), position);
}

static bool has_ended(const Processor *p)
{
    return karma_has_closed(stream_of(p));
}

static bool take(Processor *p, OrderEpisode *episode)
{
    return karma_take_closed(stream_of(p), &episode->karma);
}

static void count_and_log(Processor *p, const OrderEpisode *episode)
{
    p->counts.episodes++;
    p->counts.edges += karma_n_preds(&episode->karma);
    p->sphere->ops->karma_episode(p->log, &episode->karma);
}

const OrderRecorder karma_recorder = {
    .order = RACE_KARMA,
    .new = karma_new,
    .free = karma_free,
    .after = after,
    .is_covered = is_covered,
    .emit = emit,
    .limit = limit,
    .end = end,
    .flush = flush,
    .cut = cut,
    .has_ended = has_ended,
    .take = take,
    .log = count_and_log,
};
