/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Copies that are not in the L1: translations made from a page's words, and code.  A processor that
 * keeps such copies is a table user or a code user of the page.
 *
 * A page with copies is protected.  No write bit is granted there, and a processor that makes
 * copies gives up its own, so each store to a line that copies come from makes a request.  If the
 * store may change what a copy was made from, the requester first takes the line: then the word
 * changes no more, and no processor can read it to make new copies.  Only then does the requester
 * have every other user of the page brought to a safepoint, where copies are dropped, and is
 * ordered after that user (invariant 3: a copy is a read that lasts).
 *
 * A code user is a bit of the page.  A processor may drop all its translations at once, and with
 * them leave thousands of pages.  So table users have epochs: a new epoch ends the
 * processor's use of all table pages, and no page need be visited.
 *
 * Called with the lock of the request's page held, except for sphere_take_drops() and
 * sphere_left_tables(), which the processor's own thread calls without locks.
 */
#include <string.h>

#include "protocol/chaos.h"
#include "protocol/copies.h"
#include "protocol/directory.h"
#include "protocol/order.h"
#include "protocol/sphere-internal.h"
#include "protocol/sphere-lock.h"

bool copies_in_table(const Processor *p, const SpherePage *page)
{
    return page->tables &&
           page->tables[p->index].epoch == __atomic_load_n(&p->epoch, __ATOMIC_ACQUIRE);
}

/*
 * Return true if @p's request writes a word from which translations may have been made.  Absence
 * is never cached, so a word that is zero has none.
 */
static bool changes_table(const Processor *p, const SpherePage *page)
{
    uint64_t offset = sphere_page_offset(p->sphere, page);
    const uint64_t *words = (const uint64_t *)(p->sphere->memory + offset);

    for (unsigned i = p->request.word; page->tables && i <= p->request.last_word; i++) {
        if (__atomic_load_n(&words[i], __ATOMIC_RELAXED) && SPHERE_RULE(DROP_TABLE)) {
            return true;
        }
    }
    return false;
}

bool copies_is_in_hand(const Processor *p, const SpherePage *page)
{
    return p->request.access == SPHERE_WRITE && p->in_hand.page == page &&
           p->request.word >= p->in_hand.word &&
           p->request.last_word <= p->in_hand.last_word;
}

/*
 * Keep what is in hand if the request is for some of these words.  Otherwise an instruction could
 * be abandoned between two stores: its first store requests all words, and then each store its own.
 */
void copies_keep_in_hand(Processor *p, SpherePage *page)
{
    if (p->request.access == SPHERE_WRITE &&
        !(copies_is_in_hand(p, page) && SPHERE_RULE(IN_HAND_STAYS))) {
        p->in_hand.page = page;
        p->in_hand.word = p->request.word;
        p->in_hand.last_word = p->request.last_word;
    }
}

void copies_let_go(Processor *p)
{
    p->in_hand.page = NULL;
}

uint32_t copies_holders(Processor *p, SpherePage *page)
{
    uint32_t holders = page->code;

    if (!p->request.in_hand && changes_table(p, page)) {
        for (unsigned i = 0; i < p->sphere->n_processors; i++) {
            if (copies_in_table(&p->sphere->processor[i], page)) {
                holders |= LINE_BIT(i) & ~p->request.dropped;
            }
        }
    }
    return holders & ~LINE_BIT(p->index);
}

/*
 * Order @p after the former table users of @page.  A processor that starts a new epoch drops its
 * translations unasked, but its uses of them must precede the change that @p makes (invariant 3).
 */
static void order_after_left(Processor *p, SpherePage *page)
{
    for (unsigned i = 0; page->tables && i < p->sphere->n_processors; i++) {
        Processor *other = &p->sphere->processor[i];
        TableUse *use = &page->tables[i];

        if (use->epoch && !copies_in_table(other, page)) {
            use->left = __atomic_load_n(&other->epoch_began, __ATOMIC_RELAXED);
            use->epoch = 0;
        }
        if (use->left && SPHERE_RULE(DEPOSIT)) {
            order_after_position(p, other, use->left, ORDER_TRANSLATIONS);
        }
    }
}

void copies_drop(Processor *p, SpherePage *page, Processor *from)
{
    if (page->code & LINE_BIT(from->index)) {
        page->code &= ~LINE_BIT(from->index);
        __atomic_store_n(&from->drop_code, SPHERE_RULE(DROP_CODE), __ATOMIC_RELAXED);
        p->counts.code_left++;
    }
    if (copies_in_table(from, page) && changes_table(p, page)) {
        for (unsigned i = p->request.word; i <= p->request.last_word; i++) {
            if (from->n_drops < chaos.most_drops) {
                from->drop[from->n_drops] = sphere_page_offset(p->sphere, page) + i * 8;
            }
            if (from->n_drops <= chaos.most_drops) {
                __atomic_store_n(&from->n_drops, from->n_drops + 1, __ATOMIC_RELAXED);
            }
        }
        p->request.dropped |= LINE_BIT(from->index);
        p->counts.drops++;
    }
}

unsigned sphere_take_drops(Processor *p, uint64_t words[SPHERE_MAX_DROPS], bool *code)
{
    unsigned n;

    sphere_lock(&p->lock);
    n = p->n_drops;
    memcpy(words, p->drop, MIN(n, SPHERE_MAX_DROPS) * sizeof(*words));
    *code = p->drop_code;
    __atomic_store_n(&p->n_drops, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&p->drop_code, false, __ATOMIC_RELAXED);
    sphere_unlock(&p->lock);
    return n <= chaos.most_drops ? n : SPHERE_MAX_DROPS + 1;
}

/*
 * Raise the floor to @position, which @p has reached.  A store that finds the new epoch is ordered
 * after @position, so an arc into an earlier step of @p could close a cycle.
 */
void sphere_left_tables(Processor *p, Position position)
{
    sphere_published(p);
    p->floor = position;
    __atomic_store_n(&p->epoch_began, position, __ATOMIC_RELAXED);
    __atomic_store_n(&p->epoch, p->epoch + 1, __ATOMIC_RELEASE);
}

/*
 * Let @p leave a page whose only code user it is, and to which it often stores.  After
 * chaos.own_stores stores @p must forget all code at its next boundary.  If @p then stores here
 * again before it runs code from here, @p is no code user any more.  @p still holds all lines,
 * so a later writer is ordered after the code that @p ran (invariant 3).
 */
static void leave_code(Processor *p, SpherePage *page)
{
    if (page->code != LINE_BIT(p->index)) {
        return;
    }
    if (page->own_stores < chaos.own_stores) {
        if (++page->own_stores == chaos.own_stores) {
            sphere_lock(&p->lock);
            __atomic_store_n(&p->drop_code, true, __ATOMIC_RELAXED);
            sphere_unlock(&p->lock);
        }
    } else if (!__atomic_load_n(&p->drop_code, __ATOMIC_RELAXED) || !SPHERE_RULE(LEAVE_CODE)) {
        page->code = 0;
        p->counts.code_left++;
    }
}

/* Unprotect @page if it has no users any more: then stores may hit unseen. */
static void unprotect_if_unused(Processor *p, SpherePage *page)
{
    for (unsigned i = 0; page->tables && i < p->sphere->n_processors; i++) {
        if (copies_in_table(&p->sphere->processor[i], page)) {
            return;
        }
    }
    page->protected = page->code != 0;
}

/*
 * Take @p's write bits of the page, so that @p does not change unseen what its copies come from.
 * Write bits of others may stay: @p cannot read their lines before they are downgraded.
 */
void copies_protect(Processor *p, SpherePage *page)
{
    unsigned i;

    page->protected = true;
    FOREACH_LINE(i, page_distinct(page, ALL_LINES)) {
        if (page_line(page, i)->holders & LINE_BIT(p->index) && SPHERE_RULE(PROTECT)) {
            sphere_set_l1(p, page, i, L1_READ);
        }
    }
    if (p->request.code) {
        page->code |= LINE_BIT(p->index);
        page->own_stores = 0;
    }
    if (p->request.table) {
        if (!page->tables) {
            page->tables = g_new0(TableUse, p->sphere->n_processors);
        }
        page->tables[p->index].epoch = p->epoch;
    }
}

/*
 * Enter the page without a request if @p can read the line, hence is ordered after its last writer,
 * and none of @p's stores to the page hits unseen: the page is protected, and @p has no write bit
 * there, set or put aside.  Most tables are entered so in a new epoch.
 */
bool copies_enter_again(Processor *p, SpherePage *page, uint64_t lines)
{
    const uint64_t may_write = (L1_WRITE | L1_ASIDE) * UINT64_C(0x0101010101010101);
    const uint8_t *l1 = sphere_l1_of(p, page);
    uint64_t word, all = 0;

    for (unsigned i = 0; i < SPHERE_PAGE_LINES; i += sizeof(word)) {
        memcpy(&word, l1 + i, sizeof(word));
        all |= word;
    }
    if (!page->protected || !page->tables || !(l1[__builtin_ctzll(lines)] & L1_READ) ||
        (all & may_write && SPHERE_RULE(PROTECT))) {
        return false;
    }
    page->tables[p->index].epoch = p->epoch;
    return true;
}

void copies_granted(Processor *p, SpherePage *page)
{
    if (p->request.access == SPHERE_WRITE) {
        if (page->protected) {
            leave_code(p, page);
            unprotect_if_unused(p, page);
        }
        if (changes_table(p, page)) {
            order_after_left(p, page);
        }
    }
}

void copies_store_unseen(Processor *p, SpherePage *page)
{
    if (!page->protected) {
        order_after_left(p, page);
    }
}
