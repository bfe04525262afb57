/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See episode-guest.h.  A line has an owner, or sharers, or neither; and a last writer, with a
 * position behind its stores.  A requester is ordered after the holders from which it takes the
 * line, and after the last writer.  Each time a random position s is told: behind the last access,
 * as a filter would know it; the present one, as the sphere knows it; or one between.
 *
 * A stream also does what is rare in a live recorder: it tells and emits in two moments, gets two
 * lines in one step, gives a line away unused, passes another that waits, ends its episode
 * anywhere, is flushed, and all are cut.
 */
#include "tests/recording/episode-guest.h"

#include "recording/episode-rules.h"
#include "tests/protocol/model/random.h"

enum { NOBODY = GUEST_STREAMS };

typedef struct GuestLine {
    unsigned owner;             /* or NOBODY */
    uint32_t sharers;
    unsigned writer;            /* the last one, or NOBODY */
    Position written;           /* behind its stores */
    Position behind[GUEST_STREAMS];     /* the least position that a holder may give */
    unsigned writes, reads;
} GuestLine;

typedef struct GuestStream {
    Position position, floor;
    Position ordered;           /* P4: the least position that it may give */
    Position given;             /* P2: the largest position that it has given, or ended at */
    uint32_t wanted;            /* lines that its next step accesses, and were not granted yet */
    uint32_t granted, written;  /* lines that its next step reads or writes; of these: writes */
    uint32_t unemitted;         /* of @granted: since it emitted; another may pass it */
    /* Since it emitted: */
    uint32_t sources;           /* streams that it was told of */
    Position source[GUEST_STREAMS];     /* the largest s of each of them */
} GuestStream;

typedef struct Guest {
    uint64_t random;
    GuestOrder order;
    unsigned n_streams, n_lines;
    bool exact, present;        /* which positions it tells */
    unsigned n_cuts;
    KarmaOptions karma_options;
    RerunOptions rerun_options;
    KarmaStream karma[GUEST_STREAMS];
    RerunStream rerun[GUEST_STREAMS];
    GuestStream stream[GUEST_STREAMS];
    GuestLine line[GUEST_LINES];
    GuestRecord *record;
} Guest;

static bool one_in(Guest *g, unsigned n)
{
    return random_one_in(&g->random, n);
}

/* --- either kind of episodes -------------------------------------------------------------- */

static void add_episode(GuestRecord *record, unsigned i, const KarmaClosed *closed,
                        unsigned n_cuts)
{
    GuestEpisode episode = { *closed, n_cuts };

    g_array_append_val(record->episodes[i], episode);
}

void guest_record_collect(GuestRecord *record, unsigned i, KarmaStream *karma, RerunStream *rerun,
                          unsigned n_cuts)
{
    KarmaClosed closed;
    RerunClosed stamped;

    while (karma_take_closed(karma, &closed)) {
        add_episode(record, i, &closed, n_cuts);
    }
    while (rerun_take_closed(rerun, &stamped)) {
        closed = (KarmaClosed) { .begin = stamped.begin, .end = stamped.end,
                                 .time = stamped.time };
        add_episode(record, i, &closed, n_cuts);
    }
}

static void collect(Guest *g, unsigned i)
{
    guest_record_collect(g->record, i, &g->karma[i], &g->rerun[i], g->n_cuts);
}

static void tell(Guest *g, unsigned to, unsigned from, Position s)
{
    GuestStream *target = &g->stream[to];

    if (g->order == GUEST_RERUN) {
        rerun_follow(&g->rerun[to], &g->rerun[from], s);
    } else {
        if (one_in(g, 6)) {
            karma_split(&g->karma[from], s);
        }
        karma_follow(&g->karma[to], &g->karma[from], s);
    }
    g->stream[from].given = MAX(g->stream[from].given, s);
    target->source[from] = target->sources >> from & 1 ? MAX(target->source[from], s) : s;
    target->sources |= 1u << from;
}

static void emit(Guest *g, unsigned i)
{
    GuestStream *s = &g->stream[i];
    bool must_step = g->order == GUEST_RERUN ? rerun_emit(&g->rerun[i], s->floor)
                                             : karma_emit(&g->karma[i], s->floor);

    if (must_step) {
        s->ordered = s->floor + 1;
    }
    s->sources = 0;
    s->unemitted = 0;
}

static Position limit(const Guest *g, unsigned i)
{
    return g->order == GUEST_RERUN ? rerun_limit(&g->rerun[i]) : karma_limit(&g->karma[i]);
}

static void end_episode(Guest *g, unsigned i, Position at)
{
    if (g->order == GUEST_RERUN) {
        rerun_end_episode(&g->rerun[i], at);
    } else if (at > g->karma[i].now.begin) {
        karma_end_episode(&g->karma[i], at);
    }
    g->stream[i].given = MAX(g->stream[i].given, at);
}

/* Return the latest time of all streams, as protocol/rerun.c does. */
static uint64_t latest_time(const Guest *g)
{
    uint64_t latest = 0;

    for (unsigned i = 0; i < g->n_streams; i++) {
        latest = MAX(latest, rerun_time(&g->rerun[i]));
    }
    return latest;
}

static void flush(Guest *g, unsigned i)
{
    if (g->order == GUEST_RERUN) {
        rerun_flush(&g->rerun[i], g->stream[i].position, latest_time(g));
    } else {
        karma_flush(&g->karma[i], g->stream[i].position);
    }
    g->stream[i].given = g->stream[i].position;
    collect(g, i);
}

/* --- steps and lines ---------------------------------------------------------------------- */

static void step(Guest *g, unsigned i)
{
    Position position = ++g->stream[i].position;

    while (limit(g, i) <= position) {
        end_episode(g, i, limit(g, i));
    }
    collect(g, i);
}

/* Return a position that @from may give, at or behind @least. */
static Position position_to_give(Guest *g, unsigned from, Position least)
{
    Position present = g->stream[from].position;

    if (g->exact || least == present) {
        return least;
    }
    if (g->present) {
        return present;
    }
    return least + random_below(&g->random, present - least + 1);
}

/* Return true if @holder, which must not be in the middle of using it, can give the line. */
static bool can_give(const Guest *g, unsigned holder, const GuestLine *line)
{
    const GuestStream *s = &g->stream[holder];

    return !((s->granted & ~s->unemitted) >> (line - g->line) & 1) &&
           line->behind[holder] <= s->position;
}

/* Let @to pass @waiter, which has been granted a line that it does not use yet. */
static void pass(Guest *g, unsigned to, unsigned waiter, uint32_t line)
{
    GuestStream *s = &g->stream[waiter];

    for (unsigned i = 0; i < g->n_streams; i++) {
        if (s->sources >> i & 1 && i != to && EPISODE_RULE(PASSED)) {
            tell(g, to, i, s->source[i]);
        }
    }
    s->granted &= ~line;
    s->unemitted &= ~line;
    s->wanted |= line;
}

static bool holds(const GuestLine *line, unsigned i)
{
    return line->owner == i || line->sharers >> i & 1;
}

/* Let @holder lose the line, or its right to write it; order @to after it. */
static void take(Guest *g, unsigned to, unsigned holder, GuestLine *line, bool is_write)
{
    Position s = position_to_give(g, holder, line->behind[holder]);
    uint32_t bit = 1u << (line - g->line);

    tell(g, to, holder, s);
    if (g->stream[holder].granted & bit) {
        /* The last writer is still the one before @holder. */
        pass(g, to, holder, bit);
        line->owner = line->owner == holder ? NOBODY : line->owner;
        line->sharers &= ~(1u << holder);
    } else if (line->owner == holder) {
        line->owner = NOBODY;
        line->writer = holder;
        line->written = s;
        line->sharers = !is_write && one_in(g, 2) ? 1u << holder : 0;
    }
    line->sharers &= is_write ? ~(1u << holder) : ~0u;
}

static bool can_take_all(const Guest *g, unsigned to, const GuestLine *line, bool is_write)
{
    for (unsigned i = 0; i < g->n_streams; i++) {
        if (i != to && (is_write ? holds(line, i) : line->owner == i) && !can_give(g, i, line)) {
            return false;
        }
    }
    return true;
}

/* Let @to have the line, and tell all that it must come after.  Return false if it must wait. */
static bool acquire(Guest *g, unsigned to, GuestLine *line, bool is_write)
{
    unsigned writer = line->writer;

    if (line->owner == to || (!is_write && holds(line, to))) {
        return true;
    }
    if (!can_take_all(g, to, line, is_write)) {
        return false;
    }
    if (writer != NOBODY && writer != to) {
        tell(g, to, writer, position_to_give(g, writer, line->written));
    }
    for (unsigned i = 0; i < g->n_streams; i++) {
        if (i != to && (is_write ? holds(line, i) : line->owner == i)) {
            take(g, to, i, line, is_write);
        }
    }
    if (is_write) {
        line->owner = to;
        line->sharers = 0;
    } else {
        line->sharers |= 1u << to;
    }
    g->stream[to].unemitted |= 1u << (line - g->line);
    return true;
}

static void note_access(Guest *g, unsigned i, unsigned l, bool is_write)
{
    GuestLine *line = &g->line[l];
    GuestAccess a = { i, l, g->stream[i].position, is_write,
                      line->writes + (is_write ? line->reads : 0) };

    g_array_append_val(g->record->accesses, a);
    line->writes += is_write;
    line->reads += !is_write;
}

/* --- what a stream does ------------------------------------------------------------------- */

static void choose_accesses(Guest *g, unsigned i)
{
    GuestStream *s = &g->stream[i];

    s->wanted = 1u << random_below(&g->random, g->n_lines);
    if (one_in(g, 4)) {
        s->wanted |= 1u << random_below(&g->random, g->n_lines);
    }
    s->written = random_next(&g->random);
}

/* P2 and P3: the floor may be any position from the last one, or what was given, to the present. */
static void move_floor(Guest *g, unsigned i)
{
    GuestStream *s = &g->stream[i];
    Position least = MAX(s->floor, s->given);

    s->floor = least + random_below(&g->random, s->position - least + 1);
    if (one_in(g, 2)) {
        s->floor = s->position;
    }
}

/* Acquire lines that the next step needs.  Return true if it has all. */
static bool acquire_wanted(Guest *g, unsigned i)
{
    GuestStream *s = &g->stream[i];

    for (unsigned l = 0; l < GUEST_LINES; l++) {
        if (s->wanted >> l & 1 && acquire(g, i, &g->line[l], s->written >> l & 1)) {
            s->wanted &= ~(1u << l);
            s->granted |= 1u << l;
            if (one_in(g, 4)) {
                return false;   /* others go on meanwhile */
            }
            if (one_in(g, 2)) {
                move_floor(g, i);
                emit(g, i);
            }
        }
    }
    return !s->wanted;
}

/* Make the step with its accesses; or give it up, so that its lines are held but unused. */
static void end_step(Guest *g, unsigned i, bool abandon)
{
    GuestStream *s = &g->stream[i];

    for (unsigned l = 0; l < GUEST_LINES; l++) {
        if (s->granted >> l & 1) {
            Position *behind = &g->line[l].behind[i];

            if (!abandon) {
                note_access(g, i, l, s->written >> l & 1);
                *behind = s->position + 1;
            } else {
                *behind = MAX(*behind, EPISODE_RULE(STEP) ? MAX(s->floor, s->ordered) : s->floor);
            }
        }
    }
    s->granted = s->wanted = 0;
    if (!abandon) {
        step(g, i);
    }
}

static void go_on(Guest *g, unsigned i)
{
    GuestStream *s = &g->stream[i];
    bool has_all;

    if (!s->wanted && !s->granted) {
        choose_accesses(g, i);
    }
    has_all = acquire_wanted(g, i);
    if (has_all || one_in(g, 4)) {
        move_floor(g, i);
        emit(g, i);
        end_step(g, i, !has_all || one_in(g, 4));
    }
}

/* Bring a stream to a boundary at which it may be stopped. */
static void settle(Guest *g, unsigned i)
{
    GuestStream *s = &g->stream[i];

    if (s->sources || s->granted) {
        move_floor(g, i);
        emit(g, i);
        end_step(g, i, true);
    }
    s->wanted = 0;
    while (s->position < s->ordered) {
        step(g, i);
    }
}

static void cut(Guest *g)
{
    for (unsigned i = 0; i < g->n_streams; i++) {
        settle(g, i);
    }
    for (unsigned i = 0; i < g->n_streams; i++) {
        if (g->order == GUEST_RERUN) {
            rerun_end_episode(&g->rerun[i], g->stream[i].position);
        } else {
            karma_cut(&g->karma[i], g->stream[i].position);
        }
        g->stream[i].given = g->stream[i].position;
        collect(g, i);
    }
    g->n_cuts++;
}

/* An owner that is not asked gives up its line. */
static void give_back(Guest *g, GuestLine *line)
{
    unsigned owner = line->owner;

    if (owner != NOBODY && can_give(g, owner, line) &&
        !(g->stream[owner].granted >> (line - g->line) & 1)) {
        line->written = position_to_give(g, owner, line->behind[owner]);
        line->writer = owner;
        line->owner = NOBODY;
    }
}

static void act(Guest *g)
{
    unsigned i = random_below(&g->random, g->n_streams);
    GuestStream *s = &g->stream[i];

    switch (random_below(&g->random, 24)) {
    case 0:
        end_episode(g, i, s->position);
        break;
    case 1:
        flush(g, i);
        break;
    case 2:
        give_back(g, &g->line[random_below(&g->random, g->n_lines)]);
        break;
    case 3:
        if (!s->granted) {
            step(g, i);
        }
        break;
    case 4:
        if (one_in(g, 8)) {
            cut(g);
        }
        break;
    default:
        go_on(g, i);
    }
}

/* --- a record ------------------------------------------------------------------------------ */

static void choose_options(Guest *g)
{
    Position max = one_in(g, 2) ? 0 : 1 + random_below(&g->random, 8);

    g->n_streams = 2 + random_below(&g->random, GUEST_STREAMS - 1);
    g->n_lines = 1 + random_below(&g->random, GUEST_LINES);
    g->exact = one_in(g, 3);
    g->present = one_in(g, 3);
    g->rerun_options = (RerunOptions) { g->n_streams, max };
    g->karma_options = (KarmaOptions) {
        .n_streams = g->n_streams, .max = max, .extend = !one_in(g, 4),
        .slack = one_in(g, 2) ? 0 : 1 + random_below(&g->random, 8),
        .reduction = one_in(g, 2) ? KARMA_REDUCTION_PAPER : KARMA_REDUCTION_VECTOR,
    };
}

static GuestRecord *record_new(const Guest *g)
{
    GuestRecord *record = g_new0(GuestRecord, 1);

    record->order = g->order;
    record->n_streams = g->n_streams;
    record->accesses = g_array_new(false, false, sizeof(GuestAccess));
    for (unsigned i = 0; i < g->n_streams; i++) {
        record->episodes[i] = g_array_new(false, false, sizeof(GuestEpisode));
    }
    return record;
}

static Guest *guest_new(GuestOrder order, uint64_t seed)
{
    Guest *g = g_new0(Guest, 1);

    g->random = seed;
    g->order = order;
    choose_options(g);
    g->record = record_new(g);
    for (unsigned i = 0; i < g->n_streams; i++) {
        karma_init(&g->karma[i], i, &g->karma_options);
        rerun_init(&g->rerun[i], i, &g->rerun_options);
    }
    for (unsigned l = 0; l < g->n_lines; l++) {
        g->line[l].owner = g->line[l].writer = NOBODY;
    }
    return g;
}

GuestRecord *guest_record(GuestOrder order, uint64_t seed)
{
    g_autofree Guest *g = guest_new(order, seed);

    for (unsigned n = 10 + random_below(&g->random, 150); n > 0; n--) {
        act(g);
    }
    cut(g);
    for (unsigned i = 0; i < g->n_streams; i++) {
        g->record->end[i] = g->stream[i].position;
        karma_clear(&g->karma[i]);
        rerun_clear(&g->rerun[i]);
    }
    return g->record;
}

void guest_record_free(GuestRecord *record)
{
    g_array_unref(record->accesses);
    for (unsigned i = 0; i < record->n_streams; i++) {
        g_array_unref(record->episodes[i]);
    }
    g_free(record);
}
