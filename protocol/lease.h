/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What sphere.c must know of leases: see lease.c.  "@p's lease" is the lease that @p, as the
 * requester, gives to the holders of the lines that it waits for.
 */
#ifndef PROTOCOL_LEASE_H
#define PROTOCOL_LEASE_H

#include "protocol/directory.h"

/* Decide whether @p's request for lines of @page gives a lease.  Called with page->lock held. */
void lease_begin(Processor *p, SpherePage *page, int64_t now);
/* Return true while @p's lease is in force.  Any thread. */
bool lease_lasts(const Processor *p);
/*
 * Kick @from if it runs, and remember to do so again when @p's lease ends.  @p's request is in
 * @from's inbox.  Called with page->lock and from->lock held.
 */
void lease_asks(Processor *p, Processor *from);
/* End @p's lease: @p goes on waiting as if there had been none.  Any thread. */
void lease_end(Processor *p);
/* Return the requesters in @p's inbox that do not wait for a lease to end.  @p's own thread. */
uint32_t lease_pressing(const Processor *p);
/*
 * Take back the write bits of all lines that @p requests, if each is set or was put aside.  Return
 * true if so: the store needs no request.  Called with page->lock held.
 */
bool lease_goes_on(Processor *p, SpherePage *page);

#endif
