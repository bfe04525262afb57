/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The interface between the sphere and the recorder of the order of steps.  When a line passes, the
 * sphere says which processor is ordered after which.  FDR (fdr.c) makes arcs of that; Karma would
 * make episodes and their predecessors.  Either way a replay must get arcs of the form "not before
 * @from has ended @source steps".  An arc that others imply may be left out (invariant 3).
 *
 * All sources of @to concern its next step, and are emitted before that step.  The functions
 * after..() are called with the lock of the page that @to requests held, by any thread.  emit() is
 * called by @to's own thread, when @to has no pending request.
 */
#ifndef PROTOCOL_ORDER_H
#define PROTOCOL_ORDER_H

#include "protocol/sphere-internal.h"

struct OrderRecorder {
    /* Create and free what the recorder keeps of a processor: Processor.order. */
    void *(*new)(void);
    void (*free)(void *order);

    /*
     * Order @to after the published position of @from, and so after all that @from was ordered
     * after.  @from is SAFE or serves @to's request; from->lock is held.
     */
    void (*after)(Processor *to, const Processor *from);
    /*
     * Order @to after an earlier @position of @from.  What @from was ordered after by then is not
     * known any more.
     */
    void (*after_position)(Processor *to, unsigned from, Position position, OrderOrigin origin);
    /* Order @to after all sources of @waiter that were not emitted. */
    void (*after_sources)(Processor *to, const Processor *waiter);

    /* Emit the sources since the last call.  Return true if there was any arc to log. */
    bool (*emit)(Processor *to, OrderEmit *emit, void *opaque);
};

static inline void order_after(Processor *to, const Processor *from)
{
    to->has_new_sources = true;
    to->counts.pairs[ORDER_TAKEN]++;
    to->sphere->recorder->after(to, from);
}

static inline void order_after_position(Processor *to, unsigned from, Position position,
                                        OrderOrigin origin)
{
    if (from != to->index) {
        to->has_new_sources = true;
        to->counts.pairs[origin]++;
        to->sphere->recorder->after_position(to, from, position, origin);
    }
}

static inline void order_after_sources(Processor *to, const Processor *waiter)
{
    if (waiter->has_new_sources) {
        to->has_new_sources = true;
        to->counts.pairs[ORDER_PASSED]++;
        to->sphere->recorder->after_sources(to, waiter);
    }
}

#endif
