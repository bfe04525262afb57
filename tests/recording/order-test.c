/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See order-test.h.
 */
#include <string.h>

#include "recording/cut.h"
#include "recording/episode-log.h"
#include "recording/order-reader.h"
#include "recording/registers.h"
#include "recording/total-order.h"
#include "recording/verify.h"
#include "tests/protocol/model/random.h"
#include "tests/recording/log-test.h"
#include "tests/recording/order-test.h"

/* --- writing ------------------------------------------------------------------------------- */

/*
 * Log an episode.  Events of the order log within it come first; each has its number.  That of DMA
 * has every step.
 */
static void write_episode(Recording *r, LogStream *stream, unsigned i, const GuestEpisode *e)
{
    for (Position at = e->e.begin; at < e->e.end; at++) {
        if (i == r->n_vcpus) {
            log_event(stream, LOG_EVENT_STEP, at);
            continue;
        }
        if (r->with_fdr && random_below(&r->random, 3) == 0) {
            log_wait(stream, at, i, 0);         /* for nothing, and on itself */
        }
        if (random_below(&r->random, 3) == 0) {
            log_event(stream, LOG_EVENT_DROP, at, (uint64_t)r->n_drops[i]++);
        }
    }
    if (r->guest->order == GUEST_KARMA) {
        episode_log_karma(stream, &e->e);
    } else {
        log_stamped(stream, e->e.end, e->e.time);
    }
}

/* Close all blocks, and return where the logs go on. */
static LogPlaces *close_blocks(Recording *r, LogWriter *writer)
{
    LogPlaces *places;

    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        log_stream_rest(log_writer_stream(writer, i), 0);
    }
    places = log_writer_places(writer);
    g_assert_true(log_places_wait(places, NULL));
    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        log_stream_resume(log_writer_stream(writer, i));
    }
    return places;
}

/* Write the episodes between two cuts, in many blocks. */
static void write_interval(Recording *r, LogWriter *writer, unsigned *next, Position *at,
                           unsigned cuts)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (unsigned i = 0; i <= r->n_vcpus; i++) {
            GArray *episodes = r->guest->episodes[i];
            GuestEpisode *e = &g_array_index(episodes, GuestEpisode, next[i]);

            if (next[i] < episodes->len && e->cuts == cuts) {
                write_episode(r, log_writer_stream(writer, i), i, e);
                at[i] = e->e.end;
                next[i]++;
                moved = true;
            }
            if (random_below(&r->random, 8) == 0) {
                log_places_free(close_blocks(r, writer));
            }
        }
    }
}

static void write_end(LogStream *stream, Position position)
{
    Registers none = { 0 }, before = { 0 };

    registers_log(stream, position, &before, &none);
    log_event(stream, LOG_EVENT_END, position, registers_digest(register_set("aarch64"), &none),
              (uint64_t)0);
}

static void write_recording(Recording *r)
{
    OrderSet orders = ORDER_SET(r->order) | (r->with_fdr ? ORDER_SET_FDR : 0);
    g_autoptr(LogWriter) writer = log_writer_new(r->directory, r->n_vcpus, orders, NULL);
    unsigned next[GUEST_STREAMS] = { 0 };
    Position at[GUEST_STREAMS] = { 0 };

    for (unsigned cuts = 0; cuts <= r->n_cuts; cuts++) {
        write_interval(r, writer, next, at, cuts);
        for (unsigned i = 0; i <= r->n_vcpus && cuts < r->n_cuts; i++) {
            log_cut(log_writer_stream(writer, i), r->order, at[i]);
        }
        r->places[cuts] = close_blocks(r, writer);
        if (r->dropped && cuts + 1 == r->n_cuts) {
            log_writer_drop(writer, r->places[cuts], at);
        }
    }
    for (unsigned i = 0; i < r->n_vcpus; i++) {
        write_end(log_writer_stream(writer, i), at[i]);
    }
    g_assert_true(log_writer_finish(writer, NULL));
}

static void init(Recording *r, const GuestRecord *guest, uint64_t seed, bool dropped)
{
    *r = (Recording) {
        .dropped = dropped,
        .guest = guest, .directory = test_directory(), .random = seed,
        .n_vcpus = guest->n_streams - 1,
        .order = guest->order == GUEST_KARMA ? RACE_KARMA : RACE_RERUN,
        .with_fdr = seed % 2,
    };
    for (unsigned i = 0; i < guest->n_streams; i++) {
        for (unsigned n = 0; n < guest->episodes[i]->len; n++) {
            r->n_cuts = MAX(r->n_cuts, g_array_index(guest->episodes[i], GuestEpisode, n).cuts);
        }
    }
    g_assert_cmpuint(r->n_cuts, <, MAX_CUTS);
    write_recording(r);
}

void recording_init(Recording *r, const GuestRecord *guest, uint64_t seed)
{
    init(r, guest, seed, false);
}

void recording_init_dropped(Recording *r, const GuestRecord *guest, uint64_t seed)
{
    init(r, guest, seed, true);
}

void recording_clear(Recording *r)
{
    for (unsigned i = 0; i <= r->n_cuts; i++) {
        log_places_free(r->places[i]);
    }
    remove_directory(r->directory);
}

/* --- reading ------------------------------------------------------------------------------- */

static void read_by(Events *events, Recording *r, LogPlaces *places, bool wake_ups)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(OrderReader) reader = order_reader_open(r->directory, r->n_vcpus, r->order, places,
                                                      &error);
    bool ended[GUEST_STREAMS] = { 0 };
    unsigned left = r->n_vcpus + 1;

    g_assert_no_error(error);
    if (wake_ups) {
        order_reader_use_wake_ups(reader);
    }
    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        events->of[i] = g_array_new(false, false, sizeof(LogEvent));
    }
    while (left > 0) {
        unsigned i = random_below(&r->random, r->n_vcpus + 1);
        LogEvent event;
        LogReaderResult result = order_reader_next(reader, i, &event, &error);

        g_assert_no_error(error);
        if (result == LOG_READER_EVENT) {
            g_assert_false(ended[i]);
            /* No wait of FDR is among them. */
            g_assert_false(event.kind == LOG_EVENT_WAIT && event.value[0] == i);
            g_array_append_val(events->of[i], event);
        } else if (!ended[i]) {
            ended[i] = true;
            events->cut_off[i] = order_reader_cut_off(reader, i);
            left--;
        }
        if (random_below(&r->random, 100) == 0) {
            OrderReader *copy = order_reader_copy(reader);

            order_reader_free(reader);
            reader = copy;
        }
    }
}

void events_read(Events *events, Recording *r, LogPlaces *places)
{
    read_by(events, r, places, false);
}

void events_read_wake_ups(Events *events, Recording *r, LogPlaces *places)
{
    read_by(events, r, places, true);
}

void events_clear(Events *events)
{
    for (unsigned i = 0; i < GUEST_STREAMS; i++) {
        g_clear_pointer(&events->of[i], g_array_unref);
    }
}

const LogEvent *event_at(const Events *events, unsigned stream, unsigned n)
{
    return &g_array_index(events->of[stream], LogEvent, n);
}

void check_stream(const Recording *r, const Events *events, unsigned stream, bool whole)
{
    Position at = 0;
    uint64_t n_drops = 0, n_steps = 0;
    bool others = false;
    const LogEvent *last;
    LogTotals totals;

    for (unsigned n = 0; n < events->of[stream]->len; n++) {
        const LogEvent *event = event_at(events, stream, n);

        g_assert_cmpuint(event->position, >=, at);
        others &= event->position == at;
        g_assert_false(event->kind == LOG_EVENT_WAIT && others);
        others |= event->kind != LOG_EVENT_WAIT && event->kind != LOG_EVENT_MARK;
        at = event->position;
        if (event->kind == LOG_EVENT_DROP) {
            g_assert_cmpuint(event->value[0], ==, n_drops++);
        }
        n_steps += event->kind == LOG_EVENT_STEP;
    }
    g_assert_cmpint(events->cut_off[stream], ==, !whole);
    if (whole && stream == r->n_vcpus) {
        g_assert_cmpuint(n_steps, ==, r->guest->end[stream]);
        return;
    }
    last = event_at(events, stream, events->of[stream]->len - 1);
    g_assert_cmpint(last->kind, ==, whole ? LOG_EVENT_END : LOG_EVENT_MARK);
    if (whole) {
        g_assert_cmpuint(n_drops, ==, r->n_drops[stream]);
        g_assert_cmpuint(last->position, ==, r->guest->end[stream]);
    } else {
        g_assert_true(log_totals_read(r->directory, r->n_vcpus, stream, log_of_order(r->order),
                                      &totals, NULL));
        g_assert_cmpuint(last->position, ==, totals.last);
    }
}

/* --- a replay by waits ---------------------------------------------------------------------- */

/* From @position on, a stream comes after so many steps of each. */
typedef struct Known {
    Position position;
    Position of[GUEST_STREAMS];
} Known;

typedef struct Replay {
    const Events *events;
    unsigned n_streams;
    unsigned n[GUEST_STREAMS];          /* the next event */
    Position reached[GUEST_STREAMS];
    GArray *known[GUEST_STREAMS];       /* of Known; positions grow */
} Replay;

/* Return what is known before step @position of @stream; NULL: nothing. */
static const Known *known_at(const Replay *p, unsigned stream, Position position)
{
    const Known *found = NULL;

    for (unsigned n = 0; n < p->known[stream]->len; n++) {
        const Known *known = &g_array_index(p->known[stream], Known, n);

        found = known->position <= position ? known : found;
    }
    return found;
}

static void follow_wait(Replay *p, unsigned stream, const LogEvent *wait)
{
    GArray *list = p->known[stream];
    unsigned source = wait->value[0];
    Known known = list->len ? g_array_index(list, Known, list->len - 1) : (Known) { 0 };
    const Known *other = wait->value[1] ? known_at(p, source, wait->value[1] - 1) : NULL;

    for (unsigned i = 0; i < p->n_streams && other; i++) {
        known.of[i] = MAX(known.of[i], other->of[i]);
    }
    known.of[source] = MAX(known.of[source], wait->value[1]);
    known.position = wait->position;
    g_array_append_val(list, known);
}

/* Let a stream go on as far as it can.  Return true if it did. */
static bool go_on(Replay *p, unsigned stream)
{
    unsigned before = p->n[stream];
    Position at = p->reached[stream];

    for (; p->n[stream] < p->events->of[stream]->len; p->n[stream]++) {
        const LogEvent *event = event_at(p->events, stream, p->n[stream]);

        p->reached[stream] = MAX(p->reached[stream], event->position);
        p->reached[stream] += event->kind == LOG_EVENT_STEP;
        if (event->kind == LOG_EVENT_WAIT) {
            g_assert_cmpuint(event->value[0], !=, stream);
            if (p->reached[event->value[0]] < event->value[1]) {
                break;
            }
            follow_wait(p, stream, event);
        }
    }
    return p->n[stream] > before || p->reached[stream] > at;
}

static bool is_conflict(const GuestAccess *a, const GuestAccess *b)
{
    return a->stream != b->stream && a->line == b->line && (a->is_write || b->is_write);
}

/* The cut that tools find is where the replay came to. */
static void check_cut(const Recording *r, const Replay *p)
{
    g_autoptr(GError) error = NULL;
    g_autofree Position *cut = cut_find(r->directory, r->n_vcpus, NULL, &error);
    g_autoptr(Point) reached = verify_order(r->directory, r->n_vcpus, r->order, NULL, &error);

    g_assert_no_error(error);
    for (unsigned i = 0; i < p->n_streams; i++) {
        /* The order log of FDR may tell less than the episodes. */
        g_assert_cmpuint(MIN(cut[i], r->guest->end[i]), <=, p->reached[i]);
        if (!r->with_fdr) {
            g_assert_cmpuint(MIN(cut[i], r->guest->end[i]), ==, p->reached[i]);
        }
        if (i < r->n_vcpus) {
            g_assert_cmpuint(reached->at[i], ==, p->reached[i]);
        }
    }
}

void check_order(const Recording *r, const Events *events, bool whole)
{
    Replay p = { .events = events, .n_streams = r->guest->n_streams };
    const GuestAccess *a = (GuestAccess *)r->guest->accesses->data;

    for (unsigned i = 0; i < p.n_streams; i++) {
        p.known[i] = g_array_new(false, false, sizeof(Known));
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (unsigned i = 0; i < p.n_streams; i++) {
            moved |= go_on(&p, i);
        }
    }
    check_cut(r, &p);
    for (unsigned i = 0; i < p.n_streams && whole; i++) {
        g_assert_cmpuint(p.n[i], ==, events->of[i]->len);
    }
    for (unsigned j = 0; j < r->guest->accesses->len; j++) {
        const Known *known = known_at(&p, a[j].stream, a[j].position);

        for (unsigned i = 0; i < j && a[j].position < p.reached[a[j].stream]; i++) {
            if (is_conflict(&a[i], &a[j])) {
                g_assert_true(known && known->of[a[i].stream] > a[i].position);
            }
        }
    }
    for (unsigned i = 0; i < p.n_streams; i++) {
        g_array_unref(p.known[i]);
    }
}

/* --- wake-ups ------------------------------------------------------------------------------- */

/* Return where the wake-up of @waiter by @source of this number is sent; UINT64_MAX: never. */
static Position wake_up_at(const Events *events, unsigned waiter, unsigned source, uint64_t number)
{
    for (unsigned n = 0; n < events->of[source]->len; n++) {
        const LogEvent *event = event_at(events, source, n);

        if (event->kind == LOG_EVENT_EPISODE && (event->value[1] >> waiter & 1) && --number == 0) {
            return event->position;
        }
    }
    return UINT64_MAX;
}

/* An EPISODE comes before all other events there: a stream that stops there has ended it. */
static void check_place(const Events *events, unsigned stream, unsigned n)
{
    const LogEvent *before = n > 0 ? event_at(events, stream, n - 1) : NULL;

    g_assert_true(!before || before->position < event_at(events, stream, n)->position ||
                  before->kind == LOG_EVENT_EPISODE);
}

/* Compare a stream, in which a WAIT is for what is sent where the one of @events says. */
static void check_woken_stream(const Events *by, const Events *events, unsigned stream)
{
    unsigned n = 0;

    for (unsigned k = 0; k < by->of[stream]->len; k++) {
        LogEvent event = *event_at(by, stream, k);

        if (event.kind == LOG_EVENT_EPISODE) {
            check_place(by, stream, k);
            continue;
        }
        if (event.kind == LOG_EVENT_WAIT) {
            event.value[1] = wake_up_at(by, stream, event.value[0], event.value[1]);
        }
        g_assert_cmpuint(n, <, events->of[stream]->len);
        g_assert_cmpint(event.kind, ==, event_at(events, stream, n)->kind);
        g_assert_cmpuint(event.position, ==, event_at(events, stream, n)->position);
        g_assert_cmpuint(event.value[0], ==, event_at(events, stream, n)->value[0]);
        g_assert_cmpuint(event.value[1], ==, event_at(events, stream, n)->value[1]);
        n++;
    }
    g_assert_cmpuint(n, ==, events->of[stream]->len);
    g_assert_cmpint(by->cut_off[stream], ==, events->cut_off[stream]);
}

void check_wake_ups(Recording *r, LogPlaces *places, const Events *events)
{
    Events by = { 0 };

    if (r->order != RACE_KARMA) {
        return;
    }
    events_read_wake_ups(&by, r, places);
    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        check_woken_stream(&by, events, i);
    }
    events_clear(&by);
}

/* --- one order of all steps ------------------------------------------------------------------ */

void check_total_order(Recording *r)
{
    g_autoptr(Manifest) manifest = manifest_new(r->n_vcpus);
    g_autoptr(TotalOrder) order = NULL;
    g_autoptr(GError) error = NULL;
    unsigned writes[GUEST_LINES] = { 0 }, reads[GUEST_LINES] = { 0 };
    uint64_t steps = 0;
    Run run;

    manifest_add_checkpoint(manifest, "checkpoint-0");
    manifest_set_orders(manifest, &(Orders) { .set = ORDER_SET(r->order) });
    manifest->complete = true;
    manifest->end = point_new(r->n_vcpus);
    memcpy(manifest->end->at, r->guest->end, r->n_vcpus * sizeof(Position));
    order = total_order_open(r->directory, manifest, 0, &error);
    g_assert_no_error(error);
    while (total_order_next(order, 1, &run, &error)) {
        for (unsigned k = 0; k < r->guest->accesses->len; k++) {
            const GuestAccess *a = &g_array_index(r->guest->accesses, GuestAccess, k);

            if (a->stream == run.stream && a->position == run.from) {
                g_assert_cmpuint(writes[a->line] + (a->is_write ? reads[a->line] : 0), ==,
                                 a->version);
                writes[a->line] += a->is_write;
                reads[a->line] += !a->is_write;
            }
        }
        steps++;
        if (random_below(&r->random, 10) == 0) {
            TotalOrder *copy = total_order_copy(order);

            total_order_free(order);
            order = copy;
        }
    }
    g_assert_no_error(error);
    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        g_assert_cmpuint(total_order_reached(order, i), ==, r->guest->end[i]);
        steps -= r->guest->end[i];
    }
    g_assert_cmpuint(steps, ==, 0);
}

void check_whole(Recording *r, Events *events)
{
    events_read(events, r, NULL);
    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        check_stream(r, events, i, true);
    }
    check_order(r, events, true);
}
