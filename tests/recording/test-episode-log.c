/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Logs of episodes: known bytes, random episodes that are read back, logs of a killed recorder, and
 * bytes that the reader refuses.
 */
#include <string.h>

#include "recording/log-block.h"
#include "tests/recording/log-test.h"

enum { MAX_AGAIN = 4 };

/* An event that keeps its own bytes. */
typedef struct Episode {
    LogEvent event;
    uint8_t again[MAX_AGAIN];
} Episode;

static void assert_same_episode(const LogEvent *event, const Episode *expected)
{
    LogEvent copy = expected->event;

    copy.bytes = expected->again;
    assert_same_event(event, &copy);
}

static void put(EventCoder *coder, LogBuffer *log, const Episode *episode)
{
    LogEvent event = episode->event;

    event.bytes = episode->again;
    event_put(coder, log, &event);
}

/* --- known bytes ------------------------------------------------------------- */

#define EPISODE(position_, pred, succ) \
    { .event = { .kind = LOG_EVENT_EPISODE, .position = position_, .value = { pred, succ } } }
#define STAMPED(position_, time) \
    { .event = { .kind = LOG_EVENT_STAMPED, .position = position_, .value = { time } } }
#define CUT(kind_, position_) { .event = { .kind = kind_, .position = position_ } }

/* An event, and its bytes. */
typedef struct Known {
    Episode episode;
    size_t size;
    uint8_t bytes[16];
} Known;

/* Check the events of one block of stream 0. */
static void check_known(LogSubstream substream, const Known *list, unsigned n)
{
    g_autoptr(LogBuffer) log = log_buffer_new();
    EventCoder writer = { 0 }, reader = { 0 };
    LogCursor cursor;

    event_coder_start_block(&writer);
    event_coder_start_block(&reader);
    for (unsigned i = 0; i < n; i++) {
        size_t before = log->used;

        put(&writer, log, &list[i].episode);
        g_assert_cmpmem(log->data + before, log->used - before, list[i].bytes, list[i].size);
    }
    log_cursor_init(&cursor, log->data, log->used);
    for (unsigned i = 0; i < n; i++) {
        LogEvent event;

        g_assert_null(event_get(&reader, &cursor, substream, 31, &event));
        assert_same_episode(&event, &list[i].episode);
    }
    g_assert_true(log_cursor_at_end(&cursor));
}

/* The bytes are as docs/log-format.md says. */
static void test_known_bytes(void)
{
    static const Known karma[] = {
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
        { CUT(LOG_EVENT_CUT, 314), 2, { 18, 0 } },
        /* Now 8 5 4 7 6 3; streams count again. */
        { { { .kind = LOG_EVENT_EPISODE, .position = 315, .value = { 0x6, 0x8 }, .n_bytes = 3 },
            { 1, 2, 2 } }, 8, { LOG_EVENT_EPISODE, 1, 0x06, 0x08, 3, 1, 2, 2 } },
        { EPISODE(316, 0x8, 0), 2, { 64 + 8 * 1, 1 } },
    };
    static const Known rerun[] = {
        { STAMPED(1, 0), 2, { 32, 1 } },
        { STAMPED(2, 1), 2, { 32, 1 } },
        { STAMPED(3, 32), 2, { 32 + 30, 1 } },
        { STAMPED(4, 64), 3, { 32 + 31, 1, 0 } },
        { CUT(LOG_EVENT_STAMPED_CUT, 4), 2, { 20, 0 } },
        { STAMPED(5, UINT64_MAX - 1), 12,
          { 32 + 31, 1, 0x9e, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 } },
    };

    check_known(LOG_KARMA, karma, G_N_ELEMENTS(karma));
    check_known(LOG_RERUN, rerun, G_N_ELEMENTS(rerun));
}

/* Bytes of stream 1, in a recording with 2 vCPUs, that are refused. */
static void test_refused(void)
{
    static const struct {
        LogSubstream log;
        const char *why;
        size_t size;
        uint8_t bytes[16];
    } cases[] = {
        { LOG_KARMA, "ends inside", 1, { 64 } },
        { LOG_KARMA, "unknown kind of event 22", 2, { LOG_EVENT_KINDS, 0 } },
        { LOG_KARMA, "unknown kind of event 63", 2, { 63, 0 } },
        { LOG_KARMA, "stamped events do not belong", 3, { LOG_EVENT_STAMPED, 0, 0 } },
        { LOG_KARMA, "stamped-cut events do not belong", 2, { LOG_EVENT_STAMPED_CUT, 0 } },
        { LOG_RERUN, "unknown kind of event 22", 2, { LOG_EVENT_KINDS, 0 } },
        { LOG_RERUN, "unknown kind of event 64", 2, { 64, 0 } },
        { LOG_RERUN, "cut events do not belong in this log", 2, { LOG_EVENT_CUT, 0 } },
        { LOG_RERUN, "episode events do not belong", 6, { LOG_EVENT_EPISODE, 1, 1, 0, 1, 0 } },
        { LOG_KARMA, "unknown kind of event 31", 2, { 31, 0 } },
        { LOG_KARMA, "unknown kind of event 128", 3, { 0x80, 0x01, 0 } },
        { LOG_KARMA, "wait events do not belong in this log", 3, { LOG_EVENT_WAIT, 0, 0 } },
        { LOG_KARMA, "load events do not belong in this log", 3, { LOG_EVENT_LOAD, 0, 0 } },
        { LOG_KARMA, "the position is larger than 64 bits", 13,
          { LOG_EVENT_CUT, 1, LOG_EVENT_CUT,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 } },
        /* The list begins with 0 2 3 4: rank 3 is no stream here. */
        { LOG_KARMA, "a stream that it cannot have", 2, { 64 + 8 * 3, 1 } },
        { LOG_KARMA, "a stream that it cannot have", 2, { 64 + 6, 1 } },
        { LOG_KARMA, "a stream that it cannot have", 3, { 64 + 7, 1, 0x03 } },
        { LOG_KARMA, "a stream that it cannot have", 3, { 64 + 7, 1, 0x02 } },
        { LOG_KARMA, "a stream that it cannot have", 3, { 64 + 8 * 7, 1, 0x0d } },
        { LOG_KARMA, "a stream that it cannot have", 12,
          { 64 + 7, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01 } },
        { LOG_KARMA, "a set is longer than need be", 3, { 64 + 7, 1, 0 } },
        { LOG_KARMA, "a set is longer than need be", 3, { 64 + 8 * 7, 1, 0x01 } },
        { LOG_KARMA, "ends inside", 2, { 64 + 7, 1 } },
        { LOG_KARMA, "an episode is longer than need be", 5, { LOG_EVENT_EPISODE, 1, 0x05, 0, 0 } },
        { LOG_KARMA, "counts a stream again that it does not have", 6,
          { LOG_EVENT_EPISODE, 1, 0x01, 0, 1, 2 } },
        { LOG_KARMA, "counts a stream again that it does not have", 7,
          { LOG_EVENT_EPISODE, 1, 0x05, 0, 2, 2, 0 } },
        { LOG_KARMA, "counts a stream again that it does not have", 6,
          { LOG_EVENT_EPISODE, 1, 0x05, 0, 1, 0xff } },
        { LOG_KARMA, "too many bytes", 8,
          { LOG_EVENT_EPISODE, 1, 0x05, 0, 0xff, 0xff, 0xff, 0x7f } },
        { LOG_KARMA, "ends inside a run of bytes", 6, { LOG_EVENT_EPISODE, 1, 0x05, 0, 2, 0 } },
        { LOG_RERUN, "a time is longer than need be", 3, { LOG_EVENT_STAMPED, 1, 0 } },
        { LOG_RERUN, "ends inside", 2, { 63, 1 } },
        { LOG_RERUN, "a time is larger than 64 bits", 12,
          { 63, 1, 0xe0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 } },
        { LOG_RERUN, "a time is larger than 64 bits", 12,
          { 63, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 } },
        { LOG_RERUN, "a time is larger than 64 bits", 14,
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
            wrong = event_get(&coder, &cursor, cases[i].log, 2, &event);
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
        LogSubstream substream = round % 2 ? LOG_KARMA : LOG_RERUN;
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
               !(wrong = event_get(&reader, &cursor, substream, 3, &event))) {
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
    RaceOrder order;
    Position position;
    uint64_t time;
} Source;

static void source_init(Source *source, uint32_t seed, unsigned stream, unsigned n_streams,
                        RaceOrder order)
{
    *source = (Source) { g_rand_new_with_seed(seed + stream), stream, n_streams, order, 0, 0 };
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

static void source_next(Source *source, Episode *episode)
{
    bool karma = source->order == RACE_KARMA;

    *episode = (Episode) { .event = { .kind = karma ? LOG_EVENT_CUT : LOG_EVENT_STAMPED_CUT } };
    source->position += g_rand_int_range(source->random, 0, 1 << g_rand_int_range(source->random,
                                                                                  0, 20));
    episode->event.position = source->position;
    if (g_rand_int_range(source->random, 0, 50) == 0) {
        return;
    }
    if (!karma) {
        episode->event.kind = LOG_EVENT_STAMPED;
        source->time += g_rand_int_range(source->random, 0, 50);
        episode->event.value[0] = source->time++;
        return;
    }
    episode->event.kind = LOG_EVENT_EPISODE;
    episode->event.value[0] = random_set(source);
    episode->event.value[1] = random_set(source);
    if (episode->event.value[0] && g_rand_int_range(source->random, 0, 5) == 0) {
        episode->event.n_bytes = g_rand_int_range(source->random, 1, MAX_AGAIN + 1);
        memset(episode->again, __builtin_ctzll(episode->event.value[0]), episode->event.n_bytes);
        episode->again[episode->event.n_bytes - 1] = 63 - __builtin_clzll(episode->event.value[0]);
    }
}

static void write_episode(LogStream *stream, RaceOrder order, const Episode *episode)
{
    const LogEvent *event = &episode->event;

    if (event->kind == LOG_EVENT_EPISODE) {
        log_episode(stream, event->position, event->value[0], event->value[1], episode->again,
                    event->n_bytes);
    } else if (event->kind == LOG_EVENT_STAMPED) {
        log_stamped(stream, event->position, event->value[0]);
    } else {
        log_cut(stream, order, event->position);
    }
}

/* Write episodes.  Before each, the order log gets a STEP and the data log a WFI. */
static void write_streams(LogWriter *writer, uint32_t seed, unsigned n_vcpus, RaceOrder order,
                          unsigned n_events)
{
    Source sources[RECORDER_MAX_VCPUS + 1];

    for (unsigned i = 0; i <= n_vcpus; i++) {
        source_init(&sources[i], seed, i, n_vcpus + 1, order);
    }
    for (unsigned n = 0; n < n_events || n_events == 0; n++) {
        for (unsigned i = 0; i <= n_vcpus; i++) {
            LogStream *stream = log_writer_stream(writer, i);
            Episode episode;

            source_next(&sources[i], &episode);
            if (i < n_vcpus) {
                log_event(stream, LOG_EVENT_WFI, episode.event.position, (uint64_t)n);
            }
            log_event(stream, LOG_EVENT_STEP, episode.event.position);
            write_episode(stream, order, &episode);
            g_assert_true(log_stream_boundary(stream));
            if (n % 1000 == 0) {
                log_stream_rest(stream, episode.event.position);
                g_thread_yield();
                log_stream_resume(stream);
            }
        }
    }
    for (unsigned i = 0; i <= n_vcpus; i++) {
        g_rand_free(sources[i].random);
    }
}

/* Read a log of episodes, and return how many events it has. */
static uint64_t read_episodes(const char *directory, uint32_t seed, unsigned n_vcpus,
                              unsigned stream, RaceOrder order, bool cut_off)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(LogReader) reader = log_reader_open(directory, n_vcpus, stream, log_of_order(order),
                                                  &error);
    LogEvent event;
    Source source;
    Episode expected;

    g_assert_no_error(error);
    g_assert_true(order_set_has(log_reader_orders(reader), order));
    source_init(&source, seed, stream, n_vcpus + 1, order);
    while (log_reader_next(reader, &event, &error) == LOG_READER_EVENT) {
        source_next(&source, &expected);
        assert_same_episode(&event, &expected);
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
        RaceOrder order = i % 2 ? RACE_KARMA : RACE_RERUN;
        char *directory = test_directory();
        g_autoptr(LogWriter) writer = log_writer_new(directory, n_vcpus, ORDER_SET(order), NULL);
        uint32_t seed = g_test_rand_int();

        write_streams(writer, seed, n_vcpus, order, n_events);
        g_assert_true(log_writer_finish(writer, NULL));
        g_assert_cmpuint(log_directory_orders(directory), ==, ORDER_SET(order));
        for (unsigned j = 0; j <= n_vcpus; j++) {
            LogTotals totals;

            g_assert_cmpuint(read_episodes(directory, seed, n_vcpus, j, order, false), ==,
                             n_events);
            /* There is no MARK. */
            g_assert_true(log_totals_read(directory, n_vcpus, j, LOG_ORDER, &totals, NULL));
            g_assert_cmpuint(totals.events, ==, n_events);
        }
        remove_directory(directory);
    }
}

typedef struct Killed {
    const char *directory;
    uint32_t seed;
    unsigned n_vcpus;
    RaceOrder order;
} Killed;

static void record(void *opaque, int ready)
{
    const Killed *k = opaque;
    LogWriter *writer = log_writer_new(k->directory, k->n_vcpus, ORDER_SET(k->order), NULL);

    may_be_killed(ready);
    write_streams(writer, k->seed, k->n_vcpus, k->order, 0);
}

/* If the recorder is killed, the order log has all that was logged before the last episode. */
static void test_killed(void)
{
    enum { N_VCPUS = 2 };
    bool some = false;

    for (int round = 0; round < 6; round++) {
        RaceOrder order = round % 2 ? RACE_KARMA : RACE_RERUN;
        char *directory = test_directory();
        uint32_t seed = g_test_rand_int();
        Killed killed = { directory, seed, N_VCPUS, order };

        record_until_killed(record, &killed,
                            round * 60 * 1000 + g_test_rand_int_range(0, 60 * 1000));
        for (unsigned i = 0; i <= N_VCPUS; i++) {
            uint64_t episodes = read_episodes(directory, seed, N_VCPUS, i, order, true);
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

/* --- writing at rest ----------------------------------------------------------------- */

typedef struct Ticks {
    LogWriter *writer;
    unsigned n;                 /* atomic */
} Ticks;

/* Log an episode of each order that ends where the stream rests. */
static void at_tick(unsigned stream, Position reached, void *opaque)
{
    Ticks *ticks = opaque;

    g_assert_cmpuint(stream, ==, 0);
    if (__atomic_fetch_add(&ticks->n, 1, __ATOMIC_SEQ_CST) == 0) {
        log_episode(log_writer_stream(ticks->writer, stream), reached, 0, 0, NULL, 0);
        log_stamped(log_writer_stream(ticks->writer, stream), reached, 7);
    }
}

/*
 * The log writer's thread tells of a stream that rests at a known position.  What is logged then is
 * in the files, and so is what a holder logs.
 */
static void test_at_rest(void)
{
    char *directory = test_directory();
    g_autoptr(LogWriter) writer = log_writer_new(directory, 1, ORDER_SET_ALL, NULL);
    LogStream *stream = log_writer_stream(writer, 0);
    LogStream *dma = log_writer_stream(writer, 1);
    Ticks ticks = { writer, 0 };
    g_autoptr(LogPlaces) places = NULL;

    log_writer_set_tick(writer, at_tick, &ticks);
    log_stream_rest(stream, 5);
    log_stream_rest(dma, LOG_UNKNOWN);  /* its position is unknown: it is not told of */
    while (__atomic_load_n(&ticks.n, __ATOMIC_SEQ_CST) < 2) {
        g_usleep(1000);
    }
    log_stream_hold(stream);
    log_cut(stream, RACE_KARMA, 5);
    log_cut(stream, RACE_RERUN, 5);
    log_stream_release(stream);
    places = log_writer_places(writer);
    g_assert_true(log_places_wait(places, NULL));
    for (LogSubstream i = LOG_KARMA; i <= LOG_RERUN; i++) {
        LogTotals totals;

        g_assert_cmpuint(log_place_of(places, 0, i)->block, ==, 2);
        g_assert_cmpuint(log_place_of(places, 0, i)->start, ==, 5);
        g_assert_true(log_totals_read(directory, 1, 0, i, &totals, NULL));
        g_assert_cmpuint(totals.events, ==, 2);
    }
    /* The owner learns that events get old. */
    log_stream_resume(stream);
    g_assert_true(log_stream_tick(stream));
    g_assert_true(log_stream_boundary(stream));
    while (!log_stream_tick(stream)) {
        g_usleep(1000);
    }
    g_assert_true(log_writer_finish(writer, NULL));
    remove_directory(directory);
}

/* --- places ---------------------------------------------------------------------- */

enum { MANY_VCPUS = 30, MANY_TICKS = 8 };

/* Log an episode that ends where the stream rests. */
static void at_each_tick(unsigned stream, Position reached, void *opaque)
{
    Ticks *ticks = opaque;
    unsigned n = __atomic_fetch_add(&ticks->n, 1, __ATOMIC_SEQ_CST);

    log_stamped(log_writer_stream(ticks->writer, stream), reached, n);
}

/* Check that each log goes on at its place with the block that the place tells. */
static void check_places(const char *directory, LogPlaces *places)
{
    for (unsigned i = 0; i < places->n_streams; i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(LogReader) log = log_reader_open_at(directory, MANY_VCPUS, i, LOG_RERUN,
                                                      log_place_of(places, i, LOG_RERUN), &error);
        LogEvent event;

        g_assert_no_error(error);
        log_reader_next(log, &event, &error);
        g_assert_no_error(error);
    }
    log_places_free(places);
}

/* Places are right even if the log writer's thread logs episodes while they are taken. */
static void test_places_during_ticks(void)
{
    char *directory = test_directory();
    g_autoptr(LogWriter) writer = log_writer_new(directory, MANY_VCPUS, ORDER_SET_ALL, NULL);
    Ticks ticks = { writer, 0 };
    GQueue taken = G_QUEUE_INIT;        /* so that the thread has always something to do */
    GQueue raced = G_QUEUE_INIT;        /* with a tick */
    LogPlaces *places;
    unsigned n_ticks;

    log_writer_set_tick(writer, at_each_tick, &ticks);
    for (unsigned i = 0; i <= MANY_VCPUS; i++) {
        log_stream_rest(log_writer_stream(writer, i), 5);
    }
    do {
        unsigned before = __atomic_load_n(&ticks.n, __ATOMIC_SEQ_CST);

        places = log_writer_places(writer);
        n_ticks = __atomic_load_n(&ticks.n, __ATOMIC_SEQ_CST);
        g_queue_push_tail(n_ticks != before ? &raced : &taken, places);
        if (taken.length > 100) {
            places = g_queue_pop_head(&taken);
            log_places_wait(places, NULL);
            log_places_free(places);
        }
    } while (n_ticks < MANY_TICKS * (MANY_VCPUS + 1));
    g_assert_true(log_writer_finish(writer, NULL));
    g_queue_clear_full(&taken, (GDestroyNotify)log_places_free);
    while ((places = g_queue_pop_head(&raced))) {
        g_assert_true(log_places_wait(places, NULL));
        check_places(directory, places);
    }
    remove_directory(directory);
}

/* A block of episodes comes after the data before it, whatever other logs have. */
static void test_data_comes_first(void)
{
    static const RaceOrder orders[] = { RACE_KARMA, RACE_RERUN };

    for (unsigned i = 0; i < G_N_ELEMENTS(orders); i++) {
        char *directory = test_directory();
        LogWriter *writer = log_writer_new(directory, 1, ORDER_SET_ALL, NULL);
        LogStream *stream = log_writer_stream(writer, 0);
        Position at = 0;
        LogTotals data, episodes = { 0 };

        log_event(stream, LOG_EVENT_WFI, 0, (uint64_t)1);
        for (; at < LOG_BLOCK_TARGET / 2; at++) {       /* a whole block */
            write_episode(stream, orders[i], &(Episode) { .event = {
                .kind = orders[i] == RACE_KARMA ? LOG_EVENT_EPISODE : LOG_EVENT_STAMPED,
                .position = at + 1, .value = { orders[i] == RACE_KARMA ? 0 : at },
            } });
        }
        g_assert_true(log_stream_boundary(stream));
        while (episodes.events == 0) {
            g_usleep(1000);
            g_assert_true(log_totals_read(directory, 1, 0, log_of_order(orders[i]), &episodes,
                                          NULL));
        }
        g_assert_true(log_totals_read(directory, 1, 0, LOG_DATA, &data, NULL));
        g_assert_cmpuint(data.events, ==, 1);
        log_writer_free(writer);
        remove_directory(directory);
    }
}

/* --- the orders of a recording ------------------------------------------------------- */

/* All files of a recording tell its orders, and no log is there that they do not have. */
static void test_orders(void)
{
    for (OrderSet orders = 1; orders <= ORDER_SET_ALL; orders++) {
        char *directory = test_directory();
        g_autoptr(LogWriter) writer = log_writer_new(directory, 1, orders, NULL);

        g_assert_true(log_writer_finish(writer, NULL));
        g_assert_cmpuint(log_directory_orders(directory), ==, orders);
        for (unsigned i = 0; i < LOG_SUBSTREAMS; i++) {
            g_autoptr(GError) error = NULL;
            g_autoptr(LogReader) reader = log_reader_open(directory, 1, 0, i, &error);

            if (log_file_exists(1, orders, 0, i)) {
                g_assert_no_error(error);
                g_assert_cmpuint(log_reader_orders(reader), ==, orders);
            } else {
                g_assert_error(error, G_FILE_ERROR, G_FILE_ERROR_NOENT);
            }
        }
        remove_directory(directory);
    }
}

/* A header names an order, and a log that the orders have. */
static void test_headers(void)
{
    static const struct {
        LogSubstream substream;
        uint32_t features;
        const char *why;
    } cases[] = {
        { LOG_KARMA, 0, "names a log that no recording has" },
        { LOG_RERUN, LOG_FILE_KARMA, "names a log that no recording has" },
        { LOG_KARMA, LOG_FILE_RERUN | LOG_FILE_NO_FDR, "names a log that no recording has" },
        { LOG_ORDER, LOG_FILE_NO_FDR, "names no order" },
        { LOG_ORDER, 8, "needs features 0x8" },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        char *directory = test_directory();
        g_autofree char *name = log_file_name(1, 1, cases[i].substream);
        g_autofree char *path = g_build_filename(directory, name, NULL);
        g_autoptr(GError) error = NULL;
        uint8_t header[LOG_FILE_HEADER_BYTES];

        log_file_header_put(&(LogFileHeader) {
            .version = LOG_VERSION, .stream = 1, .substream = cases[i].substream, .n_vcpus = 1,
            .incompatible = cases[i].features,
        }, header);
        write_file(path, header, sizeof(header));
        g_assert_null(log_reader_open(directory, 1, 1, cases[i].substream, &error));
        g_assert_nonnull(strstr(error->message, cases[i].why));
        remove_directory(directory);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/episode-log/known-bytes", test_known_bytes);
    g_test_add_func("/episode-log/refused", test_refused);
    g_test_add_func("/episode-log/noise", test_noise);
    /* Before there are threads, since this test forks. */
    g_test_add_func("/episode-log/killed", test_killed);
    g_test_add_func("/episode-log/round-trip", test_round_trip);
    g_test_add_func("/episode-log/at-rest", test_at_rest);
    g_test_add_func("/episode-log/places-during-ticks", test_places_during_ticks);
    g_test_add_func("/episode-log/data-comes-first", test_data_comes_first);
    g_test_add_func("/episode-log/orders", test_orders);
    g_test_add_func("/episode-log/headers", test_headers);
    return g_test_run();
}
