/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See episode-maker.h.  A wait (source, steps) of a stream at f is a pair as karma-episodes.h has
 * them.  Its promises hold: a step is told after all that it waits for (P1), and a stream emits
 * where it is, which is behind all that it has given (P2, P3).
 *
 * Episodes end at their limit as soon as their stream gets there, since it may give a later
 * position next.
 */
#include "recording/episode-maker.h"

#include "recording/episode-log.h"
#include "recording/karma-episodes.h"
#include "recording/rerun-episodes.h"

struct EpisodeMaker {
    unsigned n_streams;
    OrderSet set;
    LogWriter *writer;
    KarmaOptions karma_options;
    RerunOptions rerun_options;
    Position *at;               /* of each stream */
    KarmaStream *karma;
    RerunStream *rerun;
    uint64_t arcs[RACE_ORDERS];
};

EpisodeMaker *episode_maker_new(unsigned n_streams, const Orders *orders, LogWriter *writer)
{
    EpisodeMaker *maker = g_new0(EpisodeMaker, 1);

    *maker = (EpisodeMaker) {
        .n_streams = n_streams, .set = orders->set, .writer = writer,
        .karma_options = karma_options(n_streams, orders->max[RACE_KARMA]),
        .rerun_options = { n_streams, orders->max[RACE_RERUN] },
        .at = g_new0(Position, n_streams),
        .karma = g_new0(KarmaStream, n_streams),
        .rerun = g_new0(RerunStream, n_streams),
    };
    for (unsigned i = 0; i < n_streams; i++) {
        karma_init(&maker->karma[i], i, &maker->karma_options);
        rerun_init(&maker->rerun[i], i, &maker->rerun_options);
    }
    return maker;
}

void episode_maker_free(EpisodeMaker *maker)
{
    if (!maker) {
        return;
    }
    for (unsigned i = 0; i < maker->n_streams; i++) {
        karma_clear(&maker->karma[i]);
        rerun_clear(&maker->rerun[i]);
    }
    g_free(maker->at);
    g_free(maker->karma);
    g_free(maker->rerun);
    g_free(maker);
}

/* --- logging -------------------------------------------------------------------------------- */

static void log_karma(EpisodeMaker *maker, unsigned stream)
{
    KarmaClosed closed;

    while (karma_take_closed(&maker->karma[stream], &closed)) {
        episode_log_karma(log_writer_stream(maker->writer, stream), &closed);
        maker->arcs[RACE_KARMA] += karma_n_preds(&closed);
    }
}

static void log_rerun(EpisodeMaker *maker, unsigned stream)
{
    RerunClosed closed;

    while (rerun_take_closed(&maker->rerun[stream], &closed)) {
        episode_log_rerun(log_writer_stream(maker->writer, stream), &closed);
        maker->arcs[RACE_RERUN]++;
    }
}

/* --- what is told ----------------------------------------------------------------------------- */

static void advance_karma(EpisodeMaker *maker, unsigned stream, Position position)
{
    KarmaStream *karma = &maker->karma[stream];

    while (karma_limit(karma) <= position) {
        karma_end_episode(karma, karma_limit(karma));
        log_karma(maker, stream);
    }
}

static void advance_rerun(EpisodeMaker *maker, unsigned stream, Position position)
{
    RerunStream *rerun = &maker->rerun[stream];

    while (rerun_limit(rerun) <= position) {
        rerun_end_episode(rerun, rerun_limit(rerun));
        log_rerun(maker, stream);
    }
}

void episode_maker_advance(EpisodeMaker *maker, unsigned stream, Position position)
{
    maker->at[stream] = position;
    if (order_set_has(maker->set, RACE_KARMA)) {
        advance_karma(maker, stream, position);
    }
    if (order_set_has(maker->set, RACE_RERUN)) {
        advance_rerun(maker, stream, position);
    }
}

bool episode_maker_wait(EpisodeMaker *maker, unsigned waiter, unsigned source, Position steps)
{
    Position at = maker->at[waiter];

    if (waiter == source || steps == 0) {
        return true;
    }
    if (order_set_has(maker->set, RACE_KARMA)) {
        if (maker->karma[waiter].now.again[source] == UINT16_MAX) {
            return false;
        }
        karma_follow(&maker->karma[waiter], &maker->karma[source], steps);
        karma_emit(&maker->karma[waiter], at);
        log_karma(maker, waiter);
    }
    if (order_set_has(maker->set, RACE_RERUN)) {
        rerun_follow(&maker->rerun[waiter], &maker->rerun[source], steps);
        rerun_emit(&maker->rerun[waiter], at);
        log_rerun(maker, source);
    }
    return true;
}

void episode_maker_meet(EpisodeMaker *maker, bool is_cut)
{
    for (unsigned i = 0; i < maker->n_streams; i++) {
        LogStream *stream = log_writer_stream(maker->writer, i);

        if (order_set_has(maker->set, RACE_KARMA)) {
            karma_cut(&maker->karma[i], maker->at[i]);
            log_karma(maker, i);
        }
        if (order_set_has(maker->set, RACE_RERUN)) {
            rerun_end_episode(&maker->rerun[i], maker->at[i]);
            log_rerun(maker, i);
        }
        for (unsigned order = RACE_KARMA; is_cut && order < RACE_ORDERS; order++) {
            if (order_set_has(maker->set, order)) {
                log_cut(stream, order, maker->at[i]);
            }
        }
    }
}

uint64_t episode_maker_arcs(const EpisodeMaker *maker, RaceOrder order)
{
    return maker->arcs[order];
}
