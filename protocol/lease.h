/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What sphere.c must know of leases: see lease.c.
 */
#ifndef PROTOCOL_LEASE_H
#define PROTOCOL_LEASE_H

#include "protocol/directory.h"

/* @p is about to ask for lines of @page, which is locked: will it let the holders go on? */
void lease_begin(Processor *p, SpherePage *page, int64_t now);
/* Does it still?  Any thread. */
bool lease_lasts(const Processor *p);
/* @p has asked @from, which runs, and is locked. */
void lease_asks(Processor *p, Processor *from);
/* From now on @p waits for whom it has asked as if there had been none.  Any thread. */
void lease_end(Processor *p);
/* Who has asked @p for something, and does not wait for the end of a lease? */
uint32_t lease_pressing(const Processor *p);
/* Has it put aside what it asks for, so that it just goes on?  The page is locked. */
bool lease_goes_on(Processor *p, SpherePage *page);

#endif
