/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Streams of episodes with random edges, without a circle, replayed by wake-ups in threads: in
 * parallel, with a core for each or with fewer, and one at a time.
 */
#include <glib.h>

#include "protocol/wake-ups.h"
#include "tests/protocol/schedule-test.h"

#define EPISODES 300
#define MOST_STEPS 6

typedef struct Episode {
    Position begin, end;
    uint32_t successors;
    ScheduleWait wait;          /* before it; count 0: none */
    int after;                  /* the episode of wait.stream that comes before it */
} Episode;

static Episode episodes[STREAMS][EPISODES];
static Schedule *schedule;
static WakeUps *wakes;
static int kicked[STREAMS];             /* atomic */
static Position made[STREAMS];          /* atomic: steps, whether they were published or not */

static void kick(unsigned stream)
{
    g_atomic_int_set(&kicked[stream], 1);
}

static const ScheduleOps ops = { .kick = kick, .interrupted = interrupted_at_times };

/* --- random episodes ------------------------------------------------------------------------ */

typedef struct Maker {
    GRand *rand;
    unsigned n[STREAMS];                /* episodes that were made */
    unsigned next[STREAMS][STREAMS];    /* the first that may have an edge to the other stream */
    uint64_t edges[STREAMS][STREAMS];
} Maker;

/* Let an episode of @j that was made come before the next one of @i, unless a later one does. */
static void make_edge(Maker *m, unsigned j, unsigned i)
{
    Episode *e = &episodes[i][m->n[i]];
    unsigned k;

    if (i == j || m->next[j][i] >= m->n[j]) {
        return;
    }
    k = g_rand_int_range(m->rand, m->next[j][i], m->n[j]);
    episodes[j][k].successors |= UINT32_C(1) << i;
    e->wait = (ScheduleWait) { i, j, ++m->edges[j][i] };
    e->after = k;
    m->next[j][i] = k + 1;
}

/* Make episodes in a random order of all, so that edges are in no circle. */
static void make_episodes(unsigned seed)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    Maker m = { .rand = rand };

    memset(episodes, 0, sizeof(episodes));
    for (unsigned left = STREAMS * EPISODES; left;) {
        unsigned i = g_rand_int_range(rand, 0, STREAMS);
        Episode *e = &episodes[i][m.n[i]];

        if (m.n[i] == EPISODES) {
            continue;
        }
        e->begin = m.n[i] ? e[-1].end : 0;
        e->end = e->begin + g_rand_int_range(rand, 1, MOST_STEPS);
        if (g_rand_int_range(rand, 0, 2)) {
            make_edge(&m, g_rand_int_range(rand, 0, STREAMS), i);
        }
        m.n[i]++;
        left--;
    }
}

/* --- a replay ------------------------------------------------------------------------------- */

typedef struct Replay {
    unsigned stream;
    Position at, limit;
    unsigned announced;                 /* episodes */
} Replay;

static void publish(Replay *r)
{
    g_atomic_int_set(&kicked[r->stream], 0);
    schedule_publish(schedule, r->stream, r->at);
    r->limit = schedule_wanted(schedule, r->stream);
}

/* Announce the episodes that can begin. */
static void announce(Replay *r)
{
    for (; r->announced < EPISODES; r->announced++) {
        const Episode *e = &episodes[r->stream][r->announced];

        if (!schedule_is_over(schedule, &e->wait) ||
            !wake_ups_announce(wakes, r->stream, e->end, e->successors)) {
            return;
        }
    }
}

static void await(Replay *r, const Episode *e)
{
    publish(r);
    while (!schedule_wait(schedule, r->stream, &e->wait)) {
        while (!schedule_turn(schedule, r->stream)) {
            /* interrupted again */
        }
    }
    announce(r);
    publish(r);
}

static void step(Replay *r)
{
    g_assert_true(schedule_has_turn(schedule, r->stream));
    __atomic_store_n(&made[r->stream], ++r->at, __ATOMIC_RELAXED);
    if (g_atomic_int_get(&kicked[r->stream]) || r->at >= r->limit) {
        publish(r);
        announce(r);
        publish(r);
    }
}

static void check_episode(const Episode *e)
{
    const Episode *before = e->wait.count ? &episodes[e->wait.stream][e->after] : NULL;

    g_assert_true(schedule_is_over(schedule, &e->wait));
    if (before) {
        g_assert_cmpuint(__atomic_load_n(&made[e->wait.stream], __ATOMIC_RELAXED), >=,
                         before->end);
    }
}

static gpointer run_stream(gpointer data)
{
    Replay r = { .stream = GPOINTER_TO_UINT(data), .limit = UINT64_MAX };

    while (!schedule_turn(schedule, r.stream)) {
        /* interrupted */
    }
    for (unsigned n = 0; n < EPISODES; n++) {
        const Episode *e = &episodes[r.stream][n];

        announce(&r);
        if (r.announced == n) {
            await(&r, e);
        }
        check_episode(e);
        note_stream(r.stream);
        while (r.at < e->end) {
            step(&r);
        }
    }
    publish(&r);
    schedule_end(schedule, r.stream);
    return NULL;
}

static char *run(Mode mode)
{
    char *order;

    schedule = schedule_new(STREAMS, &ops);
    wakes = wake_ups_new(STREAMS);
    schedule_follow_wake_ups(schedule, wakes);
    memset(made, 0, sizeof(made));
    order = run_streams(schedule, mode, run_stream);
    schedule_free(schedule);
    wake_ups_free(wakes);
    return order;
}

static void check_edges(Mode mode)
{
    for (unsigned seed = 0; seed < 20; seed++) {
        g_autofree char *ran = NULL;

        make_episodes(seed);
        ran = run(mode);
        g_assert_cmpuint(strlen(ran), ==, STREAMS * EPISODES);
    }
}

static void test_edges_hold_in_parallel(void)
{
    check_edges(FREELY);
}

static void test_edges_hold_on_few_cores(void)
{
    use_cores(1);
    check_edges(SHARING_CORES);
    if (use_all_cores() < STREAMS) {
        check_edges(SHARING_CORES);
    }
}

static void test_turns_are_always_the_same(void)
{
    for (unsigned seed = 0; seed < 10; seed++) {
        g_autofree char *once = NULL;
        g_autofree char *twice = NULL;

        make_episodes(seed);
        once = run(TAKING_TURNS);
        twice = run(TAKING_TURNS);
        g_assert_cmpstr(once, ==, twice);
    }
}

/* --- single calls --------------------------------------------------------------------------- */

/* Wake-ups that come early, by the thousand, are taken one by one. */
static void test_early_wake_ups(void)
{
    g_autoptr(WakeUps) early = wake_ups_new(2);
    g_autoptr(Schedule) s = schedule_new(2, &ops);

    schedule_follow_wake_ups(s, early);
    for (Position at = 1; at <= 5000; at++) {
        g_assert_true(wake_ups_announce(early, 0, at, 2));
        schedule_publish(s, 0, at);
    }
    for (uint64_t n = 1; n <= 5000; n++) {
        g_assert_true(schedule_wait(s, 1, &(ScheduleWait) { 1, 0, n }));
    }
    g_assert_false(schedule_is_over(s, &(ScheduleWait) { 1, 0, 5001 }));
    g_assert_false(schedule_is_over(s, &(ScheduleWait) { 0, 1, 1 }));
}

/* Only so many are announced, and they are sent where they are due, in this copy and in that. */
static void test_announced_ahead(void)
{
    g_autoptr(WakeUps) w = wake_ups_new(3);
    g_autoptr(WakeUps) copy = NULL;

    for (Position at = 0; at < WAKE_UPS_AHEAD; at++) {
        g_assert_true(wake_ups_announce(w, 0, 10 * at, at % 2 ? 2 : 4));
    }
    g_assert_false(wake_ups_announce(w, 0, 10000, 2));
    g_assert_cmpuint(wake_ups_next(w, 0, 2), ==, 10);
    g_assert_cmpuint(wake_ups_next(w, 0, 4), ==, 0);
    g_assert_cmpuint(wake_ups_next(w, 0, 1), ==, UINT64_MAX);
    wake_ups_send(w, 0, 29);
    copy = wake_ups_copy(w);
    wake_ups_send(w, 0, 30);
    g_assert_true(wake_ups_announce(w, 0, 10000, 2));
    g_assert_cmpuint(wake_ups_count(w, 1, 0), ==, 2);
    g_assert_cmpuint(wake_ups_count(copy, 1, 0), ==, 1);
    g_assert_cmpuint(wake_ups_count(copy, 2, 0), ==, 2);
    wake_ups_send(copy, 0, UINT64_MAX);
    g_assert_cmpuint(wake_ups_count(copy, 1, 0), ==, WAKE_UPS_AHEAD / 2);
    g_assert_cmpuint(wake_ups_count(w, 1, 0), ==, 2);
    g_assert_cmpuint(wake_ups_next(w, 0, 4), ==, 40);
    wake_ups_set(w, copy);
    g_assert_cmpuint(wake_ups_count(w, 1, 0), ==, WAKE_UPS_AHEAD / 2);
    g_assert_cmpuint(wake_ups_next(w, 0, 4), ==, UINT64_MAX);
}

static gpointer wait_for_dma(gpointer data)
{
    while (!schedule_wait(schedule, 1, data)) {
        /* interrupted */
    }
    return NULL;
}

/* A thread waits in place of another stream: what it waits for is that stream's wake-up. */
static void test_waits_in_place_of_another(void)
{
    ScheduleWait wait = { .waiter = 2, .stream = 0, .count = 1 };
    GThread *thread;

    schedule = schedule_new(3, &ops);
    wakes = wake_ups_new(3);
    schedule_follow_wake_ups(schedule, wakes);
    g_assert_true(wake_ups_announce(wakes, 0, 5, 2));
    g_assert_true(wake_ups_announce(wakes, 0, 7, 4));
    thread = g_thread_new("waiter", wait_for_dma, &wait);
    while (schedule_wanted(schedule, 0) != 7) {
        g_thread_yield();
    }
    schedule_publish(schedule, 0, 6);
    g_assert_false(schedule_is_over(schedule, &wait));
    schedule_publish(schedule, 0, 7);
    g_thread_join(thread);
    g_assert_cmpuint(schedule_wanted(schedule, 0), ==, UINT64_MAX);
    schedule_free(schedule);
    wake_ups_free(wakes);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/wake-ups/early", test_early_wake_ups);
    g_test_add_func("/wake-ups/ahead", test_announced_ahead);
    g_test_add_func("/wake-ups/in-place-of-another", test_waits_in_place_of_another);
    g_test_add_func("/wake-ups/parallel", test_edges_hold_in_parallel);
    g_test_add_func("/wake-ups/few-cores", test_edges_hold_on_few_cores);
    g_test_add_func("/wake-ups/turns", test_turns_are_always_the_same);
    return g_test_run();
}
