/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many episodes a recording has, and how long they are.
 */
#ifndef RECORDING_EPISODE_STATS_H
#define RECORDING_EPISODE_STATS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "recording/orders.h"

typedef struct EpisodeStats {
    uint64_t episodes;          /* of all streams */
    uint64_t edges;             /* between them; Karma's alone */
    uint64_t median, longest;   /* steps of an episode; 0 if there is none */
} EpisodeStats;

/*
 * Read the logs of @order, which has episodes.  Takes 8 bytes of memory for each episode.  Return
 * false and @error if a log is bad.
 */
bool episode_stats_read(const char *directory, unsigned n_vcpus, RaceOrder order,
                        EpisodeStats *stats, GError **error);

#endif
