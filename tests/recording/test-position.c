/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Points: their text form, text that is refused, and their order.
 */
#include "recording/position.h"

static void test_start(void)
{
    g_autoptr(Point) point = point_new(3);
    g_autofree char *text = point_format(point);

    g_assert_cmpstr(text, ==, "0:0,1:0,2:0");
}

static void test_round_trip(void)
{
    for (int i = 0; i < 1000; i++) {
        unsigned n = g_test_rand_int_range(1, RECORDER_MAX_VCPUS + 1);
        g_autoptr(Point) point = point_new(n);
        g_autoptr(Point) again = NULL;
        g_autoptr(GError) error = NULL;
        g_autofree char *text = NULL;

        for (unsigned v = 0; v < n; v++) {
            point->at[v] = (uint64_t)g_test_rand_int() << g_test_rand_int_range(0, 33);
        }
        point->at[n - 1] = G_MAXUINT64;
        text = point_format(point);
        again = point_parse(text, n, &error);
        g_assert_no_error(error);
        g_assert_cmpmem(point->at, n * sizeof(point->at[0]),
                        again->at, n * sizeof(again->at[0]));
    }
}

static void test_refused(void)
{
    static const struct {
        const char *text;
        PointError code;
    } bad[] = {
        { "", POINT_ERROR_SYNTAX },
        { "0", POINT_ERROR_SYNTAX },
        { "0:", POINT_ERROR_SYNTAX },
        { "0:-1,1:2", POINT_ERROR_SYNTAX },
        { "0:+1,1:2", POINT_ERROR_SYNTAX },
        { " 0:1,1:2", POINT_ERROR_SYNTAX },
        { "0: 1,1:2", POINT_ERROR_SYNTAX },
        { "0:1 1:2", POINT_ERROR_SYNTAX },
        { "0:0x10,1:2", POINT_ERROR_SYNTAX },
        { "0:18446744073709551616,1:2", POINT_ERROR_SYNTAX },
        { "0:1,", POINT_ERROR_SYNTAX },
        { "0:1", POINT_ERROR_VCPUS },
        { "1:1,0:2", POINT_ERROR_VCPUS },
        { "0:1,0:2", POINT_ERROR_VCPUS },
        { "0:1,1:2,2:3", POINT_ERROR_VCPUS },
        { "0:1,1:2 ", POINT_ERROR_VCPUS },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;

        g_test_message("'%s'", bad[i].text);
        g_assert_null(point_parse(bad[i].text, 2, &error));
        g_assert_error(error, POINT_ERROR, (int)bad[i].code);
        g_assert_nonnull(strstr(error->message, bad[i].text));
        g_assert_null(strchr(error->message, '\n'));
    }
}

static void test_order(void)
{
    g_autoptr(Point) a = point_parse("0:5,1:7", 2, NULL);
    g_autoptr(Point) b = point_parse("0:5,1:8", 2, NULL);
    g_autoptr(Point) c = point_parse("0:4,1:9", 2, NULL);

    g_assert_true(point_includes(a, a));
    g_assert_true(point_includes(b, a));
    g_assert_false(point_includes(a, b));
    /* Neither of two concurrent points includes the other. */
    g_assert_false(point_includes(a, c));
    g_assert_false(point_includes(c, a));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/position/start", test_start);
    g_test_add_func("/position/round-trip", test_round_trip);
    g_test_add_func("/position/refused", test_refused);
    g_test_add_func("/position/order", test_order);
    return g_test_run();
}
