/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Verifies the waits between streams, by a replay of the logs alone: each stream goes on until it
 * must wait for a step that its source has not made.  If all streams reach their ends, there is an
 * order.  If not, the streams that are left wait for a step that is not there, or for each other.
 */
#include "recording/verify.h"

#include <string.h>

#include "recording/cut.h"
#include "recording/order-reader.h"

typedef struct Stream {
    LogEvent event;             /* the next; LOG_EVENT_KINDS: the log has ended */
    Position limit;             /* the stream goes no further */
    Position reached;           /* steps that were made so far */
    bool cut_off;
} Stream;

typedef struct Order {
    unsigned n_streams;         /* the last is DMA */
    Stream *stream;
    OrderReader *reader;
} Order;

static void order_clear(Order *order)
{
    order_reader_free(order->reader);
    g_free(order->stream);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Order, order_clear)

static bool has_ended(const Stream *stream)
{
    return stream->event.kind == LOG_EVENT_KINDS;
}

static bool next(const Order *order, Stream *stream, GError **error)
{
    unsigned index = stream - order->stream;
    LogReaderResult result = order_reader_next(order->reader, index, &stream->event, error);

    if (result == LOG_READER_BAD) {
        return false;
    }
    if (result != LOG_READER_EVENT) {
        stream->event.kind = LOG_EVENT_KINDS;
        stream->cut_off = order_reader_cut_off(order->reader, index);
    } else if (stream->event.position >= stream->limit) {
        stream->event.kind = LOG_EVENT_KINDS;
        stream->cut_off = true;
        stream->reached = stream->limit;
    } else {
        stream->reached = MAX(stream->reached, stream->event.position);
    }
    return true;
}

/* Return true if the next event waits for a step that was not made yet. */
static bool must_wait(const Order *order, const Stream *stream)
{
    const LogEvent *event = &stream->event;

    return event->kind == LOG_EVENT_WAIT &&
           order->stream[event->value[0]].reached < event->value[1];
}

/* Advance @stream as far as it can go.  Set *@moved if it advances. */
static bool go_on(Order *order, Stream *stream, bool *moved, GError **error)
{
    while (!has_ended(stream) && !must_wait(order, stream)) {
        stream->reached = MAX(stream->reached,
                              stream->event.position + log_event_is_step(stream->event.kind));
        *moved = true;
        if (!next(order, stream, error)) {
            return false;
        }
    }
    return true;
}

static char *name_of(const Order *order, unsigned stream)
{
    return stream + 1 == order->n_streams ? g_strdup("DMA") : g_strdup_printf("vCPU %u", stream);
}

/*
 * Follow the waits from @first, which waits, to a stream that has ended or is met again.  Return
 * true if that stream's log was cut off, which explains the wait; else false and @error.
 */
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

/*
 * Begin with all streams.  @limit has @n_limits positions: of the vCPUs, and possibly of DMA.  With
 * @tolerant, a bad log ends where it becomes bad.
 */
static bool begin(Order *order, const char *directory, RaceOrder which, bool tolerant,
                  const Position *limit, unsigned n_limits, GError **error)
{
    order->reader = order_reader_open(directory, order->n_streams - 1, which, NULL, error);
    if (!order->reader) {
        return false;
    }
    if (tolerant) {
        order_reader_tolerate(order->reader);
    }
    for (unsigned i = 0; i < order->n_streams; i++) {
        Stream *stream = &order->stream[i];

        stream->limit = i < n_limits ? limit[i] : CUT_NONE;
        log_reader_dropped(order_reader_log(order->reader, i), &stream->reached);
        if (!next(order, stream, error)) {
            return false;
        }
    }
    return true;
}

static bool go_as_far_as_possible(Order *order, GError **error)
{
    bool moved = true;

    while (moved) {
        moved = false;
        for (unsigned i = 0; i < order->n_streams; i++) {
            if (!go_on(order, &order->stream[i], &moved, error)) {
                return false;
            }
        }
    }
    return true;
}

static Point *where_they_are(const Order *order)
{
    Point *reached = point_new(order->n_streams - 1);

    for (unsigned i = 0; i < reached->n_vcpus; i++) {
        reached->at[i] = order->stream[i].reached;
    }
    return reached;
}

Point *verify_order(const char *directory, unsigned n_vcpus, RaceOrder which, const Point *limit,
                    GError **error)
{
    g_auto(Order) order = { n_vcpus + 1, g_new0(Stream, n_vcpus + 1), NULL };

    if (!begin(&order, directory, which, false, limit ? limit->at : NULL, limit ? n_vcpus : 0,
               error) || !go_as_far_as_possible(&order, error)) {
        return NULL;
    }
    /* Under a limit, DMA may be left waiting: no vCPU needs its steps beyond the limit. */
    for (unsigned i = 0; i < (limit ? n_vcpus : order.n_streams); i++) {
        if (!has_ended(&order.stream[i]) && !explain(&order, i, error)) {
            return NULL;
        }
    }
    return where_they_are(&order);
}

/* Go as far as one order allows, and lower @limit to where that is.  Set *@lower if it changes. */
static bool lower_limit(const char *directory, unsigned n_vcpus, RaceOrder which, Position *limit,
                        bool *lower, GError **error)
{
    g_auto(Order) order = { n_vcpus + 1, g_new0(Stream, n_vcpus + 1), NULL };

    if (!begin(&order, directory, which, true, limit, order.n_streams, error) ||
        !go_as_far_as_possible(&order, error)) {
        return false;
    }
    for (unsigned i = 0; i < order.n_streams; i++) {
        *lower |= order.stream[i].reached < limit[i];
        limit[i] = MIN(limit[i], order.stream[i].reached);
    }
    return true;
}

Point *verify_find_cut(const char *directory, unsigned n_vcpus, const Position *limit,
                       GError **error)
{
    g_autofree Position *reached = g_memdup2(limit, (n_vcpus + 1) * sizeof(*limit));
    OrderSet orders = log_directory_orders(directory);
    bool lower = true;
    Point *cut;

    while (lower) {
        lower = false;
        for (unsigned i = 0; i < RACE_ORDERS; i++) {
            if (order_set_has(orders, i) &&
                !lower_limit(directory, n_vcpus, i, reached, &lower, error)) {
                return NULL;
            }
        }
        lower &= orders != (orders & -orders);          /* one order alone is done */
    }
    cut = point_new(n_vcpus);
    memcpy(cut->at, reached, n_vcpus * sizeof(*reached));
    return cut;
}
