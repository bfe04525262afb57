/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ends episodes while the small guest is recorded, where the recorder in QEMU does: at boundaries,
 * where a vCPU halts, at ticks, at cuts, at the end.  A tick flushes streams, so that little is
 * lost if the recorder is killed.  The owner flushes a stream that runs, at a boundary.  The
 * flusher, an actor that stands for the log writer's thread, flushes a stream that rests.
 */
#include "recording/rerun-episodes.h"
#include "tests/protocol/model/broken-rule.h"
#include "tests/protocol/model/actors.h"
#include "tests/protocol/model/vcpu.h"

/* --- the log ------------------------------------------------------------------------------- */

static void append(Stream *stream, RaceOrder order, LoggedEpisode episode)
{
    g_array_append_val(stream->episodes[order], episode);
}

void stream_karma_episode(void *stream, const KarmaClosed *closed)
{
    append(stream, RACE_KARMA, (LoggedEpisode){ .e = *closed });
}

void stream_rerun_episode(void *stream, const RerunClosed *closed)
{
    append(stream, RACE_RERUN, (LoggedEpisode){
        .e = { .begin = closed->begin, .end = closed->end, .time = closed->time },
    });
}

static Position logged_end(const Stream *stream, RaceOrder order)
{
    const GArray *episodes = stream->episodes[order];

    return episodes->len ? g_array_index(episodes, LoggedEpisode, episodes->len - 1).e.end : 0;
}

/* Flush, which logs all steps before @position, unless a step must end there first. */
static void flush(unsigned stream, Position position)
{
    Processor *p = &guest.sphere->processor[stream];

    sphere_flush_episodes(p, position);
    for (RaceOrder order = RACE_KARMA; order < RACE_ORDERS; order++) {
        if (orders_has(&guest.recording->orders, order) && sphere_is_settled(p, position) &&
            RULE(ORDERED)) {
            g_assert(logged_end(&guest.recording->stream[stream], order) == position);
        }
    }
}

/* --- rests --------------------------------------------------------------------------------- */

/* Begin a rest of @stream.  Others may flush it until rest_end(). */
void rest_begin(unsigned stream, Position reached)
{
    Rest *rest = &guest.rest[stream];

    world_lock(&rest->lock);
    rest->rests = true;
    rest->reached = reached;
    world_unlock(&rest->lock);
}

void rest_end(unsigned stream)
{
    Rest *rest = &guest.rest[stream];

    world_lock(&rest->lock);
    rest->rests = false;
    world_unlock(&rest->lock);
}

void rest_halt(unsigned stream, Position position, uint64_t *random)
{
    if (guest.halts && random_one_in(random, guest.halts)) {
        sphere_end_episodes(&guest.sphere->processor[stream], position);
    }
}

void rest_boundary(unsigned stream, Position position, uint64_t *random)
{
    Processor *p = &guest.sphere->processor[stream];

    if (RULE(LIMIT_EPISODES)) {
        sphere_limit_episodes(p, position, 0);
    }
    g_array_append_val(guest.recording->stream[stream].limited, position);
    if (guest.ticks && random_one_in(random, guest.ticks)) {
        flush(stream, position);
    }
}

/* --- the flusher --------------------------------------------------------------------------- */

static void flush_if_it_rests(unsigned stream)
{
    Rest *rest = &guest.rest[stream];

    world_lock(&rest->lock);
    if (rest->rests && rest->reached) {
        flush(stream, rest->reached);
    } else if (!RULE(FLUSH_AT_REST)) {
        flush(stream, guest.sphere->processor[stream].published);
    }
    world_unlock(&rest->lock);
}

void flusher_main(void)
{
    while (__atomic_load_n(&guest.n_left, __ATOMIC_SEQ_CST)) {
        flush_if_it_rests(random_below(&guest.tick_random, guest.n_vcpus + 1));
        for (unsigned i = 0; i <= guest.tick_pauses; i++) {
            actor_wait();
        }
    }
}

/* --- cuts ---------------------------------------------------------------------------------- */

static void cut(unsigned stream, Position position, bool at_end)
{
    LoggedEpisode entry = { .cut = true, .e = { .begin = position, .end = position } };

    world_lock(&guest.rest[stream].lock);
    sphere_cut_episodes(&guest.sphere->processor[stream], position);
    for (RaceOrder order = RACE_KARMA; order < RACE_ORDERS && !at_end; order++) {
        append(&guest.recording->stream[stream], order, entry);
    }
    world_unlock(&guest.rest[stream].lock);
}

void rest_cut_all(bool at_end)
{
    for (unsigned i = 0; i <= guest.n_vcpus; i++) {
        if (i || at_end || RULE(CUT_ALL)) {
            cut(i, i < guest.n_vcpus ? guest.vcpu[i].position : guest.dma_position, at_end);
        }
    }
}
