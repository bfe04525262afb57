/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finds the largest cut of a recording that is closed under its arcs.
 *
 * Each stream is first cut at the end of its log.  A stream that waits for a step
 * beyond another stream's cut is cut where it waits, until nothing changes.  The
 * fixpoint is closed, and no stream was cut without need, so it is the largest
 * closed cut.
 *
 * Of the arcs between two streams, an arc that demands no more steps than an
 * earlier arc is implied, and not kept.  So positions and steps both grow, and the
 * first arc that is not satisfied is found by bisection.
 *
 * With several orders, the cut of one is the end of the streams for the next, in
 * turns, until no order demands more.
 */
#include "recording/cut.h"

#include "recording/order-reader.h"

typedef struct Arc {
    Position position;
    uint64_t steps;
} Arc;

struct Arcs {
    unsigned n_streams;
    GArray **between;           /* of Arc; [stream * n_streams + source], or NULL */
};

Arcs *arcs_new(unsigned n_streams)
{
    Arcs *arcs = g_new0(Arcs, 1);

    arcs->n_streams = n_streams;
    arcs->between = g_new0(GArray *, n_streams * n_streams);
    return arcs;
}

void arcs_free(Arcs *arcs)
{
    if (!arcs) {
        return;
    }
    for (unsigned i = 0; i < arcs->n_streams * arcs->n_streams; i++) {
        g_clear_pointer(&arcs->between[i], g_array_unref);
    }
    g_free(arcs->between);
    g_free(arcs);
}

static GArray **between(const Arcs *arcs, unsigned stream, unsigned source)
{
    g_assert(stream < arcs->n_streams && source < arcs->n_streams);
    return &arcs->between[stream * arcs->n_streams + source];
}

void arcs_add(Arcs *arcs, unsigned stream, Position position, unsigned source, uint64_t steps)
{
    GArray **array = between(arcs, stream, source);
    Arc arc = { position, steps };

    if (!*array) {
        *array = g_array_new(FALSE, FALSE, sizeof(Arc));
    }
    if (steps > ((*array)->len ? g_array_index(*array, Arc, (*array)->len - 1).steps : 0)) {
        g_array_append_val(*array, arc);
    }
}

/* Return where @stream first waits for more than @limit steps of @source; or CUT_NONE. */
static Position first_beyond(const Arcs *arcs, unsigned stream, unsigned source, uint64_t limit)
{
    const GArray *array = *between(arcs, stream, source);
    unsigned low = 0, high = array ? array->len : 0;

    while (low < high) {
        unsigned middle = low + (high - low) / 2;

        if (g_array_index(array, Arc, middle).steps > limit) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return array && low < array->len ? g_array_index(array, Arc, low).position : CUT_NONE;
}

void arcs_find_cut(const Arcs *arcs, const Position *reached, const bool *whole, Position *cut)
{
    g_autofree bool *moved = g_new(bool, arcs->n_streams);
    bool any = true;

    for (unsigned i = 0; i < arcs->n_streams; i++) {
        cut[i] = whole[i] ? CUT_NONE : reached[i];
        moved[i] = true;
    }
    while (any) {
        any = false;
        for (unsigned source = 0; source < arcs->n_streams; source++) {
            if (!moved[source]) {
                continue;
            }
            moved[source] = false;
            for (unsigned i = 0; i < arcs->n_streams; i++) {
                Position at = first_beyond(arcs, i, source, MIN(cut[source], reached[source]));

                if (at < cut[i]) {
                    cut[i] = at;
                    moved[i] = any = true;
                }
            }
        }
    }
}

static bool read_stream(Arcs *arcs, OrderReader *reader, unsigned stream, Position *reached,
                        bool *whole, GError **error)
{
    const LogReader *log = order_reader_log(reader, stream);
    LogReaderResult result;
    LogEvent event;

    if (log_reader_writer(log) == LOG_FILE_HAS_WRITER) {
        g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_AGAIN,
                    "%s is being written: wait until its recorder has ended",
                    log_reader_path(log));
        return false;
    }
    log_reader_dropped(log, reached);
    while ((result = order_reader_next(reader, stream, &event, error)) == LOG_READER_EVENT) {
        *reached = event.position + log_event_is_step(event.kind);
        if (event.kind == LOG_EVENT_WAIT) {
            arcs_add(arcs, stream, event.position, event.value[0], event.value[1]);
        }
    }
    *whole = !order_reader_cut_off(reader, stream);
    return result == LOG_READER_END;
}

void cut_limit(const Point *limit, Position *reached, bool *whole)
{
    for (unsigned i = 0; limit && i < limit->n_vcpus; i++) {
        if (limit->at[i] < reached[i]) {
            reached[i] = limit->at[i];
            whole[i] = false;
        }
    }
}

/*
 * What is known of a recording's streams.  Each order tells the same or less of how far a stream
 * goes, since its own log may have been cut off.
 */
typedef struct Streams {
    unsigned n;
    Position *reached;          /* how many steps of each stream all orders know */
    bool *whole;                /* no order's log was cut off */
} Streams;

/* Read the arcs of one order. */
static Arcs *read_order(const char *directory, RaceOrder order, Streams *streams, GError **error)
{
    g_autoptr(Arcs) arcs = arcs_new(streams->n);
    g_autoptr(OrderReader) reader = order_reader_open(directory, streams->n - 1, order, NULL,
                                                      error);

    for (unsigned i = 0; i < streams->n; i++) {
        Position reached = 0;
        bool whole = true;

        if (!reader || !read_stream(arcs, reader, i, &reached, &whole, error)) {
            return NULL;
        }
        streams->reached[i] = MIN(streams->reached[i], reached);
        streams->whole[i] &= whole;
    }
    return g_steal_pointer(&arcs);
}

/* Cut the streams where @arcs demand it.  Return true if that changes anything. */
static bool shrink(const Arcs *arcs, Streams *streams)
{
    g_autofree Position *cut = g_new(Position, streams->n);
    bool changed = false;

    arcs_find_cut(arcs, streams->reached, streams->whole, cut);
    for (unsigned i = 0; i < streams->n; i++) {
        if (cut[i] < (streams->whole[i] ? CUT_NONE : streams->reached[i])) {
            streams->reached[i] = MIN(streams->reached[i], cut[i]);
            streams->whole[i] = false;
            changed = true;
        }
    }
    return changed;
}

/* Cut the streams until no order demands more. */
static bool find(const char *directory, const Point *limit, Streams *streams, GError **error)
{
    g_autoptr(GPtrArray) orders = g_ptr_array_new_with_free_func((GDestroyNotify)arcs_free);
    OrderSet set = log_directory_orders(directory);
    unsigned unchanged = 0;

    for (unsigned i = 0; i < RACE_ORDERS; i++) {
        if (order_set_has(set, i)) {
            g_ptr_array_add(orders, read_order(directory, i, streams, error));
            if (!orders->pdata[orders->len - 1]) {
                return false;
            }
        }
    }
    cut_limit(limit, streams->reached, streams->whole);
    for (unsigned i = 0; unchanged < orders->len; i = (i + 1) % orders->len) {
        unchanged = shrink(orders->pdata[i], streams) ? 0 : unchanged + 1;
    }
    return true;
}

/* As cut_find().  With @ends, a stream that is not cut ends where its log ends. */
static Position *find_cut(const char *directory, unsigned n_vcpus, const Point *limit, bool ends,
                          GError **error)
{
    unsigned n = n_vcpus + 1;
    g_autofree bool *whole = g_new(bool, n);
    g_autofree Position *cut = g_new(Position, n);
    Streams streams = { n, cut, whole };

    for (unsigned i = 0; i < n; i++) {
        cut[i] = UINT64_MAX;
        whole[i] = true;
    }
    if (!find(directory, limit, &streams, error)) {
        return NULL;
    }
    for (unsigned i = 0; i < n; i++) {
        cut[i] = whole[i] && !ends ? CUT_NONE : cut[i];
    }
    return g_steal_pointer(&cut);
}

Position *cut_find(const char *directory, unsigned n_vcpus, const Point *limit, GError **error)
{
    return find_cut(directory, n_vcpus, limit, false, error);
}

Position *cut_find_ends(const char *directory, unsigned n_vcpus, const Point *limit,
                        GError **error)
{
    return find_cut(directory, n_vcpus, limit, true, error);
}
