/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a guest must not have if a standby is to go on with it (replay/standby.h).  Main thread, BQL
 * held.
 */
#ifndef RECORDER_PROTECT_H
#define RECORDER_PROTECT_H

#include "qapi/error.h"

/* Return true if a standby can go on with this guest; else set @errp. */
bool recorder_can_protect(Error **errp);

#endif
