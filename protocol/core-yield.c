/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * More vCPUs than host cores.
 *
 * The host takes its core from a vCPU wherever that is, and the vCPU keeps its lines until it runs
 * again.  Who asks for one sleeps so long, in the middle of something that others wait for,
 * perhaps, and they sleep, too.  We cannot tell who has no core; but somebody who sleeps for lines
 * mostly waits for one of those.  So as long as anybody does, whoever runs lets the host run
 * others every chaos.core_yield_us, at a boundary, where it is safe: then those who were asked give what
 * they have, and nobody sleeps for what one has that gave way like this.
 * Unless others than our vCPUs want the host as well: see core-yield.h.
 *
 * When it gives way decides who gets which line first, as the host's scheduler does, and may add a
 * step that does nothing, which is logged.  Nothing that is recorded is right or wrong by it.
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
    return offer_is_due(&p->way.offer, sphere_now_us());
}

void sphere_yield_core(Processor *p, Position position)
{
    sphere_safe(p, position);
    offer_core(&p->way.offer, p->sphere->n_cores, chaos.core_yield_us);
    sphere_run(p);
    p->counts.gave_way++;
}
