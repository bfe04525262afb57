/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What sphere.c must know of user mode: see user-mode.c.
 */
#ifndef PROTOCOL_USER_MODE_H
#define PROTOCOL_USER_MODE_H

#include "protocol/directory.h"

/*
 * Is @from in user mode, which cannot reach this page?  Then the last it did there it had done
 * when it left the kernel.  Both are locked.
 */
bool user_cannot_reach(const Processor *from, const SpherePage *page);
/* User mode may reach this page from now on.  It is locked. */
void user_open(SpherePage *page);

#endif
