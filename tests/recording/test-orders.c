/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lists of orders: as text and back, and what is refused.
 */
#include <string.h>

#include "recording/orders.h"

static void test_round_trip(void)
{
    static const struct {
        const char *text, *canonical;
        OrderSet set;
        RaceOrder first;
        uint64_t karma, rerun;
    } cases[] = {
        { "fdr", "fdr", ORDER_SET_FDR, RACE_FDR, 0, 0 },
        { "karma", "karma:16384", ORDER_SET(RACE_KARMA), RACE_KARMA, 16384, 0 },
        { "karma:0", "karma:0", ORDER_SET(RACE_KARMA), RACE_KARMA, 0, 0 },
        { "rerun:256", "rerun:256", ORDER_SET(RACE_RERUN), RACE_RERUN, 0, 256 },
        { "rerun,karma:7", "karma:7,rerun:16384", ORDER_SET_EPISODES, RACE_KARMA, 7, 16384 },
        { "rerun:9223372036854775807,fdr", "fdr,rerun:9223372036854775807",
          ORDER_SET_FDR | ORDER_SET(RACE_RERUN), RACE_FDR, 0, INT64_MAX },
        { "fdr,karma:16384,rerun", "fdr,karma:16384,rerun:16384", ORDER_SET_ALL, RACE_FDR, 16384,
          16384 },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        g_autofree char *text = NULL;
        Orders orders;

        orders_parse(cases[i].text, &orders, &error);
        g_assert_no_error(error);
        g_assert_cmpuint(orders.set, ==, cases[i].set);
        g_assert_cmpint(orders_first(&orders), ==, cases[i].first);
        g_assert_cmpuint(orders.max[RACE_KARMA], ==, cases[i].karma);
        g_assert_cmpuint(orders.max[RACE_RERUN], ==, cases[i].rerun);
        text = orders_format(&orders);
        g_assert_cmpstr(text, ==, cases[i].canonical);
    }
}

static void test_refused(void)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        { "", "no order: give fdr, karma[:MAX] or rerun[:MAX], separated by commas" },
        { "foo", "unknown order 'foo': give fdr, karma[:MAX] or rerun[:MAX], separated by commas" },
        { "fdr,", "unknown order '': give" },
        { ",karma", "unknown order '': give" },
        { "fdr, karma", "unknown order ' karma'" },
        { "FDR", "unknown order 'FDR'" },
        { "karm", "unknown order 'karm'" },
        { "karma1", "unknown order 'karma1'" },
        { ":5", "unknown order ':5'" },
        { "fo\no", "unknown order 'fo\\no'" },
        { "fdr:5", "'fdr:5': fdr has no episodes: give fdr without a number" },
        { "fdr:", "'fdr:': fdr has no episodes" },
        { "karma:", "'karma:': give the most steps of an episode as a number, 0 for no limit" },
        { "karma:-1", "'karma:-1': give the most steps" },
        { "karma:+1", "'karma:+1': give the most steps" },
        { "rerun:0x10", "'rerun:0x10': give the most steps" },
        { "rerun:5k", "'rerun:5k': give the most steps" },
        { "rerun: 5", "'rerun: 5': give the most steps" },
        { "rerun:5:6", "'rerun:5:6': give the most steps" },
        { "karma:9223372036854775808", "give the most steps" },
        { "karma:99999999999999999999999", "give the most steps" },
        { "fdr,fdr", "'fdr': this order is there already: give each once" },
        { "karma:5,rerun,karma:6", "'karma:6': this order is there already" },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        Orders orders;

        g_assert_false(orders_parse(cases[i].text, &orders, &error));
        g_assert_error(error, ORDERS_ERROR, ORDERS_ERROR_SYNTAX);
        if (!strstr(error->message, cases[i].why)) {
            g_error("%s: %s, expected %s", cases[i].text, error->message, cases[i].why);
        }
        g_assert_null(strchr(error->message, '\n'));
    }
}

static void test_names(void)
{
    g_autoptr(GError) error = NULL;
    RaceOrder order;

    for (unsigned i = 0; i < RACE_ORDERS; i++) {
        g_assert_true(order_parse_name(order_name(i), &order, NULL));
        g_assert_cmpuint(order, ==, i);
    }
    g_assert_false(order_parse_name("karma:5", &order, &error));
    g_assert_cmpstr(error->message, ==, "unknown order 'karma:5': give fdr, karma or rerun");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/orders/round-trip", test_round_trip);
    g_test_add_func("/orders/refused", test_refused);
    g_test_add_func("/orders/names", test_names);
    return g_test_run();
}
