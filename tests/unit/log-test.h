/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the tests of logs share: streams of random events that can be made a
 * second time, to compare with what was read; and directories.
 */
#ifndef TESTS_UNIT_LOG_TEST_H
#define TESTS_UNIT_LOG_TEST_H

#include "recording/log-reader.h"
#include "recording/log-writer.h"

/* The events of a stream, of both logs, by a seed. */
typedef struct EventSource {
    GRand *random;
    unsigned n_vcpus;
    unsigned stream;
    size_t max_bytes;           /* of one event */
    Position position;
    uint8_t *bytes;
} EventSource;

void event_source_init(EventSource *source, uint32_t seed, unsigned n_vcpus, unsigned stream,
                       size_t max_bytes);
void event_source_clear(EventSource *source);
/* event->bytes is valid until the next call. */
void event_source_next(EventSource *source, LogEvent *event);
/* The next event of one log. */
void event_source_next_of(EventSource *source, LogSubstream substream, LogEvent *event);

void write_event(LogStream *stream, const LogEvent *event);
void assert_same_event(const LogEvent *event, const LogEvent *expected);

/* Longer than it takes the writer to take what lies in a resting stream. */
void wait_for_tick(void);

char *test_directory(void);
/*
 * Over the file that is there: ext4 syncs one that is truncated first, which takes
 * long when it is done ten thousand times.
 */
void write_file(const char *path, const void *bytes, size_t size);
/* With all that is in it. */
void remove_directory(char *directory);

#endif
