/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What makes lines pass less often, or sooner.  Nothing here matters for what is recorded to be
 * right: whatever the answers are, the sphere keeps its rules.
 *
 * Everything is called with the page's lock held; @now is in microseconds.
 */
#ifndef PROTOCOL_POLICY_H
#define PROTOCOL_POLICY_H

#include "protocol/directory.h"

/* A line of the page was asked for, of who runs; @leased: for a lease's time. */
void policy_asked(SpherePage *page, int64_t now, bool leased);

/* Should a page that is in one piece, and held by others, move as one? */
bool policy_moves_whole(const SpherePage *page, int64_t now);
/* Of a page in lines: all that they have, who are @in_the_way of what @processor asks for? */
bool policy_moves_lines(const Processor *processor, SpherePage *page, uint32_t in_the_way);

/* Lines beside @lines, of the same @holder, which will be needed next if they are of one object. */
uint64_t policy_neighbours(const SpherePage *page, uint64_t lines, uint32_t holder);

/* May there be leases on this page?  Then one must know since when lines are held. */
bool policy_is_hot(const SpherePage *page);
/* How long may who has written the lines that @processor asks for go on with them? */
int64_t policy_lease_us(const Processor *processor, SpherePage *page, int64_t now);

/* The one line that @processor asks for, if it may be given back unasked one day. */
Line *policy_line_to_lend(const Processor *processor, SpherePage *page);
/*
 * Is it wanted by others?  It was @granted at once, or not; @in_vain: it had been given back,
 * and nobody else had it since.
 */
void policy_asked_for(Line *line, bool granted, bool in_vain);

#endif
