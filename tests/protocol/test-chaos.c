/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parameters that chaos_draw() draws from a seed.
 */
#include <glib.h>
#include <string.h>

#include "protocol/chaos.h"

#define SEEDS 1000

/* A second list of the usual values, so that none is changed by mistake. */
static const Chaos usual_values = {
    .most_tries = 4, .old_floor = 1000, .hold_waits = 1000,
    .lease_moves = 800, .lease_us = 1500, .look_again = 5000,
    .linger_us = 4, .offer = 0, .calm_moves = 2, .streak = 4, .neighbours = 2, .proofs = 3,
    .trusted = 15, .own_stores = 16, .most_drops = 16,
    .core_yield_us = 50, .core_yield_steps = 3000,
    .low_pages = 8, .most_granted = 0xffff, .drop_all = 0, .evict = 0, .evict_all = 0, .kick = 0,
    .nap = 0, .nap_us = 50,
};

static bool are_same(const Chaos *one, const Chaos *other)
{
    bool same = true;

#define X(parameter, usual, lowest, highest) same &= one->parameter == other->parameter;
    CHAOS_PARAMETERS(X)
#undef X
    return same;
}

static void test_off_means_the_usual_values(void)
{
    Chaos drawn;

    memset(&drawn, 0xff, sizeof(drawn));
    chaos_draw(&drawn, 0);
    g_assert_true(are_same(&drawn, &usual_values));
    g_assert_true(are_same(&chaos, &usual_values));
    g_assert_true(drawn.seed == 0 && chaos.seed == 0);
}

/*
 * A seed draws the same parameters also with another compiler, and after parameters were added, so
 * that a failure can be repeated.
 */
static void test_a_seed_always_draws_the_same(void)
{
    g_autofree char *text = NULL;
    unsigned n_same = 0;
    Chaos one, other;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        chaos_draw(&one, seed);
        chaos_draw(&other, seed);
        g_assert_true(are_same(&one, &other));
        chaos_draw(&other, seed + 1);
        n_same += are_same(&one, &other);
    }
    g_assert_cmpuint(n_same, <, SEEDS / 50);
    chaos_draw(&one, 2);
    text = chaos_text(&one);
    g_assert_cmpstr(text, ==, "seed 2, linger_us 17, own_stores 4, core_yield_us 0, "
                    "core_yield_steps 0, low_pages 1, nap 77, nap_us 7");
}

/* Each parameter often has its usual value, and often its lowest. */
static void test_all_values_are_drawn(void)
{
    struct {
        unsigned usual, lowest;
    } count[sizeof(Chaos) / sizeof(unsigned)] = { 0 };
    Chaos drawn;
    unsigned i;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        i = 0;
        chaos_draw(&drawn, seed);
#define X(parameter, usual_value, lowest_value, highest) \
        g_assert_cmpuint(drawn.parameter, >=, MIN(usual_value, lowest_value)); \
        g_assert_cmpuint(drawn.parameter, <=, MAX(usual_value, highest)); \
        count[i].usual += drawn.parameter == (usual_value); \
        count[i++].lowest += drawn.parameter == (lowest_value);
        CHAOS_PARAMETERS(X)
#undef X
    }
    while (i-- > 0) {
        g_assert_cmpuint(count[i].usual, >, SEEDS / 4);
        g_assert_cmpuint(count[i].usual, <, SEEDS * 3 / 4);
        g_assert_cmpuint(count[i].lowest, >, SEEDS / 20);
    }
}

/* A seed that changes few parameters isolates a cause; one that changes many combines them. */
static void test_few_are_drawn_or_many(void)
{
    unsigned n_few = 0, n_many = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        g_autofree char *text = NULL;
        unsigned n = 0;
        Chaos drawn;

        chaos_draw(&drawn, seed);
        text = chaos_text(&drawn);
        g_assert_null(strchr(text, '\n'));
        for (const char *comma = text; (comma = strchr(comma, ',')); comma++) {
            n++;
        }
        n_few += n <= 4;
        n_many += n >= 12;
    }
    g_assert_cmpuint(n_few, >, SEEDS / 10);
    g_assert_cmpuint(n_many, >, SEEDS / 10);
}

static void test_random_numbers(void)
{
    uint64_t stream = chaos_stream(&chaos, 0), before = stream;
    unsigned n_hits = 0, n_ones = 0, n_large = 0;

    g_assert_false(chaos_one_in(&stream, 0));
    g_assert_cmpuint(stream, ==, before);
    g_assert_cmpuint(chaos_stream(&chaos, 1), !=, before);
    for (unsigned i = 0; i < 10000; i++) {
        unsigned drawn = chaos_up_to(&stream, 1000);

        g_assert_true(chaos_one_in(&stream, 1));
        n_hits += chaos_one_in(&stream, 10);
        g_assert_true(drawn >= 1 && drawn <= 1000);
        n_ones += drawn == 1;
        n_large += drawn > 500;
    }
    g_assert_true(n_hits > 800 && n_hits < 1200);
    g_assert_true(n_ones > 500 && n_large > 300);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/chaos/off", test_off_means_the_usual_values);
    g_test_add_func("/chaos/same", test_a_seed_always_draws_the_same);
    g_test_add_func("/chaos/all", test_all_values_are_drawn);
    g_test_add_func("/chaos/few-or-many", test_few_are_drawn_or_many);
    g_test_add_func("/chaos/random", test_random_numbers);
    return g_test_run();
}
