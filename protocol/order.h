/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The interface between the sphere and the recorders of the order of steps.  When a line passes,
 * the sphere tells a *pair*: which processor is ordered after which.  FDR (fdr.c) makes arcs of
 * pairs; Karma (karma.c) and Rerun (rerun.c) make episodes.  Several may record one execution.
 * Each must order what the pairs order.  An arc or edge that others imply may be left out
 * (invariant 3).
 *
 * All sources of @to concern its next step, and are emitted before that step.  The functions
 * after..() are called with the lock of the page that @to requests held, by any thread.  emit() is
 * called by @to's own thread, when @to has no pending request.
 */
#ifndef PROTOCOL_ORDER_H
#define PROTOCOL_ORDER_H

#include "protocol/sphere-internal.h"

struct OrderRecorder {
    RaceOrder order;            /* its state of a processor is Processor.order[order] */
    /* Create and free the state of processor @index of @n.  @max: that of its Orders. */
    void *(*new)(unsigned index, unsigned n, Position max);
    void (*free)(void *state);

    /*
     * Order @to after the published position of @from, and so after all that @from was ordered
     * after.  @from is SAFE or serves @to's request; from->lock is held.
     */
    void (*after)(Processor *to, Processor *from);
    /*
     * Order @to after an earlier @position of @from.  What @from was ordered after by then is not
     * known any more.  from->lock is held if @origin is USER_MODE, and not otherwise.
     */
    void (*after_position)(Processor *to, Processor *from, Position position, OrderOrigin origin);
    /* Order @to after all sources of @waiter that were not emitted.  No processor is locked. */
    void (*after_sources)(Processor *to, const Processor *waiter);

    /*
     * Emit the sources since the last call; FDR's as arcs to @emit.  Return true if a step must end
     * before others come after @to (invariant 4).
     */
    bool (*emit)(Processor *to, OrderEmit *emit, void *opaque);

    /* The rest is NULL for a recorder without episodes.  sphere.h has functions of these names. */
    Position (*limit)(const Processor *p);
    void (*end)(Processor *p, Position position);
    void (*flush)(Processor *p, Position position);
    void (*cut)(Processor *p, Position position);
    /* Log the oldest episode that has ended, and forget it.  Return false if there is none. */
    bool (*log)(Processor *p);
};

extern const OrderRecorder fdr_recorder, karma_recorder, rerun_recorder;

#define FOREACH_RECORDER(recorder, p) \
    for (unsigned order_ = 0; order_ < RACE_ORDERS; order_++) \
        for (const OrderRecorder *recorder = (p)->sphere->recorder[order_]; recorder; \
             recorder = NULL)

static inline void order_after(Processor *to, Processor *from)
{
    to->has_new_sources = true;
    to->counts.pairs[ORDER_TAKEN]++;
    FOREACH_RECORDER(recorder, to) {
        recorder->after(to, from);
    }
}

static inline void order_after_position(Processor *to, unsigned from, Position position,
                                        OrderOrigin origin)
{
    if (from != to->index) {
        to->has_new_sources = true;
        to->counts.pairs[origin]++;
        FOREACH_RECORDER(recorder, to) {
            recorder->after_position(to, &to->sphere->processor[from], position, origin);
        }
    }
}

static inline void order_after_sources(Processor *to, const Processor *waiter)
{
    if (waiter->has_new_sources) {
        to->has_new_sources = true;
        to->counts.pairs[ORDER_PASSED]++;
        FOREACH_RECORDER(recorder, to) {
            recorder->after_sources(to, waiter);
        }
    }
}

#endif
