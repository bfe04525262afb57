/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Logs are read back as they were written: all kinds of events, by many threads, in many blocks, up
 * to the moment at which the recorder is killed.
 */
#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/recording/log-test.h"

enum { N_VCPUS = 3, DMA = N_VCPUS, N_STREAMS };

typedef struct Writing {
    LogWriter *writer;
    unsigned stream;
    uint32_t seed;
    unsigned n_events;          /* of both logs; 0: for ever */
} Writing;

static void *write_stream(void *opaque)
{
    Writing *writing = opaque;
    LogStream *stream = log_writer_stream(writing->writer, writing->stream);
    EventSource source;

    event_source_init(&source, writing->seed, N_VCPUS, writing->stream, 300);
    for (unsigned i = 0; i < writing->n_events || writing->n_events == 0; i++) {
        LogEvent event;

        event_source_next(&source, &event);
        write_event(stream, &event);
        if (i % 8 == 0) {
            g_assert_true(log_stream_boundary(stream));
        }
        if (i % 100 == 0) {
            log_stream_rest(stream, 0);
            g_thread_yield();
            log_stream_resume(stream);
        }
    }
    event_source_clear(&source);
    return NULL;
}

/* Start to write all streams, each in its own thread. */
static void start_writing(LogWriter *writer, uint32_t seed, unsigned n_events,
                          Writing writings[N_STREAMS], GThread *threads[N_STREAMS])
{
    for (unsigned i = 0; i < N_STREAMS; i++) {
        writings[i] = (Writing) { writer, i, seed, n_events };
        threads[i] = g_thread_new("stream", write_stream, &writings[i]);
    }
}

/* Read a log to its end, and check that its events are those that were written. */
static LogTotals read_log(const char *directory, unsigned stream, LogSubstream substream,
                          uint32_t seed)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(LogReader) reader = log_reader_open(directory, N_VCPUS, stream, substream, &error);
    EventSource source;
    LogEvent event, expected;

    g_assert_no_error(error);
    event_source_init(&source, seed, N_VCPUS, stream, 300);
    while (log_reader_next(reader, &event, &error) == LOG_READER_EVENT) {
        event_source_next_of(&source, substream, &expected);
        assert_same_event(&event, &expected);
    }
    g_assert_no_error(error);
    g_assert_cmpint(log_reader_next(reader, &event, &error), ==, LOG_READER_END);
    event_source_clear(&source);
    return *log_reader_totals(reader);
}

static bool exists(unsigned stream, LogSubstream substream)
{
    return substream == LOG_ORDER || (substream == LOG_DATA && stream < N_VCPUS);
}

static void test_threads(void)
{
    enum { N_EVENTS = 20000 };
    char *directory = test_directory();
    g_autoptr(GError) error = NULL;
    g_autoptr(LogWriter) writer = log_writer_new(directory, N_VCPUS, ORDER_SET_FDR, &error);
    uint32_t seed = g_test_rand_int();
    uint64_t written[LOG_ACCOUNTS], read[LOG_ACCOUNTS] = { 0 };
    Writing writings[N_STREAMS];
    GThread *threads[N_STREAMS];

    g_assert_no_error(error);
    start_writing(writer, seed, N_EVENTS, writings, threads);
    for (unsigned i = 0; i < N_STREAMS; i++) {
        log_writer_accounts(writer, written);       /* while the threads write */
        g_thread_join(threads[i]);
    }
    log_writer_finish(writer, &error);
    g_assert_no_error(error);
    log_writer_accounts(writer, written);

    g_assert_cmpuint(log_directory_n_vcpus(directory, &error), ==, N_VCPUS);
    for (unsigned i = 0; i < N_STREAMS; i++) {
        uint64_t events = 0;

        for (int j = 0; j < LOG_SUBSTREAMS; j++) {
            LogTotals totals, again;

            if (!exists(i, j)) {
                continue;
            }
            totals = read_log(directory, i, j, seed);
            g_assert_false(totals.cut_off);
            events += totals.events;
            for (int k = 0; k < LOG_ACCOUNTS; k++) {
                read[k] += totals.account_bytes[k];
            }
            g_assert_true(log_totals_read(directory, N_VCPUS, i, j, &again, &error));
            g_assert_cmpuint(again.stored_bytes, ==, totals.stored_bytes);
            g_assert_cmpuint(again.raw_bytes, ==, totals.raw_bytes);
        }
        g_assert_cmpuint(events, ==, N_EVENTS);
    }
    g_assert_cmpmem(read, sizeof(read), written, sizeof(written));
    remove_directory(directory);
}

/* Return how many data events of a vCPU were written before its last order event. */
static uint64_t data_before_last_order(uint32_t seed, unsigned stream, uint64_t order_events)
{
    EventSource source;
    LogEvent event;
    uint64_t data_events = 0;

    event_source_init(&source, seed, N_VCPUS, stream, 300);
    while (order_events > 0) {
        event_source_next(&source, &event);
        if (log_event_table()[event.kind].substream == LOG_ORDER) {
            order_events--;
        } else {
            data_events++;
        }
    }
    event_source_clear(&source);
    return data_events;
}

typedef struct Killed {
    const char *directory;
    uint32_t seed;
} Killed;

static void record(void *opaque, int ready)
{
    const Killed *k = opaque;
    LogWriter *writer = log_writer_new(k->directory, N_VCPUS, ORDER_SET_FDR, NULL);
    Writing writings[N_STREAMS];
    GThread *threads[N_STREAMS];

    start_writing(writer, k->seed, 0, writings, threads);
    may_be_killed(ready);
    g_usleep(G_USEC_PER_SEC * 100);
}

/*
 * Whenever the recorder is killed, the logs hold what was written up to some event, and the data
 * log has all events that come before the last one of the order log.
 */
static void test_killed(void)
{
    bool some = false;

    for (int round = 0; round < 10; round++) {
        char *directory = test_directory();
        uint32_t seed = g_test_rand_int();
        Killed killed = { directory, seed };

        /* In later rounds, the writer's timer ticks before the recorder is killed. */
        record_until_killed(record, &killed,
                            round * 40 * 1000 + g_test_rand_int_range(0, 40 * 1000));
        for (unsigned i = 0; i < N_STREAMS; i++) {
            LogTotals order = read_log(directory, i, LOG_ORDER, seed);

            g_assert_true(order.cut_off);
            some |= order.events > 0;
            if (i != DMA) {
                LogTotals data = read_log(directory, i, LOG_DATA, seed);

                g_assert_true(data.cut_off);
                g_assert_cmpuint(data.events, >=,
                                 data_before_last_order(seed, i, order.events));
            }
        }
        remove_directory(directory);
    }
    g_assert_true(some);
}

/* A few events are written soon, in a stream that is used... */
static void test_slow_stream(void)
{
    char *directory = test_directory();
    LogWriter *writer = log_writer_new(directory, 1, ORDER_SET_FDR, NULL);
    LogStream *stream = log_writer_stream(writer, 0);
    g_autoptr(GError) error = NULL;
    LogTotals totals;

    log_event(stream, LOG_EVENT_INTERRUPT, 7, (uint64_t)5);
    log_event(stream, LOG_EVENT_LOAD, 8, (uint64_t)1, (uint64_t)0);
    wait_for_tick();
    g_assert_true(log_stream_boundary(stream));
    /* ... and in a stream that rests. */
    log_event(log_writer_stream(writer, 1), LOG_EVENT_WAIT, 3, (uint64_t)0, (uint64_t)8);
    log_stream_rest(log_writer_stream(writer, 1), 0);
    wait_for_tick();

    /* A log that is being written looks cut off. */
    g_assert_true(log_totals_read(directory, 1, 0, LOG_ORDER, &totals, &error));
    g_assert_true(totals.cut_off && totals.events == 1 && totals.last == 7);
    g_assert_true(log_totals_read(directory, 1, 0, LOG_DATA, &totals, &error));
    g_assert_true(totals.cut_off && totals.events == 1 && totals.last == 8);
    g_assert_true(log_totals_read(directory, 1, 1, LOG_ORDER, &totals, &error));
    g_assert_true(totals.cut_off && totals.events == 1 && totals.last == 3);

    /* A log whose writer is freed without log_writer_finish() stays cut off. */
    log_event(stream, LOG_EVENT_WAKE, 9);
    log_writer_free(writer);
    g_assert_true(log_totals_read(directory, 1, 0, LOG_ORDER, &totals, &error));
    g_assert_true(totals.cut_off && totals.events == 1);
    remove_directory(directory);
}

/* Ask for a lease of the file @path again and again, until killed. */
static void G_GNUC_NORETURN ask_for_ever(const char *path)
{
    int fd = open(path, O_RDONLY);

    for (;;) {
        log_file_writer(fd);
    }
}

/*
 * A recorder that opens a log while another process asks who writes it does not end that process.
 */
static void test_lease(void)
{
    char *directory = test_directory();
    g_autofree char *path = g_build_filename(directory, "log", NULL);
    int64_t end = g_get_monotonic_time() + 300 * 1000;
    int status;
    pid_t asking;

    write_file(path, "x", 1);
    asking = fork();
    if (asking == 0) {
        ask_for_ever(path);
    }
    g_assert_cmpint(asking, >, 0);
    while (g_get_monotonic_time() < end) {
        int fd = open(path, O_WRONLY | O_NONBLOCK);

        if (fd >= 0) {
            close(fd);
        }
    }
    g_assert_cmpint(waitpid(asking, &status, WNOHANG), ==, 0);
    kill(asking, SIGKILL);
    g_assert_cmpint(waitpid(asking, &status, 0), ==, asking);
    remove_directory(directory);
}

/* Assert that the order log of vCPU 0 has these events, and no others. */
static void assert_order_log(const char *directory, const char *const *expected)
{
    g_autoptr(LogReader) reader = log_reader_open(directory, 2, 0, LOG_ORDER, NULL);
    LogEvent event;

    while (log_reader_next(reader, &event, NULL) == LOG_READER_EVENT) {
        g_autofree char *text = log_event_format(&event);

        g_assert_cmpstr(text, ==, *expected++);
    }
    g_assert_null(*expected);
}

static void test_merged_waits(void)
{
    static const char *const expected[] = {
        /* The second is merged into the first, the third is too far away. */
        "wait at 100: stream=1 steps=25", "wait at 104: stream=2 steps=3",
        "wait at 111: stream=1 steps=30",
        /* No wait passes another event, nor a position that was published, nor a rest. */
        "mark at 112", "wait at 112: stream=1 steps=31",
        "wait at 113: stream=1 steps=32",
        "wait at 114: stream=1 steps=33",
        "wait at 114: stream=1 steps=34",
        NULL
    };
    char *directory = test_directory();
    g_autoptr(LogWriter) writer = log_writer_new(directory, 2, ORDER_SET_FDR, NULL);
    LogStream *stream = log_writer_stream(writer, 0);

    log_writer_hold_waits(writer, 10);
    g_assert_true(log_wait(stream, 100, 1, 20));
    g_assert_true(log_wait(stream, 104, 2, 3));
    g_assert_false(log_wait(stream, 110, 1, 25));
    g_assert_true(log_wait(stream, 111, 1, 30));
    log_event(stream, LOG_EVENT_MARK, 112);
    g_assert_true(log_wait(stream, 112, 1, 31));
    log_stream_publish(stream);
    g_assert_true(log_wait(stream, 113, 1, 32));
    log_stream_rest(stream, 113);
    log_stream_resume(stream);
    g_assert_true(log_wait(stream, 114, 1, 33));
    log_stream_publish(stream);
    g_assert_true(log_wait(stream, 114, 1, 34));
    g_assert_true(log_writer_finish(writer, NULL));
    assert_order_log(directory, expected);
    remove_directory(directory);
}

/* DMA of all sizes up to the limit, and no boundary before the end. */
static void test_big_bytes(void)
{
    static const size_t sizes[] = {
        0, 1, 127, 128, LOG_BLOCK_TARGET - 1, LOG_BLOCK_TARGET, 3 * LOG_BLOCK_TARGET,
        LOG_EVENT_MAX_BYTES, 0, LOG_EVENT_MAX_BYTES,
    };
    g_autofree uint8_t *bytes = g_malloc(LOG_EVENT_MAX_BYTES);
    char *directory = test_directory();
    g_autoptr(LogWriter) writer = log_writer_new(directory, 1, ORDER_SET_FDR, NULL);
    g_autoptr(LogReader) reader = NULL;
    g_autoptr(GError) error = NULL;
    LogEvent event;

    for (size_t i = 0; i < LOG_EVENT_MAX_BYTES; i++) {
        bytes[i] = i * i >> 7;
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        log_event_bytes(log_writer_stream(writer, 1), LOG_EVENT_DMA_WRITE, i,
                        (uint64_t)i << 40, bytes, sizes[i]);
    }
    log_writer_finish(writer, &error);
    g_assert_no_error(error);
    reader = log_reader_open(directory, 1, 1, LOG_ORDER, &error);
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        g_assert_cmpint(log_reader_next(reader, &event, &error), ==, LOG_READER_EVENT);
        g_assert_cmpuint(event.position, ==, i);
        g_assert_cmpuint(event.value[0], ==, (uint64_t)i << 40);
        g_assert_cmpmem(event.bytes, event.n_bytes, bytes, sizes[i]);
    }
    g_assert_cmpint(log_reader_next(reader, &event, &error), ==, LOG_READER_END);
    g_assert_false(log_reader_cut_off(reader));
    remove_directory(directory);
}

/* Positions and values up to the largest possible. */
static void test_extreme_values(void)
{
    char *directory = test_directory();
    g_autoptr(LogWriter) writer = log_writer_new(directory, 1, ORDER_SET_FDR, NULL);
    g_autoptr(LogReader) reader = NULL;
    static const Position positions[] = { 0, 0, 1, G_MAXUINT64 - 1, G_MAXUINT64, G_MAXUINT64 };
    static const uint64_t steps[] = { 0, G_MAXUINT64, 1, G_MAXINT64, 0, (uint64_t)G_MAXINT64 + 1 };
    LogEvent event;

    for (unsigned i = 0; i < G_N_ELEMENTS(positions); i++) {
        log_event(log_writer_stream(writer, 0), LOG_EVENT_WAIT, positions[i],
                  (uint64_t)1, steps[i]);
    }
    g_assert_true(log_writer_finish(writer, NULL));
    reader = log_reader_open(directory, 1, 0, LOG_ORDER, NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(positions); i++) {
        g_assert_cmpint(log_reader_next(reader, &event, NULL), ==, LOG_READER_EVENT);
        g_assert_cmpuint(event.position, ==, positions[i]);
        g_assert_cmpuint(event.value[0], ==, 1);
        g_assert_cmpuint(event.value[1], ==, steps[i]);
    }
    remove_directory(directory);
}

static void test_format(void)
{
    static const struct {
        LogEvent event;
        const char *text;
    } known[] = {
        { { .kind = LOG_EVENT_WAKE, .position = 5 }, "wake at 5" },
        { { .kind = LOG_EVENT_WAIT, .position = 5, .value = { 1, 77 } },
          "wait at 5: stream=1 steps=77" },
        { { .kind = LOG_EVENT_DMA_WRITE, .position = 17, .value = { 0x40001000 }, .n_bytes = 64 },
          "dma-write at 17: address=0x40001000 bytes=64" },
        { { .kind = LOG_EVENT_START, .position = 9, .value = { 0x10, 0x20, 10 } },
          "start at 9: entry=0x10 context=0x20 level=10" },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(known); i++) {
        g_autofree char *text = log_event_format(&known[i].event);

        g_assert_cmpstr(text, ==, known[i].text);
    }
}

/* docs/log-format.md has the same list of events. */
static void test_documented(void)
{
    g_autofree char *page = NULL;
    GString *row = g_string_new(NULL);

    g_assert_true(g_file_get_contents(LOG_FORMAT_PAGE, &page, NULL, NULL));
    for (int kind = 0; kind < LOG_EVENT_KINDS; kind++) {
        const LogEventInfo *info = &log_event_table()[kind];

        g_string_printf(row, "\n| %d | `%s` | %s |", kind, info->name,
                        log_substream_name(info->substream));
        for (unsigned i = 0; i < info->n_values; i++) {
            g_string_append_printf(row, "%s `%s`", i ? "," : "", info->field[i]);
        }
        if (info->has_bytes) {
            g_string_append(row, info->n_values ? ", `bytes`" : " `bytes`");
        } else if (info->n_values == 0) {
            g_string_append(row, " none");
        }
        g_string_append_printf(row, " | %s | %s |\n", info->is_step ? "yes" : "no",
                               log_account_name(info->account));
        if (!strstr(page, row->str)) {
            g_error("docs/log-format.md lacks this row:%s", row->str);
        }
    }
    g_string_free(row, TRUE);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/log-stream/format", test_format);
    g_test_add_func("/log-stream/documented", test_documented);
    g_test_add_func("/log-stream/lease", test_lease);
    /* Before there are threads, since this test forks. */
    g_test_add_func("/log-stream/killed", test_killed);
    g_test_add_func("/log-stream/threads", test_threads);
    g_test_add_func("/log-stream/slow-stream", test_slow_stream);
    g_test_add_func("/log-stream/merged-waits", test_merged_waits);
    g_test_add_func("/log-stream/big-bytes", test_big_bytes);
    g_test_add_func("/log-stream/extreme-values", test_extreme_values);
    return g_test_run();
}
