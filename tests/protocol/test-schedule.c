/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Streams with random arcs that some order satisfies, replayed in threads: in parallel, with a core
 * for each or with fewer, and one at a time.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* sched_setaffinity() */
#endif
#include <glib.h>
#include <sched.h>

#include "tests/protocol/schedule-test.h"

#define STEPS 300

typedef struct Wait {
    unsigned stream;
    Position position;
} Wait;

static Wait waits[STREAMS][STEPS];      /* before each step; for the stream itself: none */
static Schedule *schedule;
static int wanted_stop;                 /* atomic: how often a stream was kicked */
static int n_cores;                     /* cores that the streams share; 0: not shared */
static int n_pinned;                    /* atomic: steps of threads that had a core */

static void kick(unsigned stream)
{
    (void)stream;
    g_atomic_int_inc(&wanted_stop);
}

static const ScheduleOps ops = { .kick = kick, .interrupted = interrupted_at_times };

/* Draw an order of all steps, and arcs that agree with it. */
static void make_waits(GRand *rand)
{
    Position at[STREAMS] = { 0 };
    unsigned left = STREAMS * STEPS;

    while (left) {
        unsigned i = g_rand_int_range(rand, 0, STREAMS);
        unsigned j = g_rand_int_range(rand, 0, STREAMS);

        if (at[i] == STEPS) {
            continue;
        }
        waits[i][at[i]] = (Wait) { i, 0 };
        if (g_rand_int_range(rand, 0, 3) == 0 && at[j]) {
            waits[i][at[i]] = (Wait) { j, g_rand_int_range(rand, 0, at[j]) + 1 };
        }
        at[i]++;
        left--;
    }
}

static int cores_of_thread(void)
{
    cpu_set_t cores;

    g_assert_cmpint(sched_getaffinity(0, sizeof(cores), &cores), ==, 0);
    return CPU_COUNT(&cores);
}

/*
 * Make a step of a stream that has the turn: check that no more streams step at a time than there
 * are cores, each pinned to one core, unless another process had that core.
 */
static void check_turn(unsigned stream)
{
    static int n_stepping;              /* atomic */
    int n = g_atomic_int_add(&n_stepping, 1) + 1;

    g_assert_true(schedule_has_turn(schedule, stream));
    if (n_cores) {
        g_assert_cmpint(n, <=, n_cores);
        g_assert_true(cores_of_thread() == 1 || cores_of_thread() == n_cores);
        g_atomic_int_add(&n_pinned, cores_of_thread() == 1);
    }
    g_atomic_int_add(&n_stepping, -1);
}

static gpointer run_stream(gpointer data)
{
    unsigned stream = GPOINTER_TO_UINT(data);

    for (Position at = 0; at < STEPS; at++) {
        Wait *wait = &waits[stream][at];

        schedule_publish(schedule, stream, at);
        while (!schedule_turn(schedule, stream)) {
            /* interrupted */
        }
        if (wait->stream != stream) {
            ScheduleWait arc = { stream, wait->stream, wait->position };

            while (!schedule_wait(schedule, stream, &arc)) {
                /* interrupted: the stream may have lost its turn */
                while (!schedule_turn(schedule, stream)) {
                    /* interrupted again */
                }
            }
            g_assert_cmpuint(schedule_reached(schedule, wait->stream), >=, wait->position);
        }
        check_turn(stream);
        note_stream(stream);
    }
    schedule_publish(schedule, stream, STEPS);
    schedule_end(schedule, stream);
    if (n_cores) {                      /* the thread is no longer pinned */
        g_assert_cmpint(cores_of_thread(), ==, n_cores);
    }
    return NULL;
}

static char *run(Mode mode)
{
    char *order;

    schedule = schedule_new(STREAMS, &ops);
    order = run_streams(schedule, mode, run_stream);
    schedule_free(schedule);
    return order;
}

static void check_arcs(Mode mode)
{
    for (unsigned seed = 0; seed < 20; seed++) {
        g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
        g_autofree char *ran = NULL;

        make_waits(rand);
        ran = run(mode);
        g_assert_cmpuint(strlen(ran), ==, STREAMS * STEPS);
    }
}

static void test_arcs_hold_in_parallel(void)
{
    check_arcs(FREELY);
}

static void test_arcs_hold_on_few_cores(void)
{
    for (int most = 1; most < STREAMS; most++) {
        n_cores = use_cores(most);
        n_pinned = 0;
        check_arcs(SHARING_CORES);
        g_assert_cmpint(n_pinned, >, 0);
    }
    use_all_cores();
    n_cores = 0;
}

/* With enough cores no stream needs a turn, and no thread is pinned. */
static void test_a_core_each_is_not_shared(void)
{
    use_cores(1);
    schedule = schedule_new(1, &ops);
    schedule_share_cores(schedule, 1);
    g_assert_true(schedule_has_turn(schedule, 0));
    g_assert_true(schedule_turn(schedule, 0));
    schedule_end(schedule, 0);
    g_assert_true(schedule_has_turn(schedule, 0));
    schedule_free(schedule);
    use_all_cores();
}

/* Stream 0 does not run on its core, as if another process had it; stream 1 waits for stream 0. */
static gpointer lose_core(gpointer data)
{
    unsigned stream = GPOINTER_TO_UINT(data);
    int64_t most = g_get_monotonic_time() + 10 * G_USEC_PER_SEC;

    while (!schedule_turn(schedule, stream)) {
        /* interrupted */
    }
    if (stream == 0) {
        g_assert_cmpint(cores_of_thread(), ==, 1);
        while (cores_of_thread() == 1 && g_get_monotonic_time() < most) {
            g_usleep(1000);
        }
        g_assert_cmpint(cores_of_thread(), ==, n_cores);
    }
    while (stream == 1 && !schedule_wait(schedule, 1, &(ScheduleWait) { 1, 0, 1 })) {
        /* interrupted */
    }
    schedule_publish(schedule, stream, 1);
    schedule_end(schedule, stream);
    return NULL;
}

static void test_a_lost_core_is_noticed(void)
{
    g_autofree char *order = NULL;

    n_cores = use_cores(2);
    if (n_cores == 2) {
        schedule = schedule_new(STREAMS, &ops);
        order = run_streams(schedule, SHARING_CORES, lose_core);
        schedule_free(schedule);
    } else {
        g_test_skip("this needs two cores");
    }
    use_all_cores();
    n_cores = 0;
}

static void test_turns_are_always_the_same(void)
{
    for (unsigned seed = 0; seed < 10; seed++) {
        g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
        g_autofree char *once = NULL;
        g_autofree char *twice = NULL;

        make_waits(rand);
        once = run(TAKING_TURNS);
        twice = run(TAKING_TURNS);
        g_assert_cmpstr(once, ==, twice);
    }
}

static void test_a_waiter_says_what_it_wants(void)
{
    schedule = schedule_new(STREAMS, &ops);
    g_assert_cmpuint(schedule_wanted(schedule, 0), ==, UINT64_MAX);
    schedule_publish(schedule, 0, 5);
    g_assert_true(schedule_wait(schedule, 1, &(ScheduleWait) { 1, 0, 5 }));
    g_assert_cmpuint(schedule_reached(schedule, 0), ==, 5);
    schedule_free(schedule);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/schedule/parallel", test_arcs_hold_in_parallel);
    g_test_add_func("/schedule/few-cores", test_arcs_hold_on_few_cores);
    g_test_add_func("/schedule/a-core-each", test_a_core_each_is_not_shared);
    g_test_add_func("/schedule/lost-core", test_a_lost_core_is_noticed);
    g_test_add_func("/schedule/turns", test_turns_are_always_the_same);
    g_test_add_func("/schedule/wanted", test_a_waiter_says_what_it_wants);
    return g_test_run();
}
