/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * FDR's recorder of order (Xu, Bodik, Hill: A "Flight Data Recorder", section 4.2): an arc
 * for each pair of processors between which a line passes, but for those that
 * follow from others.
 *
 * Each processor has a vector of what it has seen of the others (the paper's VIC): how
 * many of their steps come before its own next one.  An arc that adds nothing to it
 * is not logged.  Whoever comes after a processor that is safe has seen all that it has.
 */
#include "protocol/order.h"
#include "protocol/sphere-internal.h"

typedef struct Fdr {
    Position seen[SPHERE_MAX_PROCESSORS];
    /* Of the next step: */
    uint32_t sources;           /* whom it was told of */
    Position source[SPHERE_MAX_PROCESSORS];
    Position implied[SPHERE_MAX_PROCESSORS];    /* by the other sources */
} Fdr;

static void *fdr_new(void)
{
    return g_new0(Fdr, 1);
}

/* The sphere's lock on @from, or that it does not run, keeps @seen as it is. */
static void imply(Processor *to, const Processor *from)
{
    Fdr *fdr = to->order;
    const Fdr *theirs = from->order;

    for (unsigned i = 0; i < to->sphere->n_processors; i++) {
        if (i != from->index && i != to->index) {
            fdr->implied[i] = MAX(fdr->implied[i], theirs->seen[i]);
        }
    }
}

static void add_source(Fdr *fdr, unsigned from, Position position)
{
    fdr->sources |= LINE_BIT(from);
    fdr->source[from] = MAX(fdr->source[from], position);
}

static void fdr_after(Processor *to, const Processor *from)
{
    add_source(to->order, from->index, from->published);
    imply(to, from);
}

static void fdr_after_position(Processor *to, unsigned from, Position position)
{
    add_source(to->order, from, position);
    if (!SPHERE_RULE(OLD_IMPLIES_NOTHING)) {
        imply(to, &to->sphere->processor[from]);
    }
}

static void fdr_after_sources(Processor *to, const Processor *waiter)
{
    const Fdr *theirs = waiter->order;

    for (unsigned i = 0; i < to->sphere->n_processors; i++) {
        if (theirs->sources & LINE_BIT(i) && i != to->index) {
            add_source(to->order, i, theirs->source[i]);
        }
    }
}

static bool fdr_emit(Processor *to, OrderEmit *emit, void *opaque)
{
    Fdr *fdr = to->order;
    bool any = false;

    for (unsigned i = 0; i < to->sphere->n_processors; i++) {
        if (fdr->sources & LINE_BIT(i) &&
            fdr->source[i] > MAX(fdr->seen[i], fdr->implied[i])) {
            emit(to, i, fdr->source[i], opaque);
            any = true;
        }
        fdr->seen[i] = MAX(fdr->seen[i], MAX(fdr->source[i], fdr->implied[i]));
        fdr->source[i] = fdr->implied[i] = 0;
    }
    fdr->sources = 0;
    return any;
}

const OrderRecorder fdr_recorder = {
    .new = fdr_new,
    .free = g_free,
    .after = fdr_after,
    .after_position = fdr_after_position,
    .after_sources = fdr_after_sources,
    .emit = fdr_emit,
};
