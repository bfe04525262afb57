/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Karma's recorder of order: tells the pairs of the sphere to recording/karma-episodes.h, which has
 * the rules and the proof.  Here are the locks, and why the sphere keeps the promises P1 to P5:
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
#include "protocol/sphere-lock.h"
#include "recording/karma-episodes.h"

G_STATIC_ASSERT(SPHERE_MAX_PROCESSORS <= KARMA_MAX_STREAMS);

typedef struct Karma {
    KarmaOptions options;
    KarmaStream stream;         /* which field belongs to which lock: karma-episodes.h */
    Position limit;             /* karma_limit(); atomic, written under the lock */
} Karma;

static Karma *karma_of(const Processor *p)
{
    return p->order[RACE_KARMA];
}

static KarmaStream *stream_of(const Processor *p)
{
    return &karma_of(p)->stream;
}

/* Show the limit of the present episode, which may be another.  Called with the lock held. */
static void show_limit(Karma *karma)
{
    __atomic_store_n(&karma->limit, karma_limit(&karma->stream), __ATOMIC_RELAXED);
}

static void *karma_new(unsigned index, unsigned n, Position max)
{
    Karma *karma = g_new0(Karma, 1);

    karma->options = karma_options(n, max);
    karma_init(&karma->stream, index, &karma->options);
    show_limit(karma);
    return karma;
}

static void karma_free(void *state)
{
    Karma *karma = state;

    karma_clear(&karma->stream);
    g_free(karma);
}

static void after(Processor *to, Processor *from)
{
    karma_follow(stream_of(to), stream_of(from), from->published);
    show_limit(karma_of(from));
}

/* Lock @from, unless the pair is covered: read-mostly lines have old writers. */
static void follow(Processor *to, Processor *from, Position position)
{
    if (karma_is_covered(stream_of(to), from->index, position)) {
        karma_note_source(stream_of(to), from->index, position);
        return;
    }
    sphere_lock(&from->lock);
    karma_follow(stream_of(to), stream_of(from), position);
    show_limit(karma_of(from));
    sphere_unlock(&from->lock);
}

static void after_position(Processor *to, Processor *from, Position position, OrderOrigin origin)
{
    if (origin == ORDER_USER_MODE) {
        karma_split(stream_of(from), position);
        karma_follow(stream_of(to), stream_of(from), position);
        show_limit(karma_of(from));
    } else {
        follow(to, from, position);
    }
}

static void after_sources(Processor *to, const Processor *waiter)
{
    const KarmaStream *theirs = stream_of(waiter);

    for (unsigned i = 0; i < to->sphere->n_processors; i++) {
        if (theirs->told.sources & LINE_BIT(i) && i != to->index) {
            follow(to, &to->sphere->processor[i], theirs->told.source[i]);
        }
    }
}

static bool emit(Processor *to, G_GNUC_UNUSED OrderEmit *emit_arc, G_GNUC_UNUSED void *opaque)
{
    bool step;

    sphere_lock(&to->lock);
    step = karma_emit(stream_of(to), to->floor);
    show_limit(karma_of(to));
    sphere_unlock(&to->lock);
    return step;
}

static Position limit(const Processor *p)
{
    return __atomic_load_n(&karma_of(p)->limit, __ATOMIC_RELAXED);
}

static void end(Processor *p, Position position)
{
    sphere_lock(&p->lock);
    karma_split(stream_of(p), position);
    show_limit(karma_of(p));
    sphere_unlock(&p->lock);
}

static void flush(Processor *p, Position position)
{
    sphere_lock(&p->lock);
    karma_flush(stream_of(p), position);
    show_limit(karma_of(p));
    sphere_unlock(&p->lock);
}

static void cut(Processor *p, Position position)
{
    sphere_lock(&p->lock);
    karma_cut(stream_of(p), position);
    show_limit(karma_of(p));
    sphere_unlock(&p->lock);
}

static bool log_oldest(Processor *p)
{
    KarmaClosed closed;
    bool any;

    sphere_lock(&p->lock);
    any = karma_take_closed(stream_of(p), &closed);
    sphere_unlock(&p->lock);
    if (any) {
        p->counts.episodes++;
        p->counts.edges += karma_n_preds(&closed);
        p->sphere->ops->karma_episode(p->log, &closed);
    }
    return any;
}

const OrderRecorder karma_recorder = {
    .order = RACE_KARMA,
    .new = karma_new,
    .free = karma_free,
    .after = after,
    .after_position = after_position,
    .after_sources = after_sources,
    .emit = emit,
    .limit = limit,
    .end = end,
    .flush = flush,
    .cut = cut,
    .log = log_oldest,
};
