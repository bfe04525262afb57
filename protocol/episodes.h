/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Episodes of a processor, for the files of the sphere.  sphere.h has what is for its callers.
 */
#ifndef PROTOCOL_EPISODES_H
#define PROTOCOL_EPISODES_H

#include <stdbool.h>

#include "protocol/sphere.h"

/*
 * Show where the present episodes of @p must end, after they may have become others.  Called with
 * the lock held.
 */
void episodes_show_limit(Processor *p);

/*
 * Let the present episodes of @p come after what @p was told.  Return true if a step must end
 * before others come after @p (invariant 4).  Its own thread, without locks.
 */
bool episodes_emit(Processor *p);

#endif
