/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the tests of logs share; see log-test.h. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/recording/log-test.h"

void event_source_init(EventSource *source, uint32_t seed, unsigned n_vcpus, unsigned stream,
                       size_t max_bytes)
{
    *source = (EventSource) {
        .random = g_rand_new_with_seed(seed + stream),
        .n_vcpus = n_vcpus,
        .stream = stream,
        .max_bytes = max_bytes,
        .bytes = g_malloc(max_bytes + 1),
    };
}

void event_source_clear(EventSource *source)
{
    g_rand_free(source->random);
    g_free(source->bytes);
}

/* Return a random number; all lengths in bits are equally likely. */
static uint64_t random_u64(GRand *random)
{
    uint64_t bits = (uint64_t)g_rand_int(random) << 32 | g_rand_int(random);

    return bits >> g_rand_int_range(random, 0, 64);
}

/* Fill in zeros, which lz4 compresses, or noise, which lz4 does not. */
static void random_bytes(EventSource *source, LogEvent *event)
{
    uint64_t n = random_u64(source->random);

    event->n_bytes = MIN(n, source->max_bytes);
    memset(source->bytes, 0, event->n_bytes);
    if (g_rand_boolean(source->random)) {
        for (size_t i = 0; i < event->n_bytes; i++) {
            source->bytes[i] = g_rand_int(source->random);
        }
    }
    event->bytes = source->bytes;
}

void event_source_next(EventSource *source, LogEvent *event)
{
    const LogEventInfo *info;

    memset(event, 0, sizeof(*event));
    do {
        event->kind = g_rand_int_range(source->random, 0, LOG_EVENT_KINDS);
        info = &log_event_table()[event->kind];
        /* DMA has no data log.  test-episode-log.c tests the logs of episodes. */
    } while ((source->stream == source->n_vcpus && info->substream == LOG_DATA) ||
             info->substream == LOG_KARMA || info->substream == LOG_RERUN);

    /* Many events have the same position, some lie far apart. */
    if (g_rand_boolean(source->random)) {
        source->position += random_u64(source->random) & 0xffffffffff;
    }
    event->position = source->position;
    for (unsigned i = 0; i < info->n_values; i++) {
        event->value[i] = random_u64(source->random);
    }
    if (event->kind == LOG_EVENT_WAIT) {
        event->value[0] %= source->n_vcpus + 1;
    }
    if (info->has_bytes) {
        random_bytes(source, event);
    }
}

void event_source_next_of(EventSource *source, LogSubstream substream, LogEvent *event)
{
    do {
        event_source_next(source, event);
    } while (log_event_table()[event->kind].substream != substream);
}

void write_event(LogStream *stream, const LogEvent *event)
{
    const uint64_t *value = event->value;

    if (log_event_table()[event->kind].has_bytes) {
        log_event_bytes(stream, event->kind, event->position, value[0],
                        event->bytes, event->n_bytes);
    } else {
        /* log_event() uses only as many values as the kind has. */
        G_STATIC_ASSERT(LOG_EVENT_MAX_FIELDS == 4);
        log_event(stream, event->kind, event->position, value[0], value[1], value[2], value[3]);
    }
}

void assert_same_event(const LogEvent *event, const LogEvent *expected)
{
    g_assert_cmpuint(event->kind, ==, expected->kind);
    g_assert_cmpuint(event->position, ==, expected->position);
    for (int i = 0; i < LOG_EVENT_MAX_FIELDS; i++) {
        g_assert_cmpuint(event->value[i], ==, expected->value[i]);
    }
    g_assert_cmpmem(event->bytes, event->n_bytes, expected->bytes, expected->n_bytes);
}

void wait_for_tick(void)
{
    g_usleep(500 * 1000);
}

void may_be_killed(int ready)
{
    g_assert_cmpint(write(ready, "", 1), ==, 1);
}

void record_until_killed(void (*record)(void *opaque, int ready), void *opaque, unsigned us)
{
    int ready[2];
    char byte;
    pid_t child;

    g_assert_cmpint(pipe(ready), ==, 0);
    child = fork();
    g_assert_cmpint(child, >=, 0);
    if (child == 0) {
        record(opaque, ready[1]);
        _exit(1);
    }
    g_assert_cmpint(read(ready[0], &byte, 1), ==, 1);
    close(ready[0]);
    close(ready[1]);
    g_usleep(us);
    kill(child, SIGKILL);
    g_assert_cmpint(waitpid(child, NULL, 0), ==, child);
}

char *test_directory(void)
{
    g_autoptr(GError) error = NULL;
    char *directory = g_dir_make_tmp("reprise-test-XXXXXX", &error);

    g_assert_no_error(error);
    return directory;
}

void write_file(const char *path, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0666);

    g_assert_cmpint(write(fd, bytes, size), ==, size);
    g_assert_cmpint(ftruncate(fd, size), ==, 0);
    close(fd);
}

void remove_directory(char *directory)
{
    g_autoptr(GDir) dir = g_dir_open(directory, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(directory, name, NULL);

        if (g_file_test(path, G_FILE_TEST_IS_DIR)) {
            remove_directory(g_steal_pointer(&path));
        } else {
            g_assert_cmpint(unlink(path), ==, 0);
        }
    }
    rmdir(directory);
    g_free(directory);
}
