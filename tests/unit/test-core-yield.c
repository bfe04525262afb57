/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Offers of a host core, with a host that this file plays: it takes the core for as long as it
 * likes, and gives our threads as much of all cores as it likes.
 */
#define PROTOCOL_SPHERE_LOCK_H          /* instead of that one */

#include <glib.h>

static int64_t now_us, cpu_us, yield_us;
static double had;                      /* of all cores, by our threads */

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

/* How many offers are made in a second of a thread that is to offer its core all the time. */
static unsigned n_offers(double share, int64_t taken_for)
{
    Offer offer = { 0 };
    unsigned n = 0;

    now_us = 12345678;
    cpu_us = 0;
    had = share;
    yield_us = taken_for;
    for (int64_t end = now_us + 1000000; now_us < end; pass(10)) {
        if (offer_is_due(&offer, now_us)) {
            offer_core(&offer, CORES, PAUSE_US);
            n++;
        }
    }
    return n;
}

static void test_a_core_that_comes_back_is_offered_again(void)
{
    g_assert_cmpuint(n_offers(1, 0), >=, 1000000 / (PAUSE_US + 20));
    g_assert_cmpuint(n_offers(0.5, OFFER_LONG_US / 2), >=, 1000000 / (OFFER_LONG_US / 2 + 100));
}

/* For long, but by threads of ours: all cores are used by them. */
static void test_ours_may_have_it_for_long(void)
{
    g_assert_cmpuint(n_offers(1, 3000), >=, 1000000 / 3100 - 2);
    g_assert_cmpuint(n_offers(0.95, 3000), >=, 1000000 / 3100 - 2);
}

/* Most of the time there is no offer, so the others do not get much by them. */
static void test_others_may_not(void)
{
    for (double share = 0; share < 0.85; share += 0.2) {
        unsigned n = n_offers(share, 3000);

        g_assert_cmpuint(n, >, 5);      /* it tries again */
        g_assert_cmpuint(n * 3000, <, 1000000 / 5);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/offer/again", test_a_core_that_comes_back_is_offered_again);
    g_test_add_func("/offer/ours", test_ours_may_have_it_for_long);
    g_test_add_func("/offer/others", test_others_may_not);
    return g_test_run();
}
