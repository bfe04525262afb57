/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What requests must know of copies.  The page that is asked for is locked; @p is who asks.
 */
#ifndef PROTOCOL_COPIES_H
#define PROTOCOL_COPIES_H

#include "protocol/sphere.h"

/* Does @p have translations made from @page? */
bool copies_in_table(const Processor *p, const SpherePage *page);

/* Who else must drop copies of @page before @p writes there? */
uint32_t copies_holders(Processor *p, SpherePage *page);
/* @from is safe, and locked.  It drops its copies itself, before it runs again. */
void copies_drop(Processor *p, SpherePage *page, Processor *from);

/* Was what it asks for granted, and does it own the lines since then?  See Processor.in_hand. */
bool copies_is_in_hand(const Processor *p, const SpherePage *page);
void copies_keep_in_hand(Processor *p, SpherePage *page);
/*
 * Its lines may be taken from now on, or it gives some away: nothing is in hand any more.  Called
 * by @p's own thread, before another one can get a line.
 */
void copies_let_go(Processor *p);

/* Nobody is in the way, before the lines are granted. */
void copies_granted(Processor *p, SpherePage *page);
/*
 * They have been, and @p has a write bit, of whatever it asked for: it may change any word of
 * the line, and nobody sees that.  So it comes after all who have left T of @page.
 */
void copies_store_unseen(Processor *p, SpherePage *page);
/* They have been: from now on @p keeps the copies that it asked for. */
void copies_protect(Processor *p, SpherePage *page);
/* Does @p keep translations made from these lines from now on, with nothing to ask for? */
bool copies_enter_again(Processor *p, SpherePage *page, uint64_t lines);

#endif
