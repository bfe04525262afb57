/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Verifies what the logs of episodes of all streams say together.  They are read side by side, from
 * one cut to the next.
 */
#include "recording/verify.h"

#include <inttypes.h>
#include <string.h>

#include "recording/checkpoint-position.h"
#include "recording/log-reader.h"

typedef struct Stream {
    LogReader *reader;
    Position at;                /* the last cut, or where the log has ended */
    bool ended;
    uint64_t taken[LOG_EPISODE_STREAMS];        /* edges from each stream, since the last cut */
    uint64_t sent[LOG_EPISODE_STREAMS];         /* edges to each stream */
} Stream;

typedef struct Episodes {
    unsigned n_streams;         /* the last is DMA */
    Stream *stream;
} Episodes;

static void episodes_clear(Episodes *episodes)
{
    for (unsigned i = 0; i < episodes->n_streams; i++) {
        log_reader_free(episodes->stream[i].reader);
    }
    g_free(episodes->stream);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Episodes, episodes_clear)

static void count_edges(Stream *stream, const LogEvent *event)
{
    for (unsigned i = 0; i < LOG_EPISODE_STREAMS; i++) {
        stream->taken[i] += event->value[0] >> i & 1;
        stream->sent[i] += event->value[1] >> i & 1;
    }
    for (size_t k = 0; k < event->n_bytes; k++) {
        stream->taken[event->bytes[k]]++;
    }
}

/* Read up to the next cut of @stream, or to the end of its log. */
static bool read_interval(Stream *stream, GError **error)
{
    LogReaderResult result;
    LogEvent event;

    memset(stream->taken, 0, sizeof(stream->taken));
    memset(stream->sent, 0, sizeof(stream->sent));
    while ((result = log_reader_next(stream->reader, &event, error)) == LOG_READER_EVENT) {
        stream->at = event.position;
        if (log_event_is_cut(event.kind)) {
            return true;
        }
        if (event.kind == LOG_EVENT_EPISODE) {
            count_edges(stream, &event);
        }
    }
    stream->ended = true;
    return result == LOG_READER_END;
}

/* Check that all edges between two streams that were taken were sent, and the other way round. */
static bool check_edges(const Episodes *episodes, unsigned from, unsigned to, GError **error)
{
    const Stream *source = &episodes->stream[from], *target = &episodes->stream[to];

    if (source->sent[to] == target->taken[from]) {
        return true;
    }
    g_set_error(error, VERIFY_ERROR, VERIFY_ERROR_LOG,
                "%s: before position %" PRIu64 ": stream %u sends %" PRIu64 " edges to stream %u, "
                "which takes %" PRIu64, log_reader_path(source->reader), source->at, from,
                source->sent[to], to, target->taken[from]);
    return false;
}

static bool check_interval(const Episodes *episodes, GError **error)
{
    unsigned n = MIN(episodes->n_streams, LOG_EPISODE_STREAMS);

    for (unsigned i = 0; i < n * n; i++) {
        if (!check_edges(episodes, i / n, i % n, error)) {
            return false;
        }
    }
    return true;
}

/* Open all logs at the same cut, as order_reader_open() does. */
static bool open_all(Episodes *episodes, const char *directory, RaceOrder order, GError **error)
{
    unsigned n_vcpus = episodes->n_streams - 1;
    LogSubstream log = log_of_order(order);
    g_autoptr(CheckpointPosition) first = checkpoint_position_first(directory, n_vcpus);

    for (unsigned i = 0; i < episodes->n_streams; i++) {
        Stream *stream = &episodes->stream[i];

        stream->reader = first ? log_reader_open_at(directory, n_vcpus, i, log,
                                                    log_place_of(first->logs, i, log), error)
                               : log_reader_open(directory, n_vcpus, i, log, error);
        if (!stream->reader) {
            return false;
        }
    }
    return true;
}

/* Read up to the next cut of all.  Set *@cut_off if a log was cut off before that. */
static bool read_intervals(Episodes *episodes, bool *cut_off, GError **error)
{
    for (unsigned i = 0; i < episodes->n_streams; i++) {
        Stream *stream = &episodes->stream[i];

        if (!read_interval(stream, error)) {
            return false;
        }
        *cut_off |= stream->ended && log_reader_cut_off(stream->reader);
    }
    return true;
}

static bool check_cuts(const Episodes *episodes, GError **error)
{
    for (unsigned i = 1; i < episodes->n_streams; i++) {
        const Stream *first = &episodes->stream[0], *stream = &episodes->stream[i];

        if (stream->ended != first->ended) {
            const Stream *more = stream->ended ? first : stream;
            const Stream *less = stream->ended ? stream : first;

            g_set_error(error, VERIFY_ERROR, VERIFY_ERROR_LOG, "%s: it has a cut at position %"
                        PRIu64 " that %s does not have", log_reader_path(more->reader), more->at,
                        log_reader_path(less->reader));
            return false;
        }
    }
    return true;
}

bool verify_episodes(const char *directory, unsigned n_vcpus, RaceOrder order, GError **error)
{
    g_auto(Episodes) episodes = { n_vcpus + 1, g_new0(Stream, n_vcpus + 1) };
    bool cut_off = false;

    if (order == RACE_FDR) {
        return true;
    }
    if (!open_all(&episodes, directory, order, error)) {
        return false;
    }
    do {
        if (!read_intervals(&episodes, &cut_off, error) ||
            (!cut_off && (!check_cuts(&episodes, error) || !check_interval(&episodes, error)))) {
            return false;
        }
    } while (!cut_off && !episodes.stream[0].ended);
    return true;
}
