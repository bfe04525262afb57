/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Leases: lines that move often stay with their dirty owner for a while.
 *
 * A requester of such lines gives their owner a lease: it lets the owner go on past boundaries, and
 * waits until the lease ends.  But an owner that writes no more, for example since it spins on a
 * line that another processor must write, would only lose time.  Stores that hit are not seen.  So
 * an owner that is asked puts its write bits of the lines aside (L1_ASIDE): its next store misses,
 * and takes them back.  Some steps later the owner looks whether they are back, and if not, ends
 * the lease of the requester that waits for them.
 *
 * A lease changes speed, never correctness.  A write bit put aside counts as a write bit in every
 * other respect, and is lost when the write bit would be.  Ownership alone does not justify a
 * write bit: the owner of a line in a page with copies must make a request for each store, and is
 * ordered after former table users when it gets the bit (copies_store_unseen(), invariant 3).
 */
#include "protocol/chaos.h"
#include "protocol/lease.h"
#include "protocol/policy.h"
#include "protocol/sphere-internal.h"
#include "protocol/sphere-lock.h"

/* An owner that goes on writing looks at last after so many times chaos.look_again steps. */
#define LONGEST_PAUSE 8

/* --- the requester ----------------------------------------------------------------- */

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

/* Kick @from in any case: now, to look whether it still writes; and again when the lease ends. */
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

/* --- the holder -------------------------------------------------------------------- */

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

/*
 * Return true if @p, since it looked last, has written lines that @asker waits for, and put their
 * write bits aside.  @p's own thread, at a boundary.
 */
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

/* End the leases of requesters that wait for lines that @p no longer writes.  True: some last. */
static bool end_leases(Processor *p, uint32_t inbox)
{
    bool lasts = false;

    FOREACH_PROCESSOR(asker, p->sphere, inbox) {
        if (lease_lasts(asker)) {
            if (has_written(p, asker)) {
                lasts = true;
            } else {
                lease_end(asker);
                p->counts.leases_ended++;
            }
        }
    }
    return lasts;
}

/*
 * Look less and less often at an owner that goes on writing: each look costs a boundary and a
 * store that misses.  Look at a boundary that comes a little early, too: the next block of code may
 * be too long to end where the pause does.
 */
Position sphere_look_at_leases(Processor *p, Position position)
{
    uint32_t inbox = __atomic_load_n(&p->inbox, __ATOMIC_ACQUIRE);

    if (!inbox) {
        p->look.pause = chaos.look_again;
        return SPHERE_NO_LEASE;
    }
    if (position - p->look.at >= p->look.pause / 2) {
        if (!end_leases(p, inbox)) {
            p->look.pause = chaos.look_again;
            return SPHERE_NO_LEASE;
        }
        p->look.at = position;
        p->look.pause = MIN(2 * p->look.pause, LONGEST_PAUSE * chaos.look_again);
    }
    return position + p->look.pause;
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
