/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records the small guest.  There is an actor for each vCPU and one for devices.  They use the
 * sphere as the recorder in QEMU does.
 */
#include "tests/protocol/model/broken-rule.h"
#include "tests/protocol/model/actors.h"
#include "tests/protocol/model/vcpu.h"

World guest;

/* --- locks of the world around the sphere ----------------------------------------- */

void world_lock(int *lock)
{
    int free = 0;

    while (!__atomic_compare_exchange_n(lock, &free, 1, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED)) {
        free = 0;
        actor_wait();
    }
}

void world_unlock(int *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

static void big_lock(void)
{
    world_lock(&guest.big_lock);
}

static void big_unlock(void)
{
    world_unlock(&guest.big_lock);
}

static bool exclusive_wanted(void)
{
    return __atomic_load_n(&guest.exclusive, __ATOMIC_SEQ_CST);
}

static void exec_end(Vcpu *v)
{
    __atomic_store_n(&v->executing, false, __ATOMIC_SEQ_CST);
}

static void exec_start(Vcpu *v)
{
    for (;;) {
        __atomic_store_n(&v->executing, true, __ATOMIC_SEQ_CST);
        if (!exclusive_wanted()) {
            return;
        }
        exec_end(v);
        while (exclusive_wanted()) {
            actor_wait();
        }
    }
}

/*
 * Wait until no vCPU executes, and keep all others from executing.  The caller must not be
 * executing.  A vCPU that waits for a line counts as executing, since it runs when it is granted.
 */
static void start_exclusive(Vcpu *v)
{
    int nobody = 0;

    while (!__atomic_compare_exchange_n(&guest.exclusive, &nobody,
                                        v->processor->index + 1, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        nobody = 0;
        actor_wait();
    }
    for (unsigned i = 0; i < guest.n_vcpus; i++) {
        __atomic_store_n(&guest.vcpu[i].kicked, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&guest.vcpu[i].executing, __ATOMIC_SEQ_CST)) {
            actor_wait();
        }
    }
}

static void end_exclusive(void)
{
    __atomic_store_n(&guest.exclusive, 0, __ATOMIC_SEQ_CST);
}

void vcpu_kick(void *vcpu)
{
    __atomic_store_n(&((Vcpu *)vcpu)->kicked, 1, __ATOMIC_SEQ_CST);
}

/* --- the log -------------------------------------------------------------------- */

static void append(Stream *stream, Event event)
{
    GArray *events = stream->events[RACE_FDR];

    if (events->len) {
        /* Readers rely on events in the order of their positions. */
        g_assert(event.at >= g_array_index(events, Event, events->len - 1).at);
    }
    g_array_append_val(events, event);
}

static void append_wait(const HeldWait *wait, void *stream)
{
    append(stream, (Event){ EVENT_WAIT, wait->position, wait->stream, wait->steps });
}

static void release(Stream *stream)
{
    held_waits_release(&stream->held, append_wait, stream);
}

void vcpu_published(void *vcpu)
{
    release(((Vcpu *)vcpu)->stream);
}

static void log_event(Stream *stream, Event event)
{
    release(stream);
    append(stream, event);
}

static void emit_arc(Processor *to, unsigned from, Position source, void *opaque)
{
    Stream *stream = opaque;
    HeldWait wait = { to->floor, from, source };

    held_waits_add(&stream->held, &wait, chaos.hold_waits, append_wait, stream);
}

void vcpu_log(Vcpu *v, EventKind kind, uint64_t value)
{
    log_event(v->stream, (Event){ kind, v->position, 0, value });
}

void vcpu_log_arcs(Vcpu *v)
{
    sphere_arcs(v->processor, emit_arc, v->stream);
}

static void log_step(Stream *stream, Step step, const Seen *seen, unsigned n_seen)
{
    step.first_seen = stream->seen->len;
    step.n_seen = n_seen;
    g_array_append_vals(stream->seen, seen, n_seen);
    g_array_append_val(stream->steps, step);
    actor_progress();
}

void vcpu_log_step(Vcpu *v, Step step)
{
    step.state = v->cpu.state;
    log_step(v->stream, step, NULL, 0);
    v->position++;
}

/* --- boundaries ------------------------------------------------------------------- */

static void settle(Vcpu *v)
{
    if (v->position < v->processor->ordered) {
        vcpu_log_step(v, (Step){ .nop = true });
    }
}

/* Drop all translations, which is logged: no instruction does it, so replay has to be told. */
static void leave_tables(Vcpu *v)
{
    cpu_drop_translations(&v->cpu);
    sphere_left_tables(v->processor, v->position);
    v->walks = 0;
    if (RULE(LEFT_IS_EVENT)) {
        vcpu_log(v, EVENT_DROP_ALL, 0);
    }
}

static void take_drops(Vcpu *v)
{
    uint64_t words[SPHERE_MAX_DROPS];
    bool code;
    unsigned n = sphere_take_drops(v->processor, words, &code);

    if (!RULE(DROPS_TAKEN)) {
        return;
    }
    if (n > SPHERE_MAX_DROPS) {
        leave_tables(v);
    } else {
        for (unsigned i = 0; i < n; i++) {
            cpu_drop_word(&v->cpu, words[i]);
            vcpu_log(v, EVENT_DROP_WORD, words[i]);
        }
    }
    if (code) {
        cpu_drop_code(&v->cpu);
        vcpu_log(v, EVENT_DROP_CODE, 0);
    }
}

void vcpu_run(Vcpu *v)
{
    sphere_run(v->processor);
    rest_end(v->processor->index);
    modes_follow_map(v);
    take_drops(v);
    sphere_boundary(v->processor, v->position);
}

void vcpu_safe(Vcpu *v)
{
    settle(v);
    rest_halt(v->processor->index, v->position, &v->random);
    rest_begin(v->processor->index, v->position);
    sphere_safe(v->processor, v->position);
}

static void offer_lines(Vcpu *v)
{
    if (sphere_has_offers(v->processor) && random_below(&v->random, 4)) {
        sphere_offer(v->processor, v->position);
    }
}

static void boundary(Vcpu *v)
{
    __atomic_store_n(&v->kicked, 0, __ATOMIC_SEQ_CST);
    sphere_look_at_leases(v->processor, v->position);
    if (exclusive_wanted()) {
        vcpu_safe(v);
        exec_end(v);
        exec_start(v);
        vcpu_run(v);
    } else if (sphere_is_pressed(v->processor)) {
        if (random_one_in(&v->random, 2)) {
            settle(v);
            sphere_serve(v->processor, v->position);
            take_drops(v);
        } else {
            vcpu_safe(v);
            actor_pause();
            vcpu_run(v);
        }
    }
    offer_lines(v);
    if (guest.crowded && sphere_gives_way(v->processor, v->position)) {
        settle(v);
        sphere_yield_core(v->processor, v->position);
        take_drops(v);
    }
    sphere_boundary(v->processor, v->position);
    rest_boundary(v->processor->index, v->position, &v->random);
    modes_tell(v);
    if (v->walks > guest.most_walks) {
        leave_tables(v);
    }
    if (guest.drops && random_one_in(&v->random, guest.drops)) {
        cpu_drop_something(&v->cpu, &v->random);
    }
}

/* --- accesses --------------------------------------------------------------------- */

static bool answer(Vcpu *v, SphereAnswer answer)
{
    if (answer == SPHERE_GRANTED ||
        (random_one_in(&v->random, 2) && sphere_linger(v->processor))) {
        if (random_one_in(&v->random, 2)) {
            sphere_boundary(v->processor, v->position);     /* of this step, though in mid-block */
        }
        vcpu_log_arcs(v);
        write_bits_got(v);
        return true;
    }
    return false;
}

static bool has_bits(const Vcpu *v, Range range, uint8_t bit)
{
    const uint8_t *l1 = v->processor->l1;

    const uint8_t *first = &l1[range.offset >> SPHERE_LINE_SHIFT];
    const uint8_t *last = &l1[(range.offset + range.size - 1) >> SPHERE_LINE_SHIFT];

    return __atomic_load_n(first, __ATOMIC_RELAXED) & bit &&
           __atomic_load_n(last, __ATOMIC_RELAXED) & bit;
}

static bool port_may_read(Cpu *cpu, Range range)
{
    Vcpu *v = (Vcpu *)cpu;

    actor_pause();
    modes_reach(v, range.offset, false);
    if (has_bits(v, range, L1_READ)) {
        actor_pause();
        return true;
    }
    modes_reach(v, range.offset, true);
    write_bits_before(v, range.offset);
    return answer(v, sphere_acquire(v->processor, range.offset, range.size, SPHERE_READ));
}

static bool port_may_write(Cpu *cpu, Range range, Range all)
{
    Vcpu *v = (Vcpu *)cpu;

    actor_pause();
    modes_reach(v, range.offset, false);
    if (has_bits(v, range, L1_WRITE)) {
        actor_pause();
        return true;
    }
    modes_reach(v, range.offset, true);
    for (unsigned i = all.offset >> SPHERE_LINE_SHIFT;
         i <= (all.offset + all.size - 1) >> SPHERE_LINE_SHIFT; i++) {
        cpu->slow[cpu->n_slow++] = i;
    }
    write_bits_before(v, all.offset);
    return answer(v, sphere_acquire(v->processor, all.offset, all.size, SPHERE_WRITE));
}

static bool port_unseen(Cpu *cpu, Range range)
{
    Vcpu *v = (Vcpu *)cpu;

    return v->processor->exclusive || has_bits(v, range, L1_WRITE);
}

static bool port_enter_table(Cpu *cpu, uint32_t offset)
{
    Vcpu *v = (Vcpu *)cpu;

    v->walks++;
    write_bits_before(v, offset);
    return answer(v, sphere_enter_table(v->processor, offset));
}

static bool port_enter_code(Cpu *cpu, uint32_t offset)
{
    Vcpu *v = (Vcpu *)cpu;

    write_bits_before(v, offset);
    return answer(v, sphere_enter_code(v->processor, offset));
}

static void port_flushed(Cpu *cpu)
{
    Vcpu *v = (Vcpu *)cpu;

    sphere_left_tables(v->processor, v->position + 1);
    v->walks = 0;
}

/*
 * Let a device write, if writes are left.  Called with the big lock held, by the devices' actor or
 * by a vCPU that is safe.
 */
static void dma_write(void)
{
    Processor *p = sphere_dma(guest.sphere);
    Stream *stream = &guest.recording->stream[p->index];
    Step step = { .state = 0 };
    Seen seen[1 << (SPHERE_PAGE_SHIFT - 3)];
    unsigned n = 0;

    if (!guest.n_dma) {
        return;
    }
    __atomic_fetch_sub(&guest.n_dma, 1, __ATOMIC_RELAXED);
    guest_dma_range(guest.theme, &guest.dma_random, &step.dma_offset, &step.dma_size);
    rest_end(p->index);
    sphere_run(p);
    if (sphere_acquire(p, step.dma_offset, step.dma_size, SPHERE_WRITE) == SPHERE_ASKED) {
        sphere_await(p, guest.dma_position);
    }
    sphere_arcs(p, emit_arc, stream);
    for (unsigned at = step.dma_offset; at < step.dma_offset + step.dma_size; at += 8) {
        uint32_t version = memory_write(&guest.memory, at,
                                        guest_dma_value(guest.dma_position, at));

        seen[n++] = (Seen){ at / 8, version, true };
        if (n % 4 == 0) {
            actor_pause();
        }
    }
    log_step(stream, step, seen, n);
    release(stream);
    guest.dma_position++;
    rest_boundary(p->index, guest.dma_position, &guest.dma_random);
    rest_halt(p->index, guest.dma_position, &guest.dma_random);
    rest_begin(p->index, guest.dma_position);
    sphere_safe(p, guest.dma_position);
}

static void port_device(Cpu *cpu)
{
    Vcpu *v = (Vcpu *)cpu;

    vcpu_safe(v);
    big_lock();
    actor_pause();
    if (random_one_in(&v->random, 3)) {
        dma_write();
    }
    big_unlock();
    vcpu_run(v);
}

const CpuPort vcpu_port = {
    .may_read = port_may_read,
    .may_write = port_may_write,
    .unseen = port_unseen,
    .enter_table = port_enter_table,
    .enter_code = port_enter_code,
    .flushed = port_flushed,
    .device = port_device,
    .change_map = modes_change_map,
};

/* --- steps ----------------------------------------------------------------------- */

static OpResult try(Vcpu *v, const Insn *insn)
{
    Cpu *cpu = &v->cpu;
    OpResult result;

    v->stream->unasked |= v->interrupt && insn->effect == EFFECT_DELIVER && cpu->masked;
    cpu_restart(cpu);
    do {
        actor_pause();
        result = cpu_op(cpu, insn);
    } while (result == OP_GO_ON);
    if (result == OP_ABANDON) {
        v->processor->counts.abandoned++;
        v->stream->torn |= cpu->n_stores > 0;
    }
    return result;
}

static void end_step(Vcpu *v, const Insn *insn)
{
    const Cpu *cpu = &v->cpu;

    write_bits_end_step(v);
    modes_end_step(v, insn);
    log_step(v->stream, (Step){ .state = cpu->state,
                                .ends_nothing = cpu->fault && !RULE(FAULT_IS_STEP) },
             cpu->seen, cpu->n_seen);
    v->position += RULE(FAULT_IS_STEP) || !cpu->fault;
    v->insn += insn->effect != EFFECT_DELIVER;
    modes_ended_step(v, insn);
}

static void wait_for_line(Vcpu *v)
{
    if (!sphere_is_granted(v->processor)) {
        settle(v);
    }
    rest_begin(v->processor->index, v->position);
    sphere_await(v->processor, v->position);
    rest_end(v->processor->index);
    vcpu_log_arcs(v);
    write_bits_got(v);
    take_drops(v);
    if (v->position < v->processor->ordered) {
        offer_lines(v);         /* it must not: see OFFER_SETTLED */
    }
}

static void begin_exclusive(Vcpu *v)
{
    vcpu_safe(v);
    exec_end(v);
    start_exclusive(v);
}

/* Return what the vCPU makes next: a delivery, or the next instruction of its program. */
static const Insn *next_insn(const Vcpu *v)
{
    Vector vector = modes_delivers(v);

    return vector ? &guest.recording->delivery[vector] :
           &guest.recording->insns[v->processor->index][v->insn];
}

/*
 * Make the step under exclusive execution, and deliver what it raises.  Also a faulting step must
 * be counted before other vCPUs run again.
 */
static void step_exclusively(Vcpu *v, const Insn *insn)
{
    bool late;

    if (v->interrupt && v->insn < guest.recording->n_insns && !RULE(EXCLUSIVE_DELIVERS)) {
        insn = &guest.recording->insns[v->processor->index][v->insn];
    }
    begin_exclusive(v);
    vcpu_run(v);
    v->processor->exclusive = true;
    modes_tell(v);
    do {
        v->processor->counts.exclusive++;
        v->modes.exclusive += insn->effect == EFFECT_DELIVER;
        if (try(v, insn) != OP_END) {
            g_error("asked for something under exclusive execution");
        }
        late = v->cpu.fault && !RULE(FAULT_COUNTED_FIRST);
        if (!late) {
            end_step(v, insn);
            insn = v->cpu.pending ? next_insn(v) : NULL;
        }
    } while (insn && !late);
    v->processor->exclusive = false;
    vcpu_safe(v);
    end_exclusive();
    exec_start(v);
    vcpu_run(v);
    if (late) {
        end_step(v, insn);
    }
}

/* --- cuts ------------------------------------------------------------------------- */

static Place place_of(const Stream *stream, Position position)
{
    return (Place){
        .event[RACE_FDR] = stream->events[RACE_FDR]->len, .step = stream->steps->len,
        .position = position,
    };
}

/* Save the state of all.  Called with the big lock held, while no vCPU executes. */
static void make_cut(Cut *to)
{
    const Stream *stream = guest.recording->stream;

    for (unsigned i = 0; i < guest.n_vcpus; i++) {
        const Vcpu *v = &guest.vcpu[i];

        to->place[i] = place_of(&stream[i], v->position);
        to->place[i].insn = v->insn;
        to->place[i].state = v->cpu.state;
        to->place[i].user = v->cpu.user;
        to->place[i].masked = v->cpu.masked;
    }
    to->place[guest.n_vcpus] = place_of(&stream[guest.n_vcpus], guest.dma_position);
    to->memory = guest.memory;
    rest_cut_all(false);
}

/* Return true if all vCPUs are between two steps of their programs.  While no vCPU executes. */
static bool can_cut(void)
{
    for (unsigned i = 0; i < guest.n_vcpus; i++) {
        if (guest.vcpu[i].interrupt || guest.vcpu[i].cpu.pending) {
            return false;
        }
    }
    return guest.recording->n_cuts < MAX_CUTS;
}

static void cut(Vcpu *v)
{
    Recording *r = guest.recording;

    if (!RULE(CUT_AT_REST)) {
        rest_cut_all(true);
    }
    begin_exclusive(v);
    big_lock();
    if (can_cut()) {
        make_cut(&r->cut[r->n_cuts++]);
    }
    big_unlock();
    end_exclusive();
    exec_start(v);
    vcpu_run(v);
}

/* --- programs ----------------------------------------------------------------------- */

/* Return true if the first request of the instruction covers all of its accesses. */
static bool is_one_access(const Insn *insn)
{
    const Op *first = &insn->op[0];

    for (unsigned i = 0; i < insn->n; i++) {
        const Op *op = &insn->op[i];

        if (op->kind < OP_LOAD || op->kind > OP_STORE || op->kind == OP_ALONE || op->virtual ||
            op->at < first->at || op->at >= first->at + first->all_size ||
            (op->kind == OP_OWN && first->kind == OP_LOAD)) {
            return false;
        }
    }
    return true;
}

static void step(Vcpu *v)
{
    const Insn *insn = next_insn(v);

    for (unsigned tries = 0;; tries++) {
        OpResult result = try(v, insn);

        if (result == OP_END) {
            end_step(v, insn);
            return;
        }
        if (result == OP_ABANDON) {
            /* Nothing may be taken between a grant and the next try, so one wait is enough. */
            v->stream->waited_twice |= tries && is_one_access(insn);
            wait_for_line(v);
            if (insn->effect == EFFECT_DELIVER && !modes_abandoned(v)) {
                return;
            }
        }
        if (result == OP_NOT_ALONE || tries == guest.few_tries) {
            step_exclusively(v, insn);
            return;
        }
    }
}

static void vcpu_main(Vcpu *v)
{
    unsigned until_boundary = 0;

    exec_start(v);
    vcpu_run(v);
    while (v->insn < guest.recording->n_insns || v->interrupt) {
        if (v->at_boundary || !until_boundary-- || __atomic_load_n(&v->kicked, __ATOMIC_SEQ_CST) ||
            (guest.stops_at_limit && v->position >= sphere_episode_limit(v->processor))) {
            boundary(v);
            modes_interrupt(v);
            v->at_boundary = false;
            until_boundary = random_below(&v->random, guest.block);
        }
        if (guest.cuts && random_one_in(&v->random, guest.cuts)) {
            cut(v);
        }
        do {
            step(v);
        } while (v->cpu.pending);
        /* The kick of a request may have been taken before the step waited for a line. */
        if (sphere_is_pressed(v->processor)) {
            until_boundary = 0;
        }
    }
    vcpu_safe(v);
    exec_end(v);
}

static void devices_main(void)
{
    while (__atomic_load_n(&guest.n_dma, __ATOMIC_RELAXED)) {
        big_lock();
        dma_write();
        big_unlock();
        for (unsigned i = 0; i < guest.dma_pauses; i++) {
            actor_pause();
        }
    }
}

void actor_main(void *opaque)
{
    if (opaque == &guest) {
        flusher_main();
        return;
    }
    if (opaque) {
        vcpu_main(opaque);
    } else {
        devices_main();
    }
    if (__atomic_sub_fetch(&guest.n_left, 1, __ATOMIC_SEQ_CST) == 0) {
        rest_cut_all(true);
    }
}
