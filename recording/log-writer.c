/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The logs of a recording, from events to blocks; log-output.c writes the blocks.
 * docs/log-format.md, "Events", says how an event becomes bytes.
 *
 * Rules:
 *  - log_event() neither blocks nor takes a lock: it is called in the middle of
 *    instructions, with any lock held.  A full block is closed and kept until
 *    the next boundary.
 *  - An order block is handed over after all data that was appended before it.
 *    So, however the recording ends, the data log reaches at least as far as the
 *    order log: replay need only look at the order logs to find how far it can
 *    go (docs/log-format.md, "Cut off").  Likewise a block of episodes is handed
 *    over after all data and all events of the order log that were appended
 *    before it.
 *  - A block can be decoded by itself: differences start anew in each.
 *  - Waits are held back, to be merged (held-waits.h).  No other event of the
 *    order log passes them.  So a log that is cut off ends before them.
 */
#include <pthread.h>
#include <string.h>

#include "recording/event-coding.h"
#include "recording/held-waits.h"
#include "recording/log-buffer.h"
#include "recording/log-output.h"
#include "recording/log-writer.h"

/* One log of a stream. */
typedef struct Log {
    LogBuffer *events;          /* of the open block */
    uint32_t n_events;          /* in the open block */
    Position start;             /* of the open block */
    EventCoder coder;           /* has the position of the last event */
    uint64_t sequence;          /* of the open block */
    GQueue closed;              /* LogBlocks to hand over */
} Log;

struct LogStream {
    LogWriter *writer;
    unsigned index;
    unsigned tick;              /* log_output_tick() when all was handed over last */
    bool resting;               /* written by the owner, with rest_lock held */
    bool held;                  /* under rest_lock: its holder may append episodes at rest */
    bool finished;              /* under rest_lock: its last blocks are closed */
    Position reached;           /* position at the last log_stream_rest(), or LOG_UNKNOWN */
    HeldWaits waits;            /* waits that are not in the order log yet */
    Log log[LOG_SUBSTREAMS];
    uint64_t accounts[LOG_ACCOUNTS];    /* atomic */
    /*
     * The owner takes it to start and end a rest; other threads hold it to use a resting stream.
     * Who takes those of several streams takes them in the order of streams.
     */
    pthread_mutex_t rest_lock;
    unsigned n_streams;
};

struct LogWriter {
    unsigned n_streams;
    OrderSet orders;
    LogOutput *output;
    LogStream **streams;
    Position hold_waits;        /* waits at most so far apart are merged */
    LogTick *tick;              /* or NULL */
    void *opaque;               /* of @tick */
    bool finished;
};

static LogStream *stream_new(LogWriter *writer, unsigned index)
{
    LogStream *stream = g_new0(LogStream, 1);

    stream->writer = writer;
    stream->index = index;
    stream->n_streams = writer->n_streams;
    for (int i = 0; i < LOG_SUBSTREAMS; i++) {
        stream->log[i].events = log_buffer_new();
        stream->log[i].coder.stream = index;
        event_coder_start_block(&stream->log[i].coder);
        g_queue_init(&stream->log[i].closed);
    }
    pthread_mutex_init(&stream->rest_lock, NULL);
    return stream;
}

static void stream_free(LogStream *stream)
{
    for (int i = 0; i < LOG_SUBSTREAMS; i++) {
        log_buffer_free(stream->log[i].events);
        g_queue_clear_full(&stream->log[i].closed, (GDestroyNotify)log_block_free);
    }
    pthread_mutex_destroy(&stream->rest_lock);
    g_free(stream);
}

/* End the open block and begin the next. */
static void close_block(LogStream *stream, LogSubstream substream, unsigned flags)
{
    Log *log = &stream->log[substream];
    LogBlockHeader header = {
        .stream = stream->index,
        .substream = substream,
        .flags = flags,
        .sequence = log->sequence++,
        .start = log->start,
        .end = log->coder.position,
        .n_events = log->n_events,
    };

    g_queue_push_tail(&log->closed, log_block_new(&header, log->events));
    log->events = log_buffer_new();
    log->n_events = 0;
    log->start = log->coder.position;
    event_coder_start_block(&log->coder);
}

static void close_if_any(LogStream *stream, LogSubstream substream)
{
    if (stream->log[substream].n_events > 0) {
        close_block(stream, substream, 0);
    }
}

/* The logs in the order in which blocks are pushed (see the rules above). */
static const LogSubstream push_order[] = { LOG_DATA, LOG_ORDER, LOG_KARMA, LOG_RERUN };

G_STATIC_ASSERT(G_N_ELEMENTS(push_order) == LOG_SUBSTREAMS);

/* Push all closed blocks to the output. */
static void hand_over(LogStream *stream, bool wait)
{
    GQueue blocks = G_QUEUE_INIT;
    LogBlock *block;
    bool any = false;

    for (int i = LOG_SUBSTREAMS - 1; i > 0; i--) {
        any |= !g_queue_is_empty(&stream->log[push_order[i]].closed);
        if (any) {
            close_if_any(stream, push_order[i - 1]);
        }
    }
    for (int i = 0; i < LOG_SUBSTREAMS; i++) {
        while ((block = g_queue_pop_head(&stream->log[push_order[i]].closed))) {
            g_queue_push_tail(&blocks, block);
        }
    }
    if (!g_queue_is_empty(&blocks)) {
        log_output_push(stream->writer->output, &blocks, wait);
    }
}

static void append(LogStream *stream, const LogEvent *event)
{
    const LogEventInfo *info = &log_event_table()[event->kind];
    uint64_t *account = &stream->accounts[info->account];
    Log *log = &stream->log[info->substream];
    size_t before;

    g_assert(log_file_exists(stream->n_streams - 1, stream->writer->orders, stream->index,
                             info->substream));
    g_assert(event->kind != LOG_EVENT_WAIT || order_set_has(stream->writer->orders, RACE_FDR));
    if (info->substream == LOG_ORDER) {
        log_stream_publish(stream);     /* no event passes a held wait */
    }
    before = log->events->used;
    event_put(&log->coder, log->events, event);
    log->n_events++;
    /* Only one thread at a time writes it, so no atomic addition is needed. */
    __atomic_store_n(account, *account + (log->events->used - before), __ATOMIC_RELAXED);
    if (log->events->used >= LOG_BLOCK_TARGET) {
        close_block(stream, info->substream, 0);
    }
}

static void append_wait(const HeldWait *wait, void *stream)
{
    append(stream, &(LogEvent) {
        .kind = LOG_EVENT_WAIT, .position = wait->position,
        .value = { wait->stream, wait->steps },
    });
}

bool log_wait(LogStream *stream, Position position, unsigned source, Position steps)
{
    HeldWait wait = { position, source, steps };
    Position most = stream->writer->hold_waits;

    g_assert(!stream->resting && source < stream->n_streams);
    if (most == 0) {
        append_wait(&wait, stream);
        return true;
    }
    return held_waits_add(&stream->waits, &wait, most, append_wait, stream);
}

void log_stream_publish(LogStream *stream)
{
    if (stream->waits.n > 0) {
        held_waits_release(&stream->waits, append_wait, stream);
    }
}

void log_writer_hold_waits(LogWriter *writer, Position most)
{
    writer->hold_waits = most;
}

void log_event(LogStream *stream, LogEventKind kind, Position position, ...)
{
    const LogEventInfo *info = &log_event_table()[kind];
    LogEvent event = { .kind = kind, .position = position };
    va_list values;

    g_assert(!stream->resting && !info->has_bytes);
    va_start(values, position);
    for (unsigned i = 0; i < info->n_values; i++) {
        event.value[i] = va_arg(values, uint64_t);
    }
    va_end(values);
    g_assert(kind != LOG_EVENT_WAIT || event.value[0] < stream->n_streams);
    append(stream, &event);
}

void log_event_bytes(LogStream *stream, LogEventKind kind, Position position,
                     uint64_t value, const void *bytes, size_t n)
{
    const LogEventInfo *info = &log_event_table()[kind];
    LogEvent event = {
        .kind = kind, .position = position, .value = { value }, .bytes = bytes, .n_bytes = n,
    };

    g_assert(!stream->resting && info->has_bytes && info->n_values == 1 &&
             n <= LOG_EVENT_MAX_BYTES);
    append(stream, &event);
}

void log_event_again(LogStream *stream, const LogEvent *event)
{
    g_assert(!stream->resting);
    append(stream, event);
}

void log_episode(LogStream *stream, Position end, uint32_t pred, uint32_t succ,
                 const uint8_t *again, size_t n_again)
{
    g_assert(!stream->resting || stream->held);
    append(stream, &(LogEvent) {
        .kind = LOG_EVENT_EPISODE, .position = end, .value = { pred, succ },
        .bytes = again, .n_bytes = n_again,
    });
}

void log_stamped(LogStream *stream, Position end, uint64_t time)
{
    g_assert(!stream->resting || stream->held);
    append(stream, &(LogEvent) {
        .kind = LOG_EVENT_STAMPED, .position = end, .value = { time },
    });
}

void log_cut(LogStream *stream, RaceOrder order, Position position)
{
    g_assert(!stream->resting || stream->held);
    g_assert(order == RACE_KARMA || order == RACE_RERUN);
    append(stream, &(LogEvent) {
        .kind = order == RACE_KARMA ? LOG_EVENT_CUT : LOG_EVENT_STAMPED_CUT,
        .position = position,
    });
}

/* Close all open blocks that have events. */
static void close_open_blocks(LogStream *stream)
{
    for (int i = 0; i < LOG_SUBSTREAMS; i++) {
        close_if_any(stream, i);
    }
}

static bool has_closed_blocks(LogStream *stream)
{
    for (int i = 0; i < LOG_SUBSTREAMS; i++) {
        if (!g_queue_is_empty(&stream->log[i].closed)) {
            return true;
        }
    }
    return false;
}

bool log_stream_tick(LogStream *stream)
{
    return log_output_tick(stream->writer->output) != stream->tick;
}

bool log_stream_boundary(LogStream *stream)
{
    LogOutput *output = stream->writer->output;
    unsigned tick = log_output_tick(output);

    /* A slow stream must not keep events for long: the process may be killed. */
    if (tick != stream->tick) {
        stream->tick = tick;
        close_open_blocks(stream);
    }
    if (has_closed_blocks(stream)) {
        hand_over(stream, true);
    }
    return log_output_ok(output);
}

void log_stream_rest(LogStream *stream, Position reached)
{
    log_stream_publish(stream);
    pthread_mutex_lock(&stream->rest_lock);
    g_assert(!stream->resting);
    stream->resting = true;
    stream->reached = reached;
    pthread_mutex_unlock(&stream->rest_lock);
}

void log_stream_resume(LogStream *stream)
{
    pthread_mutex_lock(&stream->rest_lock);
    g_assert(stream->resting);
    stream->resting = false;
    pthread_mutex_unlock(&stream->rest_lock);
}

void log_stream_hold(LogStream *stream)
{
    pthread_mutex_lock(&stream->rest_lock);
    g_assert(stream->resting);
    stream->held = true;
}

void log_stream_release(LogStream *stream)
{
    stream->held = false;
    pthread_mutex_unlock(&stream->rest_lock);
}

/* The lock by which a stream begins to rest makes these visible to the log writer thread. */
void log_writer_set_tick(LogWriter *writer, LogTick *tick, void *opaque)
{
    writer->tick = tick;
    writer->opaque = opaque;
}

/*
 * Append a MARK if the log does not tell the position.  DMA has none: all its steps are events.
 * Called at rest, with rest_lock held.
 */
static void mark_position(LogStream *stream)
{
    bool is_vcpu = stream->index + 1 < stream->n_streams;

    if (is_vcpu && stream->reached != LOG_UNKNOWN &&
        stream->reached > stream->log[LOG_ORDER].coder.position) {
        append(stream, &(LogEvent) { .kind = LOG_EVENT_MARK, .position = stream->reached });
    }
}

/* Close and hand over all blocks.  Called at rest, with rest_lock held. */
static void close_all(LogStream *stream)
{
    if (order_set_has(stream->writer->orders, RACE_FDR)) {
        mark_position(stream);
    }
    close_open_blocks(stream);
    hand_over(stream, false);
}

/* Let the owner of the episodes append what has ended.  Called at rest, with rest_lock held. */
static void tell_tick(LogStream *stream)
{
    LogWriter *writer = stream->writer;

    if (stream->reached != LOG_UNKNOWN && writer->tick) {
        stream->held = true;
        writer->tick(stream->index, stream->reached, writer->opaque);
        stream->held = false;
    }
}

/* Called by the log writer thread, five times a second. */
static void empty_resting_streams(void *opaque)
{
    LogWriter *writer = opaque;

    for (unsigned i = 0; i < writer->n_streams; i++) {
        LogStream *stream = writer->streams[i];

        pthread_mutex_lock(&stream->rest_lock);
        if (stream->resting && !stream->finished) {
            tell_tick(stream);
            close_all(stream);
        }
        pthread_mutex_unlock(&stream->rest_lock);
    }
}

/*
 * All streams are locked until the mark is in the output.  Otherwise the log writer thread could
 * append episodes between a place and the mark, which would count their bytes.
 */
LogPlaces *log_writer_places(LogWriter *writer)
{
    unsigned n = writer->n_streams * LOG_SUBSTREAMS;
    LogPlaces *places = g_malloc0(sizeof(*places) + n * sizeof(places->place[0]));

    places->n_streams = writer->n_streams;
    places->episodes = writer->orders & ORDER_SET_EPISODES;
    for (unsigned i = 0; i < writer->n_streams; i++) {
        LogStream *stream = writer->streams[i];

        pthread_mutex_lock(&stream->rest_lock);
        g_assert(stream->resting);
        close_all(stream);
        for (int j = 0; j < LOG_SUBSTREAMS; j++) {
            log_place_of(places, i, j)->block = stream->log[j].sequence;
            log_place_of(places, i, j)->start = stream->log[j].start;
        }
    }
    places->mark = log_output_mark(writer->output, writer->n_streams);
    for (unsigned i = 0; i < writer->n_streams; i++) {
        pthread_mutex_unlock(&writer->streams[i]->rest_lock);
    }
    return places;
}

bool log_places_wait(LogPlaces *places, GError **error)
{
    if (!log_mark_wait(places->mark, error)) {
        return false;
    }
    for (unsigned i = 0; i < places->n_streams * LOG_SUBSTREAMS; i++) {
        places->place[i].offset = places->mark->size[i];
    }
    return true;
}

void log_writer_drop(LogWriter *writer, LogPlaces *places, const Position *reached)
{
    unsigned n = places->n_streams * LOG_SUBSTREAMS;
    LogDrop *drop = g_malloc0(sizeof(*drop) + n * sizeof(drop->log[0]));

    drop->n_streams = places->n_streams;
    for (unsigned i = 0; i < n; i++) {
        drop->log[i].sequence = places->place[i].block;
        drop->log[i].start = places->place[i].start;
        drop->log[i].dropped.offset = places->place[i].offset;
        drop->log[i].dropped.reached = reached[i / LOG_SUBSTREAMS];
    }
    log_output_drop(writer->output, drop);
}

bool log_writer_can_drop(LogWriter *writer, GError **error)
{
    return log_output_can_drop(writer->output, error);
}

void log_places_free(LogPlaces *places)
{
    if (places) {
        log_mark_free(places->mark);
        g_free(places);
    }
}

LogWriter *log_writer_new(const char *directory, unsigned n_vcpus, OrderSet orders,
                          GError **error)
{
    g_autoptr(LogWriter) writer = g_new0(LogWriter, 1);

    g_assert(n_vcpus > 0 && n_vcpus <= RECORDER_MAX_VCPUS);
    g_assert(orders && !(orders & ~ORDER_SET_ALL));
    writer->orders = orders;
    writer->output = log_output_new(directory, n_vcpus, orders, empty_resting_streams, writer,
                                    error);
    if (!writer->output) {
        return NULL;
    }
    writer->n_streams = n_vcpus + 1;
    writer->streams = g_new(LogStream *, writer->n_streams);
    for (unsigned i = 0; i < writer->n_streams; i++) {
        writer->streams[i] = stream_new(writer, i);
    }
    /* The thread uses all streams, so it starts last. */
    if (!log_output_start(writer->output, error)) {
        return NULL;
    }
    return g_steal_pointer(&writer);
}

LogStream *log_writer_stream(LogWriter *writer, unsigned stream)
{
    g_assert(stream < writer->n_streams);
    return writer->streams[stream];
}

void log_writer_accounts(LogWriter *writer, uint64_t bytes[LOG_ACCOUNTS])
{
    memset(bytes, 0, LOG_ACCOUNTS * sizeof(bytes[0]));
    for (unsigned i = 0; i < writer->n_streams; i++) {
        for (int account = 0; account < LOG_ACCOUNTS; account++) {
            bytes[account] += __atomic_load_n(&writer->streams[i]->accounts[account],
                                              __ATOMIC_RELAXED);
        }
    }
}

uint64_t log_writer_written(LogWriter *writer)
{
    return log_output_written(writer->output);
}

uint64_t log_writer_stored(LogWriter *writer)
{
    return log_output_stored(writer->output);
}

bool log_writer_check(LogWriter *writer, GError **error)
{
    return log_output_check(writer->output, error);
}

bool log_writer_ok(LogWriter *writer)
{
    return log_output_ok(writer->output);
}

bool log_writer_finish(LogWriter *writer, GError **error)
{
    for (unsigned i = 0; i < writer->n_streams && !writer->finished; i++) {
        LogStream *stream = writer->streams[i];

        pthread_mutex_lock(&stream->rest_lock);
        log_stream_publish(stream);
        for (int j = 0; j < LOG_SUBSTREAMS; j++) {
            if (log_file_exists(writer->n_streams - 1, writer->orders, i, j)) {
                close_block(stream, j, LOG_BLOCK_LAST);
            }
        }
        stream->finished = true;
        hand_over(stream, false);
        pthread_mutex_unlock(&stream->rest_lock);
    }
    writer->finished = true;
    return log_output_finish(writer->output, error);
}

void log_writer_free(LogWriter *writer)
{
    if (!writer) {
        return;
    }
    log_output_free(writer->output);
    for (unsigned i = 0; i < writer->n_streams; i++) {
        stream_free(writer->streams[i]);
    }
    g_free(writer->streams);
    g_free(writer);
}
