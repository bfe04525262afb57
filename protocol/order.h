/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the sphere tells whoever records the order of steps, when a line passes: who comes
 * after whom.  FDR (fdr.c) makes arcs of it; Karma would make episodes and their
 * predecessors.  Either way a replay must get arcs of the form "not before @from has ended
 * @source steps", and those that follow from others may be left out.
 *
 * All that @to is told is about its next step; it is emitted before that is made.
 * after_..() is called with the lock of the page that @to asks for, by any thread;
 * emit() by @to's own, which waits for nothing then.
 */
#ifndef PROTOCOL_ORDER_H
#define PROTOCOL_ORDER_H

#include "protocol/sphere-internal.h"

struct OrderRecorder {
    /* What a recorder keeps of a processor: Processor.order. */
    void *(*new)(void);
    void (*free)(void *order);

    /* @from is safe, and locked: after all that it did, and all that it came after. */
    void (*after)(Processor *to, const Processor *from);
    /* After what it did some time ago; what it knew then is not known now. */
    void (*after_position)(Processor *to, unsigned from, Position position);
    /* After all that @waiter was told to come after, and has not emitted. */
    void (*after_sources)(Processor *to, const Processor *waiter);

    /* Emit what was told since the last time.  True if that was anything at all. */
    bool (*emit)(Processor *to, OrderEmit *emit, void *opaque);
};

static inline void order_after(Processor *to, const Processor *from)
{
    to->has_new_sources = true;
    to->sphere->recorder->after(to, from);
}

static inline void order_after_position(Processor *to, unsigned from, Position position)
{
    if (from != to->index) {
        to->has_new_sources = true;
        to->sphere->recorder->after_position(to, from, position);
    }
}

static inline void order_after_sources(Processor *to, const Processor *waiter)
{
    if (waiter->has_new_sources) {
        to->has_new_sources = true;
        to->sphere->recorder->after_sources(to, waiter);
    }
}

#endif
