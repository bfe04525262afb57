/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The interface between the sphere and the recorders of the order of steps.  When a line passes,
 * the sphere tells a *pair*: which processor is ordered after which.  FDR (fdr.c) makes arcs of
 * pairs; Karma (karma.c) and Rerun (rerun.c) make episodes.  Several may record one execution.
 * Each must order what the pairs order.  An arc or edge that others imply may be left out
 * (invariant 3).
 *
 * All sources of @to concern its next step, and are emitted before that step.  The functions
 * order_after..() are called with the lock of the page that @to requests held, by any thread.
 * Sources are emitted by @to's own thread, when @to has no pending request.
 *
 * Locks of processors are taken here and in episodes.c, not by recorders.  An arc needs no lock of
 * its source.  An edge does, unless the pair is covered: lines that are mostly read have old
 * writers, so that is common.
 */
#ifndef PROTOCOL_ORDER_H
#define PROTOCOL_ORDER_H

#include "protocol/episodes.h"
#include "protocol/sphere-internal.h"
#include "protocol/sphere-lock.h"
#include "recording/karma-episodes.h"
#include "recording/rerun-episodes.h"

/* An episode that has ended, of one of the recorders. */
typedef union OrderEpisode {
    KarmaClosed karma;
    RerunClosed rerun;
} OrderEpisode;

struct OrderRecorder {
    RaceOrder order;            /* its state of a processor is Processor.order[order] */
    /* Create and free the state of processor @index of @n.  @max: that of its Orders. */
    void *(*new)(unsigned index, unsigned n, Position max);
    void (*free)(void *state);

    /*
     * Order @to after @position of @from, which is in to->told.  If @origin is TAKEN, this is the
     * published position of @from, so @to is also ordered after all that @from was ordered after.
     * Otherwise what @from was ordered after by then is not known any more.  Called with from->lock
     * held, unless @origin is neither TAKEN nor USER_MODE and all recorders say is_covered().
     */
    void (*after)(Processor *to, Processor *from, Position position, OrderOrigin origin);

    /*
     * Emit to->told as arcs to @emit, which may log.  Return true if a step must end before others
     * come after @to (invariant 4).  Called without locks.  NULL for a recorder of episodes.
     */
    bool (*emit_arcs)(Processor *to, OrderEmit *emit, void *opaque);

    /*
     * The rest is NULL for a recorder without episodes.  All but is_covered(), has_ended() and
     * log() are called with the processor's lock held.
     */

    /* Return true if pairs before imply this one: after() has nothing to do.  Locks: as after(). */
    bool (*is_covered)(const Processor *to, const Processor *from, Position position);
    /* Let the present episode come after what was told.  Return as emit_arcs(). */
    bool (*emit)(Processor *to);
    /* Return where the present episode must end. */
    Position (*limit)(const Processor *p);
    /* End episodes at @position, as the functions sphere_..._episodes() of these names. */
    void (*end)(Processor *p, Position position);
    void (*flush)(Processor *p, Position position);
    void (*cut)(Processor *p, Position position);
    /*
     * Return true if an episode has ended that was not taken.  Without the lock, it may miss one
     * that another thread ends meanwhile.
     */
    bool (*has_ended)(const Processor *p);
    /* Move the oldest episode that has ended to @episode.  Return false if there is none. */
    bool (*take)(Processor *p, OrderEpisode *episode);
    /* Count and log what take() returned. */
    void (*log)(Processor *p, const OrderEpisode *episode);
};

extern const OrderRecorder fdr_recorder, karma_recorder, rerun_recorder;

#define FOREACH_RECORDER_FROM(first, recorder, p) \
    for (unsigned order_ = (first); order_ < RACE_ORDERS; order_++) \
        for (const OrderRecorder *recorder = (p)->sphere->recorder[order_]; recorder; \
             recorder = NULL)
#define FOREACH_RECORDER(recorder, p) FOREACH_RECORDER_FROM(0, recorder, p)
/* Those of episodes: all but FDR's. */
#define FOREACH_EPISODE_RECORDER(recorder, p) FOREACH_RECORDER_FROM(RACE_FDR + 1, recorder, p)

/* Tell a pair.  Called with from->lock held, or with a pair that needs no lock. */
static inline void order_tell(Processor *to, Processor *from, Position position, OrderOrigin origin)
{
    uint32_t bit = LINE_BIT(from->index);

    to->counts.pairs[origin]++;
    if (!(to->told.sources & bit) || position > to->told.source[from->index]) {
        to->told.sources |= bit;
        to->told.source[from->index] = position;
        to->told.origin[from->index] = origin;
    }
    FOREACH_RECORDER(recorder, to) {
        recorder->after(to, from, position, origin);
    }
}

/* The same, with from->lock held.  Recorders may end the present episode of @from. */
static inline void order_tell_locked(Processor *to, Processor *from, Position position,
                                     OrderOrigin origin)
{
    order_tell(to, from, position, origin);
    if (to->sphere->has_episodes) {
        episodes_show_limit(from);
    }
}

/* Return true if some recorder needs the lock of @from. */
static inline bool order_needs_lock(const Processor *to, const Processor *from, Position position)
{
    if (to->sphere->has_episodes) {
        FOREACH_EPISODE_RECORDER(recorder, to) {
            if (!recorder->is_covered(to, from, position)) {
                return true;
            }
        }
    }
    return false;
}

/*
 * Order @to after the published position of @from.  @from is SAFE or serves @to's request.  Called
 * with from->lock held.
 */
static inline void order_after(Processor *to, Processor *from)
{
    order_tell_locked(to, from, from->published, ORDER_TAKEN);
}

/*
 * Order @to after an earlier @position of @from, unless that is @to.  Called with from->lock held
 * if @origin is USER_MODE, and with no processor's lock held otherwise.
 */
static inline void order_after_position(Processor *to, Processor *from, Position position,
                                        OrderOrigin origin)
{
    if (from == to) {
        return;
    }
    if (origin == ORDER_USER_MODE) {
        order_tell_locked(to, from, position, origin);
    } else if (order_needs_lock(to, from, position)) {
        sphere_lock(&from->lock);
        order_tell_locked(to, from, position, origin);
        sphere_unlock(&from->lock);
    } else {
        order_tell(to, from, position, origin);
    }
}

/*
 * Order @to after all sources of @waiter that were not emitted.  @waiter has a request for the page
 * whose lock is held.  Called with no processor's lock held.
 */
static inline void order_after_sources(Processor *to, const Processor *waiter)
{
    for (unsigned i = 0; waiter->told.sources >> i; i++) {
        if (waiter->told.sources & LINE_BIT(i)) {
            order_after_position(to, &to->sphere->processor[i], waiter->told.source[i],
                                 ORDER_PASSED);
        }
    }
}

#endif
