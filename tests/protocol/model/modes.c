/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What x86 brings to a vCPU while it is recorded: user mode and the kernel, interrupts and
 * exceptions whose delivery touches memory, and changes of the memory map.  It follows
 * hw/recorder/vcpu.c, exclusive.c, access.c and map-change.c.
 */
#include "tests/protocol/model/broken-rule.h"
#include "tests/protocol/model/actors.h"
#include "tests/protocol/model/vcpu.h"

static bool has_modes(void)
{
    return guest.recording->has_modes;
}

/* --- user mode ---------------------------------------------------------------------- */

static void leave(Vcpu *v)
{
    if (v->processor->in_user) {
        sphere_leave_user(v->processor);
        v->modes.entries++;
    }
}

/*
 * Without modes, a vCPU in user mode reaches a closed page either because a new translation has
 * opened it, or after an exception, which leaves user mode.
 */
static void reach_closed(Vcpu *v, uint32_t offset)
{
    if (random_one_in(&v->random, guest.opens)) {
        sphere_open_page(guest.sphere, offset);
    } else if (RULE(LEAVE_USER)) {
        sphere_leave_user(v->processor);
    }
}

/*
 * With modes, generated code tests the L1 alone, and tells the sphere nothing unless it misses.  It
 * needs a translation, which opens the page if user mode can use it.  Helpers make the accesses of
 * the kernel that user mode brings about, and tell the sphere before.
 */
void modes_reach(Vcpu *v, uint32_t offset, bool slow)
{
    bool by_helper = v->cpu.by_helper;

    if (has_modes() && v->cpu.user && !by_helper && RULE(USER_OPENS)) {
        sphere_open_page(guest.sphere, offset);
    }
    if (!v->processor->in_user || sphere_is_open(guest.sphere, offset)) {
        return;
    }
    if (!has_modes()) {
        reach_closed(v, offset);
    } else if ((by_helper && RULE(LEAVE_AT_ACCESS)) || (slow && RULE(LEAVE_USER))) {
        leave(v);
    }
}

void modes_tell(Vcpu *v)
{
    const Processor *p = v->processor;
    bool enters = guest.user && !p->in_user && v->position >= p->ordered &&
                  random_one_in(&v->random, guest.user);

    if (!has_modes() || v->cpu.user) {
        if (enters && !v->interrupt && !v->cpu.pending) {
            sphere_enter_user(v->processor, v->position);
        }
    } else if (RULE(LEAVE_AT_SYSCALL)) {
        leave(v);
    }
}

/* --- deliveries --------------------------------------------------------------------- */

/* Return the vector that @insn delivers; VECTOR_NONE: it is an instruction. */
static Vector vector_of(const Insn *insn)
{
    return insn->effect == EFFECT_DELIVER ? insn - guest.recording->delivery : VECTOR_NONE;
}

static bool is_interrupt(const Insn *insn)
{
    return vector_of(insn) >= VECTOR_INTERRUPT;
}

/* The vCPU may wait for the big lock, SAFE, before it asks the controller. */
void modes_interrupt(Vcpu *v)
{
    if (v->interrupt || v->cpu.masked || !v->n_interrupts || !random_one_in(&v->random, 2)) {
        return;
    }
    if (random_one_in(&v->random, 2)) {
        vcpu_safe(v);
        world_lock(&guest.big_lock);
        actor_pause();
        world_unlock(&guest.big_lock);
        vcpu_run(v);
    }
    v->n_interrupts--;
    v->stream->taken++;
    v->interrupt = VECTOR_INTERRUPT + random_below(&v->random, VECTORS - VECTOR_INTERRUPT);
    if (RULE(LEAVE_AT_DELIVERY)) {
        leave(v);
    }
    if (!RULE(INTERRUPT_LOGGED_LAST)) {
        vcpu_log(v, EVENT_INTERRUPT, v->interrupt);
    }
}

Vector modes_delivers(const Vcpu *v)
{
    if (v->cpu.pending) {
        return v->cpu.pending;
    }
    return v->postponed && v->insn < guest.recording->n_insns ? VECTOR_NONE : v->interrupt;
}

bool modes_abandoned(Vcpu *v)
{
    v->modes.abandoned++;
    if (v->cpu.pending) {
        if (!RULE(FAULT_COUNTED_ONCE)) {
            vcpu_log_step(v, (Step){ .nop = false });
        }
        return true;
    }
    if (!RULE(INTERRUPT_KEPT)) {
        v->interrupt = VECTOR_NONE;
    }
    v->postponed = !RULE(REDELIVERED_FIRST);
    return v->interrupt && !v->postponed;
}

void modes_end_step(Vcpu *v, const Insn *insn)
{
    if (is_interrupt(insn)) {
        if (RULE(INTERRUPT_LOGGED_LAST)) {
            vcpu_log(v, EVENT_INTERRUPT, v->interrupt);
        }
        v->interrupt = VECTOR_NONE;
        v->stream->delivered++;
    }
}

/*
 * The kernel is entered by a fault or a delivery, which are no instructions.  Arcs of the next step
 * lead behind them.  The fault of an interrupt's delivery is a step behind that of the interrupt.
 */
void modes_ended_step(Vcpu *v, const Insn *insn)
{
    Vector vector = vector_of(insn);
    bool fault = v->cpu.fault;

    if (!has_modes()) {
        return;
    }
    v->postponed &= vector != VECTOR_NONE;
    v->at_boundary |= insn->effect > EFFECT_DELIVER;
    if (!fault && !vector) {
        return;
    }
    v->modes.interrupts += is_interrupt(insn);
    v->modes.exceptions += fault;
    v->modes.nested += fault && vector;
    if (fault && is_interrupt(insn)) {
        vcpu_log_step(v, (Step){ .nop = true });
    }
    sphere_boundary(v->processor, v->position);
    if (RULE(LEAVE_AT_DELIVERY)) {
        leave(v);
    }
}

/* --- the memory map ----------------------------------------------------------------- */

/* The change comes after all steps that other vCPUs have made, and before all that they will. */
bool modes_change_map(Cpu *cpu)
{
    Vcpu *v = (Vcpu *)cpu;

    if (!v->processor->exclusive) {
        return false;
    }
    for (unsigned i = 0; i < guest.n_vcpus; i++) {
        Vcpu *other = &guest.vcpu[i];

        if (other == v) {
            continue;
        }
        if (RULE(MAP_AFTER_ALL)) {
            sphere_come_after(v->processor, other->processor, other->position);
        }
        other->follows_map = true;
    }
    vcpu_log_arcs(v);
    guest.map_by = v->processor;
    guest.map_position = v->position + 1;
    v->modes.maps++;
    return true;
}

void modes_follow_map(Vcpu *v)
{
    if (!v->follows_map) {
        return;
    }
    v->follows_map = false;
    if (RULE(MAP_BEFORE_ALL)) {
        sphere_come_after(v->processor, guest.map_by, guest.map_position);
        vcpu_log_arcs(v);
    }
}
