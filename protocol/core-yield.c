/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Yielding host cores when they are oversubscribed: more vCPUs than cores.
 *
 * The host preempts a vCPU anywhere, and the vCPU keeps its lines until it runs again.  A requester
 * of such a line sleeps until then.  If the requester holds a guest lock, other vCPUs block on that
 * lock as well.  The recorder cannot see which vCPUs are preempted, but a requester that sleeps
 * for lines mostly waits for such a vCPU.  So as long as any requester sleeps, each RUNNING vCPU
 * yields its core every chaos.core_yield_us, at a boundary, and is SAFE meanwhile.  Then holders
 * that were asked get a core and serve, and no requester has to sleep for lines of a vCPU that
 * yielded.  core-yield.h has an exception: when other processes want the cores, too.
 *
 * When a vCPU yields decides which requester gets a line first, as the host's scheduler does, and
 * may add a step that does nothing, which is logged.  This changes speed, never correctness.
 */
#include "protocol/chaos.h"
#include "protocol/sphere-internal.h"
#include "protocol/sphere-lock.h"

bool sphere_gives_way(Processor *p, Position position)
{
    if (p->exclusive || position - p->way.looked < chaos.core_yield_steps ||
        !__atomic_load_n(&p->sphere->n_asleep, __ATOMIC_RELAXED)) {
        return false;
    }
    p->way.looked = position;
    return core_yield_is_due(&p->way.yield, sphere_now_us());
}

void sphere_yield_core(Processor *p, Position position)
{
    sphere_safe(p, position);
    core_yield(&p->way.yield, p->sphere->n_cores, chaos.core_yield_us);
    sphere_run(p);
    p->counts.gave_way++;
}
