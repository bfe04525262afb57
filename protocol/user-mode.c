/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * User mode: a processor there cannot reach most of the kernel's memory.
 *
 * A page is closed until a processor makes a translation of it that user mode can use, walks it, or
 * runs code from it; from then on it is open, for good.  A processor in user mode cannot access a
 * closed page before it enters the kernel.  Before that it leaves user mode, and waits for the
 * holder of its lock.  So others may take its lines of closed pages at any time, as if it were
 * SAFE: without waking it, even if the host has preempted its thread.  The takers are ordered after
 * the position at which the holder entered user mode.
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
    bool in_user = __atomic_load_n(&from->in_user, __ATOMIC_SEQ_CST);

    sphere_seam();
    return in_user && (!page->open || !SPHERE_RULE(OPEN));
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
    copies_let_go(p);
    sphere_published(p);
    p->left_kernel = position;
    /* With release: who finds @p in user mode finds left_kernel, and what @p has written. */
    __atomic_store_n(&p->in_user, true, __ATOMIC_RELEASE);
}

/*
 * Wait for a taker, of which there is rarely one.  A taker takes the lock, then looks whether @p is
 * in user mode.  @p leaves user mode, then looks at the lock.  All of this is sequentially
 * consistent, so one of them sees the other: the taker takes nothing, or @p waits until it has.
 */
void sphere_leave_user(Processor *p)
{
    __atomic_store_n(&p->in_user, false, __ATOMIC_SEQ_CST);
    sphere_seam();
    if (__atomic_load_n(&p->lock, __ATOMIC_SEQ_CST) && SPHERE_RULE(LEAVE_WAITS)) {
        sphere_lock(&p->lock);
        sphere_unlock(&p->lock);
    }
}
