/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What sphere.c must know of user mode: see user-mode.c.
 */
#ifndef PROTOCOL_USER_MODE_H
#define PROTOCOL_USER_MODE_H

#include "protocol/directory.h"

/*
 * Return true if @from is in user mode and cannot reach @page: its accesses to the page lie before
 * left_kernel.  Called with page->lock and from->lock held.
 */
bool user_cannot_reach(const Processor *from, const SpherePage *page);
/* Open @page: user mode may reach it from now on.  Called with page->lock held. */
void user_open(SpherePage *page);

#endif
