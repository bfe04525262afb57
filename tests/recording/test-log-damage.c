/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Logs that are cut off or damaged.  Of a log that is cut off, all complete blocks are read, and
 * the reader reports the cut.  A log with any bit damaged is an error, and never yields an event
 * that was not written.
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recording/log-block.h"
#include "tests/recording/log-test.h"

enum { N_VCPUS = 2, STREAM = 1, MAX_BYTES = 40 };

/*
 * A directory with a small log, written by the real writer in several blocks.  The tests replace
 * the log by changed versions.
 */
typedef struct Fixture {
    char *directory;
    char *path;
    uint32_t seed;
    char *good;                 /* contents of the file as it was written */
    size_t size;
    GArray *ends;               /* offsets of the ends of the file header and of each block */
    GArray *events;             /* how many events lie before each of these offsets */
} Fixture;

static Fixture fixture;

static void find_blocks(Fixture *f)
{
    uint64_t events = 0;
    LogBlockHeader header;

    for (size_t at = LOG_FILE_HEADER_BYTES; ; at += LOG_BLOCK_HEADER_BYTES + header.stored_size) {
        g_array_append_val(f->ends, at);
        g_array_append_val(f->events, events);
        if (at == f->size) {
            break;
        }
        g_assert_null(log_block_header_get(&header, (uint8_t *)f->good + at));
        events += header.n_events;
    }
}

static void setup(Fixture *f)
{
    g_autoptr(LogWriter) writer = NULL;
    LogStream *stream;
    EventSource source;
    LogEvent event;

    f->directory = test_directory();
    f->path = g_build_filename(f->directory, "vcpu-1.order", NULL);
    f->seed = g_test_rand_int();
    f->ends = g_array_new(FALSE, FALSE, sizeof(size_t));
    f->events = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    writer = log_writer_new(f->directory, N_VCPUS, ORDER_SET_FDR, NULL);
    stream = log_writer_stream(writer, STREAM);
    event_source_init(&source, f->seed, N_VCPUS, STREAM, MAX_BYTES);
    for (int block = 0; block < 3; block++) {
        for (int i = 0; i < 15; i++) {
            event_source_next_of(&source, LOG_ORDER, &event);
            write_event(stream, &event);
        }
        if (block < 2) {
            log_stream_rest(stream, 0);
            wait_for_tick();
            log_stream_resume(stream);
        }
    }
    event_source_clear(&source);
    g_assert_true(log_writer_finish(writer, NULL));
    g_assert_true(g_file_get_contents(f->path, &f->good, &f->size, NULL));
    find_blocks(f);
    g_assert_cmpuint(f->ends->len, ==, 4);
}

static void teardown(Fixture *f)
{
    remove_directory(f->directory);
    g_free(f->path);
    g_free(f->good);
    g_array_free(f->ends, TRUE);
    g_array_free(f->events, TRUE);
}

/* The result of reading a log: how it ends, and after how many right events. */
typedef struct Outcome {
    LogReaderResult result;
    bool cut_off;
    uint64_t events;
    GError *error;
} Outcome;

static Outcome read_back(Fixture *f, const void *bytes, size_t size)
{
    Outcome outcome = { .result = LOG_READER_BAD };
    g_autoptr(LogReader) reader = NULL;
    EventSource source;
    LogEvent event, expected;

    write_file(f->path, bytes, size);
    reader = log_reader_open(f->directory, N_VCPUS, STREAM, LOG_ORDER, &outcome.error);
    if (reader) {
        event_source_init(&source, f->seed, N_VCPUS, STREAM, MAX_BYTES);
        while ((outcome.result = log_reader_next(reader, &event, &outcome.error)) ==
               LOG_READER_EVENT) {
            event_source_next_of(&source, LOG_ORDER, &expected);
            assert_same_event(&event, &expected);
            outcome.events++;
        }
        event_source_clear(&source);
        outcome.cut_off = log_reader_cut_off(reader);
    }
    g_assert_true((outcome.error != NULL) == (outcome.result == LOG_READER_BAD));
    if (outcome.error) {
        g_assert_true(strstr(outcome.error->message, f->path));
        g_assert_null(strchr(outcome.error->message, '\n'));
    }
    return outcome;
}

static void assert_bad(Fixture *f, const void *bytes, size_t size)
{
    Outcome outcome = read_back(f, bytes, size);

    g_assert_cmpint(outcome.result, ==, LOG_READER_BAD);
    g_error_free(outcome.error);
}

static void test_cut_off(void)
{
    Fixture *f = &fixture;
    unsigned block = 0;

    for (size_t size = 0; size < f->size; size++) {
        Outcome outcome = read_back(f, f->good, size);

        if (size < LOG_FILE_HEADER_BYTES) {
            g_assert_cmpint(outcome.result, ==, LOG_READER_BAD);
            g_error_free(outcome.error);
            continue;
        }
        block += size == g_array_index(f->ends, size_t, block + 1);
        g_assert_cmpint(outcome.result, ==, LOG_READER_END);
        g_assert_true(outcome.cut_off);
        g_assert_cmpuint(outcome.events, ==, g_array_index(f->events, uint64_t, block));
    }
    g_assert_false(read_back(f, f->good, f->size).cut_off);
}

static void test_flipped_bits(void)
{
    Fixture *f = &fixture;
    g_autofree uint8_t *bytes = g_memdup2(f->good, f->size);

    for (size_t bit = 0; bit < 8 * f->size; bit++) {
        bytes[bit / 8] ^= 1 << bit % 8;
        assert_bad(f, bytes, f->size);
        bytes[bit / 8] ^= 1 << bit % 8;
    }
    for (int round = 0; round < 3000; round++) {
        int n = g_test_rand_int_range(1, 20);
        g_autofree uint8_t *damaged = g_memdup2(f->good, f->size);

        for (int i = 0; i < n; i++) {
            damaged[g_test_rand_int_range(0, f->size)] = g_test_rand_int();
        }
        if (memcmp(damaged, f->good, f->size) != 0) {
            assert_bad(f, damaged, f->size);
        }
    }
}

/* Complete blocks that are moved, repeated or missing. */
static void test_moved_blocks(void)
{
    Fixture *f = &fixture;
    static const char *const orders[] = { "1", "02", "10", "001", "0112", "0122", "012x" };

    for (unsigned i = 0; i < G_N_ELEMENTS(orders); i++) {
        g_autoptr(GByteArray) bytes = g_byte_array_new();

        g_byte_array_append(bytes, (uint8_t *)f->good, LOG_FILE_HEADER_BYTES);
        for (const char *block = orders[i]; *block; block++) {
            if (*block == 'x') {
                g_byte_array_append(bytes, (const uint8_t *)"x", 1);
            } else {
                size_t start = g_array_index(f->ends, size_t, *block - '0');
                size_t end = g_array_index(f->ends, size_t, *block - '0' + 1);

                g_byte_array_append(bytes, (uint8_t *)f->good + start, end - start);
            }
        }
        assert_bad(f, bytes->data, bytes->len);
    }
}

static void test_not_a_file(void)
{
    Fixture *f = &fixture;
    g_autoptr(GError) error = NULL;

    unlink(f->path);
    g_assert_null(log_reader_open(f->directory, N_VCPUS, STREAM, LOG_ORDER, &error));
    g_assert_true(g_error_matches(error, G_FILE_ERROR, G_FILE_ERROR_NOENT));
    g_clear_error(&error);
    /* Opening a FIFO must not wait for a writer. */
    g_assert_cmpint(mkfifo(f->path, 0666), ==, 0);
    g_assert_null(log_reader_open(f->directory, N_VCPUS, STREAM, LOG_ORDER, &error));
    g_assert_true(g_str_has_suffix(error->message, "not a regular file"));
    g_clear_error(&error);
    g_assert_cmpuint(log_directory_n_vcpus(f->path, &error), ==, 0);
    g_assert_nonnull(error);
    unlink(f->path);
}

int main(int argc, char **argv)
{
    int status;

    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/log-damage/cut-off", test_cut_off);
    g_test_add_func("/log-damage/flipped-bits", test_flipped_bits);
    g_test_add_func("/log-damage/moved-blocks", test_moved_blocks);
    g_test_add_func("/log-damage/not-a-file", test_not_a_file);
    setup(&fixture);
    status = g_test_run();
    teardown(&fixture);
    return status;
}
