/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Yields of a host core (protocol/core-yield.h), on a simulated host.  A case sets for how long the
 * host takes a core that is yielded, and which share of all cores the threads of this process get.
 */
#define PROTOCOL_SPHERE_LOCK_H          /* this file replaces protocol/sphere-lock.h */

#include <glib.h>

static int64_t now_us, cpu_us, yield_us;
static double had;                      /* share of all cores that this process gets */

#define CORES 4

static void pass(int64_t us)
{
    now_us += us;
    cpu_us += us * CORES * had;
}

static int64_t sphere_now_us(void)
{
    return now_us;
}

static int64_t sphere_cpu_us(void)
{
    return cpu_us;
}

static void sphere_yield(void)
{
    pass(yield_us);
}

#include "protocol/core-yield.h"

#define PAUSE_US 50

/* Return how often a thread yields in a second if it may yield its core all the time. */
static unsigned n_yields(double share, int64_t taken_for)
{
    CoreYield yield = { 0 };
    unsigned n = 0;

    now_us = 12345678;
    cpu_us = 0;
    had = share;
    yield_us = taken_for;
    for (int64_t end = now_us + 1000000; now_us < end; pass(10)) {
        if (core_yield_is_due(&yield, now_us)) {
            core_yield(&yield, CORES, PAUSE_US);
            n++;
        }
    }
    return n;
}

static void test_a_core_that_comes_back_is_yielded_again(void)
{
    g_assert_cmpuint(n_yields(1, 0), >=, 1000000 / (PAUSE_US + 20));
    g_assert_cmpuint(n_yields(0.5, YIELD_LONG_US / 2), >=, 1000000 / (YIELD_LONG_US / 2 + 100));
}

/* A core may be taken for long while this process uses all cores: its own threads have it. */
static void test_ours_may_have_it_for_long(void)
{
    g_assert_cmpuint(n_yields(1, 3000), >=, 1000000 / 3100 - 2);
    g_assert_cmpuint(n_yields(0.95, 3000), >=, 1000000 / 3100 - 2);
}

/* If other processes take the core for long, yields become rare, and cost little. */
static void test_others_may_not(void)
{
    for (double share = 0; share < 0.85; share += 0.2) {
        unsigned n = n_yields(share, 3000);

        g_assert_cmpuint(n, >, 5);      /* the thread tries again */
        g_assert_cmpuint(n * 3000, <, 1000000 / 5);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/yield/again", test_a_core_that_comes_back_is_yielded_again);
    g_test_add_func("/yield/ours", test_ours_may_have_it_for_long);
    g_test_add_func("/yield/others", test_others_may_not);
    return g_test_run();
}
