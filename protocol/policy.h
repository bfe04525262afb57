/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Policies that make lines pass less often, or sooner.  They change speed, never correctness:
 * whatever they return, the sphere keeps its invariants.
 *
 * Called with the page's lock held.  @now is in microseconds.
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

/* Return true if @line should be released at the next boundary, without any request. */
bool policy_gives_back_soon(const Line *line);
/* Return the only line of @processor's request if a later release unasked may pay; else NULL. */
Line *policy_line_to_lend(const Processor *processor, SpherePage *page);
/*
 * Note whether other processors want @line.  @granted: this request was granted at once.  @in_vain:
 * the requester had released the line, and no other processor has had it since.
 */
void policy_asked_for(Line *line, bool granted, bool in_vain);

#endif
