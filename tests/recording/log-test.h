/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the tests of logs share: streams of random events, which can be generated again to compare
 * them with what was read; and temporary directories.
 */
#ifndef TESTS_UNIT_LOG_TEST_H
#define TESTS_UNIT_LOG_TEST_H

#include "recording/log-reader.h"
#include "recording/log-writer.h"

/* Generates the events of both logs of a stream from a seed. */
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
/* Generate the next event.  @event->bytes is valid until the next call. */
void event_source_next(EventSource *source, LogEvent *event);
/* Generate the next event of one log, and skip those of the other. */
void event_source_next_of(EventSource *source, LogSubstream substream, LogEvent *event);

void write_event(LogStream *stream, const LogEvent *event);
void assert_same_event(const LogEvent *event, const LogEvent *expected);

/* Sleep until the writer must have taken the events of a resting stream. */
void wait_for_tick(void);

/* Tell record_until_killed() that from now on the recorder may be killed. */
void may_be_killed(int ready);
/*
 * Call @record in a child process, which is killed @us microseconds after it has called
 * may_be_killed(@ready).  Called before there are threads, since it forks.
 */
void record_until_killed(void (*record)(void *opaque, int ready), void *opaque, unsigned us);

/* Make a temporary directory.  The result is for remove_directory(). */
char *test_directory(void);
/*
 * Write a file in place, over an old one.  ext4 syncs a file that is truncated first, which takes
 * too long for ten thousand files.
 */
void write_file(const char *path, const void *bytes, size_t size);
/* Remove the directory and all its contents, and free @directory. */
void remove_directory(char *directory);

#endif
