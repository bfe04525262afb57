/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Verifies who waits for whom, by a replay of the order logs alone: each stream goes on until it
 * must wait for a step that its source has not made.  If all come to their ends, there
 * is an order.  If not, those that are left wait for a step that is not there, or
 * for each other.
 */
#include "verify.h"

#include "log-reader.h"

typedef struct Stream {
    LogReader *log;
    LogEvent event;             /* the next; LOG_EVENT_KINDS: the log has ended */
    Position limit;             /* it goes no further */
    Position reached;           /* steps that are done */
    bool cut_off;
} Stream;

typedef struct Order {
    unsigned n_streams;         /* the last is DMA */
    Stream *stream;
} Order;

static void order_clear(Order *order)
{
    for (unsigned i = 0; i < order->n_streams; i++) {
        log_reader_free(order->stream[i].log);
    }
    g_free(order->stream);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Order, order_clear)

static bool has_ended(const Stream *stream)
{
    return stream->event.kind == LOG_EVENT_KINDS;
}

static bool next(Stream *stream, GError **error)
{
    LogReaderResult result = log_reader_next(stream->log, &stream->event, error);

    if (result == LOG_READER_END) {
        stream->event.kind = LOG_EVENT_KINDS;
        stream->cut_off = log_reader_cut_off(stream->log);
    } else if (result == LOG_READER_EVENT && stream->event.position >= stream->limit) {
        stream->event.kind = LOG_EVENT_KINDS;
        stream->cut_off = true;
        stream->reached = stream->limit;
    } else if (result == LOG_READER_EVENT) {
        stream->reached = stream->event.position;
    }
    return result != LOG_READER_BAD;
}

/* Does the next event wait for a step that is not done? */
static bool must_wait(const Order *order, const Stream *stream)
{
    const LogEvent *event = &stream->event;

    return event->kind == LOG_EVENT_WAIT &&
           order->stream[event->value[0]].reached < event->value[1];
}

/* As far as @stream can go; *@moved if that was anywhere. */
static bool go_on(Order *order, Stream *stream, bool *moved, GError **error)
{
    while (!has_ended(stream) && !must_wait(order, stream)) {
        stream->reached = stream->event.position + log_event_is_step(stream->event.kind);
        *moved = true;
        if (!next(stream, error)) {
            return false;
        }
    }
    return true;
}

static char *name_of(const Order *order, unsigned stream)
{
    return stream + 1 == order->n_streams ? g_strdup("DMA") : g_strdup_printf("vCPU %u", stream);
}

/* Follow who waits for whom, from a stream that waits, to one that has ended or is met again. */
static bool explain(const Order *order, unsigned first, GError **error)
{
    g_autofree bool *met = g_new0(bool, order->n_streams);
    g_autoptr(GString) text = g_string_new(NULL);
    unsigned at = first;

    while (!has_ended(&order->stream[at]) && !met[at]) {
        const LogEvent *event = &order->stream[at].event;
        g_autofree char *name = name_of(order, at);
        g_autofree char *source = name_of(order, event->value[0]);

        g_string_append_printf(text, "%s%s waits at position %" G_GUINT64_FORMAT
                               " for step %" G_GUINT64_FORMAT " of %s", text->len ? "; " : "",
                               name, event->position, event->value[1], source);
        met[at] = true;
        at = event->value[0];
    }
    if (!has_ended(&order->stream[at])) {
        g_set_error(error, VERIFY_ERROR, VERIFY_ERROR_CYCLE, "waits in a circle: %s", text->str);
        return false;
    }
    if (!order->stream[at].cut_off) {
        g_set_error(error, VERIFY_ERROR, VERIFY_ERROR_NO_SOURCE, "%s, whose log ends at %"
                    G_GUINT64_FORMAT, text->str, order->stream[at].reached);
        return false;
    }
    return true;
}

Point *verify_order(const char *directory, unsigned n_vcpus, const Point *limit, GError **error)
{
    g_auto(Order) order = { n_vcpus + 1, g_new0(Stream, n_vcpus + 1) };
    Point *reached;
    bool moved = true;

    for (unsigned i = 0; i < order.n_streams; i++) {
        Stream *stream = &order.stream[i];

        stream->limit = limit && i < n_vcpus ? limit->at[i] : UINT64_MAX;
        stream->log = log_reader_open(directory, n_vcpus, i, LOG_ORDER, error);
        if (!stream->log) {
            return NULL;
        }
        log_reader_dropped(stream->log, &stream->reached);
        if (!next(stream, error)) {
            return NULL;
        }
    }
    while (moved) {
        moved = false;
        for (unsigned i = 0; i < order.n_streams; i++) {
            if (!go_on(&order, &order.stream[i], &moved, error)) {
                return NULL;
            }
        }
    }
    for (unsigned i = 0; i < order.n_streams; i++) {
        if (!has_ended(&order.stream[i]) && !explain(&order, i, error)) {
            return NULL;
        }
    }
    reached = point_new(n_vcpus);
    for (unsigned i = 0; i < n_vcpus; i++) {
        reached->at[i] = order.stream[i].reached;
    }
    return reached;
}
