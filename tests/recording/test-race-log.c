/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Race logs: known bytes, random episodes that are read back, logs of a killed recorder, and bytes
 * that the reader refuses.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recording/log-block.h"
#include "tests/recording/log-test.h"

enum { MAX_AGAIN = 4 };

/* An event that keeps its own bytes. */
typedef struct Race {
    LogEvent event;
    uint8_t again[MAX_AGAIN];
} Race;

static void assert_same_race(const LogEvent *event, const Race *expected)
{
    LogEvent copy = expected->event;

    copy.bytes = expected->again;
    assert_same_event(event, &copy);
}

static void put(EventCoder *coder, LogBuffer *log, const Race *race)
{
    LogEvent event = race->event;

    event.bytes = race->again;
    event_put(coder, log, &event);
}

/* --- known bytes ------------------------------------------------------------- */

#define EPISODE(position_, pred, succ) \
    { .event = { .kind = LOG_EVENT_EPISODE, .position = position_, .value = { pred, succ } } }
#define STAMPED(position_, time) \
    { .event = { .kind = LOG_EVENT_STAMPED, .position = position_, .value = { time } } }
#define CUT(position_) { .event = { .kind = LOG_EVENT_CUT, .position = position_ } }

/* Events of one block of stream 0, and the bytes of each, as docs/log-format.md says. */
static void test_known_bytes(void)
{
    static const struct {
        Race race;
        size_t size;
        uint8_t bytes[16];
    } list[] = {
        /* The list of streams: 1 2 3 4 5 6. */
        { EPISODE(300, 0x2, 0x6), 4, { 64 + 8 * 1 + 7, 0xac, 0x02, 0x06 } },
        { EPISODE(310, 0, 0), 2, { 64, 10 } },
        { EPISODE(310, 0, 0x8), 2, { 64 + 3, 0 } },
        /* Now 3 1 2 4 5 6, and after PRED 6 3 1 2 4 5. */
        { EPISODE(311, 0x40, 0x40), 2, { 64 + 8 * 6 + 1, 1 } },
        /* A stream that is not in the list, and then is: 7 6 3 1 2 4. */
        { EPISODE(312, 0x80, 0x80), 4, { 64 + 8 * 7 + 1, 1, 0x80, 0x01 } },
        { EPISODE(313, 0x10, 0x20), 3, { 64 + 8 * 6 + 7, 1, 0x20 } },
        /* Now 5 4 7 6 3 1.  Sets of several leave the list as it is. */
        { EPISODE(314, 0xfffffffe, 0x100), 9,
          { 64 + 8 * 7 + 7, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x80, 0x02 } },
        { CUT(314), 2, { LOG_EVENT_CUT, 0 } },
        /* Now 8 5 4 7 6 3; streams count again. */
        { { { .kind = LOG_EVENT_EPISODE, .position = 315, .value = { 0x6, 0x8 }, .n_bytes = 3 },
            { 1, 2, 2 } }, 8, { LOG_EVENT_EPISODE, 1, 0x06, 0x08, 3, 1, 2, 2 } },
        { EPISODE(316, 0x8, 0), 2, { 64 + 8 * 1, 1 } },
        { STAMPED(317, 0), 2, { 32, 1 } },
        { STAMPED(318, 1), 2, { 32, 1 } },
        { STAMPED(319, 32), 2, { 32 + 30, 1 } },
        { STAMPED(320, 64), 3, { 32 + 31, 1, 0 } },
        { STAMPED(321, UINT64_MAX - 1), 12,
          { 32 + 31, 1, 0x9e, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 } },
    };
    g_autoptr(LogBuffer) log = log_buffer_new();
    EventCoder writer = { 0 }, reader = { 0 };
    LogCursor cursor;

    event_coder_start_block(&writer);
    event_coder_start_block(&reader);
    for (unsigned i = 0; i < G_N_ELEMENTS(list); i++) {
        size_t before = log->used;

        put(&writer, log, &list[i].race);
        g_assert_cmpmem(log->data + before, log->used - before, list[i].bytes, list[i].size);
    }
    log_cursor_init(&cursor, log->data, log->used);
    for (unsigned i = 0; i < G_N_ELEMENTS(list); i++) {
        LogEvent event;

        g_assert_null(event_get(&reader, &cursor, LOG_RACE, 31, &event));
        assert_same_race(&event, &list[i].race);
    }
    g_assert_true(log_cursor_at_end(&cursor));
}

/* Bytes of stream 1, in a recording with 2 vCPUs, that are refused. */
static void test_refused(void)
{
    static const struct {
        const char *why;
        size_t size;
        uint8_t bytes[16];
    } cases[] = {
        { "ends inside", 1, { 64 } },
        { "unknown kind of event 20", 2, { LOG_EVENT_KINDS, 0 } },
        { "unknown kind of event 31", 2, { 31, 0 } },
        { "unknown kind of event 128", 3, { 0x80, 0x01, 0 } },
        { "wait events do not belong in this log", 3, { LOG_EVENT_WAIT, 0, 0 } },
        { "load events do not belong in this log", 3, { LOG_EVENT_LOAD, 0, 0 } },
        { "the position is larger than 64 bits", 13,
          { LOG_EVENT_CUT, 1, LOG_EVENT_CUT,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 } },
        /* The list begins with 0 2 3 4: rank 3 is no stream here. */
        { "a stream that it cannot have", 2, { 64 + 8 * 3, 1 } },
        { "a stream that it cannot have", 2, { 64 + 6, 1 } },
        { "a stream that it cannot have", 3, { 64 + 7, 1, 0x03 } },
        { "a stream that it cannot have", 3, { 64 + 7, 1, 0x02 } },
        { "a stream that it cannot have", 3, { 64 + 8 * 7, 1, 0x0d } },
        { "a stream that it cannot have", 12,
          { 64 + 7, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01 } },
        { "a set is longer than need be", 3, { 64 + 7, 1, 0 } },
        { "a set is longer than need be", 3, { 64 + 8 * 7, 1, 0x01 } },
        { "ends inside", 2, { 64 + 7, 1 } },
        { "an episode is longer than need be", 5, { LOG_EVENT_EPISODE, 1, 0x05, 0, 0 } },
        { "counts a stream again that it does not have", 6,
          { LOG_EVENT_EPISODE, 1, 0x01, 0, 1, 2 } },
        { "counts a stream again that it does not have", 7,
          { LOG_EVENT_EPISODE, 1, 0x05, 0, 2, 2, 0 } },
        { "counts a stream again that it does not have", 6,
          { LOG_EVENT_EPISODE, 1, 0x05, 0, 1, 0xff } },
        { "too many bytes", 8, { LOG_EVENT_EPISODE, 1, 0x05, 0, 0xff, 0xff, 0xff, 0x7f } },
        { "ends inside a run of bytes", 6, { LOG_EVENT_EPISODE, 1, 0x05, 0, 2, 0 } },
        { "a time is longer than need be", 3, { LOG_EVENT_STAMPED, 1, 0 } },
        { "ends inside", 2, { 63, 1 } },
        { "a time is larger than 64 bits", 12,
          { 63, 1, 0xe0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 } },
        { "a time is larger than 64 bits", 12,
          { 63, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 } },
        { "a time is larger than 64 bits", 14,
          { 33, 0, 63, 1, 0xdf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 } },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        EventCoder coder = { .stream = 1 };
        g_autofree char *wrong = NULL;
        LogCursor cursor;
        LogEvent event;

        event_coder_start_block(&coder);
        log_cursor_init(&cursor, cases[i].bytes, cases[i].size);
        while (!wrong && !log_cursor_at_end(&cursor)) {
            wrong = event_get(&coder, &cursor, LOG_RACE, 2, &event);
        }
        if (!wrong || !strstr(wrong, cases[i].why)) {
            g_error("case %u: %s, expected %s", i, wrong, cases[i].why);
        }
    }
}

/* Noise is refused, or is the one coding of the events that are read from it. */
static void test_noise(void)
{
    for (int round = 0; round < 200000; round++) {
        EventCoder reader = { .stream = g_test_rand_int_range(0, 4) };
        EventCoder writer = { .stream = reader.stream };
        g_autoptr(LogBuffer) log = log_buffer_new();
        g_autofree char *wrong = NULL;
        uint8_t noise[24];
        LogCursor cursor;
        LogEvent event;
        size_t good = 0;

        for (unsigned i = 0; i < sizeof(noise); i++) {
            noise[i] = g_test_rand_int() & (g_test_rand_bit() ? 0x07 :
                                            g_test_rand_bit() ? 0x7f : 0xff);
        }
        event_coder_start_block(&reader);
        event_coder_start_block(&writer);
        log_cursor_init(&cursor, noise, sizeof(noise));
        while (!log_cursor_at_end(&cursor) &&
               !(wrong = event_get(&reader, &cursor, LOG_RACE, 3, &event))) {
            event_put(&writer, log, &event);
            good = log_cursor_offset(&cursor);
        }
        g_assert_cmpmem(log->data, log->used, noise, good);
    }
}

/* --- whole logs -------------------------------------------------------------- */

typedef struct Source {
    GRand *random;
    unsigned stream, n_streams;
    bool karma;
    Position position;
    uint64_t time;
} Source;

static void source_init(Source *source, uint32_t seed, unsigned stream, unsigned n_streams,
                        bool karma)
{
    *source = (Source) { g_rand_new_with_seed(seed + stream), stream, n_streams, karma, 0, 0 };
}

static uint32_t random_set(Source *source)
{
    unsigned n = MIN(source->n_streams, LOG_EPISODE_STREAMS);
    uint32_t set = 0;

    for (int n_bits = g_rand_int_range(source->random, 0, 4); n_bits > 0; n_bits--) {
        set |= UINT32_C(1) << g_rand_int_range(source->random, 0, n);
    }
    return source->stream < n ? set & ~(UINT32_C(1) << source->stream) : set;
}

static void source_next(Source *source, Race *race)
{
    *race = (Race) { .event = { .kind = LOG_EVENT_CUT } };
    source->position += g_rand_int_range(source->random, 0, 1 << g_rand_int_range(source->random,
                                                                                  0, 20));
    race->event.position = source->position;
    if (g_rand_int_range(source->random, 0, 50) == 0) {
        return;
    }
    if (!source->karma) {
        race->event.kind = LOG_EVENT_STAMPED;
        source->time += g_rand_int_range(source->random, 0, 50);
        race->event.value[0] = source->time++;
        return;
    }
    race->event.kind = LOG_EVENT_EPISODE;
    race->event.value[0] = random_set(source);
    race->event.value[1] = random_set(source);
    if (race->event.value[0] && g_rand_int_range(source->random, 0, 5) == 0) {
        race->event.n_bytes = g_rand_int_range(source->random, 1, MAX_AGAIN + 1);
        memset(race->again, __builtin_ctzll(race->event.value[0]), race->event.n_bytes);
        race->again[race->event.n_bytes - 1] = 63 - __builtin_clzll(race->event.value[0]);
    }
}

static void write_race(LogStream *stream, const Race *race)
{
    const LogEvent *event = &race->event;

    if (event->kind == LOG_EVENT_EPISODE) {
        log_episode(stream, event->position, event->value[0], event->value[1], race->again,
                    event->n_bytes);
    } else {
        log_event(stream, event->kind, event->position, event->value[0]);
    }
}

/* Write race events.  Before each, the order log gets a STEP and the data log a WFI. */
static void write_streams(LogWriter *writer, uint32_t seed, unsigned n_vcpus, bool karma,
                          unsigned n_events)
{
    Source sources[RECORDER_MAX_VCPUS + 1];

    for (unsigned i = 0; i <= n_vcpus; i++) {
        source_init(&sources[i], seed, i, n_vcpus + 1, karma);
    }
    for (unsigned n = 0; n < n_events || n_events == 0; n++) {
        for (unsigned i = 0; i <= n_vcpus; i++) {
            LogStream *stream = log_writer_stream(writer, i);
            Race race;

            source_next(&sources[i], &race);
            if (i < n_vcpus) {
                log_event(stream, LOG_EVENT_WFI, race.event.position, (uint64_t)n);
            }
            log_event(stream, LOG_EVENT_STEP, race.event.position);
            write_race(stream, &race);
            g_assert_true(log_stream_boundary(stream));
            if (n % 1000 == 0) {
                log_stream_rest(stream, race.event.position);
                g_thread_yield();
                log_stream_resume(stream);
            }
        }
    }
    for (unsigned i = 0; i <= n_vcpus; i++) {
        g_rand_free(sources[i].random);
    }
}

/* Read a race log, and return how many events it has. */
static uint64_t read_race(const char *directory, uint32_t seed, unsigned n_vcpus, unsigned stream,
                          bool karma, bool cut_off)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(LogReader) reader = log_reader_open(directory, n_vcpus, stream, LOG_RACE, &error);
    LogEvent event;
    Source source;
    Race expected;

    g_assert_no_error(error);
    g_assert_true(log_reader_has_race(reader));
    source_init(&source, seed, stream, n_vcpus + 1, karma);
    while (log_reader_next(reader, &event, &error) == LOG_READER_EVENT) {
        source_next(&source, &expected);
        assert_same_race(&event, &expected);
    }
    g_assert_no_error(error);
    g_assert_cmpint(log_reader_cut_off(reader), ==, cut_off);
    g_rand_free(source.random);
    return log_reader_totals(reader)->events;
}

static void test_round_trip(void)
{
    static const unsigned sizes[] = { 1, 2, 4, 7, 31, 40 };

    for (unsigned i = 0; i < 2 * G_N_ELEMENTS(sizes); i++) {
        unsigned n_vcpus = sizes[i / 2];
        unsigned n_events = n_vcpus == 2 ? 60000 : 3000;        /* of several blocks */
        char *directory = test_directory();
        g_autoptr(LogWriter) writer = log_writer_new_with_race(directory, n_vcpus, NULL);
        uint32_t seed = g_test_rand_int();

        write_streams(writer, seed, n_vcpus, i % 2, n_events);
        g_assert_true(log_writer_finish(writer, NULL));
        g_assert_true(log_directory_has_race(directory));
        for (unsigned j = 0; j <= n_vcpus; j++) {
            LogTotals order;

            g_assert_cmpuint(read_race(directory, seed, n_vcpus, j, i % 2, false), ==, n_events);
            /* There is no MARK. */
            g_assert_true(log_totals_read(directory, n_vcpus, j, LOG_ORDER, &order, NULL));
            g_assert_cmpuint(order.events, ==, n_events);
        }
        remove_directory(directory);
    }
}

/* If the recorder is killed, the order log has all that was logged before the last race event. */
static void test_killed(void)
{
    enum { N_VCPUS = 2 };
    bool some = false;

    for (int round = 0; round < 6; round++) {
        char *directory = test_directory();
        uint32_t seed = g_test_rand_int();
        int ready[2];
        char byte;
        pid_t child;

        g_assert_cmpint(pipe(ready), ==, 0);
        child = fork();
        if (child == 0) {
            LogWriter *writer = log_writer_new_with_race(directory, N_VCPUS, NULL);

            g_assert_cmpint(write(ready[1], "", 1), ==, 1);
            write_streams(writer, seed, N_VCPUS, true, 0);
            _exit(1);
        }
        g_assert_cmpint(read(ready[0], &byte, 1), ==, 1);
        close(ready[0]);
        close(ready[1]);
        g_usleep(round * 60 * 1000 + g_test_rand_int_range(0, 60 * 1000));
        kill(child, SIGKILL);
        g_assert_cmpint(waitpid(child, NULL, 0), ==, child);
        for (unsigned i = 0; i <= N_VCPUS; i++) {
            uint64_t episodes = read_race(directory, seed, N_VCPUS, i, true, true);
            LogTotals totals;

            some |= episodes > 0;
            g_assert_true(log_totals_read(directory, N_VCPUS, i, LOG_ORDER, &totals, NULL));
            g_assert_cmpuint(totals.events, >=, episodes);
            if (i < N_VCPUS) {
                g_assert_true(log_totals_read(directory, N_VCPUS, i, LOG_DATA, &totals, NULL));
                g_assert_cmpuint(totals.events, >=, episodes);
            }
        }
        remove_directory(directory);
    }
    g_assert_true(some);
}

/* A recording of FDR has no race logs, and a race log does not belong to one. */
static void test_fdr(void)
{
    char *directory = test_directory();
    g_autoptr(LogWriter) writer = log_writer_new(directory, 1, NULL);
    g_autofree char *path = g_build_filename(directory, "dma.race", NULL);
    g_autoptr(GError) error = NULL;
    uint8_t header[LOG_FILE_HEADER_BYTES];

    g_assert_true(log_writer_finish(writer, NULL));
    g_assert_false(log_directory_has_race(directory));
    g_assert_null(log_reader_open(directory, 1, 1, LOG_RACE, &error));
    g_assert_error(error, G_FILE_ERROR, G_FILE_ERROR_NOENT);
    g_clear_error(&error);

    log_file_header_put(&(LogFileHeader) {
        .version = LOG_VERSION, .stream = 1, .substream = LOG_RACE, .n_vcpus = 1,
    }, header);
    write_file(path, header, sizeof(header));
    g_assert_null(log_reader_open(directory, 1, 1, LOG_RACE, &error));
    g_assert_nonnull(strstr(error->message, "names a log that no recording has"));
    remove_directory(directory);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/race-log/known-bytes", test_known_bytes);
    g_test_add_func("/race-log/refused", test_refused);
    g_test_add_func("/race-log/noise", test_noise);
    /* Before there are threads, since this test forks. */
    g_test_add_func("/race-log/killed", test_killed);
    g_test_add_func("/race-log/round-trip", test_round_trip);
    g_test_add_func("/race-log/fdr", test_fdr);
    return g_test_run();
}
