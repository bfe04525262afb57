/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See order-reader.h.  An episode is logged with its end, but its WAITs come at its begin, and name
 * the ends of other streams' episodes.  So each log of episodes is read twice: by its own stream,
 * and by a reader that runs ahead as far as another stream needs.  What that one read is kept until
 * all other streams have got past it; at most, that is what lies between two cuts.
 *
 * In logs that are sound, what is sent and what is awaited are equal at each cut.  So each
 * other stream goes through the list of what was read ahead from front to end, and only once.
 */
#include "recording/order-reader.h"

#include "recording/checkpoint-position.h"

/* An event of a log of episodes that was read ahead. */
typedef struct Ahead {
    LogEventKind kind;
    Position end;
    uint64_t value;             /* of an EPISODE: SUCC; of a STAMPED: its time */
} Ahead;

/* What is read ahead of the episodes of a stream.  Under the lock. */
typedef struct Wakes {
    LogReader *log;
    GArray *list;               /* of Ahead */
    uint64_t trimmed;           /* how many events in front of @list were removed */
    uint64_t *next;             /* the event that each other stream considers next */
    bool ended, cut_off;
} Wakes;

/* Drop events from the front of a list when so many are not needed any more. */
#define TRIM 1024

typedef struct Stream {
    LogReader *order;
    LogReader *episodes;        /* NULL: the order is FDR's */
    LogEvent event;             /* the next of the order log, if @has_event */
    bool has_event;
    bool order_ended, episodes_ended;
    bool order_cut_off, episodes_cut_off;       /* if they have ended */
    Position begin, end;        /* of the present episode */
    uint64_t next_time;         /* the least time of the next STAMPED */
    GArray *waits;              /* of LogEvent, at @begin */
    unsigned n_waits;           /* how many of them were returned */
    uint64_t *woken;            /* how often each other stream wakes it up to now; NULL: unknown */
    uint32_t successors;        /* to be woken at @end */
    unsigned n_cuts;            /* at @end, whose waits were not made yet */
    bool ended, cut_off;
    GError *error;              /* then all further reads fail */
} Stream;

struct OrderReader {
    unsigned n_streams;
    RaceOrder order;
    bool tolerant;              /* a bad log is one that was cut off */
    Stream *stream;
    GMutex lock;
    Wakes *wakes;
};

/* --- reading ahead ----------------------------------------------------------------------- */

/* Read an event as log_reader_next() does.  At the end, set *@cut_off. */
static LogReaderResult read_log(const OrderReader *reader, LogReader *log, LogEvent *event,
                                bool *cut_off, GError **error)
{
    LogReaderResult result = log_reader_next(log, event, reader->tolerant ? NULL : error);

    if (result == LOG_READER_END) {
        *cut_off = log_reader_cut_off(log);
    } else if (result == LOG_READER_BAD && reader->tolerant) {
        *cut_off = true;
        return LOG_READER_END;
    }
    return result;
}

/* Remove what all other streams have got past. */
static void trim(OrderReader *reader, unsigned source)
{
    Wakes *wakes = &reader->wakes[source];
    uint64_t least = wakes->trimmed + wakes->list->len;

    for (unsigned i = 0; i < reader->n_streams; i++) {
        least = i == source ? least : MIN(least, wakes->next[i]);
    }
    if (least - wakes->trimmed >= TRIM) {
        g_array_remove_range(wakes->list, 0, least - wakes->trimmed);
        wakes->trimmed = least;
    }
}

/*
 * Set *@ahead to the event of @source that @stream considers next; to NULL, if the log ends before
 * it.  Return false and @error if the log is bad.  Called with the lock held.
 */
static bool consider(OrderReader *reader, unsigned stream, unsigned source, const Ahead **ahead,
                     GError **error)
{
    Wakes *wakes = &reader->wakes[source];

    *ahead = NULL;
    if (wakes->next[stream] == wakes->trimmed + wakes->list->len && !wakes->ended) {
        LogEvent event;
        LogReaderResult result = read_log(reader, wakes->log, &event, &wakes->cut_off, error);
        Ahead next;

        if (result == LOG_READER_BAD) {
            return false;
        }
        if (result == LOG_READER_END) {
            wakes->ended = true;
        } else {
            trim(reader, source);
            next = (Ahead) {
                event.kind, event.position,
                event.value[event.kind == LOG_EVENT_EPISODE ? 1 : 0],
            };
            g_array_append_val(wakes->list, next);
        }
    }
    if (wakes->next[stream] < wakes->trimmed + wakes->list->len) {
        *ahead = &g_array_index(wakes->list, Ahead, wakes->next[stream] - wakes->trimmed);
    }
    return true;
}

/* --- waits --------------------------------------------------------------------------------- */

static bool G_GNUC_PRINTF(3, 4) bad(Stream *stream, GError **error, const char *format, ...)
{
    g_autofree char *what = NULL;
    va_list arguments;

    va_start(arguments, format);
    what = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(error, LOG_READER_ERROR, LOG_READER_ERROR_DAMAGED,
                "%s: what follows on position %" G_GUINT64_FORMAT ": %s",
                log_reader_path(stream->episodes), stream->begin, what);
    return false;
}

static void add_wait(Stream *stream, unsigned source, Position steps)
{
    LogEvent wait = {
        .kind = LOG_EVENT_WAIT, .position = stream->begin, .value = { source, steps },
    };

    g_array_append_val(stream->waits, wait);
}

/* Return true if an episode has an edge to @stream. */
static bool leads_to(const Ahead *ahead, unsigned stream)
{
    return ahead->kind == LOG_EVENT_EPISODE && stream < LOG_EPISODE_STREAMS &&
           (ahead->value >> stream & 1);
}

/*
 * Find the next episode of @source that leads to @stream, and set *@end to where it ends.  Called
 * with the lock held.
 */
static bool take_wake(OrderReader *reader, unsigned stream, unsigned source, Position *end,
                      GError **error)
{
    const Ahead *ahead;

    for (;;) {
        if (!consider(reader, stream, source, &ahead, error)) {
            return false;
        }
        if (!ahead) {
            *end = UINT64_MAX;
            return true;
        }
        if (ahead->kind != LOG_EVENT_EPISODE) {
            return bad(&reader->stream[stream], error, "stream %u has no episode before it",
                       source);
        }
        reader->wakes[source].next[stream]++;
        if (leads_to(ahead, stream)) {
            *end = ahead->end;
            return true;
        }
    }
}

/* Wait for the episodes that have an edge to @event.  Called with the lock held. */
static bool wait_for_edges(OrderReader *reader, unsigned index, const LogEvent *event,
                           GError **error)
{
    unsigned mentions[LOG_EPISODE_STREAMS] = { 0 };

    for (size_t k = 0; k < event->n_bytes; k++) {
        mentions[event->bytes[k]]++;
    }
    for (unsigned i = 0; i < LOG_EPISODE_STREAMS; i++) {
        Position end = 0;

        mentions[i] += event->value[0] >> i & 1;
        /* The ends of a stream's episodes grow, so the last one is enough. */
        for (unsigned k = 0; k < mentions[i]; k++) {
            if (!take_wake(reader, index, i, &end, error)) {
                return false;
            }
        }
        if (mentions[i] > 0) {
            add_wait(&reader->stream[index], i, end);
        }
    }
    return true;
}

/* Wait for all episodes that have a smaller time than @event.  Called with the lock held. */
static bool wait_for_earlier(OrderReader *reader, unsigned index, const LogEvent *event,
                             GError **error)
{
    for (unsigned i = 0; i < reader->n_streams; i++) {
        Wakes *wakes = &reader->wakes[i];
        const Ahead *ahead = NULL;
        Position end = 0;
        bool found = false;

        while (i != index) {
            if (!consider(reader, index, i, &ahead, error)) {
                return false;
            }
            if (!ahead || ahead->kind != LOG_EVENT_STAMPED || ahead->value >= event->value[0]) {
                break;
            }
            end = ahead->end;
            found = true;
            wakes->next[index]++;
        }
        if (i != index && !ahead && wakes->cut_off) {
            add_wait(&reader->stream[index], i, UINT64_MAX);    /* there may have been more */
        } else if (found) {
            add_wait(&reader->stream[index], i, end);
        }
    }
    return true;
}

/* Wait for the cuts of all other streams.  Called with the lock held. */
static bool wait_for_cuts(OrderReader *reader, unsigned index, GError **error)
{
    for (unsigned i = 0; i < reader->n_streams; i++) {
        const Ahead *ahead = NULL;

        while (i != index) {
            if (!consider(reader, index, i, &ahead, error)) {
                return false;
            }
            if (ahead) {
                reader->wakes[i].next[index]++;
            }
            if (!ahead || log_event_is_cut(ahead->kind)) {
                break;
            }
            if (leads_to(ahead, index)) {
                return bad(&reader->stream[index], error,
                           "stream %u has an edge across this cut", i);
            }
        }
        if (i != index) {
            add_wait(&reader->stream[index], i, ahead ? ahead->end : UINT64_MAX);
        }
    }
    return true;
}

/* --- wake-ups --------------------------------------------------------------------------------- */

void order_reader_use_wake_ups(OrderReader *reader)
{
    for (unsigned i = 0; i < reader->n_streams; i++) {
        reader->stream[i].woken = g_new0(uint64_t, reader->n_streams);
    }
}

/* Return a wake-up of @successors at @position. */
static LogEvent wake_up(uint32_t successors, Position position)
{
    return (LogEvent) {
        .kind = LOG_EVENT_EPISODE, .position = position, .value = { 0, successors },
    };
}

/* Wait for as many more wake-ups by each stream as it has edges to @event. */
static void count_edges(OrderReader *reader, unsigned index, const LogEvent *event)
{
    Stream *stream = &reader->stream[index];

    for (size_t k = 0; k < event->n_bytes; k++) {
        stream->woken[event->bytes[k]]++;
    }
    for (unsigned i = 0; i < reader->n_streams && i < LOG_EPISODE_STREAMS; i++) {
        if (event->value[0] >> i & 1) {
            add_wait(stream, i, ++stream->woken[i]);
        }
    }
    stream->successors = event->value[1];
}

/* Wake all other streams.  wait_behind_cuts() waits for a wake-up by each. */
static void count_cut(OrderReader *reader, unsigned index)
{
    Stream *stream = &reader->stream[index];
    uint32_t all = (UINT64_C(1) << reader->n_streams) - 1;
    LogEvent wake = wake_up(all & ~(UINT32_C(1) << index), stream->begin);

    g_array_append_val(stream->waits, wake);
    for (unsigned i = 0; i < reader->n_streams; i++) {
        stream->woken[i] += i != index;
    }
    stream->n_cuts++;
}

/*
 * Wait for all other streams, behind the last of the cuts at one position: a stream that rests has
 * several.  All their wake-ups come first.  So a replay that ends there, and does not wait, has
 * sent them to those that go further.  None is sent too early, since the stream makes no step
 * between these cuts, and each other stream waits for all streams at each cut.
 */
static void wait_behind_cuts(OrderReader *reader, unsigned index)
{
    Stream *stream = &reader->stream[index];

    for (; stream->n_cuts > 0; stream->n_cuts--) {
        for (unsigned i = 0; i < reader->n_streams; i++) {
            if (i != index) {
                add_wait(stream, i, stream->woken[i] - (stream->n_cuts - 1));
            }
        }
    }
}

/* Go on to what follows, by wake-ups; NULL: the end of the log. */
static void count_event(OrderReader *reader, unsigned index, const LogEvent *event)
{
    if (event && event->kind == LOG_EVENT_CUT) {
        count_cut(reader, index);
        return;
    }
    wait_behind_cuts(reader, index);
    if (event) {
        count_edges(reader, index, event);
    }
}

/* --- a stream -------------------------------------------------------------------------------- */

/* Check the rules for what follows on what in a log of episodes.  Return false and @error. */
static bool check_episode(Stream *stream, const LogEvent *event, GError **error)
{
    if (log_event_is_cut(event->kind)) {
        return event->position == stream->end ||
               bad(stream, error, "steps before a cut that no episode has");
    }
    if (event->kind == LOG_EVENT_STAMPED) {
        if (event->value[0] < stream->next_time) {
            return bad(stream, error, "its time is not later than that of the one before");
        }
        stream->next_time = event->value[0] + 1;
    }
    return true;
}

/*
 * Return true if @event, the present episode, only tells a time.  It has no step that could wait,
 * and perhaps none follows before a cut, where nothing may wait any more.
 */
static bool is_empty_stamped(const Stream *stream, const LogEvent *event)
{
    return event->kind == LOG_EVENT_STAMPED && stream->begin == stream->end;
}

/* Go on to the next event of the log of episodes, at the end of the present one. */
static bool next_episode(OrderReader *reader, unsigned index, GError **error)
{
    Stream *stream = &reader->stream[index];
    LogEvent event;
    LogReaderResult result = read_log(reader, stream->episodes, &event, &stream->episodes_cut_off,
                                      error);
    bool ok;

    stream->begin = stream->end;
    if (result == LOG_READER_BAD ||
        (result == LOG_READER_EVENT && !check_episode(stream, &event, error))) {
        return false;
    }
    stream->n_waits = 0;
    g_array_set_size(stream->waits, 0);
    stream->episodes_ended = result == LOG_READER_END;
    if (!stream->episodes_ended) {
        stream->end = event.position;
    }
    if (stream->woken) {
        count_event(reader, index, stream->episodes_ended ? NULL : &event);
    }
    if (stream->woken || stream->episodes_ended || is_empty_stamped(stream, &event)) {
        return true;
    }
    g_mutex_lock(&reader->lock);
    ok = event.kind == LOG_EVENT_EPISODE ? wait_for_edges(reader, index, &event, error) :
         event.kind == LOG_EVENT_STAMPED ? wait_for_earlier(reader, index, &event, error) :
         wait_for_cuts(reader, index, error);
    g_mutex_unlock(&reader->lock);
    return ok;
}

/* Return true if an event of the order log belongs to FDR's order alone. */
static bool is_of_fdr(const LogEvent *event)
{
    return event->kind == LOG_EVENT_WAIT || event->kind == LOG_EVENT_MARK;
}

/* Read the next event of the order log that is not FDR's, unless there is one already. */
static bool fill_event(OrderReader *reader, Stream *stream, GError **error)
{
    bool has_fdr = order_set_has(log_reader_orders(stream->order), RACE_FDR);
    LogReaderResult result;

    if (stream->has_event || stream->order_ended) {
        return true;
    }
    do {
        result = read_log(reader, stream->order, &stream->event, &stream->order_cut_off, error);
    } while (result == LOG_READER_EVENT && has_fdr && is_of_fdr(&stream->event));
    stream->has_event = result == LOG_READER_EVENT;
    stream->order_ended = result == LOG_READER_END;
    if (stream->has_event && stream->event.kind == LOG_EVENT_WAIT) {
        g_set_error(error, LOG_READER_ERROR, LOG_READER_ERROR_DAMAGED,
                    "%s: a wait at position %" G_GUINT64_FORMAT ", though the recording was made "
                    "without the order fdr", log_reader_path(stream->order),
                    stream->event.position);
        return false;
    }
    return result != LOG_READER_BAD;
}

/* Both logs are read, up to the end of the last episode. */
static LogReaderResult end(Stream *stream, LogEvent *event, GError **error)
{
    bool cut_off = stream->episodes_cut_off;

    if (!cut_off && stream->has_event) {
        if (stream->event.position > stream->end) {
            bad(stream, error, "the order log goes on after the last episode");
            return LOG_READER_BAD;
        }
        stream->has_event = false;
        *event = stream->event;
        return LOG_READER_EVENT;
    }
    stream->ended = true;
    stream->cut_off = cut_off || stream->order_cut_off;
    if (cut_off) {
        *event = (LogEvent) { .kind = LOG_EVENT_MARK, .position = stream->end };
        return LOG_READER_EVENT;
    }
    return LOG_READER_END;
}

/* Merge the order log and the log of episodes. */
static LogReaderResult merge(OrderReader *reader, unsigned index, LogEvent *event, GError **error)
{
    Stream *stream = &reader->stream[index];

    for (;;) {
        if (stream->n_waits < stream->waits->len) {
            *event = g_array_index(stream->waits, LogEvent, stream->n_waits++);
            return LOG_READER_EVENT;
        }
        if (!fill_event(reader, stream, error)) {
            return LOG_READER_BAD;
        }
        if (stream->has_event && stream->event.position < stream->end) {
            stream->has_event = false;
            *event = stream->event;
            return LOG_READER_EVENT;
        }
        if (stream->successors) {
            *event = wake_up(stream->successors, stream->end);
            stream->successors = 0;
            return LOG_READER_EVENT;
        }
        if (stream->episodes_ended) {
            return end(stream, event, error);
        }
        if (!next_episode(reader, index, error)) {
            return LOG_READER_BAD;
        }
    }
}

LogReaderResult order_reader_next(OrderReader *reader, unsigned stream_index, LogEvent *event,
                                  GError **error)
{
    Stream *stream = &reader->stream[stream_index];
    LogReaderResult result = LOG_READER_BAD;

    if (!stream->episodes) {
        return read_log(reader, stream->order, event, &stream->cut_off, error);
    }
    if (!stream->error) {
        result = stream->ended ? LOG_READER_END :
                 merge(reader, stream_index, event, &stream->error);
    }
    if (result == LOG_READER_BAD && reader->tolerant) {
        g_clear_error(&stream->error);
        stream->ended = stream->cut_off = true;
        return LOG_READER_END;
    }
    if (result == LOG_READER_BAD) {
        g_propagate_error(error, g_error_copy(stream->error));
    }
    return result;
}

void order_reader_bound(OrderReader *reader, unsigned stream, uint64_t bytes)
{
    g_assert(reader->order == RACE_FDR);
    log_reader_bound(reader->stream[stream].order, bytes);
}

bool order_reader_cut_off(const OrderReader *reader, unsigned stream)
{
    return reader->stream[stream].cut_off;
}

const LogReader *order_reader_log(const OrderReader *reader, unsigned stream)
{
    return reader->stream[stream].order;
}

/* WAITs are no steps, so only the order log is looked at. */
LogEventKind order_reader_step_at(const OrderReader *reader, unsigned stream, Position at)
{
    const Stream *s = &reader->stream[stream];
    LogEvent event = s->has_event ? s->event : (LogEvent) { 0 };
    g_autoptr(LogReader) log = log_reader_copy(s->order, &event);
    bool found = s->has_event || log_reader_next(log, &event, NULL) == LOG_READER_EVENT;

    while (found && event.position <= at) {
        if (event.position == at && log_event_is_step(event.kind)) {
            return event.kind;
        }
        found = log_reader_next(log, &event, NULL) == LOG_READER_EVENT;
    }
    return LOG_EVENT_KINDS;
}

/* --- opening and closing --------------------------------------------------------------------- */

static LogReader *open_log(const OrderReader *reader, const char *directory, unsigned stream,
                           LogSubstream substream, LogPlaces *places, GError **error)
{
    unsigned n_vcpus = reader->n_streams - 1;

    return places ? log_reader_open_at(directory, n_vcpus, stream, substream,
                                       log_place_of(places, stream, substream), error)
                  : log_reader_open(directory, n_vcpus, stream, substream, error);
}

/* Refuse a recording that does not have the order, and a log of another recording. */
static bool check_orders(const OrderReader *reader, const char *directory, unsigned index,
                         const LogPlaces *places, GError **error)
{
    const LogReader *log = reader->stream[index].order;
    OrderSet orders = log_reader_orders(log);

    if (orders != log_reader_orders(reader->stream[0].order)) {
        g_set_error(error, LOG_READER_ERROR, LOG_READER_ERROR_DAMAGED,
                    "%s: it belongs to a recording of other orders", log_reader_path(log));
        return false;
    }
    if (!order_set_has(orders, reader->order)) {
        g_autofree char *has = order_set_format(orders);

        g_set_error(error, ORDERS_ERROR, ORDERS_ERROR_MISSING,
                    "%s was not recorded with the order %s: it has %s", directory,
                    order_name(reader->order), has);
        return false;
    }
    if (places && places->episodes != (orders & ORDER_SET_EPISODES)) {
        g_set_error(error, LOG_READER_ERROR, LOG_READER_ERROR_DAMAGED,
                    "%s: the checkpoint is one of a recording of other orders",
                    log_reader_path(log));
        return false;
    }
    return true;
}

static bool open_stream(OrderReader *reader, const char *directory, unsigned index,
                        LogPlaces *places, GError **error)
{
    LogSubstream substream = log_of_order(reader->order);
    Stream *stream = &reader->stream[index];
    Wakes *wakes = &reader->wakes[index];

    stream->order = open_log(reader, directory, index, LOG_ORDER, places, error);
    if (!stream->order || !check_orders(reader, directory, index, places, error)) {
        return false;
    }
    if (reader->order == RACE_FDR) {
        return true;
    }
    stream->episodes = open_log(reader, directory, index, substream, places, error);
    wakes->log = stream->episodes ? open_log(reader, directory, index, substream, places, error)
                                  : NULL;
    if (!wakes->log) {
        return false;
    }
    /* Logs whose first part was dropped begin at a cut, as all places are. */
    log_reader_dropped(stream->episodes, &stream->end);
    if (places) {
        stream->end = log_place_of(places, index, substream)->start;
    }
    stream->begin = stream->end;
    stream->waits = g_array_new(false, false, sizeof(LogEvent));
    wakes->list = g_array_new(false, false, sizeof(Ahead));
    wakes->next = g_new0(uint64_t, reader->n_streams);
    return true;
}

/*
 * Episodes of all streams must be read from the same cut on.  A flight recorder that was killed
 * while it dropped the old parts of logs has dropped those of some.  It had named the first
 * checkpoint that it keeps before: all begin there, then.
 */
OrderReader *order_reader_open(const char *directory, unsigned n_vcpus, RaceOrder order,
                               LogPlaces *places, GError **error)
{
    g_autoptr(OrderReader) reader = g_new0(OrderReader, 1);
    g_autoptr(CheckpointPosition) first =
        places || order == RACE_FDR ? NULL : checkpoint_position_first(directory, n_vcpus);

    places = first ? first->logs : places;
    reader->n_streams = n_vcpus + 1;
    reader->order = order;
    reader->stream = g_new0(Stream, reader->n_streams);
    reader->wakes = g_new0(Wakes, reader->n_streams);
    g_mutex_init(&reader->lock);
    for (unsigned i = 0; i < reader->n_streams; i++) {
        if (!open_stream(reader, directory, i, places, error)) {
            return NULL;
        }
    }
    return g_steal_pointer(&reader);
}

void order_reader_tolerate(OrderReader *reader)
{
    reader->tolerant = true;
}

static void copy_stream(const Stream *stream, unsigned n_streams, Stream *copy)
{
    LogEvent none = { 0 };

    *copy = *stream;
    copy->order = log_reader_copy(stream->order, stream->has_event ? &copy->event : &none);
    if (stream->episodes) {
        copy->episodes = log_reader_copy(stream->episodes, &none);
        copy->waits = g_array_copy(stream->waits);
    }
    copy->woken = stream->woken ? g_memdup2(stream->woken, n_streams * sizeof(uint64_t)) : NULL;
    copy->error = stream->error ? g_error_copy(stream->error) : NULL;
}

OrderReader *order_reader_copy(const OrderReader *reader)
{
    OrderReader *copy = g_new0(OrderReader, 1);

    copy->n_streams = reader->n_streams;
    copy->order = reader->order;
    copy->tolerant = reader->tolerant;
    copy->stream = g_new0(Stream, reader->n_streams);
    copy->wakes = g_memdup2(reader->wakes, reader->n_streams * sizeof(Wakes));
    g_mutex_init(&copy->lock);
    for (unsigned i = 0; i < reader->n_streams; i++) {
        Wakes *wakes = &copy->wakes[i];
        LogEvent none = { 0 };

        copy_stream(&reader->stream[i], reader->n_streams, &copy->stream[i]);
        if (wakes->log) {
            wakes->log = log_reader_copy(wakes->log, &none);
            wakes->list = g_array_copy(wakes->list);
            wakes->next = g_memdup2(wakes->next, reader->n_streams * sizeof(uint64_t));
        }
    }
    return copy;
}

size_t order_reader_size(const OrderReader *reader)
{
    size_t size = sizeof(*reader) + reader->n_streams * (sizeof(Stream) + sizeof(Wakes));

    for (unsigned i = 0; i < reader->n_streams; i++) {
        const Stream *stream = &reader->stream[i];
        const Wakes *wakes = &reader->wakes[i];

        size += log_reader_size(stream->order);
        if (stream->episodes) {
            size += log_reader_size(stream->episodes) + log_reader_size(wakes->log) +
                    stream->waits->len * sizeof(LogEvent) + wakes->list->len * sizeof(Ahead) +
                    2 * reader->n_streams * sizeof(uint64_t);
        }
    }
    return size;
}

void order_reader_free(OrderReader *reader)
{
    if (!reader) {
        return;
    }
    for (unsigned i = 0; i < reader->n_streams; i++) {
        Stream *stream = &reader->stream[i];
        Wakes *wakes = &reader->wakes[i];

        log_reader_free(stream->order);
        log_reader_free(stream->episodes);
        log_reader_free(wakes->log);
        g_clear_pointer(&stream->waits, g_array_unref);
        g_clear_pointer(&wakes->list, g_array_unref);
        g_free(wakes->next);
        g_free(stream->woken);
        g_clear_error(&stream->error);
    }
    g_mutex_clear(&reader->lock);
    g_free(reader->stream);
    g_free(reader->wakes);
    g_free(reader);
}
