/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What sphere.c must know of lines that are released before any request: see give-back.c.
 */
#ifndef PROTOCOL_GIVE_BACK_H
#define PROTOCOL_GIVE_BACK_H

#include "protocol/directory.h"

/* Remember @line of @page, which @p has requested, if it may be given back later.  Page's lock. */
void give_back_later(Processor *p, SpherePage *page, const Line *line);
/*
 * Release all lines that others may want, because @p serves a request.  @p's own thread, RUNNING,
 * at a boundary; @position as for sphere_serve().
 */
void give_back_along(Processor *p, Position position);

#endif
