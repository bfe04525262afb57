/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random guests (episode-guest.c) are written as recordings of Karma and Rerun and read back as
 * WAITs.  Each conflict is ordered by these, they are not in a circle, and all other events are
 * there, whole or cut off, from the start and from a cut on.
 */
#include <string.h>
#include <unistd.h>

#include "recording/cut.h"
#include "recording/log-block.h"
#include "recording/order-reader.h"
#include "recording/total-order.h"
#include "recording/verify.h"
#include "tests/protocol/model/random.h"
#include "tests/recording/episode-guest.h"
#include "tests/recording/log-test.h"

enum { SEEDS = 150, SLOW_SEEDS = 10000, MAX_CUTS = 16 };

typedef struct Recording {
    const GuestRecord *guest;
    char *directory;
    uint64_t random;
    unsigned n_vcpus, n_cuts;
    RaceOrder order;
    bool with_fdr;                      /* the order logs have waits, too */
    unsigned n_drops[GUEST_STREAMS];    /* events of the order log but END */
    LogPlaces *places[MAX_CUTS];        /* behind each cut */
} Recording;

/* --- writing ------------------------------------------------------------------------------- */

/* Log an episode of Karma, with each stream that counts again. */
static void write_karma(LogStream *stream, const KarmaClosed *e)
{
    g_autoptr(GByteArray) again = g_byte_array_new();

    for (uint8_t i = 0; i < GUEST_STREAMS; i++) {
        for (unsigned k = 0; k < e->again[i]; k++) {
            g_byte_array_append(again, &i, 1);
        }
    }
    log_episode(stream, e->end, e->pred, e->succ, again->data, again->len);
}

/* Log an episode.  Events of the order log within it come first; each has its number. */
static void write_episode(Recording *r, LogStream *stream, unsigned i, const GuestEpisode *e)
{
    for (Position at = e->e.begin; at < e->e.end; at++) {
        if (r->with_fdr && random_below(&r->random, 3) == 0) {
            log_wait(stream, at, i, 0);         /* for nothing, and on itself */
        }
        if (random_below(&r->random, 3) == 0) {
            log_event(stream, LOG_EVENT_DROP, at, (uint64_t)r->n_drops[i]++);
        }
    }
    if (r->guest->order == GUEST_KARMA) {
        write_karma(stream, &e->e);
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
    }
    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        log_event(log_writer_stream(writer, i), LOG_EVENT_END, at[i], (uint64_t)0, (uint64_t)0);
    }
    g_assert_true(log_writer_finish(writer, NULL));
}

static void recording_init(Recording *r, const GuestRecord *guest, uint64_t seed)
{
    *r = (Recording) {
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

static void recording_clear(Recording *r)
{
    for (unsigned i = 0; i <= r->n_cuts; i++) {
        log_places_free(r->places[i]);
    }
    remove_directory(r->directory);
}

/* --- reading ------------------------------------------------------------------------------- */

typedef struct Events {
    GArray *of[GUEST_STREAMS];          /* of LogEvent */
    bool cut_off[GUEST_STREAMS];
} Events;

/* Read all streams, in random turns. */
static void read_events(Recording *r, LogPlaces *places, Events *events)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(OrderReader) reader = order_reader_open(r->directory, r->n_vcpus, r->order, places,
                                                      &error);
    bool ended[GUEST_STREAMS] = { 0 };
    unsigned left = r->n_vcpus + 1;

    g_assert_no_error(error);
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
    }
}

static void events_clear(Events *events)
{
    for (unsigned i = 0; i < GUEST_STREAMS; i++) {
        g_clear_pointer(&events->of[i], g_array_unref);
    }
}

static const LogEvent *event_at(const Events *events, unsigned stream, unsigned n)
{
    return &g_array_index(events->of[stream], LogEvent, n);
}

/* Positions never go back, WAITs come first at theirs, and the other events are in order. */
static void check_stream(const Recording *r, const Events *events, unsigned stream, bool whole)
{
    Position at = 0;
    uint64_t n_drops = 0;
    bool others = false;
    const LogEvent *last;
    LogTotals totals;

    for (unsigned n = 0; n < events->of[stream]->len; n++) {
        const LogEvent *event = event_at(events, stream, n);

        g_assert_cmpuint(event->position, >=, at);
        others &= event->position == at;
        g_assert_false(event->kind == LOG_EVENT_WAIT && others);
        others |= event->kind != LOG_EVENT_WAIT;
        at = event->position;
        if (event->kind == LOG_EVENT_DROP) {
            g_assert_cmpuint(event->value[0], ==, n_drops++);
        }
    }
    last = event_at(events, stream, events->of[stream]->len - 1);
    g_assert_cmpint(events->cut_off[stream], ==, !whole);
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

/* Replay.  Each access that is reached comes after all earlier ones with which it conflicts. */
static void check_order(const Recording *r, const Events *events, bool whole)
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

/* --- one order of all steps ------------------------------------------------------------------ */

/* In the order of all steps, which is copied on the way, each access finds what it found. */
static void check_total_order(Recording *r)
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

/* --- the tests ------------------------------------------------------------------------------ */

static void check_whole(Recording *r, Events *events)
{
    read_events(r, NULL, events);
    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        check_stream(r, events, i, true);
    }
    check_order(r, events, true);
}

/* From a place on there are the last events of a whole reading. */
static void check_places(Recording *r, const Events *whole)
{
    for (unsigned cuts = 0; cuts < r->n_cuts; cuts++) {
        Events events = { 0 };

        read_events(r, r->places[cuts], &events);
        for (unsigned i = 0; i <= r->n_vcpus; i++) {
            unsigned n = events.of[i]->len;

            g_assert_cmpuint(n, <=, whole->of[i]->len);
            for (unsigned k = 0; k < n; k++) {
                assert_same_event(event_at(&events, i, k),
                                  event_at(whole, i, whole->of[i]->len - n + k));
            }
            g_assert_cmpuint(event_at(&events, i, 0)->position, >=,
                             log_place_of(r->places[cuts], i, log_of_order(r->order))->start);
        }
        events_clear(&events);
    }
}

/* Cut a log off at a random byte behind its header.  Return true if it was not so short already. */
static bool cut_off(Recording *r, unsigned stream, const char *suffix)
{
    g_autofree char *name = stream == r->n_vcpus ? g_strdup("dma") :
                            g_strdup_printf("vcpu-%u", stream);
    g_autofree char *path = g_strdup_printf("%s/%s.%s", r->directory, name, suffix);
    g_autofree char *bytes = NULL;
    size_t size;

    g_assert_true(g_file_get_contents(path, &bytes, &size, NULL));
    g_assert_cmpint(truncate(path, 32 + random_below(&r->random, size - 32)), ==, 0);
    return size > 32;
}

/* Some logs of episodes are cut off: what is left is ordered, and stops where something is not there. */
static void check_cut_off(Recording *r)
{
    Events events = { 0 };
    bool whole[GUEST_STREAMS];

    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        whole[i] = random_below(&r->random, 2) || !cut_off(r, i, order_name(r->order));
        /* If power failed, the order log may end earlier. */
        if (!whole[i] && random_below(&r->random, 4) == 0) {
            cut_off(r, i, "order");
        }
    }
    read_events(r, NULL, &events);
    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        check_stream(r, &events, i, whole[i]);
    }
    check_order(r, &events, false);
    events_clear(&events);
}

static void test_random(const void *data)
{
    for (uint64_t seed = 1; seed <= (g_test_slow() ? SLOW_SEEDS : SEEDS); seed++) {
        g_autoptr(GuestRecord) guest = guest_record(GPOINTER_TO_INT(data), seed);
        Events events = { 0 };
        Recording r;

        recording_init(&r, guest, seed);
        check_whole(&r, &events);
        check_places(&r, &events);
        check_total_order(&r);
        check_cut_off(&r);
        events_clear(&events);
        recording_clear(&r);
    }
}

/* A recording of FDR is read as it is. */
static void test_fdr(void)
{
    char *directory = test_directory();
    g_autoptr(LogWriter) writer = log_writer_new(directory, 1, ORDER_SET_FDR, NULL);
    g_autoptr(OrderReader) reader = NULL;
    LogEvent event;

    log_event(log_writer_stream(writer, 0), LOG_EVENT_WAIT, (Position)5, (uint64_t)1, (uint64_t)7);
    g_assert_true(log_writer_finish(writer, NULL));
    reader = order_reader_open(directory, 1, RACE_FDR, NULL, NULL);
    g_assert_cmpint(order_reader_next(reader, 0, &event, NULL), ==, LOG_READER_EVENT);
    assert_same_event(&event, &(LogEvent) { .kind = LOG_EVENT_WAIT, .position = 5,
                                            .value = { 1, 7 } });
    g_assert_cmpint(order_reader_next(reader, 0, &event, NULL), ==, LOG_READER_END);
    g_assert_cmpint(order_reader_next(reader, 1, &event, NULL), ==, LOG_READER_END);
    g_assert_false(order_reader_cut_off(reader, 0));
    remove_directory(directory);
}

/*
 * Find the steps that are events ahead of a reader, wherever it is.  vCPU 0 waits at 0 if the
 * order is Karma's.  Its step at 2 is an event, and a DROP is before it.
 */
static void test_step_at(const void *data)
{
    char *directory = test_directory();
    RaceOrder order = data ? RACE_KARMA : RACE_FDR;
    g_autoptr(LogWriter) writer = log_writer_new(directory, 1, ORDER_SET(order), NULL);
    LogStream *zero = log_writer_stream(writer, 0);
    g_autoptr(OrderReader) reader = NULL;
    LogEvent event = { 0 };

    log_event(zero, LOG_EVENT_DROP, (Position)2, (uint64_t)0);
    log_event(zero, LOG_EVENT_STEP, (Position)2);
    log_event(zero, LOG_EVENT_WAKE, (Position)3);
    if (order == RACE_KARMA) {
        log_episode(zero, 5, 2, 0, NULL, 0);
        log_episode(log_writer_stream(writer, 1), 5, 0, 1, NULL, 0);
    }
    g_assert_true(log_writer_finish(writer, NULL));
    reader = order_reader_open(directory, 1, order, NULL, NULL);
    for (LogEventKind last = LOG_EVENT_KINDS; last != LOG_EVENT_WAKE; last = event.kind) {
        g_assert_cmpint(order_reader_step_at(reader, 0, 0), ==, LOG_EVENT_KINDS);
        g_assert_cmpint(order_reader_step_at(reader, 0, 2), ==,
                        last == LOG_EVENT_STEP ? LOG_EVENT_KINDS : LOG_EVENT_STEP);
        g_assert_cmpint(order_reader_step_at(reader, 0, 3), ==, LOG_EVENT_WAKE);
        g_assert_cmpint(order_reader_step_at(reader, 0, 4), ==, LOG_EVENT_KINDS);
        g_assert_cmpint(order_reader_next(reader, 0, &event, NULL), ==, LOG_READER_EVENT);
        g_assert_true(last != LOG_EVENT_KINDS ||
                      (event.kind == LOG_EVENT_WAIT) == (order == RACE_KARMA));
    }
    remove_directory(directory);
}

/* --- what is refused ------------------------------------------------------------------------- */

typedef void WriteLogs(LogStream *zero, LogStream *dma);

/* Write logs of vCPU 0 and DMA.  Reading those of vCPU 0 must fail, saying why, again and again. */
static void assert_refused(RaceOrder order, WriteLogs *write_logs, const char *why)
{
    char *directory = test_directory();
    g_autoptr(LogWriter) writer = log_writer_new(directory, 1, ORDER_SET(order), NULL);
    g_autoptr(OrderReader) reader = NULL;
    g_autoptr(GError) error = NULL;
    LogReaderResult result;
    LogEvent event;

    write_logs(log_writer_stream(writer, 0), log_writer_stream(writer, 1));
    g_assert_true(log_writer_finish(writer, NULL));
    reader = order_reader_open(directory, 1, order, NULL, NULL);
    while ((result = order_reader_next(reader, 0, &event, &error)) == LOG_READER_EVENT) {
        /* */
    }
    g_assert_cmpint(result, ==, LOG_READER_BAD);
    g_assert_nonnull(strstr(error->message, why));
    g_clear_error(&error);
    g_assert_cmpint(order_reader_next(reader, 0, &event, &error), ==, LOG_READER_BAD);
    g_assert_nonnull(strstr(error->message, why));
    remove_directory(directory);
}

static void edge_over_cut(LogStream *zero, LogStream *dma)
{
    log_cut(zero, RACE_KARMA, 0);
    log_episode(dma, 5, 0, 1, NULL, 0);
    log_cut(dma, RACE_KARMA, 5);
}

static void no_source(LogStream *zero, LogStream *dma)
{
    log_episode(zero, 5, 2, 0, NULL, 0);
    log_cut(dma, RACE_KARMA, 0);
    log_episode(dma, 5, 0, 1, NULL, 0);
}

static void gap_before_cut(LogStream *zero, LogStream *dma)
{
    log_cut(zero, RACE_KARMA, 5);
    (void)dma;
}

static void gap_before_stamped_cut(LogStream *zero, LogStream *dma)
{
    log_cut(zero, RACE_RERUN, 5);
    (void)dma;
}

static void no_last_episode(LogStream *zero, LogStream *dma)
{
    log_episode(zero, 5, 0, 0, NULL, 0);
    log_event(zero, LOG_EVENT_END, (Position)6, (uint64_t)0, (uint64_t)0);
    (void)dma;
}

static void time_goes_back(LogStream *zero, LogStream *dma)
{
    log_stamped(zero, 5, 7);
    while (!log_stream_tick(zero)) {
        g_usleep(1000);
    }
    log_stream_boundary(zero);          /* times begin anew in each block */
    log_stamped(zero, 6, 7);
    (void)dma;
}

static void test_refused(void)
{
    assert_refused(RACE_KARMA, edge_over_cut, "stream 1 has an edge across this cut");
    assert_refused(RACE_KARMA, no_source, "stream 1 has no episode before it");
    assert_refused(RACE_KARMA, gap_before_cut, "steps before a cut that no episode has");
    assert_refused(RACE_RERUN, gap_before_stamped_cut, "steps before a cut that no episode has");
    assert_refused(RACE_KARMA, no_last_episode, "the order log goes on after the last episode");
    assert_refused(RACE_RERUN, time_goes_back, "its time is not later");
}

/* Replace the bits of orders in the header of a log. */
static void change_orders(const char *directory, const char *name, OrderSet orders)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);
    g_autofree char *bytes = NULL;
    LogFileHeader header;
    size_t size;

    g_assert_true(g_file_get_contents(path, &bytes, &size, NULL));
    g_assert_null(log_file_header_get(&header, (uint8_t *)bytes));
    header.incompatible = log_file_features(orders);
    log_file_header_put(&header, (uint8_t *)bytes);
    write_file(path, bytes, size);
}

/* A wait in the order log of a recording without FDR is refused. */
static void test_unexpected_wait(void)
{
    char *directory = test_directory();
    g_autoptr(LogWriter) writer = log_writer_new(directory, 1, ORDER_SET_FDR | ORDER_SET(RACE_KARMA),
                                                 NULL);
    g_autoptr(OrderReader) reader = NULL;
    g_autoptr(GError) error = NULL;
    LogEvent event;

    log_wait(log_writer_stream(writer, 0), 5, 1, 1);
    g_assert_true(log_writer_finish(writer, NULL));
    change_orders(directory, "vcpu-0.order", ORDER_SET(RACE_KARMA));
    change_orders(directory, "dma.order", ORDER_SET(RACE_KARMA));
    reader = order_reader_open(directory, 1, RACE_KARMA, NULL, NULL);
    g_assert_cmpint(order_reader_next(reader, 0, &event, &error), ==, LOG_READER_BAD);
    g_assert_nonnull(strstr(error->message, "a wait at position 5, though"));
    remove_directory(directory);
}

/* An order is refused that the recording does not have, and a log of another recording. */
static void test_other_orders(void)
{
    char *directory = test_directory();
    g_autoptr(LogWriter) writer = log_writer_new(directory, 1, ORDER_SET_EPISODES, NULL);
    g_autofree char *why = g_strdup_printf("%s was not recorded with the order fdr: it has "
                                           "karma,rerun", directory);
    g_autoptr(GError) error = NULL;

    g_assert_true(log_writer_finish(writer, NULL));
    g_assert_null(order_reader_open(directory, 1, RACE_FDR, NULL, &error));
    g_assert_error(error, ORDERS_ERROR, ORDERS_ERROR_MISSING);
    g_assert_cmpstr(error->message, ==, why);
    g_clear_error(&error);
    change_orders(directory, "dma.order", ORDER_SET_ALL);
    g_assert_null(order_reader_open(directory, 1, RACE_KARMA, NULL, &error));
    g_assert_nonnull(strstr(error->message, "dma.order: it belongs to a recording of other orders"));
    remove_directory(directory);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/order-reader/fdr", test_fdr);
    g_test_add_data_func("/order-reader/karma", GINT_TO_POINTER(GUEST_KARMA), test_random);
    g_test_add_data_func("/order-reader/rerun", GINT_TO_POINTER(GUEST_RERUN), test_random);
    g_test_add_data_func("/order-reader/step-at/fdr", NULL, test_step_at);
    g_test_add_data_func("/order-reader/step-at/karma", "", test_step_at);
    g_test_add_func("/order-reader/refused", test_refused);
    g_test_add_func("/order-reader/unexpected-wait", test_unexpected_wait);
    g_test_add_func("/order-reader/other-orders", test_other_orders);
    return g_test_run();
}
