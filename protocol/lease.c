/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Leases: lines that move all the time stay for a while with who writes them.
 *
 * Whoever asks for such lines lets their owner go on at its boundaries, and waits for the end of
 * the lease instead.  But an owner that has stopped writing, since it spins on what another one
 * must write, say, would only lose time.  We do not see stores that hit, so the owner puts its
 * write bits aside when it is asked (L1_ASIDE), and looks some steps later whether they are back:
 * its next store missed then, and took them.  A line that was not written between two looks is
 * given away.
 *
 * A bit that is aside is one that it has, in every other respect: it goes when the write bit would
 * go.  To own the line is not enough: in a page with copies who owns a line must still ask for
 * each store, and be told to come after those who had copies when it gets the bit.
 */
#include "protocol/chaos.h"
#include "protocol/lease.h"
#include "protocol/policy.h"
#include "protocol/sphere-internal.h"
#include "protocol/sphere-lock.h"

/* --- who asks ---------------------------------------------------------------------- */

void lease_begin(Processor *p, SpherePage *page, int64_t now)
{
    __atomic_store_n(&p->request.lease_from, 0, __ATOMIC_RELAXED);
    p->request.lease_us = policy_lease_us(p, page, now);
    __atomic_store_n(&p->request.patient, p->request.lease_us > 0, __ATOMIC_RELAXED);
}

bool lease_lasts(const Processor *p)
{
    return __atomic_load_n(&p->request.patient, __ATOMIC_RELAXED);
}

/* It is kicked in any case: now, to look whether it goes on to write, and when the lease ends. */
void lease_asks(Processor *p, Processor *from)
{
    if (lease_lasts(p)) {
        __atomic_fetch_or(&p->request.lease_from, LINE_BIT(from->index), __ATOMIC_RELAXED);
    }
    if (from->running) {
        sphere_kick(from);
    }
}

void lease_end(Processor *p)
{
    uint32_t lease_from;

    __atomic_store_n(&p->request.patient, false, __ATOMIC_SEQ_CST);
    lease_from = __atomic_exchange_n(&p->request.lease_from, 0, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; lease_from; i++, lease_from >>= 1) {
        if (lease_from & 1) {
            sphere_kick(&p->sphere->processor[i]);
        }
    }
}

/* --- who is asked ------------------------------------------------------------------ */

uint32_t lease_pressing(const Processor *p)
{
    uint32_t inbox = __atomic_load_n(&p->inbox, __ATOMIC_ACQUIRE);
    uint32_t pressing = 0;

    for (unsigned i = 0; inbox >> i; i++) {
        if (inbox >> i & 1 && !lease_lasts(&p->sphere->processor[i])) {
            pressing |= LINE_BIT(i);
        }
    }
    return pressing;
}

bool sphere_is_pressed(const Processor *p)
{
    return lease_pressing(p);
}

/* Has @p written what @asker waits for, since it looked the last time? */
static bool has_written(Processor *p, const Processor *asker)
{
    SpherePage *page = __atomic_load_n(&asker->request.page, __ATOMIC_RELAXED);
    bool written = false;
    unsigned i;

    if (!page) {
        return false;
    }
    sphere_lock(&page->lock);
    if (__atomic_load_n(&asker->request.page, __ATOMIC_RELAXED) == page) {
        FOREACH_LINE(i, page_distinct(page, asker->request.lines)) {
            if (sphere_l1_of(p, page)[i] & L1_WRITE) {
                sphere_set_l1(p, page, i, L1_READ | L1_ASIDE);
                written = true;
            }
        }
    }
    sphere_unlock(&page->lock);
    return written;
}

bool sphere_look_at_leases(Processor *p, Position position)
{
    uint32_t inbox = __atomic_load_n(&p->inbox, __ATOMIC_ACQUIRE);
    bool lasts = false;

    if (position - p->looked < chaos.look_again) {
        return inbox;
    }
    for (unsigned i = 0; inbox; i++, inbox >>= 1) {
        Processor *asker = &p->sphere->processor[i];

        if (inbox & 1 && lease_lasts(asker)) {
            if (has_written(p, asker)) {
                lasts = true;
            } else {
                lease_end(asker);
                p->counts.leases_ended++;
            }
        }
    }
    if (lasts) {
        p->looked = position;
    }
    return lasts;
}

bool lease_goes_on(Processor *p, SpherePage *page)
{
    unsigned i;

    if (!p->l1 || page->protected) {
        return false;
    }
    FOREACH_LINE(i, page_distinct(page, p->request.lines)) {
        if (!(sphere_l1_of(p, page)[i] & (L1_WRITE | L1_ASIDE)) && SPHERE_RULE(GOES_ON)) {
            return false;
        }
    }
    FOREACH_LINE(i, page_distinct(page, p->request.lines)) {
        sphere_set_l1(p, page, i, L1_READ | L1_WRITE);
    }
    return true;
}
