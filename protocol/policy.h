/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Policies that make lines pass less often, or sooner.  They change speed, never correctness:
 * whatever they return, the sphere keeps its invariants.
 *
 * Called with the page's lock held, unless stated otherwise.  @now is in microseconds.
 */
#ifndef PROTOCOL_POLICY_H
#define PROTOCOL_POLICY_H

#include "protocol/directory.h"

/* Count a request for lines of @page that must wait; @leased: for the end of a lease. */
void policy_asked(SpherePage *page, int64_t now, bool leased);

/* Return true if a page that is not split, but held by others, should move as a whole. */
bool policy_moves_whole(const SpherePage *page, int64_t now);
/*
 * Return true if all lines that the blocker @in_the_way has of a split page should move with those
 * that @processor requests.  Counts the miss.
 */
bool policy_moves_lines(const Processor *processor, SpherePage *page, uint32_t in_the_way);

/*
 * Return migratory lines beside @lines that the same @holder owns.  They may belong to the same
 * object, and would be needed next.
 */
uint64_t policy_neighbours(const SpherePage *page, uint64_t lines, uint32_t holder);

/* Return true if the page may have leases: then its lines need the time of their grant. */
bool policy_is_hot(const SpherePage *page);
/* Return for how many us a dirty owner may keep what @processor requests; 0: no lease. */
int64_t policy_lease_us(const Processor *processor, SpherePage *page, int64_t now);

/*
 * Return true if @processor should spin for its grant: its spins mostly ended with one.  And note
 * how a spin has ended.  Without a lock, @processor's own thread.
 */
bool policy_spins(Processor *processor);
void policy_spun(Processor *processor, bool granted);

/* Return true if @processor's request is for few lines, so that it tells something of each. */
bool policy_few_lines(const Processor *processor);
/* Return true if a line with this L1 byte should be offered at the next boundary. */
bool policy_offers_soon(uint8_t byte);
/* Return true if it should be offered when the holder serves a request for another line. */
bool policy_offers_along(uint8_t byte);
/*
 * Return an L1 byte with another L1_WANTED: after the line has passed between processors; after
 * @asker had to wait for it; after the holder's offer was taken by another processor; and after the
 * holder took its offer back, for which it needs no lock.
 */
uint8_t policy_passed(uint8_t byte);
uint8_t policy_asked_for(const Processor *asker, uint8_t byte);
uint8_t policy_offer_taken(uint8_t byte);
uint8_t policy_offer_in_vain(Processor *processor, uint8_t byte);

#endif
