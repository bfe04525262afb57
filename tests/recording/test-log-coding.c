/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The integer coding of logs: what is written is read back, a stream cut off
 * anywhere is noticed, and every value has exactly one coding.  And events whose
 * coding is shorter than that of others.
 */
#include "recording/event-coding.h"
#include "recording/log-buffer.h"
#include "recording/log-cursor.h"
#include "recording/log-format.h"

static const struct {
    uint64_t value;
    size_t size;
    uint8_t bytes[LOG_VARINT_MAX_BYTES];
} known[] = {
    { 0, 1, { 0x00 } },
    { 1, 1, { 0x01 } },
    { 127, 1, { 0x7f } },
    { 128, 2, { 0x80, 0x01 } },
    { 300, 2, { 0xac, 0x02 } },
    { 16383, 2, { 0xff, 0x7f } },
    { 16384, 3, { 0x80, 0x80, 0x01 } },
    { G_MAXUINT64, 10, { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 } },
};

/* The bytes are those of docs/log-format.md, and not only what the reader accepts. */
static void test_known_bytes(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(known); i++) {
        g_autoptr(LogBuffer) log = log_buffer_new();
        LogCursor cursor;

        log_put_u64(log, known[i].value);
        g_assert_cmpmem(log->data, log->used, known[i].bytes, known[i].size);
        log_cursor_init(&cursor, known[i].bytes, known[i].size);
        g_assert_cmpuint(log_get_u64(&cursor), ==, known[i].value);
        g_assert_true(log_cursor_ok(&cursor));
        g_assert_true(log_cursor_at_end(&cursor));
    }
}

static void test_signed(void)
{
    static const int64_t values[] = {
        0, -1, 1, -2, 63, -64, 64, -65, G_MAXINT64, G_MININT64,
    };
    g_autoptr(LogBuffer) log = log_buffer_new();
    LogCursor cursor;

    for (unsigned i = 0; i < G_N_ELEMENTS(values); i++) {
        log_put_s64(log, values[i]);
        /* Small differences of either sign are one byte. */
        if (i == 5) {
            g_assert_cmpuint(log->used, ==, 6);
        }
    }
    log_cursor_init(&cursor, log->data, log->used);
    for (unsigned i = 0; i < G_N_ELEMENTS(values); i++) {
        g_assert_cmpint(log_get_s64(&cursor), ==, values[i]);
    }
    g_assert_true(log_cursor_ok(&cursor) && log_cursor_at_end(&cursor));
}

static uint64_t random_u64(void)
{
    uint64_t bits = (uint64_t)(uint32_t)g_test_rand_int() << 32 |
                    (uint32_t)g_test_rand_int();

    return bits >> g_test_rand_int_range(0, 64);
}

/* Random streams of all kinds, read whole, then cut off at every byte. */
static void test_random_streams(void)
{
    enum { ITEMS = 20 };

    for (int round = 0; round < 500; round++) {
        g_autoptr(LogBuffer) log = log_buffer_new();
        uint64_t values[ITEMS];
        int kinds[ITEMS];
        size_t ends[ITEMS];

        for (int i = 0; i < ITEMS; i++) {
            values[i] = random_u64();
            kinds[i] = g_test_rand_int_range(0, 3);
            switch (kinds[i]) {
            case 0:
                log_put_u64(log, values[i]);
                break;
            case 1:
                log_put_s64(log, values[i]);
                break;
            case 2:
                log_put_bytes(log, &values[i], sizeof(values[i]));
                break;
            }
            ends[i] = log->used;
        }
        for (size_t size = 0; size <= log->used; size++) {
            LogCursor cursor;
            int i;

            /* A copy, so that valgrind and ASan see a read beyond the cut. */
            g_autofree uint8_t *cut = g_memdup2(log->data, size);
            log_cursor_init(&cursor, cut, size);
            for (i = 0; i < ITEMS && ends[i] <= size; i++) {
                const uint8_t *bytes;

                switch (kinds[i]) {
                case 0:
                    g_assert_cmpuint(log_get_u64(&cursor), ==, values[i]);
                    break;
                case 1:
                    g_assert_cmpint(log_get_s64(&cursor), ==, (int64_t)values[i]);
                    break;
                case 2:
                    bytes = log_get_bytes(&cursor, sizeof(values[i]));
                    g_assert_cmpmem(bytes, sizeof(values[i]), &values[i], sizeof(values[i]));
                    break;
                }
                g_assert_true(log_cursor_ok(&cursor));
                g_assert_cmpuint(log_cursor_offset(&cursor), ==, ends[i]);
            }
            if (i == ITEMS) {
                g_assert_true(log_cursor_at_end(&cursor));
                continue;
            }
            if (kinds[i] == 2) {
                g_assert_null(log_get_bytes(&cursor, sizeof(values[i])));
            } else {
                g_assert_cmpuint(log_get_u64(&cursor), ==, 0);
            }
            g_assert_false(log_cursor_ok(&cursor));
            g_assert_cmpuint(log_cursor_offset(&cursor), ==, i ? ends[i - 1] : 0);
        }
    }
}

static void test_refused(void)
{
    static const struct {
        size_t size;
        uint8_t bytes[12];
        const char *error;
    } bad[] = {
        { 0, { 0 }, "ends inside" },
        { 1, { 0x80 }, "ends inside" },
        { 2, { 0x80, 0x00 }, "useless zeros" },
        { 3, { 0xff, 0x80, 0x00 }, "useless zeros" },
        { 10, { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02 }, "larger than 64" },
        { 12, { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 },
          "larger than 64" },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        LogCursor cursor;

        log_cursor_init(&cursor, bad[i].bytes, bad[i].size);
        g_assert_cmpuint(log_get_u64(&cursor), ==, 0);
        g_assert_nonnull(cursor.error);
        g_assert_nonnull(strstr(cursor.error, bad[i].error));
        /* The first error stays, whatever is read next. */
        g_assert_null(log_get_bytes(&cursor, 0));
        g_assert_cmpint(log_get_s64(&cursor), ==, 0);
        g_assert_nonnull(strstr(cursor.error, bad[i].error));
        g_assert_cmpuint(log_cursor_offset(&cursor), ==, 0);
    }
}

/* Events of one block, and the bytes of each, as docs/log-format.md says. */
static void test_short_events(void)
{
    static const struct {
        LogEventKind kind;
        Position position;
        uint64_t value[2];
        size_t size;
        uint8_t bytes[12];
    } list[] = {
        /* On stream 3, for 5 steps; then for 2 more, at the same position; then on stream 2. */
        { LOG_EVENT_WAIT, 10, { 3, 5 }, 3, { 32 + 3, 10, 4 } },
        { LOG_EVENT_WAIT, 10, { 3, 7 }, 2, { 64 + 3, 1 } },
        { LOG_EVENT_WAIT, 10, { 2, 1 }, 2, { 64 + 2, 0 } },
        { LOG_EVENT_WAIT, 11, { 3, 8 }, 3, { 32 + 3, 1, 0 } },
        /* On the same stream, further on: low bits of both differences are in the head. */
        { LOG_EVENT_WAIT, 12, { 3, 9 }, 3, { 128 + 1, 0, 0 } },
        { LOG_EVENT_WAIT, 12 + 0x7ff, { 3, 10 + 0x3fe }, 3, { 128 + 6 * 16 + 15, 0x7f, 0x7f } },
        { LOG_EVENT_WAIT, 2059 + 0x800, { 3, 1033 + 0x401 }, 5,
          { 128 + 1 * 16 + 0, 0x80, 0x01, 0x80, 0x01 } },
        /* For fewer steps than before: allowed, but long. */
        { LOG_EVENT_WAIT, 4107, { 3, 2058 }, 11,
          { 64 + 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 } },
        { LOG_EVENT_WAIT, 4108, { 3, 2058 }, 11,
          { 128 + 7 * 16 + 1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f } },
        /* On streams that a head cannot name. */
        { LOG_EVENT_WAIT, 4108, { 31, 1 }, 2, { 64 + 31, 0 } },
        { LOG_EVENT_WAIT, 4108, { 32, 1 }, 4, { LOG_EVENT_WAIT, 0, 32, 0 } },
        { LOG_EVENT_WAIT, 4109, { 256, 9 }, 5, { LOG_EVENT_WAIT, 1, 0x80, 0x02, 8 } },
        { LOG_EVENT_WAIT, 4109, { 256, 10 }, 5, { LOG_EVENT_WAIT, 0, 0x80, 0x02, 0 } },
        { LOG_EVENT_WAIT, 4110, { 256, 11 }, 3, { 128 + 1, 0, 0 } },
        /* All translations; those of a page, of the page before, of the same page and a byte. */
        { LOG_EVENT_DROP, 4110, { UINT64_MAX }, 3, { LOG_EVENT_DROP, 0, 0 } },
        { LOG_EVENT_DROP, 4110, { 0x3000 }, 3, { LOG_EVENT_DROP, 0, 1 + 4 * 3 } },
        { LOG_EVENT_DROP, 4110, { 0x2000 }, 3, { LOG_EVENT_DROP, 0, 1 + 2 * 1 } },
        { LOG_EVENT_DROP, 4110, { UINT64_MAX }, 3, { LOG_EVENT_DROP, 0, 0 } },
        { LOG_EVENT_DROP, 4110, { 0x2001 }, 4, { LOG_EVENT_DROP, 0, 1 + 1, 1 } },
        /* Those of the next page: low bits of the position are in the head. */
        { LOG_EVENT_DROP, 4110, { 0x3001 }, 2, { 96, 0 } },
        { LOG_EVENT_DROP, 4110 + 0xfff, { 0x4001 }, 2, { 96 + 31, 0x7f } },
        { LOG_EVENT_DROP, 8205, { 0 }, 5, { LOG_EVENT_DROP, 0, 1 + 2 * 9 + 1, 0xff, 0x1f } },
        { LOG_EVENT_DROP, 8205, { UINT64_MAX - 1 }, 5,
          { LOG_EVENT_DROP, 0, 1 + 2 * 1 + 1, 0xfe, 0x1f } },
        { LOG_EVENT_DROP, 8205, { 0xffe }, 2, { 96, 0 } },
        /* The next page would be all ones, but these are all translations. */
        { LOG_EVENT_DROP, 8205, { UINT64_MAX - 0x1000 }, 4,
          { LOG_EVENT_DROP, 0, 1 + 2 * 3 + 1, 1 } },
        { LOG_EVENT_DROP, 8205, { UINT64_MAX }, 3, { LOG_EVENT_DROP, 0, 0 } },
    };
    g_autoptr(LogBuffer) log = log_buffer_new();
    EventCoder writer = { 0 }, reader = { 0 };
    LogCursor cursor;

    event_coder_start_block(&writer);
    event_coder_start_block(&reader);
    for (unsigned i = 0; i < G_N_ELEMENTS(list); i++) {
        size_t before = log->used;
        LogEvent event = {
            .kind = list[i].kind,
            .position = list[i].position,
            .value = { list[i].value[0], list[i].value[1] },
        };

        event_put(&writer, log, &event);
        g_assert_cmpmem(log->data + before, log->used - before, list[i].bytes, list[i].size);
    }
    log_cursor_init(&cursor, log->data, log->used);
    for (unsigned i = 0; i < G_N_ELEMENTS(list); i++) {
        LogEvent event;

        g_assert_null(event_get(&reader, &cursor, LOG_ORDER, 256, &event));
        g_assert_cmpuint(event.kind, ==, list[i].kind);
        g_assert_cmpuint(event.position, ==, list[i].position);
        g_assert_cmpuint(event.value[0], ==, list[i].value[0]);
        g_assert_cmpuint(event.value[1], ==, list[i].value[1]);
    }
    g_assert_true(log_cursor_at_end(&cursor));
}

/* Noise that is read as events is what the writer makes of them: an event has one coding. */
static void test_one_coding(void)
{
    unsigned n_read[LOG_EVENT_KINDS] = { 0 };

    for (int round = 0; round < 20000; round++) {
        LogSubstream substream = g_test_rand_int_range(0, 4);
        EventCoder writer = { .stream = g_test_rand_int_range(0, 4) }, reader = writer;
        uint8_t noise[64];
        size_t before = 0;
        LogCursor cursor;
        LogEvent event;
        char *wrong;

        event_coder_start_block(&writer);
        event_coder_start_block(&reader);
        for (size_t i = 0; i < sizeof(noise); i++) {
            noise[i] = g_test_rand_int() & (g_test_rand_bit() ? 0x07 : 0xff);
        }
        log_cursor_init(&cursor, noise, sizeof(noise));
        while (!(wrong = event_get(&reader, &cursor, substream, 40, &event))) {
            g_autoptr(LogBuffer) log = log_buffer_new();

            event_put(&writer, log, &event);
            g_assert_cmpmem(noise + before, log_cursor_offset(&cursor) - before,
                            log->data, log->used);
            before = log_cursor_offset(&cursor);
            n_read[event.kind]++;
        }
        g_free(wrong);
    }
    for (unsigned kind = 0; kind < LOG_EVENT_KINDS; kind++) {
        g_assert_cmpuint(n_read[kind], >, 0);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/log-coding/known-bytes", test_known_bytes);
    g_test_add_func("/log-coding/signed", test_signed);
    g_test_add_func("/log-coding/random-streams", test_random_streams);
    g_test_add_func("/log-coding/refused", test_refused);
    g_test_add_func("/event-coding/short", test_short_events);
    g_test_add_func("/event-coding/one-coding", test_one_coding);
    return g_test_run();
}
