/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See rerun-episodes.h.  Times grow along a stream.  For each pair (from, s) ~> (to, f), the time
 * of the episode with the step f is later than that of the episode with the step s - 1: the latter
 * ends at s, so its time does not change any more, and rerun_emit() raises the former.  A receiver
 * need not end its episode (Figure 1): nothing of it has been given, so no time depends on its own.
 *
 * A stream that got a line and gives it away, unused, must pass on the time.  By P4 it gives a
 * position behind the begin of the episode whose time was raised, so that episode is the source.
 */
#include "recording/rerun-episodes.h"

#include "recording/episode-rules.h"

void rerun_init(RerunStream *stream, unsigned index, const RerunOptions *options)
{
    g_assert(options->n_streams <= RERUN_MAX_STREAMS && index < options->n_streams);
    *stream = (RerunStream) { .stream = index, .options = options };
    episode_queue_init(&stream->closed, sizeof(RerunClosed));
}

void rerun_clear(RerunStream *stream)
{
    episode_queue_clear(&stream->closed);
}

bool rerun_has_closed(const RerunStream *stream)
{
    return episode_queue_any(&stream->closed);
}

bool rerun_take_closed(RerunStream *stream, RerunClosed *closed)
{
    return episode_queue_pop(&stream->closed, closed);
}

uint64_t rerun_time(const RerunStream *stream)
{
    return __atomic_load_n(&stream->time, __ATOMIC_RELAXED);
}

static void set_time(RerunStream *stream, uint64_t time)
{
    __atomic_store_n(&stream->time, time, __ATOMIC_RELAXED);
}

void rerun_end_episode(RerunStream *stream, Position at)
{
    RerunClosed closed = { stream->begin, at, stream->time };

    g_assert(at >= stream->begin);
    if (at > stream->begin) {
        episode_queue_push(&stream->closed, &closed);
        stream->begin = at;
        stream->after = stream->time + 1;
        set_time(stream, stream->after);
    }
}

/*
 * The present episode is empty after its end, so nothing of it was given: its time may be raised.
 */
void rerun_flush(RerunStream *stream, Position at, uint64_t least)
{
    RerunClosed empty = { at, at, least - 1 };

    rerun_end_episode(stream, at);
    if (least > stream->time) {
        episode_queue_push(&stream->closed, &empty);
        set_time(stream, least);
    }
}

Position rerun_limit(const RerunStream *stream)
{
    return stream->options->max ? stream->begin + stream->options->max : UINT64_MAX;
}

bool rerun_is_covered(const RerunStream *to, unsigned from, Position s)
{
    return s <= to->covered[from];
}

void rerun_follow(RerunStream *to, RerunStream *from, Position s)
{
    g_assert(to != from);
    if (rerun_is_covered(to, from->stream, s)) {
        return;
    }
    to->covered[from->stream] = s;
    if (s > from->begin && EPISODE_RULE(CONFLICT)) {
        rerun_end_episode(from, s);
    }
    if (EPISODE_RULE(LATER)) {
        to->need = MAX(to->need, from->after);
    }
}

bool rerun_emit(RerunStream *to, Position floor)
{
    uint64_t need = to->need;

    g_assert(floor >= to->begin);
    set_time(to, MAX(to->time, need));
    to->need = 0;
    /* A taker from the begin gets @after, which may be too early for what was told. */
    return floor == to->begin && need > to->after;
}
