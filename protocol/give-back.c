/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lines that are given back: released before any request for them.
 *
 * Processors that work on the same objects hand lines over in bursts: who asks for one line of an
 * object soon asks for others.  So a processor remembers the lines that it was granted and that
 * others had to wait for before (Line.wanted).  It releases all of them when it serves a request:
 * it has come to a boundary anyway, and the requester will find them free.  A line that others
 * nearly always want, such as a lock, is released at the next boundary, without any request.
 * A line that is given back in vain, and so requested again by the same processor, is wanted less.
 *
 * A release is as if another processor had invalidated the line while this one was SAFE.  When it
 * happens changes speed, never correctness.
 */
#include "protocol/give-back.h"

#include "protocol/chaos.h"
#include "protocol/copies.h"
#include "protocol/policy.h"
#include "protocol/sphere-internal.h"
#include "protocol/sphere-lock.h"

static void note(Lent *lent, unsigned n, SpherePage *page, const Line *line)
{
    lent[n] = (Lent) { page, line - page->lines };
}

void give_back_later(Processor *p, SpherePage *page, const Line *line)
{
    bool by_chance = chaos_one_in(&p->random, chaos.lend);

    if (line->wanted || by_chance) {
        note(p->along, p->n_along++ % SPHERE_MAX_ALONG, page, line);
    }
    if ((policy_gives_back_soon(line) || by_chance) && p->n_lent < SPHERE_MAX_LENT) {
        note(p->lent, p->n_lent++, page, line);
    }
}

/*
 * Return true if @p may release @line.  Only a dirty owner may: the directory keeps it as the last
 * writer, so the next holder is ordered after it (invariant 3).  A mere reader would be forgotten.
 */
static bool can_give_back(Processor *p, const SpherePage *page, const Line *line)
{
    return !page->protected && line->state == LINE_OWNED && line->holders == LINE_BIT(p->index) &&
           !line->reserved && (!line->unwritten || !SPHERE_RULE(READER_STAYS));
}

/* Release a line, if @p still may.  All steps of @p before @position have ended. */
static bool give_back(Processor *p, const Lent *lent, Position position)
{
    SpherePage *page = lent->page;
    bool can;

    sphere_lock(&page->lock);
    can = page->lines && can_give_back(p, page, &page->lines[lent->line]);
    if (can) {
        sphere_set_l1(p, page, lent->line,
                      line_revoke(&page->lines[lent->line], p->index, position, SPHERE_WRITE));
        copies_let_go(p);
    }
    sphere_unlock(&page->lock);
    return can;
}

void give_back_along(Processor *p, Position position)
{
    unsigned n = MIN(p->n_along, SPHERE_MAX_ALONG);

    p->n_along = 0;
    while (n) {
        p->counts.given_along += give_back(p, &p->along[--n], position);
    }
}

bool sphere_has_lent(const Processor *p)
{
    return p->n_lent > 0;
}

void sphere_give_back(Processor *p, Position position)
{
    g_assert(!p->told.sources);
    if (position < p->ordered) {
        return;         /* no step has ended since an arc came in (invariant 4): next boundary */
    }
    sphere_published(p);
    while (p->n_lent) {
        p->counts.given_back += give_back(p, &p->lent[--p->n_lent], position);
    }
}
