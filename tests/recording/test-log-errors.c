/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Logs that cannot be written: the first error is reported in one line with the name of the file,
 * boundaries return false, nothing blocks, and memory does not grow.
 */
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "recording/log-format.h"
#include "tests/recording/file-limit.h"
#include "tests/recording/log-test.h"

/* Replace the file that the writer has open as log @name.  Closes @replacement. */
static void replace_log(const char *name, int replacement)
{
    for (int fd = 3; fd < 1000; fd++) {
        g_autofree char *link = g_strdup_printf("/proc/self/fd/%d", fd);
        g_autofree char *path = g_file_read_link(link, NULL);

        if (path && g_str_has_suffix(path, name)) {
            g_assert_cmpint(dup2(replacement, fd), ==, fd);
            close(replacement);
            return;
        }
    }
    g_assert_not_reached();
}

/* Write noise until a boundary reports a failure, which must be within @limit bytes. */
static void write_until_failure(LogStream *stream, size_t limit)
{
    uint8_t noise[4096];
    Position position = 0;

    for (size_t i = 0; i < sizeof(noise); i++) {
        noise[i] = g_test_rand_int();
    }
    do {
        g_assert_cmpuint(position * sizeof(noise), <, limit);
        log_event_bytes(stream, LOG_EVENT_DMA_WRITE, position++, 0, noise, sizeof(noise));
    } while (log_stream_boundary(stream));
    /* The stream still accepts events, and drops them. */
    for (int i = 0; i < 20000; i++) {
        log_event_bytes(stream, LOG_EVENT_DMA_WRITE, position++, 0, noise, sizeof(noise));
        g_assert_false(log_stream_boundary(stream));
    }
}

static void finish_with_error(LogWriter *writer, const char *directory, const char *name,
                              const char *why)
{
    g_autofree char *expected = g_strdup_printf("cannot write %s%s%s: %s", directory,
                                                *name ? "/" : "", name, why);

    for (int i = 0; i < 2; i++) {
        g_autoptr(GError) error = NULL;

        g_assert_false(log_writer_finish(writer, &error));
        g_assert_nonnull(error);
        g_assert_cmpstr(error->message, ==, expected);
    }
}

static void test_disk_full(void)
{
    char *directory = test_directory();
    g_autoptr(LogWriter) writer = log_writer_new(directory, 2, ORDER_SET_FDR, NULL);

    replace_log("/vcpu-1.order", open("/dev/full", O_WRONLY));
    write_until_failure(log_writer_stream(writer, 1), 64 << 20);
    /* All streams report the failure. */
    g_assert_false(log_stream_boundary(log_writer_stream(writer, 0)));
    finish_with_error(writer, directory, "vcpu-1.order", "No space left on device");
    remove_directory(directory);
}

static void test_file_limit(void)
{
    char *directory = test_directory();
    g_autoptr(LogWriter) writer = log_writer_new(directory, 1, ORDER_SET_FDR, NULL);
    g_autoptr(GError) error = NULL;
    rlim_t before;
    LogTotals totals;

    /* SIGXFSZ must not kill the program: the writer's thread blocks it. */
    before = file_limit_set(1000000);
    write_until_failure(log_writer_stream(writer, 0), 64 << 20);
    file_limit_set(before);
    finish_with_error(writer, directory, "vcpu-0.order", "File too large");

    /* The part that was written can be read, up to a cut in the middle of a block. */
    g_assert_true(log_totals_read(directory, 1, 0, LOG_ORDER, &totals, &error));
    g_assert_true(totals.cut_off);
    g_assert_cmpuint(totals.events, >, 100);
    g_assert_cmpuint(totals.stored_bytes, <, 1000000);
    remove_directory(directory);
}

static void test_removed_directory(void)
{
    char *directory = test_directory();
    g_autofree char *name = g_strdup(directory);
    g_autoptr(LogWriter) writer = log_writer_new(directory, 1, ORDER_SET_FDR, NULL);

    log_event(log_writer_stream(writer, 0), LOG_EVENT_WAKE, 1);
    remove_directory(directory);
    finish_with_error(writer, name, "", "it was renamed or removed");
}

/* Wait for a failure that only the writer's own checks can find, even with nothing to write. */
static void wait_until_failed(LogWriter *writer)
{
    gint64 deadline = g_get_monotonic_time() + 20 * G_TIME_SPAN_SECOND;

    while (log_writer_ok(writer)) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        g_usleep(10 * 1000);
    }
}

static void check_renamed_directory(bool is_replaced)
{
    char *directory = test_directory();
    char *away = g_strconcat(directory, ".away", NULL);
    g_autofree char *foreign = g_build_filename(directory, "vcpu-0.order", NULL);
    g_autoptr(LogWriter) writer = log_writer_new(directory, 1, ORDER_SET_FDR, NULL);

    g_assert_true(log_writer_check(writer, NULL));
    g_assert_cmpint(g_rename(directory, away), ==, 0);
    if (is_replaced) {
        g_assert_cmpint(g_mkdir(directory, 0700), ==, 0);
    }
    g_assert_false(log_writer_check(writer, NULL));
    wait_until_failed(writer);
    g_assert_false(log_stream_boundary(log_writer_stream(writer, 0)));
    finish_with_error(writer, directory, "", "it was renamed or removed");
    g_assert_false(g_file_test(foreign, G_FILE_TEST_EXISTS));
    remove_directory(away);
    remove_directory(directory);
}

static void test_renamed_directory(void)
{
    check_renamed_directory(false);
    check_renamed_directory(true);
}

static void test_removed_file(void)
{
    char *directory = test_directory();
    g_autoptr(LogWriter) writer = log_writer_new(directory, 1, ORDER_SET_FDR, NULL);
    g_autofree char *file = g_build_filename(directory, "vcpu-0.data", NULL);

    g_assert_cmpint(g_unlink(file), ==, 0);
    wait_until_failed(writer);
    finish_with_error(writer, directory, "vcpu-0.data", "it was removed");
    remove_directory(directory);
}

static void test_unusable_directory(void)
{
    char *directory = test_directory();
    g_autofree char *missing = g_build_filename(directory, "missing", NULL);
    g_autofree char *file = g_build_filename(directory, "vcpu-1.data", NULL);
    g_autofree char *order = g_build_filename(directory, "vcpu-0.order", NULL);
    g_autoptr(GError) error = NULL;

    g_assert_null(log_writer_new(missing, 2, ORDER_SET_FDR, &error));
    g_assert_true(g_str_has_prefix(error->message, "cannot open "));
    g_assert_true(g_str_has_suffix(error->message, "/missing: No such file or directory"));
    g_clear_error(&error);

    /* A recording is never overwritten, and a failed start leaves no files. */
    g_assert_true(g_file_set_contents(file, "x", 1, NULL));
    g_assert_null(log_writer_new(directory, 2, ORDER_SET_FDR, &error));
    g_assert_true(g_str_has_suffix(error->message, "/vcpu-1.data: File exists"));
    g_assert_false(g_file_test(order, G_FILE_TEST_EXISTS));
    g_assert_true(g_file_test(file, G_FILE_TEST_EXISTS));
    remove_directory(directory);
}

typedef struct Producer {
    LogStream *stream;
    size_t written;             /* atomic */
    size_t total;
} Producer;

static void *produce(void *opaque)
{
    Producer *producer = opaque;
    g_autofree uint8_t *bytes = g_malloc0(LOG_BLOCK_TARGET);

    for (Position i = 0; producer->written < producer->total; i++) {
        log_event_bytes(producer->stream, LOG_EVENT_DMA_WRITE, i, 0, bytes, LOG_BLOCK_TARGET);
        log_stream_boundary(producer->stream);
        __atomic_add_fetch(&producer->written, LOG_BLOCK_TARGET, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* A disk that is slower than the guest: boundaries block (back-pressure), so memory is bounded. */
static void test_slow_disk(void)
{
    char *directory = test_directory();
    LogWriter *writer = log_writer_new(directory, 1, ORDER_SET_FDR, NULL);
    Producer producer = { .stream = log_writer_stream(writer, 1), .total = 256 << 20 };
    GThread *thread;
    int ends[2];
    size_t before;
    static char buffer[1 << 16];

    /* A pipe without a reader simulates a disk that stands still. */
    g_assert_cmpint(pipe(ends), ==, 0);
    g_assert_cmpint(fcntl(ends[0], F_SETFL, O_NONBLOCK), ==, 0);
    replace_log("/dma.order", ends[1]);
    thread = g_thread_new("produce", produce, &producer);
    do {
        before = __atomic_load_n(&producer.written, __ATOMIC_RELAXED);
        g_usleep(300 * 1000);
    } while (__atomic_load_n(&producer.written, __ATOMIC_RELAXED) > before);
    /* 64 KiB in the pipe hold some 200 blocks, since zeros compress well. */
    g_assert_cmpuint(before, >, 16 << 20);
    g_assert_cmpuint(before, <, 80 << 20);

    while (__atomic_load_n(&producer.written, __ATOMIC_RELAXED) < producer.total) {
        if (read(ends[0], buffer, sizeof(buffer)) <= 0) {
            g_usleep(1000);
        }
    }
    g_thread_join(thread);
    /* The rest is written to a disk that has gone. */
    close(ends[0]);
    finish_with_error(writer, directory, "dma.order", "Broken pipe");
    log_writer_free(writer);
    remove_directory(directory);
}

/* --- the end of a writer whose thread has blocks to write and streams to empty ------------- */

typedef struct Stalled {
    char *directory;
    LogWriter *writer;
    LogStream *vcpu;
    int pipe;                   /* instead of the log of DMA: full, so the writer's thread waits */
    GThread *drain;
} Stalled;

/* Read what comes, but only after the caller has begun to end the writer. */
static void *drain(void *opaque)
{
    static char buffer[1 << 16];
    int fd = GPOINTER_TO_INT(opaque);

    g_usleep(300 * 1000);
    while (read(fd, buffer, sizeof(buffer)) > 0) {
    }
    close(fd);
    return NULL;
}

static void stall(Stalled *stalled)
{
    LogStream *dma;
    g_autofree uint8_t *noise = g_malloc(1 << 20);
    int ends[2];

    for (size_t i = 0; i < 1 << 20; i++) {
        noise[i] = g_test_rand_int();
    }
    stalled->directory = test_directory();
    stalled->writer = log_writer_new(stalled->directory, 1, ORDER_SET_FDR, NULL);
    stalled->vcpu = log_writer_stream(stalled->writer, 0);
    dma = log_writer_stream(stalled->writer, 1);
    g_assert_cmpint(pipe(ends), ==, 0);
    replace_log("/dma.order", ends[1]);
    stalled->pipe = ends[0];
    log_event_bytes(dma, LOG_EVENT_DMA_WRITE, 0, 0, noise, 1 << 20);
    g_assert_true(log_stream_boundary(dma));
}

/* Return after the next tick is due, which the writer's thread does late. */
static void end_stall(Stalled *stalled)
{
    wait_for_tick();
    stalled->drain = g_thread_new("drain", drain, GINT_TO_POINTER(stalled->pipe));
}

/* Check that the log of the vCPU can be read, and has @cut_off. */
static void check_stalled(Stalled *stalled, bool cut_off)
{
    g_autoptr(GError) error = NULL;
    LogTotals totals;

    g_thread_join(stalled->drain);
    log_totals_read(stalled->directory, 1, 0, LOG_ORDER, &totals, &error);
    g_assert_no_error(error);
    g_assert_true(totals.cut_off == cut_off);
    remove_directory(stalled->directory);
}

/* A writer that is freed without log_writer_finish() leaves out the end of a log, no middle. */
static void test_freed(void)
{
    Stalled stalled;
    Position position = 0;

    stall(&stalled);
    while (position < LOG_BLOCK_TARGET) {
        log_event(stalled.vcpu, LOG_EVENT_WAKE, position++);
    }
    g_assert_true(log_stream_boundary(stalled.vcpu));
    log_event(stalled.vcpu, LOG_EVENT_WAKE, position);
    log_stream_rest(stalled.vcpu, 0);
    end_stall(&stalled);
    log_writer_free(stalled.writer);
    check_stalled(&stalled, true);
}

/* A stream that rests beyond its last event gets no MARK after the last block. */
static void test_finished_at_rest(void)
{
    Stalled stalled;

    stall(&stalled);
    log_event(stalled.vcpu, LOG_EVENT_WAKE, (Position)5);
    log_stream_rest(stalled.vcpu, 100);
    end_stall(&stalled);
    /* A pipe cannot be synced, so there is an error. */
    g_assert_false(log_writer_finish(stalled.writer, NULL));
    log_writer_free(stalled.writer);
    check_stalled(&stalled, false);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/log-errors/disk-full", test_disk_full);
    g_test_add_func("/log-errors/file-limit", test_file_limit);
    g_test_add_func("/log-errors/removed-directory", test_removed_directory);
    g_test_add_func("/log-errors/renamed-directory", test_renamed_directory);
    g_test_add_func("/log-errors/removed-file", test_removed_file);
    g_test_add_func("/log-errors/unusable-directory", test_unusable_directory);
    g_test_add_func("/log-errors/slow-disk", test_slow_disk);
    g_test_add_func("/log-errors/freed", test_freed);
    g_test_add_func("/log-errors/finished-at-rest", test_finished_at_rest);
    return g_test_run();
}
