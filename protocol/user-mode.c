/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * In user mode a processor has nothing to do with most of the kernel's memory.
 *
 * A page is closed until somebody makes a translation of it that user mode can use, walks it, or
 * runs code from it; then it is open, for good.  What a processor in user mode holds of a closed
 * page it cannot touch before it enters the kernel, and that it tells under its lock.  So others
 * may take it at any time, as if the processor were safe: without waking it, be it that the host
 * lets another thread run in its place.  They come after the position at which it entered user
 * mode.  An access still happens only with permission, since the two are apart by the locks of
 * page and processor; and arcs still follow the moments at which lines pass, from a position that
 * was reached before, and behind every access that the holder made to the line.
 *
 * FDR's send observation (section 4.3) allows an arc to begin anywhere between the holder's last
 * access to the line and where it is now.  We do not see accesses that hit, so it begins late, and
 * this is as near as we come to the last one.  All vCPUs read the time at every tick, so without
 * it each tick would wait for all that the programs of the others had done by then.
 */
#include "protocol/copies.h"
#include "protocol/sphere-internal.h"
#include "protocol/sphere-lock.h"
#include "protocol/user-mode.h"

bool user_cannot_reach(const Processor *from, const SpherePage *page)
{
    return from->in_user && (!page->open || !SPHERE_RULE(OPEN));
}

/* Who sees it without the lock sees also what was taken before it was open. */
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
    g_assert(!p->has_new_sources && position >= p->ordered);
    sphere_lock(&p->lock);
    copies_let_go(p);
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
