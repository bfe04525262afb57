/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What requests must know of copies: see copies.c.  @p is the requester.  Called with page->lock
 * held, unless stated otherwise.
 */
#ifndef PROTOCOL_COPIES_H
#define PROTOCOL_COPIES_H

#include "protocol/sphere.h"

/* Return true if @p is a table user of @page, in its present epoch. */
bool copies_in_table(const Processor *p, const SpherePage *page);

/* Return the other users of @page that must drop copies before @p writes there. */
uint32_t copies_holders(Processor *p, SpherePage *page);
/*
 * Note for @from which copies to drop; @from does so before its next step.  Called also with
 * from->lock held; @from is SAFE, or serves the request.
 */
void copies_drop(Processor *p, SpherePage *page, Processor *from);

/* Return true if all words of the request are in hand: see Processor.in_hand. */
bool copies_is_in_hand(const Processor *p, const SpherePage *page);
/* Take the words of a granted write in hand. */
void copies_keep_in_hand(Processor *p, SpherePage *page);
/*
 * Let go of what is in hand: @p's lines may be taken from now on, or @p releases some.  Called by
 * @p's own thread, before another processor can get a line; needs no lock.
 */
void copies_let_go(Processor *p);

/*
 * For a write that has no blockers: unprotect @page if its last user leaves, and order @p after
 * former table users.  Called before the lines are granted.
 */
void copies_granted(Processor *p, SpherePage *page);
/*
 * Order @p after all former table users of @page, unless that is protected.  Called after a grant
 * that gave @p a write bit, for a read or a write: @p may change any word of the line unseen.
 */
void copies_store_unseen(Processor *p, SpherePage *page);
/* Make @p the table user or code user that it requested to be.  Called after the grant. */
void copies_protect(Processor *p, SpherePage *page);
/* Make @p a table user of @page, for the line @lines.  Return false if that needs a request. */
bool copies_enter_again(Processor *p, SpherePage *page, uint64_t lines);

#endif
