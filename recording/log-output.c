/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The thread that compresses, checksums and writes the blocks of all logs.
 *
 * One lock protects the queue and the first error.  It is held briefly, never
 * during compression or I/O.  The files belong to the thread from
 * log_output_start() until it is joined; other threads may only check them
 * (log_output_check(), log_output_can_drop()).
 */
#include <errno.h>
#include <lz4.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/crc32c.h"
#include "recording/log-files.h"
#include "recording/log-output.h"

/* Back-pressure: above this many bytes in flight, log_output_push() waits for the disk. */
#define MAX_IN_FLIGHT   (32 * 1024 * 1024)
#define TICK_NS         (200 * 1000 * 1000)
#define SECOND_NS       (1000 * 1000 * 1000)

struct LogOutput {
    LogFiles *files;

    void (*on_tick)(void *opaque);
    void *opaque;
    unsigned tick;              /* atomic */
    bool failed;                /* atomic: nothing is written any more */
    uint64_t written;           /* atomic: bytes, to all files */
    uint64_t dropped;           /* atomic: of these, bytes that were dropped */

    pthread_t thread;
    bool running;
    uint8_t *scratch;           /* of the thread: a block as it goes to disk */
    size_t scratch_size;

    pthread_mutex_t lock;
    pthread_cond_t work;        /* signalled when the queue is not empty, or stopping */
    pthread_cond_t space;       /* signalled when in_flight has shrunk, or failed */
    GQueue queue;
    size_t in_flight;
    bool stopping;
    GError *error;              /* the first failure */
};

LogBlock *log_block_new(const LogBlockHeader *header, LogBuffer *events)
{
    LogBlock *block = g_new0(LogBlock, 1);

    block->header = *header;
    block->events = events;
    return block;
}

void log_block_free(LogBlock *block)
{
    if (block) {
        log_buffer_free(block->events);
        g_free(block->drop);
        g_free(block);
    }
}

static size_t block_cost(const LogBlock *block)
{
    return block->mark || block->drop ? 0 :
        sizeof(*block) + sizeof(*block->events) + block->events->allocated;
}

/* Take ownership of @error.  Only the first error is kept: nothing is written after it. */
static void fail(LogOutput *output, GError *error)
{
    pthread_mutex_lock(&output->lock);
    if (!output->error) {
        output->error = g_steal_pointer(&error);
    }
    __atomic_store_n(&output->failed, true, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&output->space);
    pthread_mutex_unlock(&output->lock);
    g_clear_error(&error);
}

static void pass_mark(LogOutput *output, LogMark *mark)
{
    pthread_mutex_lock(&mark->lock);
    for (unsigned i = 0; i < mark->n_streams * LOG_SUBSTREAMS; i++) {
        mark->size[i] = log_files_size(output->files, i / LOG_SUBSTREAMS, i % LOG_SUBSTREAMS);
    }
    pthread_mutex_lock(&output->lock);
    mark->error = output->error ? g_error_copy(output->error) : NULL;
    pthread_mutex_unlock(&output->lock);
    mark->is_passed = true;
    pthread_cond_signal(&mark->passed);
    pthread_mutex_unlock(&mark->lock);
}

LogMark *log_output_mark(LogOutput *output, unsigned n_streams)
{
    unsigned n = n_streams * LOG_SUBSTREAMS;
    LogMark *mark = g_malloc0(sizeof(*mark) + n * sizeof(mark->size[0]));
    LogBlock *block = g_new0(LogBlock, 1);
    GQueue blocks = G_QUEUE_INIT;

    mark->n_streams = n_streams;
    pthread_mutex_init(&mark->lock, NULL);
    pthread_cond_init(&mark->passed, NULL);
    block->mark = mark;
    g_queue_push_tail(&blocks, block);
    log_output_push(output, &blocks, false);
    return mark;
}

static void forget(LogOutput *output, const LogDrop *drop)
{
    for (unsigned i = 0; i < drop->n_streams * LOG_SUBSTREAMS && log_output_ok(output); i++) {
        GError *error = NULL;
        uint64_t freed = 0;

        if (!log_files_drop(output->files, i / LOG_SUBSTREAMS, i % LOG_SUBSTREAMS,
                            drop->log[i].sequence, drop->log[i].start, &drop->log[i].dropped,
                            &freed, &error)) {
            fail(output, error);
        }
        __atomic_fetch_add(&output->dropped, freed, __ATOMIC_RELEASE);
    }
}

void log_output_drop(LogOutput *output, LogDrop *drop)
{
    LogBlock *block = g_new0(LogBlock, 1);
    GQueue blocks = G_QUEUE_INIT;

    block->drop = drop;
    g_queue_push_tail(&blocks, block);
    log_output_push(output, &blocks, false);
}

bool log_output_can_drop(LogOutput *output, GError **error)
{
    return log_files_can_drop(output->files, error);
}

bool log_mark_wait(LogMark *mark, GError **error)
{
    pthread_mutex_lock(&mark->lock);
    while (!mark->is_passed) {
        pthread_cond_wait(&mark->passed, &mark->lock);
    }
    pthread_mutex_unlock(&mark->lock);
    if (mark->error) {
        g_propagate_error(error, g_error_copy(mark->error));
    }
    return !mark->error;
}

void log_mark_free(LogMark *mark)
{
    if (mark) {
        pthread_mutex_destroy(&mark->lock);
        pthread_cond_destroy(&mark->passed);
        g_clear_error(&mark->error);
        g_free(mark);
    }
}

static void write_block(LogOutput *output, LogBlock *block)
{
    LogBlockHeader *header = &block->header;
    const LogBuffer *events = block->events;
    size_t need = LOG_BLOCK_HEADER_BYTES + events->used;
    uint8_t *payload;
    int stored = 0;
    GError *error = NULL;

    if (!log_output_ok(output)) {
        return;
    }
    if (output->scratch_size < need) {
        output->scratch = g_realloc(output->scratch, need);
        output->scratch_size = need;
    }
    payload = output->scratch + LOG_BLOCK_HEADER_BYTES;
    if (events->used > 1) {
        /* Returns 0 if the result would not be smaller. */
        stored = LZ4_compress_default((const char *)events->data, (char *)payload,
                                      events->used, events->used - 1);
    }
    if (stored > 0) {
        header->flags |= LOG_BLOCK_LZ4;
    } else if (events->used > 0) {
        memcpy(payload, events->data, events->used);
        stored = events->used;
    }
    header->raw_size = events->used;
    header->stored_size = stored;
    header->payload_crc = recording_crc32c(0, payload, stored);
    log_block_header_put(header, output->scratch);

    if (!log_files_append(output->files, header->stream, header->substream, output->scratch,
                          LOG_BLOCK_HEADER_BYTES + stored, &error)) {
        fail(output, error);
        return;
    }
    __atomic_fetch_add(&output->written, LOG_BLOCK_HEADER_BYTES + stored, __ATOMIC_RELAXED);
}

static void tick(LogOutput *output)
{
    GError *error = NULL;

    __atomic_fetch_add(&output->tick, 1, __ATOMIC_RELAXED);
    output->on_tick(output->opaque);
    if (log_output_ok(output) && !log_files_check(output->files, &error)) {
        fail(output, error);
    }
}

static struct timespec next_tick(void)
{
    struct timespec due;

    clock_gettime(CLOCK_MONOTONIC, &due);
    due.tv_nsec += TICK_NS;
    if (due.tv_nsec >= SECOND_NS) {
        due.tv_nsec -= SECOND_NS;
        due.tv_sec++;
    }
    return due;
}

static bool is_past(const struct timespec *due)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > due->tv_sec ||
           (now.tv_sec == due->tv_sec && now.tv_nsec >= due->tv_nsec);
}

static void *output_thread(void *opaque)
{
    LogOutput *output = opaque;
    struct timespec due = next_tick();

    prctl(PR_SET_NAME, "log-writer");
    pthread_mutex_lock(&output->lock);
    for (;;) {
        LogBlock *block;
        int waited = 0;

        while (g_queue_is_empty(&output->queue) && !output->stopping && waited != ETIMEDOUT) {
            waited = pthread_cond_timedwait(&output->work, &output->lock, &due);
        }
        block = g_queue_pop_head(&output->queue);
        if (!block && output->stopping) {
            break;
        }
        pthread_mutex_unlock(&output->lock);

        if (block && block->mark) {
            pass_mark(output, block->mark);
        } else if (block && block->drop) {
            forget(output, block->drop);
        } else if (block) {
            write_block(output, block);
        }
        if (is_past(&due)) {
            tick(output);
            due = next_tick();
        }

        pthread_mutex_lock(&output->lock);
        if (block) {
            output->in_flight -= block_cost(block);
            log_block_free(block);
            pthread_cond_broadcast(&output->space);
        }
    }
    pthread_mutex_unlock(&output->lock);
    return NULL;
}

LogOutput *log_output_new(const char *directory, unsigned n_vcpus, OrderSet orders,
                          void (*tick)(void *opaque), void *opaque, GError **error)
{
    LogFiles *files = log_files_new(directory, n_vcpus, orders, error);
    LogOutput *output;
    pthread_condattr_t attributes;

    if (!files) {
        return NULL;
    }
    output = g_new0(LogOutput, 1);
    output->files = files;
    output->on_tick = tick;
    output->opaque = opaque;
    g_queue_init(&output->queue);
    pthread_mutex_init(&output->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&output->work, &attributes);
    pthread_cond_init(&output->space, &attributes);
    pthread_condattr_destroy(&attributes);
    return output;
}

bool log_output_start(LogOutput *output, GError **error)
{
    sigset_t all, before;
    int failure;

    /* The thread inherits this mask: signals are for the other threads of the program. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failure = pthread_create(&output->thread, NULL, output_thread, output);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure) {
        g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(failure),
                    "cannot start the log writer's thread: %s", g_strerror(failure));
        return false;
    }
    output->running = true;
    return true;
}

unsigned log_output_tick(LogOutput *output)
{
    return __atomic_load_n(&output->tick, __ATOMIC_RELAXED);
}

uint64_t log_output_written(LogOutput *output)
{
    return __atomic_load_n(&output->written, __ATOMIC_RELAXED);
}

/* Bytes are counted as dropped after they are counted as written, so dropped is read first. */
uint64_t log_output_stored(LogOutput *output)
{
    uint64_t dropped = __atomic_load_n(&output->dropped, __ATOMIC_ACQUIRE);

    return __atomic_load_n(&output->written, __ATOMIC_RELAXED) - dropped;
}

/* Any thread: descriptors and names do not change while @output exists. */
bool log_output_check(LogOutput *output, GError **error)
{
    return log_files_check(output->files, error);
}

bool log_output_ok(LogOutput *output)
{
    return !__atomic_load_n(&output->failed, __ATOMIC_RELAXED);
}

void log_output_push(LogOutput *output, GQueue *blocks, bool wait)
{
    LogBlock *block;

    pthread_mutex_lock(&output->lock);
    while ((block = g_queue_pop_head(blocks))) {
        output->in_flight += block_cost(block);
        g_queue_push_tail(&output->queue, block);
    }
    pthread_cond_signal(&output->work);
    while (wait && output->in_flight > MAX_IN_FLIGHT && !output->error) {
        pthread_cond_wait(&output->space, &output->lock);
    }
    pthread_mutex_unlock(&output->lock);
}

static void stop_thread(LogOutput *output)
{
    if (output->running) {
        pthread_mutex_lock(&output->lock);
        output->stopping = true;
        pthread_cond_signal(&output->work);
        pthread_mutex_unlock(&output->lock);
        pthread_join(output->thread, NULL);
        output->running = false;
    }
}

bool log_output_finish(LogOutput *output, GError **error)
{
    GError *sync_error = NULL;

    stop_thread(output);
    if (!log_files_sync(output->files, &sync_error)) {
        fail(output, sync_error);
    }
    if (output->error) {
        g_propagate_error(error, g_error_copy(output->error));
        return false;
    }
    return true;
}

void log_output_free(LogOutput *output)
{
    if (!output) {
        return;
    }
    pthread_mutex_lock(&output->lock);
    g_queue_clear_full(&output->queue, (GDestroyNotify)log_block_free);
    /* Until it is joined, the thread may still empty resting streams: after a gap, it must not. */
    __atomic_store_n(&output->failed, true, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&output->lock);
    stop_thread(output);
    log_files_free(output->files);
    pthread_cond_destroy(&output->work);
    pthread_cond_destroy(&output->space);
    pthread_mutex_destroy(&output->lock);
    g_clear_error(&output->error);
    g_free(output->scratch);
    g_free(output);
}
