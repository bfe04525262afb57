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
#define LEASE_WEIGHT 128
/*
 * L1_WANTED is 0 as long as the line has not passed between processors.  Then it tells how offers
 * of the line have done, from 1 to 15.  It begins optimistic.  An offer that is taken adds
 * WANTED_TAKEN, one in WANTED_IN_VAIN offers that are taken back subtracts 1, and of the times when
 * the holder had to be asked, one in WANTED_ASKED adds 1.  From WANTED_SOON on, the line is offered
 * at the next boundary; from WANTED_ALONG on, when the holder serves a request for another line.
 *
 * To ask a holder costs as much as a dozen offers in vain.  A line that its holder uses more often
 * than that before another processor wants it soon falls below WANTED_SOON, and comes back slowly.
 */
#define WANTED_SHIFT 4
#define WANTED_MOST 15
#define WANTED_FIRST 10
#define WANTED_SOON 5
#define WANTED_ALONG 3
#define WANTED_TAKEN 2
#define WANTED_IN_VAIN 4
#define WANTED_ASKED 2
/* After so many spins in vain, but two less for each that was not, one in so many is tried. */
#define SPINS_IN_VAIN 16
/* A request for more lines, as of a page that moves, says little about each of them. */
#define FEW_LINES 8

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

/* --- waits ------------------------------------------------------------------------------ */

/*
 * A grant that comes while the requester spins saves it about twice as much time as a spin in vain
 * costs.  With more vCPUs than host cores most holders are not on a core, and nearly all spins are
 * in vain.
 */
bool policy_spins(Processor *p)
{
    return p->vain_spins < SPINS_IN_VAIN || chaos_one_in(&p->random, SPINS_IN_VAIN);
}

void policy_spun(Processor *p, bool granted)
{
    if (granted) {
        p->vain_spins -= MIN(p->vain_spins, 2);
    } else {
        p->vain_spins = MIN(p->vain_spins + 1, SPINS_IN_VAIN);
    }
}

/* --- lines that are offered ------------------------------------------------------------- */

static unsigned wanted(uint8_t byte)
{
    return byte >> WANTED_SHIFT;
}

static uint8_t with_wanted(uint8_t byte, unsigned value)
{
    return value << WANTED_SHIFT | (byte & ~L1_WANTED);
}

bool policy_few_lines(const Processor *p)
{
    return p->l1 && p->sphere->n_processors > 2 &&
           __builtin_popcountll(p->request.lines) <= FEW_LINES;
}

bool policy_offers_soon(uint8_t byte)
{
    return wanted(byte) >= WANTED_SOON;
}

bool policy_offers_along(uint8_t byte)
{
    return wanted(byte) >= WANTED_ALONG;
}

uint8_t policy_passed(uint8_t byte)
{
    return wanted(byte) ? byte : with_wanted(byte, WANTED_FIRST);
}

uint8_t policy_asked_for(const Processor *asker, uint8_t byte)
{
    bool counts = wanted(byte) && asker->counts.asked % WANTED_ASKED == 0;

    return policy_passed(counts ? with_wanted(byte, MIN(wanted(byte) + 1, WANTED_MOST)) : byte);
}

uint8_t policy_offer_taken(uint8_t byte)
{
    return with_wanted(byte, MIN(wanted(byte) + WANTED_TAKEN, WANTED_MOST));
}

uint8_t policy_offer_in_vain(Processor *p, uint8_t byte)
{
    bool counts = wanted(byte) > 1 && chaos_one_in(&p->random, WANTED_IN_VAIN);

    return counts ? with_wanted(byte, wanted(byte) - 1) : byte;
}
