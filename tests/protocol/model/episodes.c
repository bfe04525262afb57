/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads the episodes of a recording: checks them by themselves, and makes of them the events that
 * FDR would have logged, as recording/order-reader.h says.  It shares no code with the reader,
 * which has tests of its own.
 */
#include <inttypes.h>

#include "tests/protocol/model/broken-rule.h"
#include "tests/protocol/model/recording.h"

/* A reader of a stream's log of episodes. */
typedef struct Cursor {
    const GArray *episodes;
    unsigned entry;
    unsigned used;              /* mentions of the present entry that were read */
} Cursor;

static Cursor cursor_at_start(const Recording *r, RaceOrder order, unsigned stream)
{
    return (Cursor){ r->stream[stream].episodes[order], 0, 0 };
}

/* Return the present entry, NULL at the end. */
static const LoggedEpisode *present(const Cursor *c)
{
    return c->entry < c->episodes->len ?
           &g_array_index(c->episodes, LoggedEpisode, c->entry) : NULL;
}

static void next(Cursor *c)
{
    c->entry++;
    c->used = 0;
}

static unsigned pred_of(const LoggedEpisode *e, unsigned stream)
{
    return !e->cut && e->e.pred >> stream & 1 ? 1 + e->e.again[stream] : 0;
}

static unsigned succ_of(const LoggedEpisode *e, unsigned stream)
{
    return !e->cut && e->e.succ >> stream & 1;
}

/*
 * Go to the next mention of @stream, in PREDs or SUCCs.  Return the entry that has it; or the next
 * cut, or NULL at the end, if there is none before.
 */
static const LoggedEpisode *next_mention(Cursor *c, unsigned stream, bool in_pred)
{
    const LoggedEpisode *e;

    for (; (e = present(c)) && !e->cut; next(c)) {
        if (c->used < (in_pred ? pred_of(e, stream) : succ_of(e, stream))) {
            c->used++;
            return e;
        }
    }
    return e;
}

/* --- checks ------------------------------------------------------------------------------- */

static char *wrong(unsigned stream, const LoggedEpisode *e, const char *what)
{
    return g_strdup_printf("stream %u, episode from %" PRIu64 " to %" PRIu64 ": %s", stream,
                           e->e.begin, e->e.end, what);
}

/* Return true if the stream passed by a place where the episode should have been ended. */
static bool is_too_long(const Recording *r, RaceOrder order, unsigned stream,
                        const LoggedEpisode *e)
{
    const GArray *limited = r->stream[stream].limited;
    Position max = r->orders.max[order];

    for (unsigned i = limited->len; max && i > 0; i--) {
        Position at = g_array_index(limited, Position, i - 1);

        if (at < e->e.begin + max) {
            return false;
        }
        if (at < e->e.end) {
            return true;
        }
    }
    return false;
}

static const char *check_episode(const Recording *r, RaceOrder order, unsigned stream,
                                 const LoggedEpisode *e, const LoggedEpisode *before)
{
    if (e->e.begin != (before ? before->e.end : 0) || e->e.end < e->e.begin) {
        return "does not follow the one before";
    }
    if (e->cut) {
        return NULL;
    }
    if (e->e.end == e->e.begin && order == RACE_KARMA && (e->e.pred || !e->e.succ)) {
        return "is empty";
    }
    if (before && !before->cut && e->e.time <= before->e.time) {
        return "has no later time than the one before";
    }
    return is_too_long(r, order, stream, e) ? "is too long" : NULL;
}

static char *check_stream(const Recording *r, RaceOrder order, unsigned stream)
{
    const LoggedEpisode *e, *before = NULL;
    const char *what;

    for (Cursor c = cursor_at_start(r, order, stream); (e = present(&c)); next(&c)) {
        what = check_episode(r, order, stream, e, before);
        if (what) {
            return wrong(stream, e, what);
        }
        before = e;
    }
    if ((before ? before->e.end : 0) != r->stream[stream].end) {
        return g_strdup_printf("stream %u: its last steps are in no episode", stream);
    }
    return NULL;
}

/* Check that mentions pair, up to the next cut of both streams, and that times grow with them. */
static char *check_edges(const Recording *r, unsigned from, unsigned to)
{
    Cursor there = cursor_at_start(r, RACE_KARMA, from);
    Cursor here = cursor_at_start(r, RACE_KARMA, to);
    const LoggedEpisode *source, *target;

    for (;;) {
        source = next_mention(&there, to, false);
        target = next_mention(&here, from, true);
        if (!source && !target) {
            return NULL;
        }
        if (!source || !target || source->cut != target->cut) {
            return wrong(to, target ? target : source, "wake-ups do not pair");
        }
        if (source->cut) {
            next(&there);
            next(&here);
        } else if (source->e.time >= target->e.time) {
            return wrong(to, target, "its time is not later than that of a predecessor");
        }
    }
}

char *recording_check_episodes(const Recording *r, RaceOrder order)
{
    char *trouble = NULL;

    for (unsigned i = 0; i <= r->n_vcpus && !trouble; i++) {
        trouble = check_stream(r, order, i);
        for (unsigned j = 0; j <= r->n_vcpus && !trouble && order == RACE_KARMA; j++) {
            trouble = check_edges(r, j, i);
        }
    }
    return trouble;
}

/* --- events --------------------------------------------------------------------------------- */

typedef struct Maker {
    Recording *recording;
    RaceOrder order;
    unsigned stream;
    GArray *events;             /* what is made */
    Cursor other[MAX_PROCESSORS];
    Position waited[MAX_PROCESSORS];    /* for each other stream */
    unsigned drop;              /* the next event of the log that may be a drop */
    unsigned cuts;
} Maker;

/* Copy the drops of the log up to @end that come before the step at @position. */
static void copy_drops(Maker *m, unsigned end, Position position)
{
    const GArray *log = m->recording->stream[m->stream].events[RACE_FDR];

    for (; m->drop < end; m->drop++) {
        const Event *event = &g_array_index(log, Event, m->drop);

        if (event->at >= position) {
            return;
        }
        if (event->kind != EVENT_WAIT) {
            g_array_append_val(m->events, *event);
        }
    }
}

static void add_wait(Maker *m, Position at, unsigned from, Position steps)
{
    Event event = { EVENT_WAIT, at, from, steps };

    if (steps > m->waited[from]) {
        g_array_append_val(m->events, event);
        m->waited[from] = steps;
    }
}

/* Wait for the episodes whose mentions of this stream belong to the mentions in @e. */
static void follow_edges(Maker *m, const LoggedEpisode *e, unsigned from)
{
    for (unsigned n = pred_of(e, from); n > 0; n--) {
        const LoggedEpisode *source = next_mention(&m->other[from], m->stream, false);

        add_wait(m, e->e.begin, from, source && !source->cut ? source->e.end : UINT64_MAX);
    }
}

/* Wait for the last episode of @from before the next cut that has a smaller time. */
static void follow_time(Maker *m, const LoggedEpisode *e, unsigned from)
{
    const LoggedEpisode *other;
    Position end = 0;

    while ((other = present(&m->other[from])) && !other->cut && other->e.time < e->e.time) {
        end = other->e.end;
        next(&m->other[from]);
    }
    add_wait(m, e->e.begin, from, end);
}

/* Go behind the next cut of @from, and wait for it. */
static void follow_cut(Maker *m, Position at, unsigned from)
{
    const LoggedEpisode *other;

    while ((other = present(&m->other[from])) && !other->cut) {
        next(&m->other[from]);
    }
    next(&m->other[from]);
    if (RULE(REPLAY_MEETS)) {
        add_wait(m, at, from, other ? other->e.end : UINT64_MAX);
    }
}

static void make_cut(Maker *m, const LoggedEpisode *e)
{
    Place *place = &m->recording->cut[m->cuts++].place[m->stream];

    copy_drops(m, place->event[RACE_FDR], UINT64_MAX);
    place->event[m->order] = m->events->len;
    for (unsigned i = 0; i <= m->recording->n_vcpus; i++) {
        if (i != m->stream) {
            follow_cut(m, e->e.end, i);
        }
    }
}

static void make_entry(Maker *m, const LoggedEpisode *e)
{
    copy_drops(m, m->recording->stream[m->stream].events[RACE_FDR]->len, e->e.begin);
    if (e->cut) {
        make_cut(m, e);
        return;
    }
    for (unsigned i = 0; i <= m->recording->n_vcpus; i++) {
        if (m->order == RACE_KARMA) {
            follow_edges(m, e, i);
        } else if (i != m->stream) {
            follow_time(m, e, i);
        }
    }
}

static void make_stream(Recording *r, RaceOrder order, unsigned stream)
{
    Maker m = {
        .recording = r, .order = order, .stream = stream,
        .events = r->stream[stream].events[order],
    };
    const LoggedEpisode *e;

    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        m.other[i] = cursor_at_start(r, order, i);
    }
    for (Cursor c = cursor_at_start(r, order, stream); (e = present(&c)); next(&c)) {
        make_entry(&m, e);
    }
    copy_drops(&m, r->stream[stream].events[RACE_FDR]->len, UINT64_MAX);
}

void recording_make_events(Recording *r, RaceOrder order)
{
    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        make_stream(r, order, i);
    }
}
