/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See episode-path.h.  A step takes a time of one, a wake-up none.
 *
 * The k-th wake-up from one stream to another belongs to the k-th mention of the former among the
 * predecessors of the latter, so wake-ups between two streams are a queue of times.
 */
#include "recording/episode-path.h"

/* --- Karma ---------------------------------------------------------------------------- */

typedef struct PathStream {
    GQueue waiting;             /* of KarmaClosed, not begun */
    uint64_t time;              /* when its latest episode ended */
} PathStream;

struct KarmaPath {
    unsigned n_streams;
    uint64_t steps;
    PathStream stream[KARMA_MAX_STREAMS];
    GQueue wakes[KARMA_MAX_STREAMS][KARMA_MAX_STREAMS];         /* of uint64_t: [from][to] */
};

KarmaPath *karma_path_new(unsigned n_streams)
{
    KarmaPath *path = g_new0(KarmaPath, 1);

    g_assert(n_streams <= KARMA_MAX_STREAMS);
    path->n_streams = n_streams;
    return path;
}

void karma_path_free(KarmaPath *path)
{
    if (!path) {
        return;
    }
    for (unsigned i = 0; i < path->n_streams; i++) {
        g_queue_clear_full(&path->stream[i].waiting, g_free);
        for (unsigned j = 0; j < path->n_streams; j++) {
            g_queue_clear_full(&path->wakes[i][j], g_free);
        }
    }
    g_free(path);
}

/* Return how many wake-ups @episode awaits from stream @from. */
static unsigned awaited(const KarmaClosed *episode, unsigned from)
{
    return episode->pred >> from & 1 ? episode->again[from] + 1u : 0;
}

static bool is_woken(const KarmaPath *path, unsigned stream, const KarmaClosed *episode)
{
    for (unsigned i = 0; i < path->n_streams; i++) {
        if (path->wakes[i][stream].length < awaited(episode, i)) {
            return false;
        }
    }
    return true;
}

/* Return when all wake-ups of @episode have come, and take them. */
static uint64_t take_wakes(KarmaPath *path, unsigned stream, const KarmaClosed *episode)
{
    uint64_t time = 0;

    for (unsigned i = 0; i < path->n_streams; i++) {
        for (unsigned n = awaited(episode, i); n > 0; n--) {
            g_autofree uint64_t *wake = g_queue_pop_head(&path->wakes[i][stream]);

            time = MAX(time, *wake);
        }
    }
    return time;
}

static void wake_successors(KarmaPath *path, unsigned stream, uint32_t successors)
{
    for (unsigned i = 0; i < path->n_streams; i++) {
        if (successors >> i & 1) {
            g_queue_push_tail(&path->wakes[stream][i],
                              g_memdup2(&path->stream[stream].time, sizeof(uint64_t)));
        }
    }
}

/* Replay the episodes of @stream that can begin.  Return the streams that they wake. */
static uint32_t run_stream(KarmaPath *path, unsigned stream)
{
    PathStream *s = &path->stream[stream];
    const KarmaClosed *first;
    uint32_t woken = 0;

    while ((first = g_queue_peek_head(&s->waiting)) && is_woken(path, stream, first)) {
        g_autofree KarmaClosed *episode = g_queue_pop_head(&s->waiting);
        uint64_t ready = take_wakes(path, stream, episode);

        s->time = MAX(s->time, ready) + (episode->end - episode->begin);
        wake_successors(path, stream, episode->succ);
        woken |= episode->succ;
    }
    return woken;
}

void karma_path_add(KarmaPath *path, unsigned stream, const KarmaClosed *closed)
{
    uint32_t may_run = UINT32_C(1) << stream;

    path->steps += closed->end - closed->begin;
    g_queue_push_tail(&path->stream[stream].waiting, g_memdup2(closed, sizeof(*closed)));
    while (may_run) {
        unsigned next = g_bit_nth_lsf(may_run, -1);

        may_run &= may_run - 1;
        may_run |= run_stream(path, next);
    }
}

static bool is_at_rest(const KarmaPath *path)
{
    for (unsigned i = 0; i < path->n_streams; i++) {
        if (path->stream[i].waiting.length) {
            return false;
        }
        for (unsigned j = 0; j < path->n_streams; j++) {
            if (path->wakes[i][j].length) {
                return false;
            }
        }
    }
    return true;
}

uint64_t karma_path_longest(const KarmaPath *path)
{
    uint64_t longest = 0;

    for (unsigned i = 0; i < path->n_streams; i++) {
        longest = MAX(longest, path->stream[i].time);
    }
    return longest;
}

bool karma_path_meet(KarmaPath *path)
{
    uint64_t longest = karma_path_longest(path);

    if (!is_at_rest(path)) {
        return false;
    }
    for (unsigned i = 0; i < path->n_streams; i++) {
        path->stream[i].time = longest;
    }
    return true;
}

uint64_t karma_path_steps(const KarmaPath *path)
{
    return path->steps;
}

/* --- Rerun ---------------------------------------------------------------------------- */

struct RerunPath {
    uint64_t steps;
    uint64_t idealised;         /* the sum of all @longest */
    GHashTable *longest;        /* uint64_t -> uint64_t: of each time since the last cut */
};

RerunPath *rerun_path_new(void)
{
    RerunPath *path = g_new0(RerunPath, 1);

    path->longest = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, g_free);
    return path;
}

void rerun_path_free(RerunPath *path)
{
    if (path) {
        g_hash_table_unref(path->longest);
        g_free(path);
    }
}

void rerun_path_add(RerunPath *path, const RerunClosed *closed)
{
    uint64_t steps = closed->end - closed->begin;
    const uint64_t *longest = g_hash_table_lookup(path->longest, &closed->time);
    uint64_t before = longest ? *longest : 0;

    path->steps += steps;
    if (steps > before) {
        path->idealised += steps - before;
        g_hash_table_replace(path->longest, g_memdup2(&closed->time, sizeof(closed->time)),
                             g_memdup2(&steps, sizeof(steps)));
    }
}

void rerun_path_meet(RerunPath *path)
{
    g_hash_table_remove_all(path->longest);
}

uint64_t rerun_path_sequential(const RerunPath *path)
{
    return path->steps;
}

uint64_t rerun_path_idealised(const RerunPath *path)
{
    return path->idealised;
}
