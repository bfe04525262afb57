/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much a request asks for, how long lines are kept, and which are released: see policy.h.
 */
#include "protocol/chaos.h"
#include "protocol/policy.h"
#include "protocol/sphere-internal.h"

/* The time window in which requests are counted. */
#define WINDOW_US 10000
/* A request that waits for a lease to end comes less often, so it counts for more. */
#define LEASE_WEIGHT 64
/*
 * A line with @wanted above 0 is released when its holder serves a request for another line, and
 * from WANTED_SOON on at the holder's next boundary.  A request that must wait raises @wanted; a
 * release after which no other processor had the line lowers it.
 */
#define WANTED_ASKED 16
#define WANTED_SOON 24
#define WANTED_MOST 64

/* --- how often lines of a page are requested ---------------------------------------- */

static unsigned often_asked(const SpherePage *page, int64_t now)
{
    uint16_t age = now / WINDOW_US - page->window;

    return age < 2 ? page->asked >> age : 0;
}

void policy_asked(SpherePage *page, int64_t now, bool leased)
{
    page->asked = MIN(often_asked(page, now) + (leased ? LEASE_WEIGHT : 1), UINT16_MAX);
    page->window = now / WINDOW_US;
}

/* --- pages that move ------------------------------------------------------------------ */

bool policy_moves_whole(const SpherePage *page, int64_t now)
{
    return often_asked(page, now) < chaos.calm_moves;
}

/* True after chaos.streak misses in a row with one blocker; twice as many if lines moved before. */
bool policy_moves_lines(const Processor *p, SpherePage *page, uint32_t in_the_way)
{
    unsigned holder = __builtin_ctz(in_the_way) + 1;

    if (in_the_way & (in_the_way - 1)) {
        return false;
    }
    if (page->asker != p->index + 1 || page->holder != holder) {
        page->asker = p->index + 1;
        page->holder = holder;
        page->streak = 0;
    }
    if (++page->streak < (page->moved ? 2 * chaos.streak : chaos.streak)) {
        return false;
    }
    page->streak = 0;
    page->moved = true;
    return true;
}

/* --- objects that are larger than a line ------------------------------------------------ */

/* Return true if @line seems to move with the lines beside it, so would be requested soon. */
static bool comes_along(const Line *line, uint32_t holder)
{
    return line->state == LINE_OWNED && line->holders == holder && line->migratory &&
           !line->reserved;
}

uint64_t policy_neighbours(const SpherePage *page, uint64_t lines, uint32_t holder)
{
    int first = __builtin_ctzll(lines), last = 63 - __builtin_clzll(lines);
    int reach = chaos.neighbours;
    uint64_t found = 0;

    for (int i = first - 1; i >= MAX(first - reach, 0) &&
         comes_along(&page->lines[i], holder); i--) {
        found |= UINT64_C(1) << i;
    }
    for (int i = last + 1; i <= MIN(last + reach, (int)SPHERE_PAGE_LINES - 1) &&
         comes_along(&page->lines[i], holder); i++) {
        found |= UINT64_C(1) << i;
    }
    return found;
}

/* --- leases ----------------------------------------------------------------------------- */

bool policy_is_hot(const SpherePage *page)
{
    return page->asked > chaos.lease_moves / 2;
}

/*
 * Give no lease to a holder that only reads: it may be waiting for the requester to write.  DMA
 * gives none.  Nor is there any with a single vCPU: all memory is one line, wanted only by DMA.
 */
int64_t policy_lease_us(const Processor *p, SpherePage *page, int64_t now)
{
    int64_t us = 0;
    unsigned i;

    if (!p->l1 || p->exclusive || p->sphere->n_processors == 2 ||
        often_asked(page, now) <= chaos.lease_moves) {
        return 0;
    }
    FOREACH_LINE(i, page_distinct(page, p->request.lines)) {
        const Line *line = page_line(page, i);
        uint32_t age = (uint32_t)now - line->since;

        if (line->state == LINE_OWNED && !line->unwritten && age < chaos.lease_us) {
            us = MAX(us, chaos.lease_us - age);
        }
    }
    return us;
}

/* --- lines that are released unasked --------------------------------------------------- */

Line *policy_line_to_lend(const Processor *p, SpherePage *page)
{
    uint64_t lines = p->request.lines;

    return p->l1 && p->sphere->n_processors > 2 && page->lines && !page->protected &&
           !(lines & (lines - 1)) ? &page->lines[__builtin_ctzll(lines)] : NULL;
}

bool policy_gives_back_soon(const Line *line)
{
    return line->wanted >= WANTED_SOON;
}

void policy_asked_for(Line *line, bool granted, bool in_vain)
{
    if (!granted) {
        line->wanted = MIN(line->wanted + WANTED_ASKED, WANTED_MOST);
    } else if (in_vain && line->wanted) {
        line->wanted--;
    }
}
