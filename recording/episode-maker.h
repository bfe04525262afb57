/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Makes episodes of Karma and Rerun from the waits of another order, and logs them.  The caller
 * tells the waits in an order of all steps, so that no step is told before a step that it waits
 * for.
 *
 * No locks: a maker belongs to one thread at a time, which also owns the streams of the writer.
 */
#ifndef RECORDING_EPISODE_MAKER_H
#define RECORDING_EPISODE_MAKER_H

#include "recording/log-writer.h"
#include "recording/orders.h"

typedef struct EpisodeMaker EpisodeMaker;

/* FDR's order, which has no episodes, may be among @orders.  @writer must outlive the maker. */
EpisodeMaker *episode_maker_new(unsigned n_streams, const Orders *orders, LogWriter *writer);
void episode_maker_free(EpisodeMaker *maker);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EpisodeMaker, episode_maker_free)

/* Tell that @stream has made all steps before @position. */
void episode_maker_advance(EpisodeMaker *maker, unsigned stream, Position position);
/*
 * Tell that @waiter makes no further step before @source has made @steps.  Return false if one
 * episode would have more edges than can be counted, which no real recording has.
 */
bool episode_maker_wait(EpisodeMaker *maker, unsigned waiter, unsigned source, Position steps);
/* End the episodes of all streams where these are.  With @is_cut, log a barrier there. */
void episode_maker_meet(EpisodeMaker *maker, bool is_cut);

/* Return how many edges Karma has logged, or how many episodes Rerun has. */
uint64_t episode_maker_arcs(const EpisodeMaker *maker, RaceOrder order);

#endif
