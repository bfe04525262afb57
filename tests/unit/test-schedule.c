/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Streams with random arcs, which were possible once, replayed in threads: in
 * parallel, and taking turns.
 */
#include <glib.h>

#include "replay/schedule.h"

#define STREAMS 4
#define STEPS 300

typedef struct Wait {
    unsigned stream;
    Position position;
} Wait;

static Wait waits[STREAMS][STEPS];      /* before each step; on itself: none */
static Schedule *schedule;
static int wanted_stop;                 /* atomic: how often somebody was kicked */
static GMutex order_lock;
static GString *order;                  /* who made a step, one after the other */

static void kick(unsigned stream)
{
    (void)stream;
    g_atomic_int_inc(&wanted_stop);
}

/* Now and then, as a vCPU is that must leave cpu_exec(). */
static bool interrupted(unsigned stream)
{
    (void)stream;
    return g_random_int_range(0, 1000) == 0;
}

static const ScheduleOps ops = { .kick = kick, .interrupted = interrupted };

/* Some order of all steps, and arcs that agree with it. */
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
            while (!schedule_wait(schedule, stream, wait->stream, wait->position)) {
                /* interrupted: in its turn or not */
                while (!schedule_turn(schedule, stream)) {
                    /* again */
                }
            }
            g_assert_cmpuint(schedule_reached(schedule, wait->stream), >=, wait->position);
        }
        g_mutex_lock(&order_lock);
        g_string_append_c(order, 'a' + stream);
        g_mutex_unlock(&order_lock);
    }
    schedule_publish(schedule, stream, STEPS);
    schedule_end(schedule, stream);
    return NULL;
}

static char *run(bool turns)
{
    GThread *thread[STREAMS];

    schedule = schedule_new(STREAMS, &ops);
    if (turns) {
        schedule_take_turns(schedule, STREAMS);
    }
    order = g_string_new(NULL);
    for (unsigned i = 0; i < STREAMS; i++) {
        thread[i] = g_thread_new("stream", run_stream, GUINT_TO_POINTER(i));
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        g_thread_join(thread[i]);
    }
    schedule_free(schedule);
    return g_string_free(order, FALSE);
}

static void test_arcs_hold_in_parallel(void)
{
    for (unsigned seed = 0; seed < 20; seed++) {
        g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
        g_autofree char *ran = NULL;

        make_waits(rand);
        ran = run(false);
        g_assert_cmpuint(strlen(ran), ==, STREAMS * STEPS);
    }
}

static void test_turns_are_always_the_same(void)
{
    for (unsigned seed = 0; seed < 10; seed++) {
        g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
        g_autofree char *once = NULL;
        g_autofree char *twice = NULL;

        make_waits(rand);
        once = run(true);
        twice = run(true);
        g_assert_cmpstr(once, ==, twice);
    }
}

static void test_a_waiter_says_what_it_wants(void)
{
    schedule = schedule_new(STREAMS, &ops);
    g_assert_cmpuint(schedule_wanted(schedule, 0), ==, UINT64_MAX);
    schedule_publish(schedule, 0, 5);
    g_assert_true(schedule_wait(schedule, 1, 0, 5));
    g_assert_cmpuint(schedule_reached(schedule, 0), ==, 5);
    schedule_free(schedule);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/schedule/parallel", test_arcs_hold_in_parallel);
    g_test_add_func("/schedule/turns", test_turns_are_always_the_same);
    g_test_add_func("/schedule/wanted", test_a_waiter_says_what_it_wants);
    return g_test_run();
}
