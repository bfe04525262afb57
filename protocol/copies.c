/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Copies that are not in the L1: translations made from a page's words (T), and code (I).
 *
 * A page with copies is protected: nobody has write bits there, so every store comes to
 * sphere_acquire().  One that may change what a copy was made from first owns the line,
 * so that the word does not change any more and nobody makes new copies, and then
 * brings every holder of copies to a boundary, where it drops them.
 *
 * Whoever runs code from a page is one bit.  Translations go in the thousands at once, when
 * their processor drops them all; so T has an epoch, and nobody looks at pages then.
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
 * May translations have been made from what @p is going to write?  Absence is never
 * cached, so not from words that are zero.
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
 * What is in hand already stays so, or an instruction could be abandoned between two of its stores:
 * the first one asked for them all, and each asks for itself when it is made.
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
 * Who has left T of @page dropped its translations by itself, but what it did with
 * them must still come before what @p is going to change.
 */
static void order_after_left(Processor *p, SpherePage *page)
{
    for (unsigned i = 0; page->tables && i < p->sphere->n_processors; i++) {
        const Processor *other = &p->sphere->processor[i];
        TableUse *use = &page->tables[i];

        if (use->epoch && !copies_in_table(other, page)) {
            use->left = __atomic_load_n(&other->epoch_began, __ATOMIC_RELAXED);
            use->epoch = 0;
        }
        if (use->left && SPHERE_RULE(DEPOSIT)) {
            order_after_position(p, i, use->left);
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
 * A store that finds the new epoch comes after @position, at which this one has
 * arrived: so it must not wait behind it any more.
 */
void sphere_left_tables(Processor *p, Position position)
{
    p->floor = position;
    __atomic_store_n(&p->epoch_began, position, __ATOMIC_RELAXED);
    __atomic_store_n(&p->epoch, p->epoch + 1, __ATOMIC_RELEASE);
}

/*
 * @p stores to a page from which only it runs code.  If it does so often, it forgets
 * all code at its next boundary; if then it stores again before it runs code from here,
 * it has left.  It remains a reader of all lines, so whoever writes there comes
 * after what it ran.
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

/* Do copies of the page still exist?  If not, stores need not be seen. */
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
 * @p is going to keep copies: it must not store unseen to where they come from.  A
 * write bit that another has does no harm: @p cannot read that line before it is gone.
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
 * In a new epoch, most of the tables are those of the last one: read, and none of its stores goes
 * unseen there.  Then there is nothing to ask for.
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
