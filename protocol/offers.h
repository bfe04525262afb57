/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What sphere.c must know of lines that are offered: see offers.c.
 */
#ifndef PROTOCOL_OFFERS_H
#define PROTOCOL_OFFERS_H

#include "protocol/directory.h"

/* --- the holder: its own thread, RUNNING, without locks ---------------------------- */

/*
 * Offer all lines that others may want, because @p serves a request.  At a boundary; @position as
 * for sphere_serve().
 */
void offers_along(Processor *p, Position position);
/*
 * Forget to offer lines of @page, of which @p becomes a code user.  A code user accesses lines
 * without looking at their L1 bytes, so it must not offer them: whoever writes them after it has
 * left the page is ordered after its code by taking them (copies.c).
 */
void offers_forget(Processor *p, const SpherePage *page);

/* --- with page->lock held; the page is split and has no copies -------------------------- */

/*
 * Take @line of @page from @from, if @from offers it, for an access like @access.  Return false if
 * not.  Otherwise *@position is one that @from has reached since its last access to the line.
 */
bool offers_take(Processor *from, SpherePage *page, unsigned line, SphereAccess access,
                 Position *position);
/*
 * Note that @p has lost @line, or its write bit, to @taker.  At a safepoint of @p at @position, and
 * with p->lock held; or @position is 0.
 */
void offers_lost(Processor *p, const Processor *taker, SpherePage *page, unsigned line,
                 Position position);
/* Note that @p has been granted @line, which came from another processor. */
void offers_got(Processor *p, SpherePage *page, unsigned line);
/* Remember the lines of @p's request, so that @p may offer them later.  @p's own thread. */
void offers_note_request(Processor *p, SpherePage *page);
/* Return true if @p would offer some line of @page. */
bool offers_any(Processor *p, SpherePage *page);

#endif
