/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See episode-log.h.  Most episodes have one edge at most from each stream, so their list of
 * further edges is empty.
 */
#include "recording/episode-log.h"

/* Name each stream of pred once for each edge beyond the first.  Return NULL if there is none. */
static uint8_t *list_again(const KarmaClosed *closed, size_t n)
{
    uint8_t *list = n ? g_malloc(n) : NULL;
    size_t at = 0;

    for (unsigned i = 0; at < n; i++) {
        for (unsigned k = 0; k < closed->again[i]; k++) {
            list[at++] = i;
        }
    }
    return list;
}

void episode_log_karma(LogStream *stream, const KarmaClosed *closed)
{
    size_t n = karma_n_preds(closed) - __builtin_popcount(closed->pred);
    g_autofree uint8_t *again = list_again(closed, n);

    log_episode(stream, closed->end, closed->pred, closed->succ, again, n);
}

void episode_log_rerun(LogStream *stream, const RerunClosed *closed)
{
    log_stamped(stream, closed->end, closed->time);
}
