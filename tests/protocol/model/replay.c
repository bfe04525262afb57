/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Replays the small guest from its log, one access of one processor at a time, in any order that
 * the log allows.  Also checks the log itself with vector clocks, since a random order may hide
 * that an arc is missing.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "tests/protocol/model/broken-rule.h"
#include "tests/protocol/model/recording.h"
#include "tests/protocol/model/wake-ups.h"

typedef struct Player {
    Cpu cpu;
    const Stream *stream;
    const GArray *events;
    unsigned event, step, insn;
    Vector interrupt;           /* the next step delivers it */
    Position position;
    bool begun;
} Player;

typedef struct Replay {
    const Recording *recording;
    Memory memory;
    Player player[MAX_PROCESSORS];
    uint64_t random;
    bool keeps;                 /* copies are kept as long as possible, not dropped at random */
    bool by_wake_ups;           /* instead of WAITs */
    WakeUps wake_ups;
} Replay;

static const Event *next_event(const Player *p)
{
    return p->event < p->events->len ? &g_array_index(p->events, Event, p->event) : NULL;
}

static const Step *next_step(const Player *p)
{
    return p->step < p->stream->steps->len ?
           &g_array_index(p->stream->steps, Step, p->step) : NULL;
}

/* Apply an event.  Return false if it is a wait that has not ended. */
static bool replay_event(Replay *r, Player *p, const Event *event)
{
    switch (event->kind) {
    case EVENT_WAIT:
        if (!r->by_wake_ups && r->player[event->from].position < event->value) {
            return false;
        }
        break;
    case EVENT_DROP_WORD:
        if (RULE(REPLAY_DROPS)) {
            cpu_drop_word(&p->cpu, event->value);
        }
        break;
    case EVENT_DROP_ALL:
        if (RULE(REPLAY_DROPS)) {
            cpu_drop_translations(&p->cpu);
        }
        break;
    case EVENT_DROP_CODE:
        if (RULE(REPLAY_DROPS)) {
            cpu_drop_code(&p->cpu);
        }
        break;
    case EVENT_INTERRUPT:
        p->interrupt = event->value;
        break;
    }
    p->event++;
    return true;
}

/* Return what the vCPU makes next, or NULL if its program has ended. */
static const Insn *next_insn(const Replay *r, const Player *p)
{
    const Recording *recording = r->recording;
    Vector vector = p->cpu.pending ? p->cpu.pending : p->interrupt;

    if (vector) {
        return &recording->delivery[vector];
    }
    return p->insn < recording->n_insns ? &recording->insns[p - r->player][p->insn] : NULL;
}

static void end_step(Player *p, const Step *step)
{
    p->step++;
    p->position += !step->ends_nothing;
    p->begun = false;
}

/* Make one access of a vCPU. */
static void make_op(Replay *r, unsigned i, const Insn *insn, const Step *step, char **difference)
{
    Player *p = &r->player[i];

    if (!p->begun) {
        if (!r->keeps && random_one_in(&r->random, 3)) {
            cpu_drop_something(&p->cpu, &r->random);
        }
        cpu_restart(&p->cpu);
        p->begun = true;
    }
    if (!insn || cpu_op(&p->cpu, insn) == OP_END) {
        if (!insn || p->cpu.state != step->state) {
            *difference = g_strdup_printf("vCPU %u, step %" PRIu64 ", instruction %u: "
                                          "it saw something else than when recorded",
                                          i, p->position, p->insn);
            return;
        }
        if (insn->effect != EFFECT_DELIVER) {
            p->insn++;
        } else if (insn - r->recording->delivery >= VECTOR_INTERRUPT) {
            p->interrupt = VECTOR_NONE;
        }
        end_step(p, step);
    }
}

/* Make one access of processor @i, or apply one event.  Return false if it waits or has ended. */
static bool make_access(Replay *r, unsigned i, char **difference)
{
    Player *p = &r->player[i];
    const Event *event = next_event(p);
    const Step *step = next_step(p);
    bool is_vcpu = i < r->recording->n_vcpus;
    const Insn *insn = is_vcpu ? next_insn(r, p) : NULL;

    if (!p->begun && event && event->at < p->position) {
        *difference = g_strdup_printf("processor %u passed by an event at %" PRIu64, i, event->at);
        return true;
    }
    if (!p->begun && !p->interrupt && event && event->at == p->position) {
        if (replay_event(r, p, event)) {
            return true;
        }
        if (!RULE(REPLAY_WAITS_FIRST) && insn) {
            cpu_walk_ahead(&p->cpu, insn);
        }
        return false;
    }
    if (!step) {
        return false;
    }
    if (!is_vcpu) {
        for (unsigned at = step->dma_offset; at < step->dma_offset + step->dma_size; at += 8) {
            memory_write(&r->memory, at, guest_dma_value(p->position, at));
        }
        end_step(p, step);
    } else if (step->nop) {
        end_step(p, step);
    } else {
        make_op(r, i, insn, step, difference);
    }
    return true;
}

/* Go on with processor @i.  Return false if it waits or has ended. */
static bool advance(Replay *r, unsigned i, char **difference)
{
    const Player *p = &r->player[i];

    if (r->by_wake_ups && !p->begun) {
        WakeUpsResult result = wake_ups_advance(&r->wake_ups, i, p->position, &r->random);

        if (result != WAKE_UPS_ALLOW) {
            return result == WAKE_UPS_MOVED;
        }
    }
    return make_access(r, i, difference);
}

static char *deadlock(Replay *r)
{
    GString *text = g_string_new("replay is stuck:");

    for (unsigned i = 0; i <= r->recording->n_vcpus; i++) {
        const Event *event = next_event(&r->player[i]);

        g_string_append_printf(text, " %u at %" PRIu64, i, r->player[i].position);
        if (event && event->kind == EVENT_WAIT) {
            g_string_append_printf(text, " waits for %u at %" PRIu64 ";", event->from,
                                   event->value);
        }
    }
    return g_string_free(text, false);
}

/* Begin at a cut, with its registers, and without copies. */
static void begin_at(Player *p, const Place *place, RaceOrder order)
{
    p->event = place->event[order];
    p->step = place->step;
    p->insn = place->insn;
    p->position = place->position;
    p->cpu.state = place->state;
    p->cpu.user = place->user;
    p->cpu.masked = place->masked;
}

static void replay_begin(Replay *r, const Recording *recording, RaceOrder order, const Cut *from,
                         uint64_t seed)
{
    memset(r, 0, sizeof(*r));
    r->recording = recording;
    r->memory = from ? from->memory : recording->before;
    r->random = seed;
    r->keeps = random_one_in(&r->random, 2);
    r->by_wake_ups = order == RACE_KARMA && random_one_in(&r->random, 2);
    wake_ups_begin(&r->wake_ups, recording, from ? from - recording->cut + 1 : 0);
    for (unsigned i = 0; i <= recording->n_vcpus; i++) {
        r->player[i].stream = &recording->stream[i];
        r->player[i].events = recording->stream[i].events[order];
        r->player[i].cpu.memory = &r->memory;
        r->player[i].cpu.has_modes = recording->has_modes;
        r->player[i].cpu.sees_map = recording->has_maps;
        if (from) {
            begin_at(&r->player[i], &from->place[i], order);
        }
    }
}

/*
 * Advance the first processor of @turn that can go on.  Unless @turns, that is mostly the same one
 * as long as it can, which leads farther from the recorded interleaving than taking turns.  Return
 * false if none can go on.
 */
static bool advance_one(Replay *r, const unsigned turn[], unsigned n, bool turns,
                        char **difference)
{
    unsigned first = turns || random_one_in(&r->random, 16) ? random_below(&r->random, n) : 0;

    for (unsigned i = 0; i < n; i++) {
        if (advance(r, turn[(first + i) % n], difference)) {
            return true;
        }
    }
    return false;
}

char *recording_replay(const Recording *recording, RaceOrder order, const Cut *from, uint64_t seed)
{
    unsigned n = recording->n_vcpus + 1;
    unsigned turn[MAX_PROCESSORS];
    g_autofree Replay *r = g_new(Replay, 1);
    char *difference = NULL;
    bool turns;

    replay_begin(r, recording, order, from, seed);
    turns = random_one_in(&r->random, 3);
    for (unsigned i = 0; i < n; i++) {
        unsigned j = random_below(&r->random, i + 1);

        turn[i] = turn[j];
        turn[j] = i;
    }
    while (!difference && advance_one(r, turn, n, turns, &difference)) {
        if (random_one_in(&r->random, 64)) {
            unsigned a = random_below(&r->random, n), b = random_below(&r->random, n), c = turn[a];

            turn[a] = turn[b];
            turn[b] = c;
        }
    }
    for (unsigned i = 0; i < n && !difference; i++) {
        if (next_step(&r->player[i])) {
            difference = deadlock(r);
        }
    }
    if (!difference && memcmp(r->memory.word, recording->after.word, sizeof(r->memory.word))) {
        difference = g_strdup("memory is not the same at the end");
    }
    return difference;
}

/* --- the log itself ----------------------------------------------------------------- */

typedef unsigned Clock[MAX_PROCESSORS];     /* steps of each processor that have ended */

typedef struct Access {
    unsigned processor, step;
} Access;

/* A read of a version of a word; @next is the index of another read of it, or NONE. */
typedef struct Read {
    Access by;
    unsigned next;
} Read;

#define NONE UINT_MAX

typedef struct OrderCheck {
    const Recording *recording;
    RaceOrder order;
    Clock *clock[MAX_PROCESSORS];           /* for each step: what comes before it */
    unsigned versions[GUEST_ALL_WORDS + 1]; /* how many versions the words before this one have */
    Access *writers;                        /* of all versions of all words */
    unsigned *readers;                      /* first Read of each version, including version 0 */
    GArray *reads;                          /* Read */
} OrderCheck;

/* Return the write that made this version; NULL if it is the initial one or does not exist. */
static Access *writer_of(const OrderCheck *o, unsigned word, unsigned version)
{
    unsigned n = o->versions[word + 1] - o->versions[word];

    return version && version <= n ? &o->writers[o->versions[word] + version - 1] : NULL;
}

static bool comes_before(const OrderCheck *o, Access a, Access b)
{
    return a.processor == b.processor ? a.step <= b.step :
           o->clock[b.processor][b.step][a.processor] > a.step;
}

/*
 * Compute the clocks of all steps, along the waits.  Return false if the waits have a cycle, or if
 * an event comes behind the interrupt whose delivery is the step at its position.
 */
static bool make_clocks(OrderCheck *o)
{
    unsigned n = o->recording->n_vcpus + 1;
    unsigned step[MAX_PROCESSORS] = { 0 }, event[MAX_PROCESSORS] = { 0 };
    Clock now[MAX_PROCESSORS] = { { 0 } };
    bool delivers[MAX_PROCESSORS] = { false };
    bool moved = true, all = true;

    while (moved) {
        moved = false;
        for (unsigned i = 0; i < n; i++) {
            const Stream *stream = &o->recording->stream[i];
            const GArray *events = stream->events[o->order];
            const Event *e = &g_array_index(events, Event, event[i]);

            if (event[i] < events->len && e->at == step[i] && !delivers[i]) {
                if (e->kind == EVENT_WAIT) {
                    if (step[e->from] < e->value) {
                        continue;
                    }
                    for (unsigned j = 0; e->value && j < n; j++) {
                        now[i][j] = MAX(now[i][j], o->clock[e->from][e->value - 1][j]);
                    }
                    now[i][e->from] = MAX(now[i][e->from], e->value);
                }
                delivers[i] = e->kind == EVENT_INTERRUPT;
                event[i]++;
                moved = true;
            } else if (step[i] < stream->steps->len) {
                now[i][i] = step[i];
                memcpy(o->clock[i][step[i]], now[i], sizeof(now[i]));
                step[i]++;
                delivers[i] = false;
                moved = true;
            }
        }
    }
    for (unsigned i = 0; i < n; i++) {
        const Stream *stream = &o->recording->stream[i];

        all = all && step[i] == stream->steps->len && event[i] == stream->events[o->order]->len;
    }
    return all;
}

static const Seen *seen_of(const Stream *stream, unsigned step, unsigned *n)
{
    const Step *s = &g_array_index(stream->steps, Step, step);

    *n = s->n_seen;
    return s->n_seen ? &g_array_index(stream->seen, Seen, s->first_seen) : NULL;
}

static char *unordered(const char *what, Access a, Access b, const Seen *seen)
{
    return g_strdup_printf("%s: %u:%u is not before %u:%u (word %#x, version %u)", what,
                           a.processor, a.step, b.processor, b.step, seen->word * 8,
                           seen->version);
}

/*
 * Check that @here, which saw @seen, comes after the write of the version that it read or replaced,
 * and before the next write.  Return NULL, or what is wrong, to be freed by the caller.
 */
static char *check_access(const OrderCheck *o, Access here, const Seen *seen)
{
    const Access *before = writer_of(o, seen->word, seen->version - seen->write);
    const Access *after = writer_of(o, seen->word, seen->version + 1);

    if (before && !comes_before(o, *before, here)) {
        return unordered(seen->write ? "write and write" : "write and read", *before, here, seen);
    }
    if (after && !comes_before(o, here, *after)) {
        return unordered(seen->write ? "write and write" : "read and write", here, *after, seen);
    }
    return NULL;
}

static unsigned *readers_of(const OrderCheck *o, unsigned word, unsigned version)
{
    return &o->readers[o->versions[word] + word + version];
}

static void find_readers(OrderCheck *o)
{
    const Recording *recording = o->recording;
    unsigned n_versions = o->versions[GUEST_ALL_WORDS] + GUEST_ALL_WORDS;
    unsigned n;

    o->readers = g_new(unsigned, n_versions);
    memset(o->readers, 0xff, n_versions * sizeof(unsigned));
    o->reads = g_array_new(false, false, sizeof(Read));
    for (unsigned i = 0; i < recording->n_vcpus; i++) {
        for (unsigned s = 0; s < recording->stream[i].steps->len; s++) {
            const Seen *seen = seen_of(&recording->stream[i], s, &n);

            for (unsigned k = 0; k < n; k++) {
                unsigned *first = readers_of(o, seen[k].word, seen[k].version);
                Read read = { { i, s }, *first };

                if (!seen[k].write) {
                    *first = o->reads->len;
                    g_array_append_val(o->reads, read);
                }
            }
        }
    }
}

/*
 * Check that each read of a word of the line is ordered before or after @bit.  With a write bit, a
 * processor might have stored to any word of the line.  Result as for check_access().
 */
static char *check_write_bit(const OrderCheck *o, unsigned processor, const WriteBit *bit)
{
    Access here = { processor, bit->step };

    for (unsigned i = 0; i < GUEST_LINE_WORDS; i++) {
        unsigned at = *readers_of(o, bit->word + i, bit->version[i]);

        while (at != NONE) {
            const Read *read = &g_array_index(o->reads, Read, at);

            if (!comes_before(o, read->by, here) && !comes_before(o, here, read->by)) {
                const Seen seen = { bit->word + i, bit->version[i], false };

                return unordered("read and write bit", read->by, here, &seen);
            }
            at = read->next;
        }
    }
    return NULL;
}

static char *check_write_bits(OrderCheck *o)
{
    char *trouble = NULL;

    find_readers(o);
    for (unsigned i = 0; i < o->recording->n_vcpus && !trouble; i++) {
        const GArray *bits = o->recording->stream[i].write_bits;

        for (unsigned k = 0; k < bits->len && !trouble; k++) {
            trouble = check_write_bit(o, i, &g_array_index(bits, WriteBit, k));
        }
    }
    g_array_unref(o->reads);
    g_free(o->readers);
    return trouble;
}

static void find_writers(OrderCheck *o)
{
    const Recording *recording = o->recording;
    unsigned n;

    for (unsigned i = 0; i < GUEST_ALL_WORDS; i++) {
        o->versions[i + 1] = o->versions[i] + recording->after.version[i];
    }
    o->writers = g_new0(Access, o->versions[GUEST_ALL_WORDS] + 1);
    for (unsigned i = 0; i <= recording->n_vcpus; i++) {
        for (unsigned s = 0; s < recording->stream[i].steps->len; s++) {
            const Seen *seen = seen_of(&recording->stream[i], s, &n);

            for (unsigned k = 0; k < n; k++) {
                Access *writer = writer_of(o, seen[k].word, seen[k].version);

                if (seen[k].write && writer) {
                    *writer = (Access){ i, s };
                }
            }
        }
    }
}

char *recording_check_order(const Recording *recording, RaceOrder order)
{
    g_autofree OrderCheck *o = g_new0(OrderCheck, 1);
    unsigned n = recording->n_vcpus + 1;
    char *trouble = NULL;
    unsigned n_seen;

    o->recording = recording;
    o->order = order;
    for (unsigned i = 0; i < n; i++) {
        o->clock[i] = g_new0(Clock, recording->stream[i].steps->len + 1);
    }
    if (!make_clocks(o)) {
        trouble = g_strdup("the arcs have a cycle, or lead nowhere");
    }
    find_writers(o);
    for (unsigned i = 0; i < n && !trouble; i++) {
        for (unsigned s = 0; s < recording->stream[i].steps->len && !trouble; s++) {
            const Seen *seen = seen_of(&recording->stream[i], s, &n_seen);

            for (unsigned k = 0; k < n_seen && !trouble; k++) {
                trouble = check_access(o, (Access){ i, s }, &seen[k]);
            }
        }
    }
    if (!trouble) {
        trouble = check_write_bits(o);
    }
    for (unsigned i = 0; i < n; i++) {
        g_free(o->clock[i]);
    }
    g_free(o->writers);
    return trouble;
}

/* --- for people ----------------------------------------------------------------------- */

void recording_print(const Recording *recording, RaceOrder order)
{
    static const char *const names[] = { "wait for", "drop word", "drop all", "drop code",
                                        "interrupt" };

    for (unsigned i = 0; i <= recording->n_vcpus; i++) {
        const Stream *stream = &recording->stream[i];
        unsigned e = 0, n;

        for (unsigned s = 0; s < stream->steps->len; s++) {
            const Step *step = &g_array_index(stream->steps, Step, s);
            const Seen *seen = seen_of(stream, s, &n);

            for (; e < stream->events[order]->len; e++) {
                const Event *event = &g_array_index(stream->events[order], Event, e);

                if (event->at > s) {
                    break;
                }
                printf("# %u:%u %s %u:%#" PRIx64 "\n", i, s, names[event->kind], event->from,
                       event->value);
            }
            printf("# %u:%u %s", i, s, step->nop ? "nop" : "");
            for (unsigned k = 0; k < MIN(n, 12); k++) {
                printf(" %s %#x.%u", seen[k].write ? "write" : "read", seen[k].word * 8,
                       seen[k].version);
            }
            printf("\n");
        }
    }
}
