/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See episodes.h.  An episode is logged by the thread that owns the stream; or, while the stream
 * rests, by the log writer's thread or the main thread, which keep it at rest meanwhile.
 */
#include "qemu/osdep.h"

#include "hw/recorder/episodes.h"
#include "recording/episode-log.h"

static struct {
    LogWriter *writer;          /* NULL: there are no episodes */
    Sphere *sphere;
    Orders orders;
} episodes;

/* --- the log ---------------------------------------------------------------- */

void recorder_log_karma(void *log, const KarmaClosed *closed)
{
    episode_log_karma(log, closed);
}

void recorder_log_rerun(void *log, const RerunClosed *closed)
{
    episode_log_rerun(log, closed);
}

/* --- ends of episodes -------------------------------------------------------- */

static Processor *processor(unsigned stream)
{
    return stream < sphere_n_vcpus(episodes.sphere) ? sphere_vcpu(episodes.sphere, stream)
                                                    : sphere_dma(episodes.sphere);
}

/* Flush the episodes of a stream that rests.  The log writer's thread keeps it at rest. */
static void tick(unsigned stream, Position reached, void *opaque)
{
    sphere_flush_episodes(processor(stream), reached);
}

void recorder_episodes_start(LogWriter *writer, Sphere *sphere, const Orders *orders)
{
    if (!sphere_has_episodes(sphere)) {
        return;
    }
    episodes.sphere = sphere;
    episodes.orders = *orders;
    for (unsigned i = 0; i <= sphere_n_vcpus(sphere); i++) {
        sphere_set_log(processor(i), log_writer_stream(writer, i));
    }
    episodes.writer = writer;
    log_writer_set_tick(writer, tick, NULL);
}

void recorder_episodes_stop(void)
{
    episodes.writer = NULL;
}

Position recorder_episode_limit(const Processor *p)
{
    return episodes.writer ? sphere_episode_limit(p) : UINT64_MAX;
}

void recorder_episodes_boundary(Processor *p, LogStream *log, Position position, Position room)
{
    if (!episodes.writer) {
        return;
    }
    if (log_stream_tick(log)) {
        sphere_flush_episodes(p, position);
    } else {
        sphere_limit_episodes(p, position, room);
    }
}

static void log_cuts(LogStream *log, Position position)
{
    for (RaceOrder order = 0; order < RACE_ORDERS; order++) {
        if (order != RACE_FDR && orders_has(&episodes.orders, order)) {
            log_cut(log, order, position);
        }
    }
}

void recorder_episodes_cut(const Point *point, Position dma_steps, bool goes_on)
{
    for (unsigned i = 0; episodes.writer && i <= point->n_vcpus; i++) {
        LogStream *log = log_writer_stream(episodes.writer, i);
        Position position = i < point->n_vcpus ? point->at[i] : dma_steps;

        log_stream_hold(log);
        sphere_cut_episodes(processor(i), position);
        if (goes_on) {
            log_cuts(log, position);
        }
        log_stream_release(log);
    }
}

uint64_t recorder_episode_edges(void)
{
    bool karma = orders_has(&episodes.orders, RACE_KARMA);
    uint64_t n = 0;

    for (unsigned i = 0; i <= sphere_n_vcpus(episodes.sphere); i++) {
        const SphereCounts *counts = sphere_counts(processor(i));

        n += karma ? counts->edges : counts->stamped;
    }
    return n;
}
