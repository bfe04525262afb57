/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * User mode: a processor there cannot reach most of the kernel's memory.
 *
 * A page is closed until a processor makes a translation of it that user mode can use, walks it, or
 * runs code from it; from then on it is open, for good.  A processor in user mode cannot access a
 * closed page before it enters the kernel, and before that it leaves user mode, under its lock.
 * So others may take its lines of closed pages at any time, as if it were SAFE: without waking it,
 * even if the host has preempted its thread.  The takers are ordered after the position at which
 * the holder entered user mode.
 *
 * Invariant 2 holds: the processor's lock separates the taking from the holder's next access to the
 * page.  So does invariant 3, and arcs still follow the order in which lines pass: the source was
 * reached before, and lies after every access by the holder to the line.
 *
 * By FDR's send observation (section 4.3) an arc may begin anywhere between the holder's last
 * access to the line and the holder's present position.  Accesses that hit are not seen, so arcs
 * begin late; of a closed page, the entry to user mode is the closest known to the last access.
 * All vCPUs read the time at every tick.  Without this, each tick would have to wait for all that
 * the programs of the other vCPUs had done by then.
 */
#include "protocol/copies.h"
#include "protocol/sphere-internal.h"
#include "protocol/sphere-lock.h"
#include "protocol/user-mode.h"

bool user_cannot_reach(const Processor *from, const SpherePage *page)
{
    return from->in_user && (!page->open || !SPHERE_RULE(OPEN));
}

/*
 * Open @page.  With release: a processor that finds the page open without its lock also finds its
 * L1 bytes lowered for the lines that were taken while the page was closed.
 */
void user_open(SpherePage *page)
{
    __atomic_store_n(&page->open, true, __ATOMIC_RELEASE);
}

bool sphere_is_open(Sphere *sphere, uint64_t offset)
{
    return __atomic_load_n(&sphere_page_at(sphere, offset)->open, __ATOMIC_ACQUIRE);
}

void sphere_open_page(Sphere *sphere, uint64_t offset)
{
    SpherePage *page = sphere_page_at(sphere, offset);

    if (!sphere_is_open(sphere, offset)) {
        sphere_lock(&page->lock);
        user_open(page);
        sphere_unlock(&page->lock);
    }
}

void sphere_enter_user(Processor *p, Position position)
{
    g_assert(!p->told.sources && position >= p->ordered);
    sphere_lock(&p->lock);
    copies_let_go(p);
    sphere_published(p);
    p->in_user = true;
    p->left_kernel = position;
    sphere_unlock(&p->lock);
}

void sphere_leave_user(Processor *p)
{
    sphere_lock(&p->lock);
    p->in_user = false;
    sphere_unlock(&p->lock);
}
