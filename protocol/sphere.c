/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How lines pass between processors: see sphere.h for the rules.
 *
 * A request is served by whoever can: by its owner when it is made, and by each
 * holder when that becomes safe.  Serving looks anew at who is in the way, takes
 * from all who are safe, and puts the request into the inbox of the others.
 * When nobody is in the way the line is granted, and the asker, if it was safe,
 * runs from that very moment, though its thread may still sleep: so nobody
 * takes the line back before it was used.
 *
 * The first asker reserves what it asks for, all or nothing; whoever comes next
 * waits for it to be granted.  So a processor that has reserved
 * waits only for processors that run, and one that waits for a reservation has
 * none.
 *
 * What a page's copies add to that is in copies.c, what user mode does in user-mode.c; how much
 * to ask for, and what is kept or given back, is decided in policy.c; who records the order is
 * told through order.h.
 */
#include <string.h>

#include "base/large-table.h"
#include "protocol/chaos.h"
#include "protocol/copies.h"
#include "protocol/directory.h"
#include "protocol/lease.h"
#include "protocol/order.h"
#include "protocol/policy.h"
#include "protocol/sphere-internal.h"
#include "protocol/sphere-lock.h"
#include "protocol/user-mode.h"

/* How long to spin before one sleeps. */
#define SPIN_US 5

#define EVERYBODY UINT32_MAX

/* --- the sphere ------------------------------------------------------------- */

static size_t pages_size(const Sphere *sphere)
{
    return (sphere->size >> SPHERE_PAGE_SHIFT) * sizeof(SpherePage);
}

static size_t l1_size(const Sphere *sphere)
{
    return sphere->size >> SPHERE_LINE_SHIFT;
}

Sphere *sphere_new(unsigned n_vcpus, unsigned n_cores, const void *memory, uint64_t size,
                   const SphereOps *ops, const OrderRecorder *recorder)
{
    Sphere *sphere = g_new0(Sphere, 1);

    g_assert(n_vcpus <= SPHERE_MAX_VCPUS);
    sphere->n_processors = n_vcpus + 1;
    sphere->n_cores = n_cores;
    sphere->memory = memory;
    sphere->size = size;
    sphere->ops = ops;
    sphere->recorder = recorder;
    sphere->pages = large_table_new(pages_size(sphere));
    for (unsigned i = 0; i < sphere->n_processors; i++) {
        Processor *p = &sphere->processor[i];

        p->sphere = sphere;
        p->index = i;
        p->epoch = 1;
        p->random = chaos_stream(&chaos, i);
        p->order = recorder->new();
        p->l1 = i < n_vcpus ? large_table_new(l1_size(sphere)) : NULL;
    }
    return sphere;
}

void sphere_free(Sphere *sphere)
{
    if (!sphere) {
        return;
    }
    for (uint64_t i = 0; i < sphere->size >> SPHERE_PAGE_SHIFT; i++) {
        g_free(sphere->pages[i].lines);
        g_free(sphere->pages[i].tables);
    }
    for (unsigned i = 0; i < sphere->n_processors; i++) {
        large_table_free(sphere->processor[i].l1, l1_size(sphere));
        sphere->recorder->free(sphere->processor[i].order);
    }
    large_table_free(sphere->pages, pages_size(sphere));
    g_free(sphere);
}

uint64_t sphere_memory(const Sphere *sphere)
{
    return pages_size(sphere) + (sphere->n_processors - 1) * l1_size(sphere) +
           __atomic_load_n(&sphere->lines_bytes, __ATOMIC_RELAXED);
}

/* --- a page's lines ------------------------------------------------------------ */

void sphere_set_l1(Processor *p, const SpherePage *page, unsigned line, uint8_t byte)
{
    if (!p->l1) {
        return;
    }
    byte &= page->protected ? L1_READ : L1_READ | L1_WRITE | L1_ASIDE;
    if (page->lines) {
        sphere_l1_of(p, page)[line] = byte;
    } else {
        memset(sphere_l1_of(p, page), byte, SPHERE_PAGE_LINES);
    }
}

static void split(Sphere *sphere, SpherePage *page)
{
    __atomic_fetch_add(&sphere->lines_bytes, page_split(page), __ATOMIC_RELAXED);
}

/* A page that belongs to @p as a whole is one piece again.  Not if stores must be seen. */
static void join(Processor *p, SpherePage *page)
{
    if (page->lines && !page->protected && page_is_of(page, p->index)) {
        __atomic_fetch_sub(&p->sphere->lines_bytes, page_join(page), __ATOMIC_RELAXED);
        sphere_set_l1(p, page, 0, L1_READ | L1_WRITE);
    }
}

/*
 * What @p gets of a line it asks for.  Nothing migrates while there are copies:
 * there are no write bits to save a miss for, and who runs code must stay a
 * reader of every line of it, or later writers of that line do not come after it.
 */
static SphereAccess effective(const Processor *p, const SpherePage *page, const Line *line)
{
    return page->protected && SPHERE_RULE(NO_MIGRATION) ? p->request.access :
           line_effective(line, p->index, p->request.access);
}

/* Who is in the way of @p's request, and for whom is it reserved? */
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

/* @from is safe, as far as this page is concerned, and locked. */
static void take(Processor *p, SpherePage *page, Processor *from)
{
    bool out_of_reach = user_cannot_reach(from, page);
    Position position = out_of_reach ? from->left_kernel : from->published;
    bool lost = false;
    unsigned i;

    FOREACH_LINE(i, page_distinct(page, p->request.lines)) {
        Line *line = page_line(page, i);
        SphereAccess access = effective(p, page, line);

        if (line_blockers(line, p->index, access) & LINE_BIT(from->index)) {
            uint8_t left = line_revoke(line, from->index, position, access);

            sphere_set_l1(from, page, i, left);
            lost |= !left;
        }
    }
    if (p->request.access == SPHERE_WRITE && page->protected) {
        copies_drop(p, page, from);
    }
    if (lost && __atomic_load_n(&from->dozing, __ATOMIC_RELAXED)) {
        __atomic_store_n(&from->dozing, 0, __ATOMIC_RELAXED);
        sphere_wake_one(&from->dozing);
    }
    if (!out_of_reach && SPHERE_RULE(TAKE_ARC)) {
        order_after(p, from);
    } else if (out_of_reach && SPHERE_RULE(USER_ARC)) {
        order_after_position(p, from->index, position);
    }
}

/*
 * Only who is exclusive passes one for whom lines are reserved.  What that one took
 * already, and made others drop, was in vain: this one comes after all that instead.
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
        /* Nobody has the page, but there are copies: only these lines, or nobody frees the rest. */
        split(p->sphere, page);
    }
    pass(p, page);
    FOREACH_LINE(i, page_distinct(page, p->request.lines)) {
        page_line(page, i)->reserved = p->index + 1;
    }
}

/* Returns the L1 byte of the line, but for protection of the page. */
static uint8_t grant_line(Processor *p, SpherePage *page, unsigned i, int64_t now)
{
    Line *line = page_line(page, i);
    SphereAccess access = effective(p, page, line);
    unsigned reserved = line->reserved;
    uint8_t byte;

    if (line->writer && SPHERE_RULE(WRITER_ARC)) {
        order_after_position(p, line->writer - 1, line->written);
    }
    p->counts.migratory += access != p->request.access;
    byte = line_grant(line, p->index, p->request.access, access);
    sphere_set_l1(p, page, i, byte);
    line->since = now;
    /* Whoever has reserved what it has in hand is the next. */
    line->reserved = p->request.in_hand && reserved != p->index + 1 ? reserved : 0;
    return byte;
}

/* Nobody is in the way. */
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
    /* A read may bring write bits as well: of a migratory line, or of one that it owns. */
    if (bits & L1_WRITE && (p->request.access == SPHERE_WRITE || SPHERE_RULE(LEFT_AT_READ))) {
        copies_store_unseen(p, page);
    }
    /* With all write bits: so it has been told to come after who left T, too. */
    if (p->request.access == SPHERE_WRITE && p->request.lines & (p->request.lines - 1)) {
        join(p, page);
    }
}

/* --- requests ------------------------------------------------------------------ */

/*
 * Take from those of @in_the_way who are safe, and ask the others; or, if others
 * were first, wait behind them.  True if nobody is in the way any more.  @server, if any, gives
 * what it has, though it runs.
 */
static bool take_or_ask(Processor *p, SpherePage *page, const Processor *server,
                        uint32_t in_the_way, bool behind)
{
    bool clear = true;

    for (unsigned i = 0; i < p->sphere->n_processors; i++) {
        Processor *from = &p->sphere->processor[i];

        if (!(in_the_way & LINE_BIT(i))) {
            continue;
        }
        sphere_lock(&from->lock);
        if ((!from->running || from == server || user_cannot_reach(from, page)) && !behind) {
            take(p, page, from);
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
 * Grant the request if nobody is in the way, or reserve it.  Nothing is taken but lines that are
 * asked for, and so reserved: a reader of another line, which lost that to nobody, would be
 * forgotten.  Copies come after the lines: only then do the words not change, which tell what to
 * drop.
 */
static bool grant_or_reserve(Processor *p, SpherePage *page, const Processor *server, int64_t now)
{
    uint32_t reservers;
    uint32_t in_the_way = blockers(p, page, &reservers);
    bool owns = p->request.in_hand && SPHERE_RULE(IN_HAND_PASSES);
    bool behind = reservers && !p->exclusive && !owns;

    if (!page->lines && p->request.lines != ALL_LINES && in_the_way && !behind) {
        split(p->sphere, page);         /* it was joined since the request was made */
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
 * Look again at what @p waits for, on @page, which is locked.  True if it is granted, and @p must
 * be woken.
 */
static bool serve_on_page(Processor *p, SpherePage *page, const Processor *server, bool *sleeps)
{
    /* It is this page only as long as the request waits, and we have the lock. */
    if (__atomic_load_n(&p->request.page, __ATOMIC_RELAXED) != page ||
        !grant_or_reserve(p, page, server, sphere_now_us())) {
        return false;
    }
    __atomic_store_n(&p->request.page, NULL, __ATOMIC_RELAXED);
    sphere_lock(&p->lock);
    p->running = SPHERE_RULE(RUN_AT_GRANT);
    copies_keep_in_hand(p, page);
    if (__atomic_load_n(&p->inbox, __ATOMIC_RELAXED)) {
        sphere_kick(p);        /* who asked while it was safe did not */
    }
    *sleeps = __atomic_exchange_n(&p->request.granted, GRANT_GIVEN, __ATOMIC_RELEASE) ==
              GRANT_SLEPT_FOR;
    sphere_unlock(&p->lock);
    return true;
}

/*
 * Somebody gives what it has: look again at what @p waits for.  If it is granted, the next one
 * that waits reserves before any newcomer can, or two who take turns keep a third
 * one waiting for ever (tests/model/ownership.pml).  Returns who was granted something, and
 * must be woken.
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
 * A miss: how much to ask for?  A page in one piece is granted in one piece if
 * nobody is in the way, or if it may be that nobody shares it: memory that was freed
 * and is used again.  Else it is split.
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

/* --- lines that are given back before anybody asks ----------------------------------- */

static void lend(Processor *p, SpherePage *page, const Line *line)
{
    if ((line->wanted || chaos_one_in(&p->random, chaos.lend)) && p->n_lent < SPHERE_MAX_LENT) {
        p->lent[p->n_lent].page = page;
        p->lent[p->n_lent++].line = line - page->lines;
    }
}

/*
 * As if somebody had taken the line from it, safe, and left it to nobody.  Only what it has
 * written: then it is the last writer, and who gets the line comes after it.  A reader
 * would be forgotten.
 */
static bool can_give_back(Processor *p, const SpherePage *page, const Line *line)
{
    return !page->protected && line->state == LINE_OWNED && line->holders == LINE_BIT(p->index) &&
           !line->reserved && (!line->unwritten || !SPHERE_RULE(READER_STAYS));
}

void sphere_give_back(Processor *p, Position position)
{
    g_assert(!p->has_new_sources);
    if (position < p->ordered) {
        return;         /* no step has ended since an arc came in: at the next boundary */
    }
    while (p->n_lent) {
        unsigned i = p->lent[--p->n_lent].line;
        SpherePage *page = p->lent[p->n_lent].page;

        sphere_lock(&page->lock);
        if (page->lines && can_give_back(p, page, &page->lines[i])) {
            sphere_set_l1(p, page, i,
                          line_revoke(&page->lines[i], p->index, position, SPHERE_WRITE));
            copies_let_go(p);
            p->counts.given_back++;
        }
        sphere_unlock(&page->lock);
    }
}

/* --- asking -------------------------------------------------------------------------- */

static bool is_in_vain(const Processor *p, const Line *line)
{
    return line->state == LINE_FREE && line->writer == p->index + 1;
}

/* Most misses: one line that nobody stands in the way of, nor wants. */
static bool grant_at_once(Processor *p, SpherePage *page)
{
    Line *line = policy_line_to_lend(p, page);
    bool in_vain;

    if (!line || line->reserved || policy_is_hot(page) ||
        line_blockers(line, p->index, effective(p, page, line))) {
        return false;
    }
    in_vain = is_in_vain(p, line);
    grant(p, page, line->since);
    policy_asked_for(line, true, in_vain);
    lend(p, page, line);
    copies_keep_in_hand(p, page);
    p->counts.local++;
    return true;
}

/* The request's page is locked; it is unlocked. */
static SphereAnswer ask(Processor *p, SpherePage *page)
{
    uint64_t taken = p->counts.taken;
    bool granted, in_vain;
    int64_t now;
    Line *line;

    g_assert(!p->request.page);
    p->counts.misses++;
    if (grant_at_once(p, page)) {
        sphere_unlock(&page->lock);
        return SPHERE_GRANTED;
    }
    now = sphere_now_us();
    line = policy_line_to_lend(p, page);
    in_vain = line && is_in_vain(p, line);
    p->request.dropped = 0;
    __atomic_store_n(&p->request.granted, GRANT_AWAITED, __ATOMIC_RELAXED);
    widen(p, page, now);
    /* First: whoever is asked serves this as soon as it is safe. */
    __atomic_store_n(&p->request.page, page, __ATOMIC_RELAXED);
    p->request.in_hand = copies_is_in_hand(p, page) && SPHERE_RULE(IN_HAND);
    g_assert(!p->request.in_hand || lines_are_of(page, p->request.lines, p->index));
    lease_begin(p, page, now);
    granted = grant_or_reserve(p, page, NULL, now);
    if (line && page->lines) {          /* it may be in one piece again */
        policy_asked_for(line, granted, in_vain);
        lend(p, page, line);
    }
    p->request.in_hand = false;
    while (!granted && p->exclusive) {
        /* No vCPU runs, so DMA does; it ends soon, and waits for nobody. */
        __atomic_store_n(&p->request.page, NULL, __ATOMIC_RELAXED);
        sphere_unlock(&page->lock);
        sphere_yield();
        sphere_lock(&page->lock);
        granted = grant_or_reserve(p, page, NULL, now);
    }
    if (granted) {
        __atomic_store_n(&p->request.page, NULL, __ATOMIC_RELAXED);
        copies_keep_in_hand(p, page);
        p->counts.local += p->counts.taken == taken;
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
        user_open(page);        /* walks and fetches are made in user mode, too */
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
    /* After the last writer of every line: blocks of other shapes read other bytes. */
    return enter(p, page, ALL_LINES, false, true);
}

void sphere_arcs(Processor *p, OrderEmit *emit, void *opaque)
{
    if (p->has_new_sources) {
        p->has_new_sources = false;
        if (p->sphere->recorder->emit(p, emit, opaque)) {
            p->ordered = SPHERE_RULE(ORDERED) ? p->floor + 1 : 0;
        }
    }
}

/* --- running and safe ----------------------------------------------------------- */

/*
 * In turns: the first is granted, the second reserves, so the last must not always be the same.
 * @server is @p if it runs and gives what it has all the same.  One that waits may be granted
 * its request meanwhile, and gives nothing then.  Who finds a bit in the inbox must find the
 * request, too, for nobody else looks for it: so the one is released, the other acquired.
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
    sphere_lock(&p->lock);
    p->running = false;
    p->published = position;
    sphere_unlock(&p->lock);
}

/* A thread that is woken may take this one's place on its host core: so it is safe then. */
void sphere_serve(Processor *p, Position position)
{
    uint32_t asleep;

    g_assert(!p->has_new_sources && position >= p->ordered);
    copies_let_go(p);
    p->published = position;
    asleep = serve_inbox(p, p, lease_pressing(p));
    if (asleep) {
        become_safe(p, position);
        wake(p->sphere, asleep | serve_inbox(p, NULL, lease_pressing(p)));
        sphere_run(p);
    }
}

void sphere_safe(Processor *p, Position position)
{
    g_assert(!p->has_new_sources && position >= p->ordered);
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

bool sphere_is_granted(Processor *p)
{
    return __atomic_load_n(&p->request.granted, __ATOMIC_ACQUIRE) == GRANT_GIVEN;
}

/* Sleep until it is granted, or for @us microseconds if that is not 0. */
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
    unsigned log2;

    while (!sphere_is_granted(p)) {
        waited = sphere_now_us() - since;
        if (waited <= SPIN_US) {
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

    while (!sphere_is_granted(p)) {
        if (lease_lasts(p) || sphere_is_pressed(p) || sphere_now_us() > end) {
            return false;
        }
        sphere_relax();
    }
    p->counts.lingered++;
    return true;
}

void sphere_await(Processor *p, Position position)
{
    bool wait;

    sphere_lock(&p->lock);
    wait = !sphere_is_granted(p);
    if (wait) {
        g_assert(position >= p->ordered);
        copies_let_go(p);
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
