/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The cut of a recording: cases by hand, and random runs of simulated vCPUs, whose waits are
 * replayed step by step as far as possible to compare.
 */
#include <string.h>

#include "recording/cut.h"
#include "recording/verify.h"
#include "tests/recording/log-test.h"

/* --- by hand ---------------------------------------------------------------- */

enum { N = 3 };

static void expect_cut(const Arcs *arcs, const Position *reached, const Position *expected)
{
    Position cut[N];

    arcs_find_cut(arcs, reached, (bool[N]) { false }, cut);
    for (int i = 0; i < N; i++) {
        g_assert_cmpuint(cut[i], ==, expected[i]);
    }
}

static void test_by_hand(void)
{
    g_autoptr(Arcs) arcs = arcs_new(N);

    expect_cut(arcs, (Position[N]) { 7, 0, 9 }, (Position[N]) { 7, 0, 9 });
    /* Stream 0 waits at 5 for 1:10.  Stream 1 waits at 8 for 2:3. */
    arcs_add(arcs, 0, 5, 1, 10);
    arcs_add(arcs, 1, 8, 2, 3);
    expect_cut(arcs, (Position[N]) { 7, 10, 9 }, (Position[N]) { 7, 10, 9 });
    expect_cut(arcs, (Position[N]) { 7, 9, 9 }, (Position[N]) { 5, 9, 9 });
    expect_cut(arcs, (Position[N]) { 7, 10, 2 }, (Position[N]) { 5, 8, 2 });
    /* A later wait for an earlier step, which is there. */
    arcs_add(arcs, 0, 6, 1, 4);
    expect_cut(arcs, (Position[N]) { 7, 10, 3 }, (Position[N]) { 7, 10, 3 });
}

static void test_whole_logs(void)
{
    g_autoptr(Arcs) arcs = arcs_new(2);
    Position cut[2];

    arcs_add(arcs, 0, 5, 1, 10);
    arcs_find_cut(arcs, (Position[]) { 7, 10 }, (bool[]) { true, true }, cut);
    g_assert_true(cut[0] == CUT_NONE && cut[1] == CUT_NONE);
    arcs_find_cut(arcs, (Position[]) { 7, 9 }, (bool[]) { true, false }, cut);
    g_assert_true(cut[0] == 5 && cut[1] == 9);
    /* A complete log waits for a step that another complete log does not have. */
    arcs_find_cut(arcs, (Position[]) { 7, 9 }, (bool[]) { true, true }, cut);
    g_assert_true(cut[0] == 5 && cut[1] == CUT_NONE);
}

/* --- random runs -------------------------------------------------------------- */

typedef struct Wait {
    Position position;
    unsigned source;
    uint64_t steps;
} Wait;

/* Replay as far as possible: every stream makes its next step if its waits allow. */
static void replay(GArray **waits, unsigned n, const Position *reached, Position *at)
{
    g_autofree unsigned *next = g_new0(unsigned, n);
    bool moved = true;

    memset(at, 0, n * sizeof(*at));
    while (moved) {
        moved = false;
        for (unsigned i = 0; i < n; i++) {
            while (next[i] < waits[i]->len &&
                   g_array_index(waits[i], Wait, next[i]).position == at[i] &&
                   g_array_index(waits[i], Wait, next[i]).steps <=
                   at[g_array_index(waits[i], Wait, next[i]).source]) {
                next[i]++;
            }
            if (at[i] < reached[i] && (next[i] == waits[i]->len ||
                                       g_array_index(waits[i], Wait, next[i]).position > at[i])) {
                at[i]++;
                moved = true;
            }
        }
    }
}

static void test_random_runs(void)
{
    for (int round = 0; round < 300; round++) {
        unsigned n = g_test_rand_int_range(1, 7);
        unsigned n_steps = g_test_rand_int_range(1, 2000);
        int sharing = g_test_rand_int_range(1, 20);
        g_autoptr(Arcs) arcs = arcs_new(n);
        g_autofree GArray **waits = g_new(GArray *, n);
        g_autofree Position *position = g_new0(Position, n);
        g_autofree Position *reached = g_new0(Position, n);
        g_autofree Position *expected = g_new0(Position, n);
        g_autofree Position *cut = g_new0(Position, n);
        g_autofree bool *whole = g_new0(bool, n);

        for (unsigned i = 0; i < n; i++) {
            waits[i] = g_array_new(FALSE, FALSE, sizeof(Wait));
        }
        /* A run: steps one after the other, some of which wait for another stream. */
        for (unsigned step = 0; step < n_steps; step++) {
            unsigned i = g_test_rand_int_range(0, n);
            unsigned source = g_test_rand_int_range(0, n);

            if (source != i && g_test_rand_int_range(0, sharing) == 0) {
                Wait wait = { position[i], source, position[source] };

                g_array_append_val(waits[i], wait);
                arcs_add(arcs, i, wait.position, source, wait.steps);
            }
            position[i]++;
        }
        for (unsigned i = 0; i < n; i++) {
            reached[i] = g_test_rand_int_range(0, position[i] + 1);
        }
        replay(waits, n, reached, expected);
        arcs_find_cut(arcs, reached, whole, cut);
        for (unsigned i = 0; i < n; i++) {
            g_assert_cmpuint(cut[i], ==, expected[i]);
            g_array_unref(waits[i]);
        }
    }
}

/* --- logs --------------------------------------------------------------------- */

/*
 * Check the cut of logs without log_writer_finish(), as if the recorder had been killed.  The vCPU
 * rests at position @rests_at, or directly behind its last event.  @limit 0 means no limit.
 */
static void check_logs(Position rests_at, Position limit, Position expected)
{
    g_autoptr(GError) error = NULL;
    char *directory = test_directory();
    LogWriter *writer = log_writer_new(directory, 1, ORDER_SET_FDR, &error);
    LogStream *vcpu = log_writer_stream(writer, 0);
    LogStream *dma = log_writer_stream(writer, 1);
    g_autofree Position *cut = NULL;
    g_autoptr(Point) point = point_new(1);

    point->at[0] = limit;
    log_event(dma, LOG_EVENT_WAIT, 0, UINT64_C(0), UINT64_C(3));
    log_event_bytes(dma, LOG_EVENT_DMA_WRITE, 0, 0, "x", 1);
    log_event(vcpu, LOG_EVENT_WAIT, 3, UINT64_C(1), UINT64_C(1));
    log_event(vcpu, LOG_EVENT_WAKE, 50);
    log_stream_rest(vcpu, rests_at);
    log_stream_rest(dma, 0);
    wait_for_tick();
    log_stream_resume(vcpu);
    log_event(vcpu, LOG_EVENT_WAKE, 60);        /* never written to the file */
    g_assert_null(cut_find(directory, 1, NULL, &error));
    g_assert_nonnull(strstr(error->message, "is being written"));
    g_clear_error(&error);
    log_writer_free(writer);

    cut = cut_find(directory, 1, limit ? point : NULL, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(cut[0], ==, expected);
    g_assert_cmpuint(cut[1], ==, limit && limit < 3 ? 0 : 1);
    remove_directory(directory);
}

static void test_logs(void)
{
    g_autoptr(GError) error = NULL;

    check_logs(0, 0, 51);       /* a WAKE is a step */
    check_logs(50, 0, 51);
    check_logs(55, 0, 55);
    check_logs(55, 54, 54);
    check_logs(55, 56, 55);
    check_logs(55, 2, 2);       /* DMA waits for a step behind the limit */
    g_assert_null(cut_find("/nonexistent", 1, NULL, &error));
    g_assert_nonnull(error);
}

/*
 * A cut is closed under each order.  Here each order demands something only because the other one
 * does: Karma of vCPU 1, then FDR of vCPU 0, then Karma of DMA.
 */
static void test_several_orders(void)
{
    g_autoptr(GError) error = NULL;
    char *directory = test_directory();
    g_autoptr(LogWriter) writer =
        log_writer_new(directory, 2, ORDER_SET_FDR | ORDER_SET(RACE_KARMA), &error);
    LogStream *zero = log_writer_stream(writer, 0), *one = log_writer_stream(writer, 1);
    LogStream *dma = log_writer_stream(writer, 2);
    const Position expected[] = { 5, 10, 0 }, limits[] = { 40, CUT_NONE, CUT_NONE };
    g_autoptr(Point) limit = point_new(2), reached = NULL;
    g_autofree Position *cut = NULL;

    log_wait(zero, 5, 1, 15);
    log_event(zero, LOG_EVENT_WAKE, 60);
    log_event(one, LOG_EVENT_WAKE, 20);
    log_event(dma, LOG_EVENT_STEP, 0);
    log_episode(zero, 6, 0, 1 << 2, NULL, 0);
    log_episode(zero, 50, 0, 1 << 1, NULL, 0);
    log_episode(zero, 61, 0, 0, NULL, 0);
    log_episode(one, 10, 0, 0, NULL, 0);
    log_episode(one, 21, 1 << 0, 0, NULL, 0);
    log_episode(dma, 1, 1 << 0, 0, NULL, 0);
    g_assert_true(log_writer_finish(writer, &error));
    g_clear_pointer(&writer, log_writer_free);

    cut = cut_find(directory, 2, NULL, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(cut[0] & cut[1] & cut[2], ==, CUT_NONE);
    g_free(cut);
    limit->at[0] = 40;
    limit->at[1] = 1000;
    cut = cut_find(directory, 2, limit, &error);
    g_assert_no_error(error);
    g_assert_cmpmem(cut, sizeof(expected), expected, sizeof(expected));
    reached = verify_find_cut(directory, 2, limits, &error);
    g_assert_no_error(error);
    g_assert_cmpmem(reached->at, 2 * sizeof(Position), expected, 2 * sizeof(Position));
    remove_directory(directory);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/cut/by-hand", test_by_hand);
    g_test_add_func("/cut/whole-logs", test_whole_logs);
    g_test_add_func("/cut/random-runs", test_random_runs);
    g_test_add_func("/cut/logs", test_logs);
    g_test_add_func("/cut/several-orders", test_several_orders);
    return g_test_run();
}
