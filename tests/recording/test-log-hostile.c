/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Logs made by an attacker, with right checksums: the reader enforces each rule of
 * docs/log-format.md, and never crashes.
 */
#include <string.h>

#include "base/crc32c.h"
#include "recording/log-block.h"
#include "tests/recording/log-test.h"

enum { N_VCPUS = 2, STREAM = 1 };

static char *directory;
static char *path;              /* of the log, which each test overwrites */

/* Make a log of one block, with right checksums even if its other fields are wrong. */
static void make_log(GByteArray *log, const LogFileHeader *file, LogBlockHeader *block,
                     const void *payload)
{
    uint8_t file_bytes[LOG_FILE_HEADER_BYTES];
    uint8_t block_bytes[LOG_BLOCK_HEADER_BYTES];

    block->payload_crc = recording_crc32c(0, payload, block->stored_size);
    log_file_header_put(file, file_bytes);
    log_block_header_put(block, block_bytes);
    g_byte_array_set_size(log, 0);
    g_byte_array_append(log, file_bytes, sizeof(file_bytes));
    g_byte_array_append(log, block_bytes, sizeof(block_bytes));
    g_byte_array_append(log, payload, block->stored_size);
}

static const LogFileHeader good_file = {
    .version = LOG_VERSION, .stream = STREAM, .substream = LOG_ORDER, .n_vcpus = N_VCPUS,
};
static const LogBlockHeader good_block = {
    .stream = STREAM, .substream = LOG_ORDER, .flags = LOG_BLOCK_LAST,
    .end = 5, .n_events = 1, .raw_size = 2, .stored_size = 2,
};
static const uint8_t good_payload[] = { LOG_EVENT_WAKE, 5 };

static void assert_refused(const LogFileHeader *file, LogBlockHeader block,
                           const void *payload, const char *why)
{
    g_autoptr(GByteArray) log = g_byte_array_new();
    g_autoptr(LogReader) reader = NULL;
    g_autoptr(GError) error = NULL;
    LogReaderResult result = LOG_READER_BAD;
    LogEvent event;

    make_log(log, file, &block, payload);
    write_file(path, log->data, log->len);
    reader = log_reader_open(directory, N_VCPUS, STREAM, LOG_ORDER, &error);
    while (reader && (result = log_reader_next(reader, &event, &error)) == LOG_READER_EVENT) {
        /* */
    }
    if (!why) {
        g_assert_no_error(error);
        g_assert_false(log_reader_cut_off(reader));
        return;
    }
    g_assert_cmpint(result, ==, LOG_READER_BAD);
    if (!strstr(error->message, why)) {
        g_test_message("expected '%s'", why);
        g_assert_cmpstr(error->message, ==, why);
    }
    /* The reader keeps returning the error. */
    if (reader) {
        g_clear_error(&error);
        g_assert_cmpint(log_reader_next(reader, &event, &error), ==, LOG_READER_BAD);
        g_assert_nonnull(error);
    }
}

static void test_headers(void)
{
    LogFileHeader file = good_file;
    LogBlockHeader block = good_block;

    assert_refused(&good_file, good_block, good_payload, NULL);
    file.compatible = 0x80;
    assert_refused(&file, good_block, good_payload, NULL);

#define FILE_CASE(field, value, why)                                            \
    file = good_file;                                                           \
    file.field = value;                                                         \
    assert_refused(&file, good_block, good_payload, why)
    FILE_CASE(version, LOG_VERSION * 10 + 1,
              "has log format " G_STRINGIFY(LOG_VERSION) "1; "
              "this reprise reads format " G_STRINGIFY(LOG_VERSION));
    FILE_CASE(incompatible, 0x10, "needs features 0x10");
    FILE_CASE(n_vcpus, 0, "impossible number");
    FILE_CASE(n_vcpus, RECORDER_MAX_VCPUS + 1, "impossible number");
    FILE_CASE(n_vcpus, 3, "of 3 vCPUs, expected");
    FILE_CASE(stream, 0, "this is log 0.order");
    FILE_CASE(stream, 3, "no recording has");
    FILE_CASE(substream, LOG_DATA, "this is log 1.data");
    FILE_CASE(substream, LOG_SUBSTREAMS, "no recording has");

#define BLOCK_CASE(field, value, why)                                           \
    block = good_block;                                                         \
    block.field = value;                                                        \
    assert_refused(&good_file, block, good_payload, why)
    BLOCK_CASE(stream, 0, "byte 32: the block belongs to another log");
    BLOCK_CASE(substream, LOG_DATA, "belongs to another log");
    BLOCK_CASE(flags, 0x80, "unknown flags");
    BLOCK_CASE(flags, LOG_BLOCK_LZ4, "contradict");
    BLOCK_CASE(sequence, 1, "missing or in the wrong order");
    BLOCK_CASE(start, 1, "does not start at the position");
    BLOCK_CASE(start, 6, "ends before it starts");
    BLOCK_CASE(end, 6, "ends at another position");
    BLOCK_CASE(n_events, 0, "no events");
    BLOCK_CASE(n_events, 2, "more events than fit");
    BLOCK_CASE(raw_size, LOG_BLOCK_MAX + 1, "too large");
    BLOCK_CASE(raw_size, UINT32_MAX, "too large");
    BLOCK_CASE(raw_size, 3, "contradict");
    block = good_block;
    block.flags |= LOG_BLOCK_LZ4;
    block.raw_size = LOG_BLOCK_MAX;
    assert_refused(&good_file, block, good_payload, "cannot be decompressed");
}

static void test_events(void)
{
    static const struct {
        const char *why;
        size_t size;
        uint8_t bytes[24];
        uint32_t n_events;
    } cases[] = {
        { "unknown kind of event 31", 2, { 31, 5 }, 1 },
        { "sysreg events do not belong in this log", 3, { LOG_EVENT_SYSREG, 5, 0 }, 1 },
        /* 32 + n is a wait on stream n, 64 + n the same at the position of the event before. */
        { "a wait for a stream that no vCPU has", 3, { 32 + N_VCPUS + 1, 5, 0 }, 1 },
        { "a wait for a stream that no vCPU has", 2, { 64 + N_VCPUS + 1, 0 }, 1 },
        { "a wait for a stream that no vCPU has", 5, { LOG_EVENT_WAIT, 5, 0xff, 0x01, 0 }, 1 },
        { "a wait is longer than need be", 4, { LOG_EVENT_WAIT, 5, 2, 0 }, 1 },
        { "a wait is longer than need be", 3, { 32 + 2, 0, 0 }, 1 },
        { "ends inside an integer", 2, { 32 + 2, 5 }, 1 },
        /* 128 + 16 n + m is a wait on the same stream, here stream 0, m steps further. */
        { "a wait is longer than need be", 3, { 32, 5, 0 }, 1 },
        { "a wait is longer than need be", 3, { 128, 0, 0 }, 1 },
        { "ends inside an integer", 2, { 128 + 5, 0 }, 1 },
        { "an integer is larger than 64 bits", 12,
          { 128 + 5, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 }, 1 },
        { "an integer is larger than 64 bits", 11,
          { 128 + 5, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20 }, 1 },
        { "an integer is larger than 64 bits", 11,
          { 128 + 5, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10, 0 }, 1 },
        { "the position is larger than 64 bits", 13,
          { LOG_EVENT_WAKE, 1,
            128 + 15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 0 }, 2 },
        /* Of a drop: 0 stands for all, an odd number for an address at the start of a page. */
        { "ends inside an integer", 3, { LOG_EVENT_DROP, 5, 2 }, 1 },
        { "an address is longer than need be", 4, { LOG_EVENT_DROP, 5, 2, 0 }, 1 },
        { "an address is larger than 64 bits", 5, { LOG_EVENT_DROP, 5, 2, 0x80, 0x20 }, 1 },
        { "an address is larger than 64 bits", 12,
          { LOG_EVENT_DROP, 5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 }, 1 },
        /* One page before page 0, byte 4095: all ones. */
        { "an address is longer than need be", 5, { LOG_EVENT_DROP, 5, 4, 0xff, 0x1f }, 1 },
        /* 96 + n is a drop of the next page, n steps further. */
        { "an address is longer than need be", 3, { LOG_EVENT_DROP, 5, 1 + 4 * 1 }, 1 },
        { "an address is longer than need be", 7,
          { LOG_EVENT_DROP, 5, 1 + 2 * 3 + 1, 0xff, 0x1f, 96, 0 }, 2 },
        { "ends inside an integer", 2, { 96 + 5, 0x80 }, 1 },
        { "ends inside an integer", 3, { LOG_EVENT_INTERRUPT, 5, 0x80 }, 1 },
        { "useless zeros", 4, { LOG_EVENT_INTERRUPT, 5, 0x80, 0 }, 1 },
        { "another number of events", 4, { LOG_EVENT_WAKE, 5, LOG_EVENT_WAKE, 0 }, 1 },
        { "another number of events", 5, { LOG_EVENT_DMA_WRITE, 5, 0, 1, 9 }, 2 },
        { "byte 2 of its events: the block ends at another position", 4,
          { LOG_EVENT_WAKE, 5, LOG_EVENT_WAKE, 1 }, 2 },
        { "larger than 64 bits", 13, { LOG_EVENT_WAKE, 1, LOG_EVENT_WAKE, 0xff, 0xff, 0xff, 0xff,
                                       0xff, 0xff, 0xff, 0xff, 0xff, 0x01 }, 2 },
        { "ends inside a run of bytes", 5, { LOG_EVENT_DMA_WRITE, 5, 0, 2, 9 }, 1 },
        { "too many bytes", 7, { LOG_EVENT_DMA_WRITE, 5, 0, 0xff, 0xff, 0xff, 0x7f }, 1 },
        { "too many bytes", 13, { LOG_EVENT_DMA_WRITE, 5, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                  0xff, 0xff, 0xff, 0x01 }, 1 },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        LogBlockHeader block = good_block;

        block.raw_size = block.stored_size = cases[i].size;
        block.n_events = cases[i].n_events;
        assert_refused(&good_file, block, cases[i].bytes, cases[i].why);
    }
}

/* Payloads of noise, raw or as lz4, are read or refused. */
static void test_noise(void)
{
    for (int round = 0; round < 5000; round++) {
        LogBlockHeader block = good_block;
        g_autoptr(GByteArray) log = g_byte_array_new();
        g_autoptr(LogReader) reader = NULL;
        uint8_t noise[200];
        LogEvent event;

        block.raw_size = block.stored_size = g_test_rand_int_range(10, sizeof(noise));
        block.n_events = g_test_rand_int_range(1, 5);
        if (g_test_rand_bit()) {
            block.flags |= LOG_BLOCK_LZ4;
            block.raw_size = g_test_rand_int_range(block.stored_size + 1, 1000);
        }
        for (size_t i = 0; i < sizeof(noise); i++) {
            /* Mostly small values, so that the reader gets beyond the first event. */
            noise[i] = g_test_rand_int() & (g_test_rand_bit() ? 0x0f : 0xff);
        }
        make_log(log, &good_file, &block, noise);
        write_file(path, log->data, log->len);
        reader = log_reader_open(directory, N_VCPUS, STREAM, LOG_ORDER, NULL);
        while (log_reader_next(reader, &event, NULL) == LOG_READER_EVENT) {
            g_autofree char *text = log_event_format(&event);
        }
    }
}

int main(int argc, char **argv)
{
    int status;

    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/log-hostile/headers", test_headers);
    g_test_add_func("/log-hostile/events", test_events);
    g_test_add_func("/log-hostile/noise", test_noise);
    directory = test_directory();
    path = g_build_filename(directory, "vcpu-1.order", NULL);
    status = g_test_run();
    remove_directory(directory);
    g_free(path);
    return status;
}
