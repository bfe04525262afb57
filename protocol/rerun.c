/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rerun's recorder of order: tells the pairs of the sphere to recording/rerun-episodes.h, which has
 * the rules.  The sphere keeps the promises of its caller as karma.c says.
 *
 * A taker ends the episode of the processor from which it takes, at the position that this has
 * published.  That may be between an instruction and the exception that it raised, where replay
 * cannot stop; then replay passes by the end of the episode by the steps of the exception, which
 * touch no memory (replay/player.c).
 */
#include "protocol/order.h"
#include "protocol/sphere-lock.h"
#include "recording/rerun-episodes.h"

G_STATIC_ASSERT(SPHERE_MAX_PROCESSORS <= RERUN_MAX_STREAMS);

typedef struct Rerun {
    RerunOptions options;
    RerunStream stream;
    /* Atomic, written under the lock. */
    Position limit;             /* rerun_limit() */
    uint64_t time;              /* of the present episode */
} Rerun;

static Rerun *rerun_of(const Processor *p)
{
    return p->order[RACE_RERUN];
}

static RerunStream *stream_of(const Processor *p)
{
    return &rerun_of(p)->stream;
}

/* Show limit and time of the present episode, which may be another.  Called with the lock held. */
static void show(Rerun *rerun)
{
    __atomic_store_n(&rerun->limit, rerun_limit(&rerun->stream), __ATOMIC_RELAXED);
    __atomic_store_n(&rerun->time, rerun->stream.time, __ATOMIC_RELAXED);
}

static void *rerun_new(unsigned index, unsigned n, Position max)
{
    Rerun *rerun = g_new0(Rerun, 1);

    rerun->options = (RerunOptions) { .n_streams = n, .max = max };
    rerun_init(&rerun->stream, index, &rerun->options);
    show(rerun);
    return rerun;
}

static void rerun_free(void *state)
{
    Rerun *rerun = state;

    rerun_clear(&rerun->stream);
    g_free(rerun);
}

/* Called with the lock of @from held. */
static void follow_locked(Processor *to, Processor *from, Position position)
{
    rerun_follow(stream_of(to), stream_of(from), position);
    show(rerun_of(from));
}

static void after(Processor *to, Processor *from)
{
    follow_locked(to, from, from->published);
}

static void follow(Processor *to, Processor *from, Position position)
{
    if (rerun_is_covered(stream_of(to), from->index, position)) {
        rerun_note_source(stream_of(to), from->index, position);
        return;
    }
    sphere_lock(&from->lock);
    follow_locked(to, from, position);
    sphere_unlock(&from->lock);
}

static void after_position(Processor *to, Processor *from, Position position, OrderOrigin origin)
{
    if (origin == ORDER_USER_MODE) {
        follow_locked(to, from, position);
    } else {
        follow(to, from, position);
    }
}

static void after_sources(Processor *to, const Processor *waiter)
{
    const RerunStream *theirs = stream_of(waiter);

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
    step = rerun_emit(stream_of(to), to->floor);
    show(rerun_of(to));
    sphere_unlock(&to->lock);
    return step;
}

static Position limit(const Processor *p)
{
    return __atomic_load_n(&rerun_of(p)->limit, __ATOMIC_RELAXED);
}

static void end(Processor *p, Position position)
{
    sphere_lock(&p->lock);
    if (position > stream_of(p)->begin) {
        rerun_end_episode(stream_of(p), position);
        show(rerun_of(p));
    }
    sphere_unlock(&p->lock);
}

/* Return about the latest time that some processor has. */
static uint64_t latest_time(const Sphere *sphere)
{
    uint64_t latest = 0;

    for (unsigned i = 0; i < sphere->n_processors; i++) {
        latest = MAX(latest, __atomic_load_n(&rerun_of(&sphere->processor[i])->time,
                                             __ATOMIC_RELAXED));
    }
    return latest;
}

/*
 * Replay makes no episode before all with a smaller time.  So if the recorder is killed, episodes
 * later than the last in the log of some processor are lost.  A processor that rests, or passes no
 * lines, has an early time: let it come along.
 */
static void flush(Processor *p, Position position)
{
    uint64_t latest = latest_time(p->sphere);

    sphere_lock(&p->lock);
    rerun_flush(stream_of(p), position, latest);
    show(rerun_of(p));
    sphere_unlock(&p->lock);
}

static bool log_oldest(Processor *p)
{
    RerunClosed closed;
    bool any;

    sphere_lock(&p->lock);
    any = rerun_take_closed(stream_of(p), &closed);
    sphere_unlock(&p->lock);
    if (any) {
        p->counts.stamped++;
        p->sphere->ops->rerun_episode(p->log, &closed);
    }
    return any;
}

const OrderRecorder rerun_recorder = {
    .order = RACE_RERUN,
    .new = rerun_new,
    .free = rerun_free,
    .after = after,
    .after_position = after_position,
    .after_sources = after_sources,
    .emit = emit,
    .limit = limit,
    .end = end,
    .flush = flush,
    .cut = end,
    .log = log_oldest,
};
