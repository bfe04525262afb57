/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See episode-stats.h.
 */
#include "recording/episode-stats.h"

#include "recording/log-reader.h"

/* Add the episodes of one log; their lengths go to @lengths. */
static bool add_log(LogReader *reader, EpisodeStats *stats, GArray *lengths, GError **error)
{
    LogReaderResult result;
    Position begin;
    LogEvent event;

    log_reader_dropped(reader, &begin);
    while ((result = log_reader_next(reader, &event, error)) == LOG_READER_EVENT) {
        uint64_t length = event.position - begin;

        begin = event.position;
        if (!log_event_is_cut(event.kind)) {
            g_array_append_val(lengths, length);
        }
        if (event.kind == LOG_EVENT_EPISODE) {
            stats->edges += __builtin_popcountll(event.value[0]) + event.n_bytes;
        }
    }
    return result == LOG_READER_END;
}

static int compare(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

bool episode_stats_read(const char *directory, unsigned n_vcpus, RaceOrder order,
                        EpisodeStats *stats, GError **error)
{
    g_autoptr(GArray) lengths = g_array_new(false, false, sizeof(uint64_t));

    *stats = (EpisodeStats) { 0 };
    for (unsigned i = 0; i <= n_vcpus; i++) {
        g_autoptr(LogReader) reader = log_reader_open(directory, n_vcpus, i, log_of_order(order),
                                                      error);

        if (!reader || !add_log(reader, stats, lengths, error)) {
            return false;
        }
    }
    stats->episodes = lengths->len;
    if (lengths->len > 0) {
        g_array_sort(lengths, compare);
        stats->median = g_array_index(lengths, uint64_t, lengths->len / 2);
        stats->longest = g_array_index(lengths, uint64_t, lengths->len - 1);
    }
    return true;
}
