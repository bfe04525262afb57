/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Recording the small guest: one actor for each vCPU and one for devices, using
 * the sphere as QEMU's glue does.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "hw/recorder/directory.h"
#include "tests/model/actors.h"
#include "tests/model/recording.h"
#include "tests/model/rules.h"

/* One in so many recordings is of long programs. */
#define LONG_ONES 16

typedef struct Vcpu {
    Cpu cpu;                    /* first: ports get this */
    Processor *processor;
    Stream *stream;
    Position position;
    uint64_t random;
    unsigned insn;              /* the next one */
    unsigned walks;             /* since it dropped all translations */
    unsigned page;              /* of which it asks for something, */
    uint8_t had[SPHERE_PAGE_LINES];     /* and its L1 bytes of that page before */
    uint32_t write_bits[GUEST_PAGES];   /* of lines that it got since the latest step */
    int kicked;
    bool executing;             /* exclusive execution must wait for it */
} Vcpu;

static struct {
    Recording *recording;
    Sphere *sphere;
    Memory memory __attribute__((aligned(64)));
    unsigned n_vcpus;
    Vcpu vcpu[MAX_VCPUS];
    Theme theme;
    unsigned block;             /* so many instructions at most lie between two boundaries */
    unsigned few_tries;         /* before exclusive execution */
    bool crowded;               /* give way to others now and then */
    unsigned drops;             /* one in so many boundaries drops some copy; 0: none */
    unsigned most_walks;        /* after which all translations go */
    unsigned cuts;              /* one in so many boundaries is a cut; 0: none */
    unsigned user;              /* one in so many boundaries leads to user mode; 0: none */
    unsigned opens;             /* one in so many closed pages that it meets there is opened */
    uint64_t dma_random;
    unsigned n_dma, dma_pauses;
    Position dma_position;
    int big_lock;
    int exclusive;              /* index + 1 of the vCPU that wants it or has it */
} guest;

/* --- locks of the world around the sphere ----------------------------------------- */

static void big_lock(void)
{
    int free = 0;

    while (!__atomic_compare_exchange_n(&guest.big_lock, &free, 1, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED)) {
        free = 0;
        actor_wait();
    }
}

static void big_unlock(void)
{
    __atomic_store_n(&guest.big_lock, 0, __ATOMIC_RELEASE);
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

/* Not executing.  A vCPU that waits for a line counts as executing: it may be granted. */
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

static void kick(Processor *p)
{
    if (p->index < guest.n_vcpus) {
        __atomic_store_n(&guest.vcpu[p->index].kicked, 1, __ATOMIC_SEQ_CST);
    }
}

/* --- the log -------------------------------------------------------------------- */

static void log_event(Stream *stream, Event event)
{
    if (stream->events->len) {
        /* A reader meets events in the order of their positions. */
        g_assert(event.at >= g_array_index(stream->events, Event, stream->events->len - 1).at);
    }
    g_array_append_val(stream->events, event);
}

static void emit_arc(Processor *to, unsigned from, Position source, void *opaque)
{
    log_event(opaque, (Event){ EVENT_WAIT, to->floor, from, source });
}

static void log_step(Stream *stream, Step step, const Seen *seen, unsigned n_seen)
{
    step.first_seen = stream->seen->len;
    step.n_seen = n_seen;
    g_array_append_vals(stream->seen, seen, n_seen);
    g_array_append_val(stream->steps, step);
    actor_progress();
}

/* --- boundaries ------------------------------------------------------------------- */

static void settle(Vcpu *v)
{
    if (v->position < v->processor->ordered) {
        log_step(v->stream, (Step){ .nop = true, .state = v->cpu.state }, NULL, 0);
        v->position++;
    }
}

/* Not by an instruction that would do so in replay, too. */
static void leave_tables(Vcpu *v)
{
    cpu_drop_translations(&v->cpu);
    sphere_left_tables(v->processor, v->position);
    v->walks = 0;
    if (RULE(LEFT_IS_EVENT)) {
        log_event(v->stream, (Event){ EVENT_DROP_ALL, v->position, 0, 0 });
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
            log_event(v->stream, (Event){ EVENT_DROP_WORD, v->position, 0, words[i] });
        }
    }
    if (code) {
        cpu_drop_code(&v->cpu);
        log_event(v->stream, (Event){ EVENT_DROP_CODE, v->position, 0, 0 });
    }
}

static void run(Vcpu *v)
{
    sphere_run(v->processor);
    take_drops(v);
    sphere_boundary(v->processor, v->position);
}

static void be_safe(Vcpu *v)
{
    settle(v);
    sphere_safe(v->processor, v->position);
}

static void boundary(Vcpu *v)
{
    __atomic_store_n(&v->kicked, 0, __ATOMIC_SEQ_CST);
    sphere_look_at_leases(v->processor, v->position);
    if (exclusive_wanted()) {
        be_safe(v);
        exec_end(v);
        exec_start(v);
        run(v);
    } else if (sphere_is_pressed(v->processor)) {
        if (random_one_in(&v->random, 2)) {
            settle(v);
            sphere_serve(v->processor, v->position);
            take_drops(v);
        } else {
            be_safe(v);
            actor_pause();
            run(v);
        }
    }
    if (v->processor->n_lent && random_below(&v->random, 4)) {
        sphere_give_back(v->processor, v->position);
    }
    if (guest.crowded && sphere_gives_way(v->processor, v->position)) {
        settle(v);
        sphere_give_way(v->processor, v->position);
        take_drops(v);
    }
    sphere_boundary(v->processor, v->position);
    if (guest.user && !v->processor->in_user && v->position >= v->processor->ordered &&
        random_one_in(&v->random, guest.user)) {
        sphere_enter_user(v->processor, v->position);
    }
    if (v->walks > guest.most_walks) {
        leave_tables(v);
    }
    if (guest.drops && random_one_in(&v->random, guest.drops)) {
        cpu_drop_something(&v->cpu, &v->random);
    }
}

/* --- accesses --------------------------------------------------------------------- */

static const uint8_t *page_l1(const Vcpu *v, unsigned page)
{
    return v->processor->l1 + page * SPHERE_PAGE_LINES;
}

static void before_asking(Vcpu *v, uint32_t offset)
{
    v->page = offset >> SPHERE_PAGE_SHIFT;
    memcpy(v->had, page_l1(v, v->page), sizeof(v->had));
}

/* What it asked for was granted, and perhaps more of that page. */
static void note_write_bits(Vcpu *v)
{
    for (unsigned i = 0; i < GUEST_USED_LINES; i++) {
        bool asked_for = v->processor->request.lines >> i & 1;

        if (page_l1(v, v->page)[i] & L1_WRITE && (asked_for || !(v->had[i] & L1_WRITE))) {
            v->write_bits[v->page] |= UINT32_C(1) << i;
        }
    }
}

static void log_write_bit(const Vcpu *v, unsigned page, unsigned line)
{
    unsigned word = (page * SPHERE_PAGE_LINES + line) * GUEST_LINE_WORDS;
    WriteBit bit = { .step = v->stream->steps->len, .word = word };

    for (unsigned i = 0; i < GUEST_LINE_WORDS; i++) {
        memory_read(&guest.memory, (word + i) * 8, &bit.version[i]);
    }
    g_array_append_val(v->stream->write_bits, bit);
}

/* At the end of a step: it could have stored to any of these lines.  Not to what it has lost. */
static void log_write_bits(Vcpu *v)
{
    for (unsigned page = 0; page < GUEST_PAGES; page++) {
        uint32_t lines = v->write_bits[page];
        bool reached = !v->processor->in_user ||
                       sphere_is_open(guest.sphere, page << SPHERE_PAGE_SHIFT);

        for (unsigned i = 0; reached && lines >> i; i++) {
            if (lines >> i & 1 && page_l1(v, page)[i] & L1_WRITE) {
                log_write_bit(v, page, i);
            }
        }
        v->write_bits[page] = 0;
    }
}

static bool answer(Vcpu *v, SphereAnswer answer)
{
    if (answer == SPHERE_GRANTED ||
        (random_one_in(&v->random, 2) && sphere_linger(v->processor))) {
        if (random_one_in(&v->random, 2)) {
            sphere_boundary(v->processor, v->position);     /* this step, in mid-block */
        }
        sphere_arcs(v->processor, emit_arc, v->stream);
        note_write_bits(v);
        return true;
    }
    return false;
}

/* In user mode, what is not open is opened by a translation, or an exception comes first. */
static void reach(Vcpu *v, uint32_t offset)
{
    if (v->processor->in_user && !sphere_is_open(guest.sphere, offset)) {
        if (random_one_in(&v->random, guest.opens)) {
            sphere_open_page(guest.sphere, offset);
        } else if (RULE(LEAVE_USER)) {
            sphere_leave_user(v->processor);
        }
    }
}

static bool has_bits(const Vcpu *v, Range range, uint8_t bit)
{
    const uint8_t *l1 = v->processor->l1;

    return l1[range.offset >> SPHERE_LINE_SHIFT] & bit &&
           l1[(range.offset + range.size - 1) >> SPHERE_LINE_SHIFT] & bit;
}

static bool port_may_read(Cpu *cpu, Range range)
{
    Vcpu *v = (Vcpu *)cpu;

    actor_pause();
    reach(v, range.offset);
    if (has_bits(v, range, L1_READ)) {
        actor_pause();
        return true;
    }
    before_asking(v, range.offset);
    return answer(v, sphere_acquire(v->processor, range.offset, range.size, SPHERE_READ));
}

static bool port_may_write(Cpu *cpu, Range range, Range all)
{
    Vcpu *v = (Vcpu *)cpu;

    actor_pause();
    reach(v, range.offset);
    if (has_bits(v, range, L1_WRITE)) {
        actor_pause();
        return true;
    }
    for (unsigned i = all.offset >> SPHERE_LINE_SHIFT;
         i <= (all.offset + all.size - 1) >> SPHERE_LINE_SHIFT; i++) {
        cpu->slow[cpu->n_slow++] = i;
    }
    before_asking(v, all.offset);
    return answer(v, sphere_acquire(v->processor, all.offset, all.size, SPHERE_WRITE));
}

static bool port_unseen(Cpu *cpu, uint32_t offset)
{
    Vcpu *v = (Vcpu *)cpu;

    return v->processor->exclusive || has_bits(v, (Range){ offset, 8 }, L1_WRITE);
}

static bool port_enter_table(Cpu *cpu, uint32_t offset)
{
    Vcpu *v = (Vcpu *)cpu;

    v->walks++;
    before_asking(v, offset);
    return answer(v, sphere_enter_table(v->processor, offset));
}

static bool port_enter_code(Cpu *cpu, uint32_t offset)
{
    Vcpu *v = (Vcpu *)cpu;

    before_asking(v, offset);
    return answer(v, sphere_enter_code(v->processor, offset));
}

static void port_flushed(Cpu *cpu)
{
    Vcpu *v = (Vcpu *)cpu;

    sphere_left_tables(v->processor, v->position + 1);
    v->walks = 0;
}

/* Under the big lock, from any thread that is not running in the sphere. */
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
    sphere_safe(p, ++guest.dma_position);
}

static void port_device(Cpu *cpu)
{
    Vcpu *v = (Vcpu *)cpu;

    be_safe(v);
    big_lock();
    actor_pause();
    if (random_one_in(&v->random, 3)) {
        dma_write();
    }
    big_unlock();
    run(v);
}

static const CpuPort port = {
    port_may_read, port_may_write, port_unseen, port_enter_table, port_enter_code, port_flushed, port_device,
};

/* --- steps ----------------------------------------------------------------------- */

static OpResult try(Vcpu *v, const Insn *insn)
{
    Cpu *cpu = &v->cpu;
    OpResult result;

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

static void end_step(Vcpu *v)
{
    const Cpu *cpu = &v->cpu;

    log_write_bits(v);
    log_step(v->stream, (Step){ .state = cpu->state,
                                .ends_nothing = cpu->fault && !RULE(FAULT_IS_STEP) },
             cpu->seen, cpu->n_seen);
    v->position += RULE(FAULT_IS_STEP) || !cpu->fault;
    v->insn++;
}

static void wait_for_line(Vcpu *v)
{
    if (!sphere_is_granted(v->processor)) {
        settle(v);
    }
    sphere_await(v->processor, v->position);
    sphere_arcs(v->processor, emit_arc, v->stream);
    note_write_bits(v);
    take_drops(v);
}

static void begin_exclusive(Vcpu *v)
{
    be_safe(v);
    exec_end(v);
    start_exclusive(v);
}

/* Others run from now on: so before that a fault, too, has become a step. */
static void step_exclusively(Vcpu *v, const Insn *insn)
{
    bool late;

    begin_exclusive(v);
    run(v);
    v->processor->exclusive = true;
    v->processor->counts.exclusive++;
    if (try(v, insn) != OP_END) {
        g_error("asked for something under exclusive execution");
    }
    late = v->cpu.fault && !RULE(FAULT_COUNTED_FIRST);
    if (!late) {
        end_step(v);
    }
    v->processor->exclusive = false;
    be_safe(v);
    end_exclusive();
    exec_start(v);
    run(v);
    if (late) {
        end_step(v);
    }
}

/* --- cuts ------------------------------------------------------------------------- */

static Place place_of(const Stream *stream, Position position)
{
    return (Place){
        .event = stream->events->len, .step = stream->steps->len, .position = position,
    };
}

/* No vCPU executes, and devices wait for the big lock. */
static void make_cut(Cut *to)
{
    const Stream *stream = guest.recording->stream;

    for (unsigned i = 0; i < guest.n_vcpus; i++) {
        const Vcpu *v = &guest.vcpu[i];

        to->place[i] = place_of(&stream[i], v->position);
        to->place[i].insn = v->insn;
        to->place[i].state = v->cpu.state;
    }
    to->place[guest.n_vcpus] = place_of(&stream[guest.n_vcpus], guest.dma_position);
    to->memory = guest.memory;
}

static void cut(Vcpu *v)
{
    Recording *r = guest.recording;

    begin_exclusive(v);
    big_lock();
    if (r->n_cuts < MAX_CUTS) {
        make_cut(&r->cut[r->n_cuts++]);
    }
    big_unlock();
    end_exclusive();
    exec_start(v);
    run(v);
}

/* --- programs ----------------------------------------------------------------------- */

/* Does it need no more than what it asks for at once? */
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

static void step(Vcpu *v, const Insn *insn)
{
    for (unsigned tries = 0;; tries++) {
        OpResult result = try(v, insn);

        if (result == OP_END) {
            end_step(v);
            return;
        }
        if (result == OP_ABANDON) {
            /* Nothing is taken from it between a grant and the next try. */
            v->stream->waited_twice |= tries && is_one_access(insn);
            wait_for_line(v);
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
    run(v);
    while (v->insn < guest.recording->n_insns) {
        if (!until_boundary-- || __atomic_load_n(&v->kicked, __ATOMIC_SEQ_CST)) {
            boundary(v);
            until_boundary = random_below(&v->random, guest.block);
        }
        if (guest.cuts && random_one_in(&v->random, guest.cuts)) {
            cut(v);
        }
        step(v, &guest.recording->insns[v->processor->index][v->insn]);
        /* A kick may have come, and have been seen, before what was waited for. */
        if (sphere_is_pressed(v->processor)) {
            until_boundary = 0;
        }
    }
    be_safe(v);
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

static void actor_main(void *opaque)
{
    if (opaque) {
        vcpu_main(opaque);
    } else {
        devices_main();
    }
}

/* --- a whole recording ------------------------------------------------------------- */

static void dump(void)
{
    fprintf(stderr, "no progress: exclusive %d, big lock %d\n", guest.exclusive, guest.big_lock);
    for (unsigned i = 0; i <= guest.n_vcpus; i++) {
        Processor *p = &guest.sphere->processor[i];

        fprintf(stderr, "%u: %s, published %" PRIu64 ", floor %" PRIu64 ", ordered %" PRIu64
                ", inbox %#x, lock %d, request page %td, lines %#" PRIx64 ", %s, granted %d%s\n",
                i, p->running ? "runs" : "safe", p->published, p->floor, p->ordered, p->inbox,
                p->lock, p->request.page ? p->request.page - guest.sphere->pages : -1,
                p->request.lines, p->request.access == SPHERE_WRITE ? "write" : "read",
                p->request.granted, p->exclusive ? ", exclusive" : "");
    }
}

static void add_counts(SphereCounts *to, const SphereCounts *from)
{
    uint64_t *a = (uint64_t *)to;
    const uint64_t *b = (const uint64_t *)from;

    for (unsigned i = 0; i < sizeof(*to) / sizeof(*a); i++) {
        a[i] += b[i];
    }
}

static const SphereOps ops = { kick };

Recording *recording_make(uint64_t seed)
{
    uint64_t random = seed;
    Recording *r = g_new0(Recording, 1);
    void *opaque[MAX_PROCESSORS] = { NULL };
    Mix mix;
    bool is_long, alike, ended;

    memset(&guest, 0, sizeof(guest));
    guest.theme = random_one_in(&random, 2) ? random_below(&random, THEMES) : THEME_ANY;
    r->n_vcpus = 2 + random_below(&random, MAX_VCPUS - 1);
    if (guest.theme != THEME_ANY && r->n_vcpus < MAX_VCPUS) {
        r->n_vcpus++;
    }
    is_long = random_one_in(&random, LONG_ONES);
    r->n_insns = is_long ? 300 + random_below(&random, 700) : 10 + random_below(&random, 60);
    guest_memory(&r->before, &random);
    guest_mix(&mix, &random);
    alike = random_one_in(&random, 2);
    guest.memory = r->before;
    guest.recording = r;
    guest.n_vcpus = r->n_vcpus;
    guest.block = 1 << random_below(&random, 4);
    guest.few_tries = random_below(&random, 6) + (guest.theme == THEME_ANY ? 0 : 3);
    guest.crowded = random_one_in(&random, guest.theme == THEME_ANY ? 2 : 6);
    guest.drops = random_one_in(&random, 2) ? 4 : 0;
    guest.most_walks = 4 << random_below(&random, 8);
    guest.cuts = random_one_in(&random, 3) ? r->n_insns : 0;
    guest.user = guest.theme == THEME_ANY || random_one_in(&random, 4) ? random_below(&random, 4) : 0;
    guest.opens = 2 << random_below(&random, 8);
    guest.n_dma = random_one_in(&random, 3) ? 0 : 2 + random_below(&random, 60);
    guest.dma_pauses = random_below(&random, 50);
    guest.dma_random = random_next(&random);
    guest.sphere = sphere_new(r->n_vcpus, 1 + random_below(&random, MAX_VCPUS), guest.memory.word,
                              GUEST_SIZE, &ops, &fdr_recorder);
    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        r->stream[i].events = g_array_new(false, true, sizeof(Event));
        r->stream[i].steps = g_array_new(false, true, sizeof(Step));
        r->stream[i].seen = g_array_new(false, true, sizeof(Seen));
        r->stream[i].write_bits = g_array_new(false, true, sizeof(WriteBit));
    }
    for (unsigned i = 0; i < r->n_vcpus; i++) {
        Vcpu *v = &guest.vcpu[i];

        r->insns[i] = g_new0(Insn, r->n_insns);
        if (guest.theme == THEME_ANY) {
            if (!alike) {
                guest_mix(&mix, &random);
            }
            guest_program(r->insns[i], r->n_insns, &mix, &random);
        } else {
            guest_play(r->insns[i], r->n_insns, guest.theme, i, &random);
        }
        v->cpu.memory = &guest.memory;
        v->cpu.port = &port;
        v->processor = &guest.sphere->processor[i];
        v->stream = &r->stream[i];
        v->random = random_next(&random);
        opaque[i] = v;
    }
    ended = actors_run(r->n_vcpus + 1, actor_main, opaque, random_next(&random), dump);
    r->after = guest.memory;
    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        add_counts(&r->counts, &guest.sphere->processor[i].counts);
    }
    if (!ended) {
        return NULL;            /* and what was allocated stays: others may use it */
    }
    sphere_free(guest.sphere);
    return r;
}

void recording_free(Recording *r)
{
    if (!r) {
        return;
    }
    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        g_array_unref(r->stream[i].events);
        g_array_unref(r->stream[i].steps);
        g_array_unref(r->stream[i].seen);
        g_array_unref(r->stream[i].write_bits);
    }
    for (unsigned i = 0; i < r->n_vcpus; i++) {
        g_free(r->insns[i]);
    }
    g_free(r);
}
