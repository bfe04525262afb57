/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Makes a whole recording of the small guest: draws the guest from a seed, and runs its actors.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "protocol/directory.h"
#include "tests/protocol/model/actors.h"
#include "tests/protocol/model/vcpu.h"

/* One recording in so many has long programs; without a theme, so many are of a guest of x86. */
#define LONG_ONES 16
#define MODES_ONES 2

/* --- random choices --------------------------------------------------------------------- */

static void choose_size(Recording *r, uint64_t *random)
{
    bool any = random_one_in(random, 2);

    guest.theme = any ? THEME_ANY : THEME_ANY + 1 + random_below(random, THEMES - 1);
    r->n_vcpus = any ? 2 + random_below(random, MAX_VCPUS - 1) :
                 MAX_VCPUS - random_below(random, 2);
    r->n_insns = random_one_in(random, LONG_ONES) ? 300 + random_below(random, 700) :
                 10 + random_below(random, 60);
}

/* Draw parameters.  In a theme, a vCPU without requests to serve seldom becomes safe. */
static void choose_world(uint64_t *random)
{
    bool any = guest.theme == THEME_ANY;

    guest.block = 1 << random_below(random, 4);
    guest.few_tries = random_below(random, 6) + (any ? 0 : 3);
    guest.crowded = random_one_in(random, any ? 2 : 6);
    guest.user = any || random_one_in(random, 4) ? random_below(random, 4) : 0;
    guest.opens = 2 << random_below(random, 8);
    guest.drops = random_one_in(random, 2) ? 4 : 0;
    guest.most_walks = 4 << random_below(random, 8);
    guest.cuts = random_one_in(random, 3) ? guest.recording->n_insns : 0;
    guest.n_dma = random_one_in(random, 3) ? 0 : 2 + random_below(random, 60);
    guest.dma_pauses = random_below(random, 50);
    guest.dma_random = random_next(random);
}

/* Draw how episodes end.  A largest size of 1 is the smallest, and 20 is a whole short program. */
static void choose_episodes(Recording *r, uint64_t *random)
{
    static const Position sizes[] = { 0, 0, 1, 3, 20 };
    uint32_t set = 1 + random_below(random, (1 << RACE_ORDERS) - 1);

    r->orders.set = r->orders.set ? r->orders.set : set;
    for (unsigned i = 0; i < RACE_ORDERS; i++) {
        Position max = sizes[random_below(random, G_N_ELEMENTS(sizes))];

        r->orders.max[i] = r->orders.max[i] == MAX_OF_SEED ? max : r->orders.max[i];
    }
    guest.ticks = random_below(random, 3) * (1 + random_below(random, 8));
    guest.halts = random_below(random, 2) * (1 + random_below(random, 4));
    guest.stops_at_limit = random_one_in(random, 2);
    guest.tick_random = random_next(random);
    guest.tick_pauses = random_below(random, 10);
}

static void choose_programs(Recording *r, uint64_t *random)
{
    bool alike = random_one_in(random, 2);
    Mix mix;

    for (unsigned i = 0; i < r->n_vcpus; i++) {
        r->insns[i] = g_new0(Insn, r->n_insns);
        if (guest.theme != THEME_ANY) {
            guest_play(r->insns[i], r->n_insns, guest.theme, i, random);
            continue;
        }
        if (i == 0 || !alike) {
            guest_mix(&mix, random);
        }
        guest_program(r->insns[i], r->n_insns, &mix, random);
    }
}

/*
 * Draw what only guests of x86 have, of a stream of its own: another guest of a seed stays the
 * same.
 */
static void choose_modes(Recording *r, uint64_t seed)
{
    uint64_t random = random_mix(seed);
    bool calm;

    r->has_modes = guest.theme == THEME_ANY && random_one_in(&random, MODES_ONES);
    r->has_maps = r->has_modes && random_one_in(&random, 3);
    if (!r->has_modes) {
        return;
    }
    calm = random_one_in(&random, 4);
    guest.block = calm ? 64 : guest.block;      /* a while in the kernel before it tells of that */
    guest_deliveries(r->delivery, calm, &random);
    for (unsigned i = 0; i < r->n_vcpus; i++) {
        guest_use_modes(r->insns[i], r->n_insns, r->has_maps, calm, &random);
        guest.vcpu[i].n_interrupts = random_below(&random, r->n_insns / 3);
    }
}

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

void recording_add_counts(void *to, const void *from, size_t size)
{
    uint64_t *a = to;
    const uint64_t *b = from;

    for (unsigned i = 0; i < size / sizeof(*a); i++) {
        a[i] += b[i];
    }
}

/* --- a whole recording ------------------------------------------------------------------- */

static void open_stream(Stream *stream)
{
    for (unsigned i = 0; i < RACE_ORDERS; i++) {
        stream->events[i] = g_array_new(false, true, sizeof(Event));
        stream->episodes[i] = g_array_new(false, true, sizeof(LoggedEpisode));
    }
    stream->limited = g_array_new(false, true, sizeof(Position));
    stream->steps = g_array_new(false, true, sizeof(Step));
    stream->seen = g_array_new(false, true, sizeof(Seen));
    stream->write_bits = g_array_new(false, true, sizeof(WriteBit));
}

static void set_up_vcpu(Vcpu *v, unsigned i, uint64_t *random)
{
    v->cpu.memory = &guest.memory;
    v->cpu.port = &vcpu_port;
    v->cpu.has_modes = guest.recording->has_modes;
    v->cpu.sees_map = guest.recording->has_maps;
    v->processor = sphere_vcpu(guest.sphere, i);
    sphere_set_user(v->processor, v);
    v->stream = &guest.recording->stream[i];
    v->random = random_next(random);
}

static void set_up(Recording *r, uint64_t seed, uint64_t *random)
{
    static const SphereOps ops = {
        .kick = vcpu_kick,
        .published = vcpu_published,
        .karma_episode = stream_karma_episode,
        .rerun_episode = stream_rerun_episode,
    };

    memset(&guest, 0, sizeof(guest));
    guest.recording = r;
    choose_size(r, random);
    choose_world(random);
    choose_episodes(r, random);
    choose_programs(r, random);
    choose_modes(r, seed);
    guest_memory(&r->before, random);
    guest.memory = r->before;
    guest.n_vcpus = r->n_vcpus;
    guest.sphere = sphere_new(r->n_vcpus, 1 + random_below(random, MAX_VCPUS), guest.memory.word,
                              GUEST_SIZE, &ops, &r->orders);
    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        open_stream(&r->stream[i]);
        sphere_set_log(&guest.sphere->processor[i], &r->stream[i]);
        guest.rest[i].rests = true;
    }
}

/* Make the events of all orders, once all actors have ended. */
static void finish(Recording *r)
{
    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        r->stream[i].end = i < r->n_vcpus ? guest.vcpu[i].position : guest.dma_position;
    }
    for (RaceOrder order = RACE_KARMA; order < RACE_ORDERS; order++) {
        if (orders_has(&r->orders, order)) {
            recording_make_events(r, order);
        }
    }
}

Recording *recording_make(uint64_t seed, const Orders *orders)
{
    uint64_t random = seed;
    Recording *r = g_new0(Recording, 1);
    void *opaque[MAX_PROCESSORS + 1] = { NULL };
    bool ended;

    r->orders = *orders;
    set_up(r, seed, &random);
    for (unsigned i = 0; i < r->n_vcpus; i++) {
        set_up_vcpu(&guest.vcpu[i], i, &random);
        opaque[i] = &guest.vcpu[i];
    }
    opaque[r->n_vcpus + 1] = &guest;
    guest.n_left = r->n_vcpus + 1;
    ended = actors_run(r->n_vcpus + (guest.ticks ? 2 : 1), actor_main, opaque,
                       random_next(&random), dump);
    r->after = guest.memory;
    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        recording_add_counts(&r->counts, &guest.sphere->processor[i].counts, sizeof(r->counts));
    }
    for (unsigned i = 0; i < r->n_vcpus; i++) {
        recording_add_counts(&r->modes, &guest.vcpu[i].modes, sizeof(r->modes));
    }
    if (!ended) {
        return NULL;            /* nothing is freed: actors that hang may still use it */
    }
    finish(r);
    sphere_free(guest.sphere);
    return r;
}

void recording_free(Recording *r)
{
    if (!r) {
        return;
    }
    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        for (unsigned k = 0; k < RACE_ORDERS; k++) {
            g_array_unref(r->stream[i].events[k]);
            g_array_unref(r->stream[i].episodes[k]);
        }
        g_array_unref(r->stream[i].limited);
        g_array_unref(r->stream[i].steps);
        g_array_unref(r->stream[i].seen);
        g_array_unref(r->stream[i].write_bits);
    }
    for (unsigned i = 0; i < r->n_vcpus; i++) {
        g_free(r->insns[i]);
    }
    g_free(r);
}
