/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See critical-path.h.  A step takes a time of one.  Each stream begins at time 0, and begins a
 * step as soon as its step before has ended and the steps that it waits for have ended.  Then the
 * last step ends when the longest chain does.
 *
 * Between two waits the time of a stream grows by one with each step.  So a stream is a list of
 * *bends*, the positions at which it had to wait.  The total order visits each wait after the steps
 * that are waited for, so these have their times by then.
 */
#include "recording/critical-path.h"

#include "recording/total-order.h"

/* The step at @position begins at @time, since it had to wait. */
typedef struct Bend {
    Position position;
    uint64_t time;
} Bend;

typedef struct Streams {
    GArray **bends;             /* of Bend, one array for each stream */
} Streams;

/*
 * Return when @stream has ended @steps steps.  A wait before the step of that number does not
 * count.  0 for steps before the first checkpoint.
 */
static uint64_t time_of(const GArray *bends, Position steps)
{
    unsigned low = 0, high = bends->len;

    /* Find the last bend before @steps, which has the number low - 1. */
    while (low < high) {
        unsigned middle = low + (high - low) / 2;

        if (g_array_index(bends, Bend, middle).position < steps) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) {
        return 0;
    }
    return g_array_index(bends, Bend, low - 1).time +
           (steps - g_array_index(bends, Bend, low - 1).position);
}

static void wait_ended(unsigned waiter, Position position, unsigned source, Position steps,
                       void *opaque)
{
    const Streams *streams = opaque;
    GArray *bends = streams->bends[waiter];
    Bend *last = &g_array_index(bends, Bend, bends->len - 1);
    uint64_t ready = time_of(streams->bends[source], steps);

    if (last->position == position) {
        last->time = MAX(last->time, ready);
    } else if (ready > time_of(bends, position)) {
        Bend bend = { position, ready };

        g_array_append_val(bends, bend);
    }
}

bool critical_path_find(const char *directory, const Manifest *manifest, CriticalPath *path,
                        GError **error)
{
    g_autoptr(TotalOrder) order = total_order_open(directory, manifest, 0, error);
    unsigned n_streams = manifest->n_vcpus + 1;
    Streams streams = { g_new0(GArray *, n_streams) };
    GError *failure = NULL;
    Run run;

    *path = (CriticalPath) { 0 };
    for (unsigned i = 0; i < n_streams; i++) {
        Bend first = { order ? total_order_reached(order, i) : 0, 0 };

        streams.bends[i] = g_array_new(false, false, sizeof(Bend));
        g_array_append_val(streams.bends[i], first);
    }
    if (order) {
        total_order_on_wait(order, wait_ended, &streams);
        while (total_order_next(order, UINT64_MAX, &run, &failure)) {
            path->steps += run.to - run.from;
        }
    }
    for (unsigned i = 0; i < n_streams; i++) {
        if (order) {
            path->longest = MAX(path->longest, time_of(streams.bends[i],
                                                       total_order_reached(order, i)));
        }
        g_array_unref(streams.bends[i]);
    }
    g_free(streams.bends);
    if (failure) {
        g_propagate_error(error, failure);
    }
    return order && !failure;
}
