/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How lines pass between processors.  sphere.h has the invariants and the lock order.
 *
 * A request is served by the requester when it is made, and then by each holder at that holder's
 * next safepoint.  To serve a request is to find its blockers, the holders that must be invalidated
 * or downgraded; to take the lines from the blockers that are SAFE; and to put the request into the
 * inbox of the others.  Without blockers the lines are granted.  A waiting requester is RUNNING
 * from that moment on, though its thread may still sleep, so no processor takes the lines back
 * before they are used.
 *
 * The first requester reserves the lines, all or none.  Later requesters wait behind the
 * reservation.  So a processor with a reservation waits only for RUNNING processors, which come to
 * a safepoint; and a processor that waits behind a reservation has none.  Hence no cycle of waiters
 * can form.  serve() and serve_inbox() keep requests from starving.
 *
 * Copies of a page are in copies.c, user mode in user-mode.c.  policy.c decides how much to request
 * and what to keep or release: it changes speed, never correctness.  order.h leads to the
 * recorders of the order.
 */
#include <string.h>

#include "protocol/chaos.h"
#include "protocol/copies.h"
#include "protocol/directory.h"
#include "protocol/lease.h"
#include "protocol/offers.h"
#include "protocol/order.h"
#include "protocol/policy.h"
#include "protocol/sphere-internal.h"
#include "protocol/sphere-lock.h"
#include "protocol/user-mode.h"

/* How long a waiter spins before it sleeps. */
#define SPIN_US 5

#define EVERYBODY UINT32_MAX

/* --- a page's lines ------------------------------------------------------------ */

void sphere_set_l1(Processor *p, const SpherePage *page, unsigned line, uint8_t byte)
{
    if (!p->l1) {
        return;
    }
    byte &= page->protected ? L1_READ : L1_READ | L1_WRITE | L1_ASIDE;
    for (unsigned i = page->lines ? line : 0; i < (page->lines ? line + 1 : SPHERE_PAGE_LINES);
         i++) {
        uint8_t *l1 = &sphere_l1_of(p, page)[i];

        __atomic_store_n(l1, (__atomic_load_n(l1, __ATOMIC_RELAXED) & L1_WANTED) | byte,
                         __ATOMIC_RELAXED);
    }
}

static void split(Sphere *sphere, SpherePage *page)
{
    __atomic_fetch_add(&sphere->lines_bytes, page_split(page), __ATOMIC_RELAXED);
}

/*
 * Join @page if @p owns all its lines.  Not if protected: its stores must not hit unseen.  Nor if
 * @p would offer some of them, since others want lines of it.
 */
static void join(Processor *p, SpherePage *page)
{
    if (page->lines && !page->protected && page_is_of(page, p->index) && !offers_any(p, page)) {
        __atomic_fetch_sub(&p->sphere->lines_bytes, page_join(page), __ATOMIC_RELAXED);
        sphere_set_l1(p, page, 0, L1_READ | L1_WRITE);
    }
}

/*
 * Return the access that @p is granted to @line: that of its request, or WRITE if the line is
 * migratory.  Called with page->lock held.  No line of a protected page migrates: it would get no
 * write bit, so no miss would be saved.  And a code user must stay a sharer of all lines of its
 * code: a later writer is ordered after it because it is invalidated then (invariant 3).
 */
static SphereAccess effective(const Processor *p, const SpherePage *page, const Line *line)
{
    return page->protected && SPHERE_RULE(NO_MIGRATION) ? p->request.access :
           line_effective(line, p->index, p->request.access);
}

/* Return the blockers of @p's request; @reservers: others that have reserved some of its lines. */
static uint32_t blockers(Processor *p, SpherePage *page, uint32_t *reservers)
{
    uint32_t in_the_way = 0;
    unsigned i;

    *reservers = 0;
    FOREACH_LINE(i, page_distinct(page, p->request.lines)) {
        Line *line = page_line(page, i);

        in_the_way |= line_blockers(line, p->index, effective(p, page, line));
        if (line->reserved && line->reserved != p->index + 1) {
            *reservers |= LINE_BIT(line->reserved - 1);
        }
    }
    return in_the_way;
}

/* Return true if lines of @page may be taken from holders that run on.  Page's lock. */
static bool can_be_offered(const SpherePage *page)
{
    return page->lines && !page->protected;
}

/* Let a processor in WFE go on: it has lost a line. */
static void wake_dozing(Processor *p)
{
    if (__atomic_load_n(&p->dozing, __ATOMIC_RELAXED)) {
        __atomic_store_n(&p->dozing, 0, __ATOMIC_RELAXED);
        sphere_wake_one(&p->dozing);
    }
}

/*
 * Take the lines of @p's request from @from, and order @p after @from.  Called with page->lock and
 * from->lock held.  @from is SAFE, serves this request, or was @out_of_reach when the caller looked
 * under the lock: in user mode, where it cannot reach the page (invariant 1).
 */
static void take(Processor *p, SpherePage *page, Processor *from, bool out_of_reach)
{
    Position position = out_of_reach ? from->left_kernel : from->published;
    bool lost = false;
    unsigned i;

    FOREACH_LINE(i, page_distinct(page, p->request.lines)) {
        Line *line = page_line(page, i);
        SphereAccess access = effective(p, page, line);

        if (line_blockers(line, p->index, access) & LINE_BIT(from->index)) {
            uint8_t left;

            p->counts.unwritten += line->unwritten;
            left = line_revoke(line, from->index, position, access);
            sphere_set_l1(from, page, i, left);
            lost |= !left;
            if (from->l1 && can_be_offered(page)) {
                offers_lost(from, p, page, i, out_of_reach ? 0 : position);
            }
        }
    }
    p->request.passed = true;
    if (p->request.access == SPHERE_WRITE && page->protected) {
        copies_drop(p, page, from);
    }
    if (lost) {
        wake_dozing(from);
    }
    if (!out_of_reach && SPHERE_RULE(TAKE_ARC)) {
        order_after(p, from);
    } else if (out_of_reach && SPHERE_RULE(USER_ARC)) {
        order_after_position(p, from, position, ORDER_USER_MODE);
    }
}

/*
 * Take the lines of @p's request that others offer, and order @p after the offers.  Only if the
 * request need not wait behind a reservation, and there are no copies: @p must take those from
 * holders at a safepoint.  Called with page->lock held, before the request is granted or reserves.
 */
static void take_offered(Processor *p, SpherePage *page)
{
    uint32_t reservers;
    uint32_t in_the_way = blockers(p, page, &reservers);
    unsigned i;

    if (!can_be_offered(page) || reservers) {
        return;
    }
    FOREACH_LINE(i, in_the_way ? p->request.lines : 0) {
        Line *line = &page->lines[i];
        SphereAccess access = effective(p, page, line);

        FOREACH_PROCESSOR(from, p->sphere, line_blockers(line, p->index, access)) {
            Position position;

            if (from->l1 && offers_take(from, page, i, access, &position)) {
                p->counts.unwritten += line->unwritten;
                line_revoke(line, from->index, position, access);
                p->request.passed = true;
                p->counts.offers_taken++;
                if (SPHERE_RULE(OFFER_ARC)) {
                    order_after_position(p, from, position, ORDER_OFFERED);
                }
                if (access == SPHERE_WRITE) {
                    wake_dozing(from);
                }
            }
        }
    }
}

/*
 * Take over the reservations of others; only an exclusive requester finds any.  Sharers that
 * the reserver invalidated are not in the directory any more, so @p is ordered after the
 * reserver's sources instead (invariant 3).  The reserver must ask table users again, since they
 * may make new copies after @p's access.
 */
static void pass(Processor *p, SpherePage *page)
{
    unsigned i;

    FOREACH_LINE(i, page_distinct(page, p->request.lines)) {
        unsigned reserved = page_line(page, i)->reserved;

        if (reserved && reserved != p->index + 1) {
            Processor *reserver = &p->sphere->processor[reserved - 1];

            if (SPHERE_RULE(PASS_ARCS)) {
                order_after_sources(p, reserver);
            }
            reserver->request.dropped = 0;
        }
    }
}

static void reserve(Processor *p, SpherePage *page)
{
    unsigned i;

    if (!SPHERE_RULE(RESERVE)) {
        return;
    }
    if (!page->lines && p->request.lines != ALL_LINES) {
        /*
         * No other processor holds the page, but there are copies.  Reserve only these lines: the
         * grant would leave the others reserved if the page were split meanwhile.
         */
        split(p->sphere, page);
    }
    pass(p, page);
    FOREACH_LINE(i, page_distinct(page, p->request.lines)) {
        page_line(page, i)->reserved = p->index + 1;
    }
}

/* Grant one line; return its L1 byte, as if the page were not protected. */
static uint8_t grant_line(Processor *p, SpherePage *page, unsigned i, int64_t now)
{
    Line *line = page_line(page, i);
    SphereAccess access = effective(p, page, line);
    unsigned reserved = line->reserved;
    uint8_t byte;

    if (line->writer && SPHERE_RULE(WRITER_ARC)) {
        order_after_position(p, &p->sphere->processor[line->writer - 1], line->written,
                             ORDER_LAST_WRITER);
    }
    p->counts.migratory += access != p->request.access;
    byte = line_grant(line, p->index, p->request.access, access);
    sphere_set_l1(p, page, i, byte);
    if (p->request.passed && can_be_offered(page)) {
        offers_got(p, page, i);
    }
    line->since = now;
    /* A store in hand passes the reserver, which stays next in line. */
    line->reserved = p->request.in_hand && reserved != p->index + 1 ? reserved : 0;
    return byte;
}

/* Grant @p's request, which has no blockers.  Called with page->lock held. */
static void grant(Processor *p, SpherePage *page, int64_t now)
{
    uint8_t bits = 0;
    unsigned i;

    copies_granted(p, page);
    if (!p->request.in_hand) {
        pass(p, page);
    }
    FOREACH_LINE(i, page_distinct(page, p->request.lines)) {
        bits |= grant_line(p, page, i, now);
    }
    if (p->request.table || p->request.code) {
        copies_protect(p, page);
    }
    /* A read may also return write bits: of a migratory line, or of a line that @p owns. */
    if (bits & L1_WRITE && (p->request.access == SPHERE_WRITE || SPHERE_RULE(LEFT_AT_READ))) {
        copies_store_unseen(p, page);
    }
    /* Joining gives all write bits: @p was just ordered after former table users. */
    if (p->request.access == SPHERE_WRITE && p->request.lines & (p->request.lines - 1)) {
        join(p, page);
    }
}

/* --- requests ------------------------------------------------------------------ */

/*
 * Take lines from each of @in_the_way from which take() may: @server is RUNNING but serves.  Put
 * the request into the inbox of the others.  If @behind, @in_the_way are reservers, and the
 * request waits behind them all.  Return true if none is left.  Called with page->lock held.
 */
static bool take_or_ask(Processor *p, SpherePage *page, const Processor *server,
                        uint32_t in_the_way, bool behind)
{
    bool clear = true;

    for (unsigned i = 0; i < p->sphere->n_processors; i++) {
        Processor *from = &p->sphere->processor[i];
        bool out_of_reach;

        if (!(in_the_way & LINE_BIT(i))) {
            continue;
        }
        sphere_lock(&from->lock);
        out_of_reach = user_cannot_reach(from, page);
        if ((!from->running || from == server || out_of_reach) && !behind) {
            take(p, page, from, out_of_reach);
            p->counts.taken++;
            p->counts.unasked += from->running && from != server;
        } else {
            clear = false;
            __atomic_fetch_or(&from->inbox, LINE_BIT(p->index), __ATOMIC_RELEASE);
            lease_asks(p, from);
        }
        sphere_unlock(&from->lock);
    }
    return clear;
}

/*
 * Grant the request if it has no blockers, else reserve its lines.  Called with page->lock held.
 * Only requested lines, which are reserved then, are taken, hence the split: a sharer that lost
 * another line, to no processor, would be forgotten (invariant 3).  Copies are dropped after the
 * lines are taken: only then is the value of a word final, which tells whether it has copies.
 */
static bool grant_or_reserve(Processor *p, SpherePage *page, const Processor *server, int64_t now)
{
    uint32_t reservers;
    uint32_t in_the_way = blockers(p, page, &reservers);
    bool owns = p->request.in_hand && SPHERE_RULE(IN_HAND_PASSES);
    bool behind = reservers && !p->exclusive && !owns;

    if (!page->lines && p->request.lines != ALL_LINES && in_the_way && !behind) {
        split(p->sphere, page);         /* joined since the request was made */
    }
    if (!take_or_ask(p, page, server, behind ? reservers : in_the_way, behind) ||
        (p->request.access == SPHERE_WRITE && page->protected &&
         !take_or_ask(p, page, server, copies_holders(p, page), false))) {
        if (!behind) {
            reserve(p, page);
        }
        return false;
    }
    grant(p, page, now);
    return true;
}

/*
 * Serve @p's request again if it waits on @page.  Return true if granted, with @sleeps telling
 * whether @p must be woken.  Called with page->lock held.
 */
static bool serve_on_page(Processor *p, SpherePage *page, const Processor *server, bool *sleeps)
{
    /* Under page->lock, request.page is @page exactly while the request waits there. */
    if (__atomic_load_n(&p->request.page, __ATOMIC_RELAXED) != page ||
        !grant_or_reserve(p, page, server, sphere_now_us())) {
        return false;
    }
    __atomic_store_n(&p->request.page, NULL, __ATOMIC_RELAXED);
    sphere_lock(&p->lock);
    p->running = SPHERE_RULE(RUN_AT_GRANT);
    copies_keep_in_hand(p, page);
    if (__atomic_load_n(&p->inbox, __ATOMIC_RELAXED)) {
        sphere_kick(p);        /* requesters that came while @p was SAFE did not kick */
    }
    *sleeps = __atomic_exchange_n(&p->request.granted, GRANT_GIVEN, __ATOMIC_RELEASE) ==
              GRANT_SLEPT_FOR;
    sphere_unlock(&p->lock);
    return true;
}

/*
 * Serve @p's request at a holder's safepoint; @server is that holder if RUNNING, else NULL.  On a
 * grant the next waiter for the page reserves before any newcomer; otherwise two processors that
 * take turns could starve a third (tests/protocol/model/ownership.pml).  Return the processors to
 * wake.
 */
static uint32_t serve(Processor *p, const Processor *server)
{
    SpherePage *page = __atomic_load_n(&p->request.page, __ATOMIC_RELAXED);
    unsigned n = p->sphere->n_processors;
    uint32_t asleep = 0;
    bool sleeps;

    if (!page) {
        return 0;
    }
    sphere_lock(&page->lock);
    if (serve_on_page(p, page, server, &sleeps)) {
        asleep = sleeps ? LINE_BIT(p->index) : 0;
        for (unsigned i = 1; i < n; i++) {
            Processor *next = &p->sphere->processor[(p->index + i) % n];

            if (serve_on_page(next, page, lease_lasts(next) ? NULL : server, &sleeps) && sleeps) {
                asleep |= LINE_BIT(next->index);
            }
        }
    }
    sphere_unlock(&page->lock);
    return asleep;
}

static void wake(Sphere *sphere, uint32_t asleep)
{
    for (unsigned i = 0; asleep; i++, asleep >>= 1) {
        if (asleep & 1) {
            sphere_wake_one(&sphere->processor[i].request.granted);
        }
    }
}

/*
 * Decide how many lines to request after a miss.  A page that is not split is granted whole if it
 * has no blockers, or if the policy takes it for unshared: memory that was freed and is used
 * again.  Otherwise the page is split.  Called with page->lock held.
 */
static void widen(Processor *p, SpherePage *page, int64_t now)
{
    uint32_t reservers;
    uint32_t in_the_way = blockers(p, page, &reservers);
    unsigned i;

    if (!page->lines) {
        if (p->request.lines == ALL_LINES || !(in_the_way | reservers)) {
            return;
        }
        if (!reservers && policy_moves_whole(page, now)) {
            p->request.lines = ALL_LINES;
            p->counts.pages_moved++;
            return;
        }
        split(p->sphere, page);
    }
    if (in_the_way && !reservers && policy_moves_lines(p, page, in_the_way)) {
        for (i = 0; i < SPHERE_PAGE_LINES; i++) {
            Line *line = &page->lines[i];

            if ((line->holders & ~LINE_BIT(p->index)) == in_the_way && !line->reserved) {
                p->request.lines |= UINT64_C(1) << i;
            }
        }
        p->counts.pages_moved++;
    } else if (in_the_way && !reservers && !page->protected) {
        p->request.lines |= policy_neighbours(page, p->request.lines, in_the_way);
    }
}

/* --- making a request ---------------------------------------------------------------- */

/* Grant the common miss at once: one line, no blocker, no reservation, no lease on the page. */
static bool grant_at_once(Processor *p, SpherePage *page)
{
    unsigned i = __builtin_ctzll(p->request.lines);
    Line *line;

    if (!p->l1 || !can_be_offered(page) || p->request.lines & (p->request.lines - 1) ||
        policy_is_hot(page)) {
        return false;
    }
    line = &page->lines[i];
    if (line->reserved || line_blockers(line, p->index, effective(p, page, line))) {
        return false;
    }
    grant(p, page, line->since);
    copies_keep_in_hand(p, page);
    return true;
}

/* Make @p's request.  Called with page->lock held; releases it. */
static SphereAnswer ask(Processor *p, SpherePage *page)
{
    uint64_t taken = p->counts.taken + p->counts.offers_taken;
    bool granted;
    int64_t now;

    g_assert(!p->request.page);
    p->counts.misses++;
    p->request.waited = p->request.passed = false;
    take_offered(p, page);
    if (grant_at_once(p, page)) {
        if (can_be_offered(page)) {     /* it may be protected now: p->request.table */
            offers_note_request(p, page);
        }
        p->counts.local += p->counts.taken + p->counts.offers_taken == taken;
        sphere_unlock(&page->lock);
        return SPHERE_GRANTED;
    }
    now = sphere_now_us();
    p->request.dropped = 0;
    __atomic_store_n(&p->request.granted, GRANT_AWAITED, __ATOMIC_RELAXED);
    widen(p, page, now);
    /* Before any holder is asked: a holder that is asked may serve the request at once. */
    __atomic_store_n(&p->request.page, page, __ATOMIC_RELAXED);
    p->request.in_hand = copies_is_in_hand(p, page) && SPHERE_RULE(IN_HAND);
    g_assert(!p->request.in_hand || lines_are_of(page, p->request.lines, p->index));
    lease_begin(p, page, now);
    granted = grant_or_reserve(p, page, NULL, now);
    p->request.waited = !granted;
    if (p->l1 && can_be_offered(page) && !(p->request.code && SPHERE_RULE(CODE_STAYS))) {
        offers_note_request(p, page);
    }
    p->request.in_hand = false;
    while (!granted && p->exclusive) {
        /* No other vCPU runs, so the blocker is DMA, which soon ends, or waits and is SAFE. */
        __atomic_store_n(&p->request.page, NULL, __ATOMIC_RELAXED);
        sphere_unlock(&page->lock);
        sphere_yield();
        sphere_lock(&page->lock);
        granted = grant_or_reserve(p, page, NULL, now);
    }
    if (granted) {
        __atomic_store_n(&p->request.page, NULL, __ATOMIC_RELAXED);
        copies_keep_in_hand(p, page);
        p->counts.local += p->counts.taken + p->counts.offers_taken == taken;
    } else {
        p->counts.asked++;
        p->counts.leases += lease_lasts(p);
        policy_asked(page, now, lease_lasts(p));
    }
    sphere_unlock(&page->lock);
    return granted ? SPHERE_GRANTED : SPHERE_ASKED;
}

static uint64_t lines_of(uint64_t offset, unsigned size)
{
    unsigned first = offset >> SPHERE_LINE_SHIFT & (SPHERE_PAGE_LINES - 1);
    unsigned last = (offset + size - 1) >> SPHERE_LINE_SHIFT & (SPHERE_PAGE_LINES - 1);

    return ALL_LINES >> (SPHERE_PAGE_LINES - 1 - last) & ALL_LINES << first;
}

SphereAnswer sphere_acquire(Processor *p, uint64_t offset, unsigned size, SphereAccess access)
{
    SpherePage *page = sphere_page_at(p->sphere, offset);
    unsigned in_page = offset & ((1u << SPHERE_PAGE_SHIFT) - 1);

    g_assert(size && in_page + size <= 1u << SPHERE_PAGE_SHIFT);
    if (p->l1 && sphere_take_back(p, offset, size, access)) {
        return SPHERE_GRANTED;
    }
    sphere_lock(&page->lock);
    p->request.lines = lines_of(offset, size);
    p->request.access = access;
    p->request.table = p->request.code = false;
    g_assert(page->open || !p->in_user || !SPHERE_RULE(LEAVE_USER));
    p->request.word = in_page / 8;
    p->request.last_word = (in_page + size - 1) / 8;
    if (access == SPHERE_WRITE && lease_goes_on(p, page)) {
        sphere_unlock(&page->lock);
        return SPHERE_GRANTED;
    }
    return ask(p, page);
}

static SphereAnswer enter(Processor *p, SpherePage *page, uint64_t lines, bool table, bool code)
{
    if (SPHERE_RULE(WALKS_OPEN)) {
        user_open(page);        /* user mode, too, walks tables and fetches code */
    }
    p->request.lines = lines;
    p->request.access = SPHERE_READ;
    p->request.table = table;
    p->request.code = code;
    return ask(p, page);
}

SphereAnswer sphere_enter_table(Processor *p, uint64_t offset)
{
    SpherePage *page = sphere_page_at(p->sphere, offset);

    sphere_lock(&page->lock);
    if (copies_in_table(p, page) || copies_enter_again(p, page, lines_of(offset, 1))) {
        sphere_unlock(&page->lock);
        return SPHERE_GRANTED;
    }
    return enter(p, page, lines_of(offset, 1), true, false);
}

SphereAnswer sphere_enter_code(Processor *p, uint64_t offset)
{
    SpherePage *page = sphere_page_at(p->sphere, offset);

    sphere_lock(&page->lock);
    if (page->code & LINE_BIT(p->index)) {
        page->own_stores = 0;
        sphere_unlock(&page->lock);
        return SPHERE_GRANTED;
    }
    if (SPHERE_RULE(CODE_STAYS)) {
        offers_forget(p, page);
    }
    /* All lines, to come after the last writer of each: replay may cut TBs that fetch more. */
    return enter(p, page, ALL_LINES, false, true);
}

void sphere_arcs(Processor *p, OrderEmit *emit, void *opaque)
{
    const OrderRecorder *fdr = p->sphere->recorder[RACE_FDR];
    bool step;

    if (!p->told.sources) {
        return;
    }
    step = fdr && fdr->emit_arcs(p, emit, opaque);
    if (p->sphere->has_episodes) {
        step |= episodes_emit(p);
    }
    p->told.sources = 0;
    if (step) {
        p->ordered = SPHERE_RULE(ORDERED) ? p->floor + 1 : 0;
    }
    if (p->sphere->has_episodes) {
        sphere_log_episodes(p);
    }
}

/* --- running and safe ----------------------------------------------------------- */

/*
 * Serve those of @askers whose requests are in @p's inbox; return the processors to wake.  The
 * order begins after @p, so it differs between servers: the first is granted, the second reserves,
 * and the last must not always be the same processor.  @server is @p if @p is RUNNING, else NULL:
 * a waiting @p may be granted its own request meanwhile, and must keep those lines.  A requester
 * sets its bit with release and @p clears it with acquire, so @p sees the request: no other
 * processor would look for it.
 */
static uint32_t serve_inbox(Processor *p, const Processor *server, uint32_t askers)
{
    uint32_t inbox = __atomic_fetch_and(&p->inbox, ~askers, __ATOMIC_ACQUIRE) & askers;
    uint32_t asleep = 0;

    for (unsigned n = p->sphere->n_processors, i = 1; inbox && i < n; i++) {
        Processor *next = &p->sphere->processor[(p->index + i) % n];

        if (inbox & LINE_BIT(next->index)) {
            asleep |= serve(next, server);
        }
    }
    return asleep;
}

static void become_safe(Processor *p, Position position)
{
    copies_let_go(p);
    sphere_published(p);
    sphere_lock(&p->lock);
    p->running = false;
    p->published = position;
    sphere_unlock(&p->lock);
}

/* Become SAFE before waking a thread, which may preempt this thread on its host core. */
void sphere_serve(Processor *p, Position position)
{
    uint32_t asleep;

    g_assert(!p->told.sources && position >= p->ordered);
    copies_let_go(p);
    sphere_published(p);
    p->published = position;
    asleep = serve_inbox(p, p, lease_pressing(p));
    offers_along(p, position);
    if (asleep) {
        become_safe(p, position);
        wake(p->sphere, asleep | serve_inbox(p, NULL, lease_pressing(p)));
        sphere_run(p);
    }
}

void sphere_safe(Processor *p, Position position)
{
    g_assert(!p->told.sources && position >= p->ordered);
    become_safe(p, position);
    wake(p->sphere, serve_inbox(p, NULL, EVERYBODY));
}

void sphere_doze(Processor *p, Position position, unsigned us)
{
    __atomic_store_n(&p->dozing, 1, __ATOMIC_RELAXED);
    sphere_safe(p, position);
    sphere_nap_while(&p->dozing, 1, us);
    __atomic_store_n(&p->dozing, 0, __ATOMIC_RELAXED);
}

void sphere_run(Processor *p)
{
    sphere_lock(&p->lock);
    p->running = true;
    p->floor = p->published;
    sphere_unlock(&p->lock);
}

void sphere_come_after(Processor *p, Processor *other, Position position)
{
    order_after_position(p, other, position, ORDER_LAST_WRITER);
}

bool sphere_is_granted(Processor *p)
{
    return __atomic_load_n(&p->request.granted, __ATOMIC_ACQUIRE) == GRANT_GIVEN;
}

/* Sleep until the request is granted, or for @us microseconds if that is not 0. */
static void sleep_for_grant(Processor *p, unsigned us)
{
    int awaited = GRANT_AWAITED;

    __atomic_compare_exchange_n(&p->request.granted, &awaited, GRANT_SLEPT_FOR, false,
                                __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    if (us) {
        sphere_nap_while(&p->request.granted, GRANT_SLEPT_FOR, us);
    } else {
        sphere_sleep_while(&p->request.granted, GRANT_SLEPT_FOR);
    }
}

static void wait_for_grant(Processor *p)
{
    int64_t began = sphere_now_us();
    int64_t since = began, waited;
    bool spins = policy_spins(p);
    unsigned log2;

    while (!sphere_is_granted(p)) {
        waited = sphere_now_us() - since;
        if (spins && waited <= SPIN_US) {
            sphere_relax();
        } else if (!lease_lasts(p)) {
            __atomic_fetch_add(&p->sphere->n_asleep, 1, __ATOMIC_RELAXED);
            sleep_for_grant(p, 0);
            __atomic_fetch_sub(&p->sphere->n_asleep, 1, __ATOMIC_RELAXED);
        } else if (waited < p->request.lease_us) {
            sleep_for_grant(p, p->request.lease_us - waited);
        } else {
            lease_end(p);
            since = sphere_now_us();
        }
    }
    waited = sphere_now_us() - began;
    log2 = waited ? 64 - __builtin_clzll(waited) : 0;
    p->counts.wait_us[MIN(log2, G_N_ELEMENTS(p->counts.wait_us) - 1)]++;
    p->counts.waited_us += waited;
}

bool sphere_linger(Processor *p)
{
    int64_t end = sphere_now_us() + chaos.linger_us;
    bool granted = sphere_is_granted(p);

    if (!granted && !policy_spins(p)) {
        return false;
    }
    while (!granted && !lease_lasts(p) && !sphere_is_pressed(p) && sphere_now_us() <= end) {
        sphere_relax();
        granted = sphere_is_granted(p);
    }
    if (granted || sphere_now_us() > end) {     /* else a lease or another processor ended it */
        policy_spun(p, granted);
    }
    p->counts.lingered += granted;
    return granted;
}

void sphere_await(Processor *p, Position position)
{
    bool wait;

    sphere_lock(&p->lock);
    wait = !sphere_is_granted(p);
    if (wait) {
        g_assert(position >= p->ordered);
        copies_let_go(p);
        sphere_published(p);
        p->running = false;
        p->published = position;
    }
    sphere_unlock(&p->lock);
    if (wait) {
        wake(p->sphere, serve_inbox(p, NULL, EVERYBODY));
        wait_for_grant(p);
    }
    if (!SPHERE_RULE(RUN_AT_GRANT)) {
        p->running = true;
    }
    p->floor = position;
}
