/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * FDR's recorder of order (Xu, Bodik, Hill: A "Flight Data Recorder", section 4.2): it logs an arc
 * when a line passes between two processors, unless other arcs imply that arc.
 *
 * Each processor has a vector (the paper's VIC): how many steps of each other processor come before
 * its own next step.  An arc that would not raise the vector is not logged.  A processor that is
 * ordered after a SAFE processor inherits that processor's vector: by invariant 4 the step into
 * which the latest arcs of the SAFE processor lead has ended.
 */
#include "protocol/order.h"
#include "protocol/sphere-internal.h"

typedef struct Fdr {
    Position seen[SPHERE_MAX_PROCESSORS];
    Position implied[SPHERE_MAX_PROCESSORS];    /* by the vectors of sources of the next step */
} Fdr;

static Fdr *fdr_of(const Processor *p)
{
    return p->order[RACE_FDR];
}

static void *fdr_new(G_GNUC_UNUSED unsigned index, G_GNUC_UNUSED unsigned n,
                     G_GNUC_UNUSED Position max)
{
    return g_new0(Fdr, 1);
}

/*
 * Inherit the vector of @from.  It does not change meanwhile: @from is SAFE and locked, or serves
 * the request in this thread.
 */
static void imply(Processor *to, const Processor *from)
{
    Fdr *fdr = fdr_of(to);
    const Fdr *theirs = fdr_of(from);

    for (unsigned i = 0; i < to->sphere->n_processors; i++) {
        if (i != from->index && i != to->index) {
            fdr->implied[i] = MAX(fdr->implied[i], theirs->seen[i]);
        }
    }
}

static void fdr_after(Processor *to, Processor *from, G_GNUC_UNUSED Position position,
                      OrderOrigin origin)
{
    if (origin == ORDER_TAKEN || !SPHERE_RULE(OLD_IMPLIES_NOTHING)) {
        imply(to, from);
    }
}

static bool fdr_emit(Processor *to, OrderEmit *emit, void *opaque)
{
    Fdr *fdr = fdr_of(to);
    bool any = false;

    for (unsigned i = 0; i < to->sphere->n_processors; i++) {
        Position source = to->told.sources & LINE_BIT(i) ? to->told.source[i] : 0;

        fdr->seen[i] = MAX(fdr->seen[i], fdr->implied[i]);
        fdr->implied[i] = 0;
        if (source > fdr->seen[i]) {
            fdr->seen[i] = source;
            emit(to, i, source, opaque);
            to->counts.arcs[to->told.origin[i]]++;
            any = true;
        }
    }
    return any;
}

const OrderRecorder fdr_recorder = {
    .order = RACE_FDR,
    .new = fdr_new,
    .free = g_free,
    .after = fdr_after,
    .emit_arcs = fdr_emit,
};
