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
#include "recording/rerun-episodes.h"

G_STATIC_ASSERT(SPHERE_MAX_PROCESSORS <= RERUN_MAX_STREAMS);

typedef struct Rerun {
    RerunOptions options;
    RerunStream stream;         /* which field belongs to which lock: karma-episodes.h */
} Rerun;

static RerunStream *stream_of(const Processor *p)
{
    Rerun *rerun = p->order[RACE_RERUN];

    return &rerun->stream;
}

static void *rerun_new(unsigned index, unsigned n, Position max)
{
    Rerun *rerun = g_new0(Rerun, 1);

    rerun->options = (RerunOptions) { .n_streams = n, .max = max };
    rerun_init(&rerun->stream, index, &rerun->options);
    return rerun;
}

static void rerun_free(void *state)
{
    Rerun *rerun = state;

    rerun_clear(&rerun->stream);
    g_free(rerun);
}

static void after(Processor *to, Processor *from, Position position,
                  G_GNUC_UNUSED OrderOrigin origin)
{
    rerun_follow(stream_of(to), stream_of(from), position);
}

static bool is_covered(const Processor *to, const Processor *from, Position position)
{
    return rerun_is_covered(stream_of(to), from->index, position);
}

static bool emit(Processor *to)
{
    return rerun_emit(stream_of(to), to->floor);
}

static Position limit(const Processor *p)
{
    return rerun_limit(stream_of(p));
}

static void end(Processor *p, Position position)
{
    if (position > stream_of(p)->begin) {
        rerun_end_episode(stream_of(p), position);
    }
}

/* Return about the latest time that some processor has. */
static uint64_t latest_time(const Sphere *sphere)
{
    uint64_t latest = 0;

    for (unsigned i = 0; i < sphere->n_processors; i++) {
        latest = MAX(latest, rerun_time(stream_of(&sphere->processor[i])));
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
    rerun_flush(stream_of(p), position, latest_time(p->sphere));
}

static bool has_ended(const Processor *p)
{
    return rerun_has_closed(stream_of(p));
}

static bool take(Processor *p, OrderEpisode *episode)
{
    return rerun_take_closed(stream_of(p), &episode->rerun);
}

static void count_and_log(Processor *p, const OrderEpisode *episode)
{
    p->counts.stamped++;
    p->sphere->ops->rerun_episode(p->log, &episode->rerun);
}

const OrderRecorder rerun_recorder = {
    .order = RACE_RERUN,
    .new = rerun_new,
    .free = rerun_free,
    .after = after,
    .is_covered = is_covered,
    .emit = emit,
    .limit = limit,
    .end = end,
    .flush = flush,
    .cut = end,
    .has_ended = has_ended,
    .take = take,
    .log = count_and_log,
};
