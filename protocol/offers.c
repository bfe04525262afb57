/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lines that are offered: others may take them though their holder runs on.
 *
 * A holder offers a line at a boundary.  It puts its permission aside (L1_OFFERED, L1_ASIDE) and
 * stays a holder in the directory.  Then there is a race.  If the holder accesses the line first,
 * the access misses, and the holder takes the line back: it changes its L1 byte, without a lock.
 * If another processor requests the line first, that processor changes the same byte, and need not
 * ask.  Either change is one compare-and-swap, so one of them wins.
 *
 * An offer that is taken back is as if it had never been made: nobody else had the line, and the
 * holder has what it had.  An offer that is taken is as if the holder had served the request at
 * the boundary where it made the offer (invariant 1), or at a later one where it made offers.
 * The taker is ordered after the latest of these (Processor.offered), which lies after every
 * access by the holder to the line (invariant 3).  The holder has raised its floor to there, so no
 * arc leads into an earlier step of it afterwards, and arcs still have no cycle.  A step has ended
 * there since the latest arc came in (invariant 4).  Sharers may be offered, too: they stay in the
 * directory until a writer takes them.
 *
 * So an offer costs little, and an offer in vain costs a miss that takes no lock.  What is offered:
 * lines that have passed between processors, at the first boundary after they were used; but lines
 * that were mostly offered in vain (L1_WANTED, policy.c) only when the holder serves a request.
 * Processors that work on the same objects hand lines over in bursts: who asks for one line of an
 * object soon wants others.  Which lines are offered, and when, changes speed, never correctness.
 */
#include "protocol/offers.h"

#include "protocol/chaos.h"
#include "protocol/copies.h"
#include "protocol/policy.h"
#include "protocol/sphere-internal.h"
#include "protocol/sphere-lock.h"

static uint8_t load(const uint8_t *byte)
{
    return __atomic_load_n(byte, __ATOMIC_RELAXED);
}

/* Change @byte from @old to @new, unless another thread has changed it. */
static bool change(uint8_t *byte, uint8_t old, uint8_t new, int order)
{
    bool changed;

    sphere_seam();
    changed = __atomic_compare_exchange_n(byte, &old, new, false, order, __ATOMIC_RELAXED);
    sphere_seam();
    return changed;
}

/* --- the holder offers -------------------------------------------------------------- */

/* Remember a line that @p has missed. */
static void note(Processor *p, uint64_t line, uint8_t byte)
{
    bool by_chance = chaos_one_in(&p->random, chaos.offer);

    if ((policy_offers_soon(byte) || by_chance) && p->n_soon < SPHERE_MAX_SOON) {
        p->soon[p->n_soon++] = line;
    } else if (policy_offers_along(byte)) {
        p->along[p->n_along++ % SPHERE_MAX_ALONG] = line;
    }
}

void offers_note_request(Processor *p, SpherePage *page)
{
    uint64_t first = sphere_page_offset(p->sphere, page) >> SPHERE_LINE_SHIFT;
    bool passes = p->request.waited && policy_few_lines(p);
    unsigned i;

    FOREACH_LINE(i, p->request.lines) {
        uint8_t byte = load(&p->l1[first + i]);

        note(p, first + i, passes ? policy_passed(byte) : byte);
    }
}

static unsigned without(uint64_t *lines, unsigned n, uint64_t page)
{
    unsigned left = 0;

    for (unsigned i = 0; i < n; i++) {
        if (lines[i] / SPHERE_PAGE_LINES != page) {
            lines[left++] = lines[i];
        }
    }
    return left;
}

void offers_forget(Processor *p, const SpherePage *page)
{
    uint64_t number = page - p->sphere->pages;

    p->n_soon = without(p->soon, p->n_soon, number);
    p->n_along = without(p->along, MIN(p->n_along, SPHERE_MAX_ALONG), number);
}

/*
 * Offer a line, if @p has permission.  With release: who takes the line finds what @p has written,
 * and all that @p has read was read before.  It fails if another processor takes the line right
 * now, because @p is in user mode and cannot reach it.
 */
static bool offer(Processor *p, uint64_t line)
{
    uint8_t byte = load(&p->l1[line]);
    uint8_t offered = (byte & L1_WANTED) | L1_OFFERED | (byte & L1_WRITE ? L1_ASIDE : 0);

    return byte & L1_READ && !(byte & L1_ASIDE) &&
           change(&p->l1[line], byte, offered, __ATOMIC_RELEASE);
}

/* Begin to offer lines at @position.  All steps before it have ended; none later is published. */
static void begin(Processor *p, Position position)
{
    copies_let_go(p);
    sphere_published(p);
    p->floor = position;
    __atomic_store_n(&p->offered, position, __ATOMIC_RELAXED);
}

void offers_along(Processor *p, Position position)
{
    unsigned n = MIN(p->n_along, SPHERE_MAX_ALONG);

    p->n_along = 0;
    if (n) {
        begin(p, position);
    }
    while (n) {
        p->counts.offered += offer(p, p->along[--n]);
    }
}

bool sphere_has_offers(const Processor *p)
{
    return p->n_soon > 0;
}

void sphere_offer(Processor *p, Position position)
{
    g_assert(!p->told.sources);
    if (position < p->ordered && SPHERE_RULE(OFFER_SETTLED)) {
        return;         /* no step has ended since an arc came in (invariant 4): next boundary */
    }
    begin(p, position);
    while (p->n_soon) {
        p->counts.offered += offer(p, p->soon[--p->n_soon]);
    }
}

/*
 * Let @p go on offering what it may still read: the taker has not written the line yet, and will
 * have to take the rest if it does.
 */
void offers_lost(Processor *p, const Processor *taker, SpherePage *page, unsigned line,
                 Position position)
{
    uint8_t *l1 = &sphere_l1_of(p, page)[line];
    uint8_t byte = load(l1);

    if (taker->request.waited && policy_few_lines(taker)) {
        byte = policy_asked_for(taker, byte);
    }
    if (byte & L1_READ && byte & L1_WANTED && position) {
        byte = (byte & L1_WANTED) | L1_OFFERED;
        __atomic_store_n(&p->offered, position, __ATOMIC_RELAXED);
    }
    __atomic_store_n(l1, byte, __ATOMIC_RELAXED);
}

bool offers_any(Processor *p, SpherePage *page)
{
    for (unsigned i = 0; p->l1 && i < SPHERE_PAGE_LINES; i++) {
        if (policy_offers_soon(load(&sphere_l1_of(p, page)[i]))) {
            return true;
        }
    }
    return false;
}

/* --- the race ----------------------------------------------------------------------- */

/* Take an offered line back, if @p still has it and may then have @access to it. */
static bool take_back(Processor *p, uint64_t line, SphereAccess access)
{
    uint8_t byte = load(&p->l1[line]);
    bool may_write = byte & L1_ASIDE || !SPHERE_RULE(OFFER_RETURNS);
    uint8_t back;

    if (!(byte & L1_OFFERED) || (access == SPHERE_WRITE && !may_write)) {
        return false;
    }
    back = (policy_offer_in_vain(p, byte) & L1_WANTED) | L1_READ | (may_write ? L1_WRITE : 0);
    if (!change(&p->l1[line], byte, back, __ATOMIC_RELAXED)) {
        return false;
    }
    p->counts.misses++;
    p->counts.in_vain++;
    note(p, line, back);
    return true;
}

bool sphere_take_back(Processor *p, uint64_t offset, unsigned size, SphereAccess access)
{
    uint64_t line = offset >> SPHERE_LINE_SHIFT;

    return (offset + size - 1) >> SPHERE_LINE_SHIFT == line && take_back(p, line, access);
}

/* With acquire: what @from had written and read before the offer comes before @from->offered. */
bool offers_take(Processor *from, SpherePage *page, unsigned line, SphereAccess access,
                 Position *position)
{
    uint8_t *l1 = &sphere_l1_of(from, page)[line];
    uint8_t byte = load(l1);
    uint8_t left = (policy_offer_taken(byte) & L1_WANTED) |
                   (access == SPHERE_READ ? L1_OFFERED : 0);

    if ((!(byte & L1_OFFERED) && SPHERE_RULE(OFFERED_ONLY)) ||
        !change(l1, byte, left, __ATOMIC_ACQUIRE)) {
        return false;
    }
    *position = __atomic_load_n(&from->offered, __ATOMIC_RELAXED);
    return true;
}

void offers_got(Processor *p, SpherePage *page, unsigned line)
{
    uint8_t *l1 = &sphere_l1_of(p, page)[line];

    if (policy_few_lines(p)) {
        __atomic_store_n(l1, policy_passed(load(l1)), __ATOMIC_RELAXED);
    }
}
