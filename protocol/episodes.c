/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Episodes of a processor: where they end, and that they are logged.  All recorders of episodes are
 * treated alike, and are called with the lock held.
 */
#include "protocol/episodes.h"

#include "protocol/order.h"

bool sphere_has_episodes(const Sphere *sphere)
{
    return sphere->has_episodes;
}

void sphere_set_log(Processor *p, void *log)
{
    p->log = log;
}

/* --- where they end ----------------------------------------------------------- */

void episodes_show_limit(Processor *p)
{
    Position limit = UINT64_MAX;

    FOREACH_EPISODE_RECORDER(recorder, p) {
        limit = MIN(limit, recorder->limit(p));
    }
    __atomic_store_n(&p->episode_limit, limit, __ATOMIC_RELAXED);
}

Position sphere_episode_limit(const Processor *p)
{
    return __atomic_load_n(&p->episode_limit, __ATOMIC_RELAXED);
}

static void show_and_unlock(Processor *p)
{
    episodes_show_limit(p);
    sphere_unlock(&p->lock);
}

bool episodes_emit(Processor *p)
{
    bool step = false;

    sphere_lock(&p->lock);
    FOREACH_EPISODE_RECORDER(recorder, p) {
        step |= recorder->emit(p);
    }
    show_and_unlock(p);
    return step;
}

static void end_long_episodes(Processor *p, Position position, Position room)
{
    sphere_lock(&p->lock);
    FOREACH_EPISODE_RECORDER(recorder, p) {
        if (position + room >= recorder->limit(p)) {
            recorder->end(p, position);
        }
    }
    show_and_unlock(p);
}

void sphere_limit_episodes(Processor *p, Position position, Position room)
{
    if (position + room >= sphere_episode_limit(p)) {
        end_long_episodes(p, position, room);
    }
    sphere_log_episodes(p);
}

void sphere_end_episodes(Processor *p, Position position)
{
    if (!p->sphere->has_episodes) {
        return;
    }
    sphere_lock(&p->lock);
    FOREACH_EPISODE_RECORDER(recorder, p) {
        recorder->end(p, position);
    }
    show_and_unlock(p);
}

void sphere_flush_episodes(Processor *p, Position position)
{
    if (!p->sphere->has_episodes) {
        return;
    }
    sphere_lock(&p->lock);
    FOREACH_EPISODE_RECORDER(recorder, p) {
        recorder->flush(p, position);
    }
    show_and_unlock(p);
    sphere_log_episodes(p);
}

void sphere_cut_episodes(Processor *p, Position position)
{
    g_assert(!p->told.sources && position >= p->ordered);
    if (!p->sphere->has_episodes) {
        return;
    }
    sphere_lock(&p->lock);
    FOREACH_EPISODE_RECORDER(recorder, p) {
        recorder->cut(p, position);
    }
    show_and_unlock(p);
    sphere_log_episodes(p);
}

/* --- the log ------------------------------------------------------------------ */

/* Mostly there is none, so look without the lock.  What is missed is logged at a later boundary. */
static bool take_oldest(Processor *p, const OrderRecorder *recorder, OrderEpisode *episode)
{
    bool any;

    if (!recorder->has_ended(p)) {
        return false;
    }
    sphere_lock(&p->lock);
    any = recorder->take(p, episode);
    sphere_unlock(&p->lock);
    return any;
}

/* Without the lock: a writer of logs may wait (invariant 7). */
void sphere_log_episodes(Processor *p)
{
    FOREACH_EPISODE_RECORDER(recorder, p) {
        OrderEpisode episode;

        while (take_oldest(p, recorder, &episode)) {
            recorder->log(p, &episode);
        }
    }
}
