/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Episodes of a processor, for the callers of the sphere: where they end, and that they are logged.
 * All recorders of episodes are treated alike.
 */
#include "protocol/order.h"

bool sphere_has_episodes(const Sphere *sphere)
{
    return sphere->has_episodes;
}

void sphere_set_log(Processor *p, void *log)
{
    p->log = log;
}

Position sphere_episode_limit(const Processor *p)
{
    Position limit = UINT64_MAX;

    FOREACH_RECORDER(recorder, p) {
        limit = MIN(limit, recorder->limit ? recorder->limit(p) : UINT64_MAX);
    }
    return limit;
}

void sphere_log_episodes(Processor *p)
{
    FOREACH_RECORDER(recorder, p) {
        while (recorder->log && recorder->log(p)) {
            /* the next */
        }
    }
}

void sphere_limit_episodes(Processor *p, Position position, Position room)
{
    FOREACH_RECORDER(recorder, p) {
        if (recorder->limit && position + room >= recorder->limit(p)) {
            recorder->end(p, position);
        }
    }
    sphere_log_episodes(p);
}

void sphere_end_episodes(Processor *p, Position position)
{
    FOREACH_RECORDER(recorder, p) {
        if (recorder->end) {
            recorder->end(p, position);
        }
    }
}

void sphere_flush_episodes(Processor *p, Position position)
{
    FOREACH_RECORDER(recorder, p) {
        if (recorder->flush) {
            recorder->flush(p, position);
        }
    }
    sphere_log_episodes(p);
}

void sphere_cut_episodes(Processor *p, Position position)
{
    g_assert(!p->has_new_sources && position >= p->ordered);
    FOREACH_RECORDER(recorder, p) {
        if (recorder->cut) {
            recorder->cut(p, position);
        }
    }
    sphere_log_episodes(p);
}
