/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random guests (episode-guest.c) are written as recordings of Karma and Rerun and read back as
 * WAITs.  Each conflict is ordered by these, they are not in a circle, and all other events are
 * there, whole or cut off, from the start and from a cut on.
 */
#include <string.h>
#include <unistd.h>

#include "recording/log-block.h"
#include "recording/order-reader.h"
#include "recording/verify.h"
#include "tests/protocol/model/random.h"
#include "tests/recording/log-test.h"
#include "tests/recording/order-test.h"

enum { SEEDS = 150, SLOW_SEEDS = 10000 };

/* From a place on there are the last events of a whole reading. */
static void check_places(Recording *r, const Events *whole)
{
    for (unsigned cuts = 0; cuts < r->n_cuts; cuts++) {
        Events events = { 0 };

        events_read(&events, r, r->places[cuts]);
        for (unsigned i = 0; i <= r->n_vcpus; i++) {
            unsigned n = events.of[i]->len;

            g_assert_cmpuint(n, <=, whole->of[i]->len);
            for (unsigned k = 0; k < n; k++) {
                assert_same_event(event_at(&events, i, k),
                                  event_at(whole, i, whole->of[i]->len - n + k));
            }
            g_assert_true(n == 0 || event_at(&events, i, 0)->position >=
                          log_place_of(r->places[cuts], i, log_of_order(r->order))->start);
        }
        check_wake_ups(r, r->places[cuts], &events);
        events_clear(&events);
    }
}

/* Cut a log off at a random byte behind its header.  Return true if it was not so short already. */
static bool cut_off(Recording *r, unsigned stream, const char *suffix)
{
    g_autofree char *name = stream == r->n_vcpus ? g_strdup("dma") :
                            g_strdup_printf("vcpu-%u", stream);
    g_autofree char *path = g_strdup_printf("%s/%s.%s", r->directory, name, suffix);
    g_autofree char *bytes = NULL;
    size_t size;

    g_assert_true(g_file_get_contents(path, &bytes, &size, NULL));
    g_assert_cmpint(truncate(path, 32 + random_below(&r->random, size - 32)), ==, 0);
    return size > 32;
}

/*
 * Some logs of episodes are cut off: what is left is ordered, and stops where something is not
 * there.
 */
static void check_cut_off(Recording *r)
{
    Events events = { 0 };
    bool whole[GUEST_STREAMS];

    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        whole[i] = random_below(&r->random, 2) || !cut_off(r, i, order_name(r->order));
        /* If power failed, the order log may end earlier. */
        if (!whole[i] && random_below(&r->random, 4) == 0) {
            cut_off(r, i, "order");
        }
    }
    events_read(&events, r, NULL);
    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        check_stream(r, &events, i, whole[i]);
    }
    check_order(r, &events, false);
    check_wake_ups(r, NULL, &events);
    events_clear(&events);
}

static void test_random(const void *data)
{
    for (uint64_t seed = 1; seed <= (g_test_slow() ? SLOW_SEEDS : SEEDS); seed++) {
        g_autoptr(GuestRecord) guest = guest_record(GPOINTER_TO_INT(data), seed);
        Events events = { 0 };
        Recording r;

        recording_init(&r, guest, seed);
        check_whole(&r, &events);
        check_wake_ups(&r, NULL, &events);
        check_places(&r, &events);
        check_total_order(&r);
        check_cut_off(&r);
        events_clear(&events);
        recording_clear(&r);
    }
}

/* Remove all but WAITs. */
static void keep_waits(Events *events, unsigned stream)
{
    for (unsigned n = events->of[stream]->len; n-- > 0; ) {
        if (event_at(events, stream, n)->kind != LOG_EVENT_WAIT) {
            g_array_remove_index(events->of[stream], n);
        }
    }
}

/*
 * If all before a cut was dropped, the logs of episodes begin there, however short they were.
 * Order logs that were short are still whole.
 */
static void check_dropped(Recording *r)
{
    Events all = { 0 }, last = { 0 };
    g_autoptr(GError) error = NULL;

    events_read(&all, r, NULL);
    events_read(&last, r, r->places[r->n_cuts - 1]);
    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        keep_waits(&all, i);
        keep_waits(&last, i);
        g_assert_cmpuint(all.of[i]->len, ==, last.of[i]->len);
        for (unsigned n = 0; n < all.of[i]->len; n++) {
            assert_same_event(event_at(&all, i, n), event_at(&last, i, n));
        }
    }
    verify_episodes(r->directory, r->n_vcpus, r->order, &error);
    g_assert_no_error(error);
    events_clear(&all);
    events_clear(&last);
}

static void test_dropped(const void *data)
{
    for (uint64_t seed = 1; seed <= SEEDS / 2; seed++) {
        g_autoptr(GuestRecord) guest = guest_record(GPOINTER_TO_INT(data), seed);
        Recording r;

        recording_init_dropped(&r, guest, seed);
        if (r.n_cuts > 0) {
            check_dropped(&r);
        }
        recording_clear(&r);
    }
}

/* A recording of FDR is read as it is. */
static void test_fdr(void)
{
    char *directory = test_directory();
    g_autoptr(LogWriter) writer = log_writer_new(directory, 1, ORDER_SET_FDR, NULL);
    g_autoptr(OrderReader) reader = NULL;
    LogEvent event;

    log_event(log_writer_stream(writer, 0), LOG_EVENT_WAIT, (Position)5, (uint64_t)1, (uint64_t)7);
    g_assert_true(log_writer_finish(writer, NULL));
    reader = order_reader_open(directory, 1, RACE_FDR, NULL, NULL);
    g_assert_cmpint(order_reader_next(reader, 0, &event, NULL), ==, LOG_READER_EVENT);
    assert_same_event(&event, &(LogEvent) { .kind = LOG_EVENT_WAIT, .position = 5,
                                            .value = { 1, 7 } });
    g_assert_cmpint(order_reader_next(reader, 0, &event, NULL), ==, LOG_READER_END);
    g_assert_cmpint(order_reader_next(reader, 1, &event, NULL), ==, LOG_READER_END);
    g_assert_false(order_reader_cut_off(reader, 0));
    remove_directory(directory);
}

/*
 * Find the steps that are events ahead of a reader, wherever it is.  vCPU 0 waits at 0 if the
 * order is Karma's.  Its step at 2 is an event, and a DROP is before it.
 */
static void test_step_at(const void *data)
{
    char *directory = test_directory();
    RaceOrder order = data ? RACE_KARMA : RACE_FDR;
    g_autoptr(LogWriter) writer = log_writer_new(directory, 1, ORDER_SET(order), NULL);
    LogStream *zero = log_writer_stream(writer, 0);
    g_autoptr(OrderReader) reader = NULL;
    LogEvent event = { 0 };

    log_event(zero, LOG_EVENT_DROP, (Position)2, (uint64_t)0);
    log_event(zero, LOG_EVENT_STEP, (Position)2);
    log_event(zero, LOG_EVENT_WAKE, (Position)3);
    if (order == RACE_KARMA) {
        log_episode(zero, 5, 2, 0, NULL, 0);
        log_episode(log_writer_stream(writer, 1), 5, 0, 1, NULL, 0);
    }
    g_assert_true(log_writer_finish(writer, NULL));
    reader = order_reader_open(directory, 1, order, NULL, NULL);
    for (LogEventKind last = LOG_EVENT_KINDS; last != LOG_EVENT_WAKE; last = event.kind) {
        g_assert_cmpint(order_reader_step_at(reader, 0, 0), ==, LOG_EVENT_KINDS);
        g_assert_cmpint(order_reader_step_at(reader, 0, 2), ==,
                        last == LOG_EVENT_STEP ? LOG_EVENT_KINDS : LOG_EVENT_STEP);
        g_assert_cmpint(order_reader_step_at(reader, 0, 3), ==, LOG_EVENT_WAKE);
        g_assert_cmpint(order_reader_step_at(reader, 0, 4), ==, LOG_EVENT_KINDS);
        g_assert_cmpint(order_reader_next(reader, 0, &event, NULL), ==, LOG_READER_EVENT);
        g_assert_true(last != LOG_EVENT_KINDS ||
                      (event.kind == LOG_EVENT_WAIT) == (order == RACE_KARMA));
    }
    remove_directory(directory);
}

static void expect_wait(OrderReader *reader, Position position, Position steps)
{
    LogEvent event;

    g_assert_cmpint(order_reader_next(reader, 0, &event, NULL), ==, LOG_READER_EVENT);
    assert_same_event(&event, &(LogEvent) { .kind = LOG_EVENT_WAIT, .position = position,
                                            .value = { 1, steps } });
}

/*
 * A STAMPED without a step waits for nothing: of vCPU 0 only the cut waits, and then its step, for
 * all that is earlier.
 */
static void test_empty_stamped(void)
{
    char *directory = test_directory();
    g_autoptr(LogWriter) writer = log_writer_new(directory, 1, ORDER_SET(RACE_RERUN), NULL);
    LogStream *zero = log_writer_stream(writer, 0), *dma = log_writer_stream(writer, 1);
    g_autoptr(OrderReader) reader = NULL;
    LogEvent event;

    log_stamped(zero, 0, 3);
    log_cut(zero, RACE_RERUN, 0);
    log_stamped(zero, 0, 7);
    log_stamped(zero, 2, 9);
    log_stamped(dma, 5, 1);
    log_cut(dma, RACE_RERUN, 5);
    log_stamped(dma, 6, 6);
    g_assert_true(log_writer_finish(writer, NULL));
    reader = order_reader_open(directory, 1, RACE_RERUN, NULL, NULL);
    expect_wait(reader, 0, 5);
    expect_wait(reader, 0, 6);
    g_assert_cmpint(order_reader_next(reader, 0, &event, NULL), ==, LOG_READER_END);
    remove_directory(directory);
}

/* --- what is refused ------------------------------------------------------------------------- */

typedef void WriteLogs(LogStream *zero, LogStream *dma);

/* Write logs of vCPU 0 and DMA.  Reading those of vCPU 0 must fail, saying why, again and again. */
static void assert_refused(RaceOrder order, WriteLogs *write_logs, const char *why)
{
    char *directory = test_directory();
    g_autoptr(LogWriter) writer = log_writer_new(directory, 1, ORDER_SET(order), NULL);
    g_autoptr(OrderReader) reader = NULL;
    g_autoptr(GError) error = NULL;
    LogReaderResult result;
    LogEvent event;

    write_logs(log_writer_stream(writer, 0), log_writer_stream(writer, 1));
    g_assert_true(log_writer_finish(writer, NULL));
    reader = order_reader_open(directory, 1, order, NULL, NULL);
    while ((result = order_reader_next(reader, 0, &event, &error)) == LOG_READER_EVENT) {
        /* */
    }
    g_assert_cmpint(result, ==, LOG_READER_BAD);
    g_assert_nonnull(strstr(error->message, why));
    g_clear_error(&error);
    g_assert_cmpint(order_reader_next(reader, 0, &event, &error), ==, LOG_READER_BAD);
    g_assert_nonnull(strstr(error->message, why));
    remove_directory(directory);
}

static void edge_over_cut(LogStream *zero, LogStream *dma)
{
    log_cut(zero, RACE_KARMA, 0);
    log_episode(dma, 5, 0, 1, NULL, 0);
    log_cut(dma, RACE_KARMA, 5);
}

static void no_source(LogStream *zero, LogStream *dma)
{
    log_episode(zero, 5, 2, 0, NULL, 0);
    log_cut(dma, RACE_KARMA, 0);
    log_episode(dma, 5, 0, 1, NULL, 0);
}

static void gap_before_cut(LogStream *zero, LogStream *dma)
{
    log_cut(zero, RACE_KARMA, 5);
    (void)dma;
}

static void gap_before_stamped_cut(LogStream *zero, LogStream *dma)
{
    log_cut(zero, RACE_RERUN, 5);
    (void)dma;
}

static void no_last_episode(LogStream *zero, LogStream *dma)
{
    log_episode(zero, 5, 0, 0, NULL, 0);
    log_event(zero, LOG_EVENT_END, (Position)6, (uint64_t)0, (uint64_t)0);
    (void)dma;
}

static void time_goes_back(LogStream *zero, LogStream *dma)
{
    log_stamped(zero, 5, 7);
    while (!log_stream_tick(zero)) {
        g_usleep(1000);
    }
    log_stream_boundary(zero);          /* times begin anew in each block */
    log_stamped(zero, 6, 7);
    (void)dma;
}

static void test_refused(void)
{
    assert_refused(RACE_KARMA, edge_over_cut, "stream 1 has an edge across this cut");
    assert_refused(RACE_KARMA, no_source, "stream 1 has no episode before it");
    assert_refused(RACE_KARMA, gap_before_cut, "steps before a cut that no episode has");
    assert_refused(RACE_RERUN, gap_before_stamped_cut, "steps before a cut that no episode has");
    assert_refused(RACE_KARMA, no_last_episode, "the order log goes on after the last episode");
    assert_refused(RACE_RERUN, time_goes_back, "its time is not later");
}

/* Replace the bits of orders in the header of a log. */
static void change_orders(const char *directory, const char *name, OrderSet orders)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);
    g_autofree char *bytes = NULL;
    LogFileHeader header;
    size_t size;

    g_assert_true(g_file_get_contents(path, &bytes, &size, NULL));
    g_assert_null(log_file_header_get(&header, (uint8_t *)bytes));
    header.incompatible = log_file_features(orders);
    log_file_header_put(&header, (uint8_t *)bytes);
    write_file(path, bytes, size);
}

/* A wait in the order log of a recording without FDR is refused. */
static void test_unexpected_wait(void)
{
    char *directory = test_directory();
    OrderSet orders = ORDER_SET_FDR | ORDER_SET(RACE_KARMA);
    g_autoptr(LogWriter) writer = log_writer_new(directory, 1, orders, NULL);
    g_autoptr(OrderReader) reader = NULL;
    g_autoptr(GError) error = NULL;
    LogEvent event;

    log_wait(log_writer_stream(writer, 0), 5, 1, 1);
    g_assert_true(log_writer_finish(writer, NULL));
    change_orders(directory, "vcpu-0.order", ORDER_SET(RACE_KARMA));
    change_orders(directory, "dma.order", ORDER_SET(RACE_KARMA));
    reader = order_reader_open(directory, 1, RACE_KARMA, NULL, NULL);
    g_assert_cmpint(order_reader_next(reader, 0, &event, &error), ==, LOG_READER_BAD);
    g_assert_nonnull(strstr(error->message, "a wait at position 5, though"));
    remove_directory(directory);
}

/* An order is refused that the recording does not have, and a log of another recording. */
static void test_other_orders(void)
{
    char *directory = test_directory();
    g_autoptr(LogWriter) writer = log_writer_new(directory, 1, ORDER_SET_EPISODES, NULL);
    g_autofree char *why = g_strdup_printf("%s was not recorded with the order fdr: it has "
                                           "karma,rerun", directory);
    g_autoptr(GError) error = NULL;

    g_assert_true(log_writer_finish(writer, NULL));
    g_assert_null(order_reader_open(directory, 1, RACE_FDR, NULL, &error));
    g_assert_error(error, ORDERS_ERROR, ORDERS_ERROR_MISSING);
    g_assert_cmpstr(error->message, ==, why);
    g_clear_error(&error);
    change_orders(directory, "dma.order", ORDER_SET_ALL);
    g_assert_null(order_reader_open(directory, 1, RACE_KARMA, NULL, &error));
    g_assert_nonnull(strstr(error->message,
                            "dma.order: it belongs to a recording of other orders"));
    remove_directory(directory);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/order-reader/fdr", test_fdr);
    g_test_add_data_func("/order-reader/karma", GINT_TO_POINTER(GUEST_KARMA), test_random);
    g_test_add_data_func("/order-reader/rerun", GINT_TO_POINTER(GUEST_RERUN), test_random);
    g_test_add_data_func("/order-reader/step-at/fdr", NULL, test_step_at);
    g_test_add_data_func("/order-reader/step-at/karma", "", test_step_at);
    g_test_add_data_func("/order-reader/dropped-karma", GINT_TO_POINTER(GUEST_KARMA),
                         test_dropped);
    g_test_add_data_func("/order-reader/dropped-rerun", GINT_TO_POINTER(GUEST_RERUN),
                         test_dropped);
    g_test_add_func("/order-reader/empty-stamped", test_empty_stamped);
    g_test_add_func("/order-reader/refused", test_refused);
    g_test_add_func("/order-reader/unexpected-wait", test_unexpected_wait);
    g_test_add_func("/order-reader/other-orders", test_other_orders);
    return g_test_run();
}
