/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random guests (episode-guest.c) and the episodes of Karma and Rerun: each pair of conflicting
 * accesses is ordered, there is no cycle, wake-ups pair, and replays in random orders neither stop
 * nor find an access out of order.  A rule that is broken is noticed.
 */
#include <glib.h>
#include <string.h>

#include "recording/episode-path.h"
#include "recording/episode-rules.h"
#include "tests/protocol/model/random.h"
#include "tests/recording/episode-guest.h"

/* How many seeds are played, with -m slow, and until a broken rule must have been noticed. */
enum { SEEDS = 20000, SLOW_SEEDS = 2000000, MOST_SEEDS = 20000 };

int broken_episode_rule;

static GuestEpisode *episode(const GuestRecord *r, unsigned stream, unsigned n)
{
    return &g_array_index(r->episodes[stream], GuestEpisode, n);
}

/* --- the log by itself ---------------------------------------------------------------------- */

/* The episodes of a stream follow each other without a gap, and their times grow. */
static bool is_whole(const GuestRecord *r, unsigned stream)
{
    Position at = 0;

    for (unsigned n = 0; n < r->episodes[stream]->len; n++) {
        const GuestEpisode *e = episode(r, stream, n);

        if (e->e.begin != at || e->e.end < at || (e->e.end == at && e->e.pred) ||
            (n && e->e.time <= episode(r, stream, n - 1)->e.time)) {
            return false;
        }
        at = e->e.end;
    }
    return at == r->end[stream];
}

/* Return the number of the episode of @stream with the step at @position. */
static unsigned episode_of(const GuestRecord *r, unsigned stream, Position position)
{
    unsigned n = 0;

    while (episode(r, stream, n)->e.end <= position) {
        n++;
    }
    return n;
}

/* --- edges: the k-th mention there and the k-th here ------------------------------------------ */

/* Where the next mention of a stream is found. */
typedef struct Mention {
    unsigned n;                 /* episode */
    unsigned used;              /* of its mentions */
} Mention;

static unsigned mentions(const GuestEpisode *e, unsigned of, bool as_pred)
{
    if (as_pred) {
        return e->e.pred >> of & 1 ? 1u + e->e.again[of] : 0;
    }
    return e->e.succ >> of & 1;
}

/* Return the next episode of @stream that mentions @of, NULL if there is none. */
static GuestEpisode *next_mention(const GuestRecord *r, unsigned stream, unsigned of, bool as_pred,
                                  Mention *m)
{
    for (; m->n < r->episodes[stream]->len; m->n++, m->used = 0) {
        GuestEpisode *e = episode(r, stream, m->n);

        if (m->used < mentions(e, of, as_pred)) {
            m->used++;
            return e;
        }
    }
    return NULL;
}

/* Call @edge for each edge from @from to @to.  Return false if a mention lacks its other side. */
static bool for_edges(const GuestRecord *r, unsigned from, unsigned to,
                      bool (*edge)(const GuestEpisode *source, const GuestEpisode *target))
{
    Mention there = { 0 }, here = { 0 };
    GuestEpisode *source, *target;

    do {
        source = next_mention(r, from, to, false, &there);
        target = next_mention(r, to, from, true, &here);
        if (!source != !target || (source && !edge(source, target))) {
            return false;
        }
    } while (source);
    return true;
}

static bool is_sound_edge(const GuestEpisode *source, const GuestEpisode *target)
{
    return source->e.time < target->e.time && source->cuts == target->cuts;
}

static const char *check_log(const GuestRecord *r)
{
    for (unsigned i = 0; i < r->n_streams; i++) {
        if (!is_whole(r, i)) {
            return "an episode is lost, or times do not grow";
        }
        for (unsigned j = 0; j < r->n_streams; j++) {
            if (!for_edges(r, i, j, is_sound_edge)) {
                return "a wake-up without its other side, or with a time that does not grow";
            }
        }
    }
    return NULL;
}

/* --- every conflict is ordered ---------------------------------------------------------------- */

/* clock[i]: how many episodes of stream i come before an episode. */
typedef struct Clock {
    unsigned of[GUEST_STREAMS];
} Clock;

typedef struct Clocks {
    Clock *clock[GUEST_STREAMS];
    unsigned done[GUEST_STREAMS];       /* episodes of each stream that have a clock */
    Mention mention[GUEST_STREAMS][GUEST_STREAMS];      /* [from][to] */
} Clocks;

static void follow_clock(Clock *clock, const Clock *other, unsigned stream, unsigned n)
{
    for (unsigned i = 0; i < GUEST_STREAMS; i++) {
        clock->of[i] = MAX(clock->of[i], other->of[i]);
    }
    clock->of[stream] = MAX(clock->of[stream], n + 1);
}

/* Return the stream whose next episode has the least time: it is waited for by all others. */
static unsigned next_stream(const GuestRecord *r, const Clocks *c)
{
    unsigned least = GUEST_STREAMS;

    for (unsigned i = 0; i < r->n_streams; i++) {
        if (c->done[i] < r->episodes[i]->len &&
            (least == GUEST_STREAMS || episode(r, i, c->done[i])->e.time <
                                       episode(r, least, c->done[least])->e.time)) {
            least = i;
        }
    }
    return least;
}

static void set_clock(const GuestRecord *r, Clocks *c, unsigned stream)
{
    unsigned n = c->done[stream]++;
    const GuestEpisode *e = episode(r, stream, n);
    Clock *clock = &c->clock[stream][n];

    if (n) {
        follow_clock(clock, &c->clock[stream][n - 1], stream, n - 1);
    }
    for (unsigned i = 0; i < r->n_streams; i++) {
        for (unsigned k = mentions(e, i, true); k > 0; k--) {
            next_mention(r, i, stream, false, &c->mention[i][stream]);
            follow_clock(clock, &c->clock[i][c->mention[i][stream].n], i,
                         c->mention[i][stream].n);
        }
    }
}

/* Of a log that check_log() found sound: the order of times is one of its orders. */
static void find_clocks(const GuestRecord *r, Clocks *c)
{
    unsigned next;

    for (unsigned i = 0; i < r->n_streams; i++) {
        c->clock[i] = g_new0(Clock, r->episodes[i]->len + 1);
    }
    while ((next = next_stream(r, c)) != GUEST_STREAMS) {
        set_clock(r, c, next);
    }
}

static bool is_ordered(const GuestRecord *r, const Clocks *c, const GuestAccess *a,
                       const GuestAccess *b)
{
    unsigned na = episode_of(r, a->stream, a->position);
    unsigned nb = episode_of(r, b->stream, b->position);
    const GuestEpisode *ea = episode(r, a->stream, na), *eb = episode(r, b->stream, nb);

    if (ea->cuts != eb->cuts) {
        return ea->cuts < eb->cuts;
    }
    return r->order == GUEST_RERUN ? ea->e.time < eb->e.time
                                   : c->clock[b->stream][nb].of[a->stream] > na;
}

static bool is_conflict(const GuestAccess *a, const GuestAccess *b)
{
    return a->stream != b->stream && a->line == b->line && (a->is_write || b->is_write);
}

static const char *check_conflicts(const GuestRecord *r)
{
    Clocks c = { 0 };
    const GuestAccess *a = (GuestAccess *)r->accesses->data;
    const char *wrong = NULL;

    find_clocks(r, &c);
    for (unsigned j = 0; j < r->accesses->len; j++) {
        for (unsigned i = 0; i < j; i++) {
            if (is_conflict(&a[i], &a[j]) && !is_ordered(r, &c, &a[i], &a[j])) {
                wrong = "a conflict is not ordered";
            }
        }
    }
    for (unsigned i = 0; i < r->n_streams; i++) {
        g_free(c.clock[i]);
    }
    return wrong;
}

/* --- replay: Karma's Figure 7; for Rerun, all episodes of one time together ---------------- */

typedef struct Replay {
    const GuestRecord *r;
    uint64_t random;
    Position position[GUEST_STREAMS];
    unsigned n[GUEST_STREAMS];          /* the present episode, or the next one */
    bool begun[GUEST_STREAMS];
    unsigned wakes[GUEST_STREAMS][GUEST_STREAMS];       /* came and were not used: [from][to] */
    unsigned writes[GUEST_LINES], reads[GUEST_LINES];
    bool is_wrong;
} Replay;

static GuestEpisode *present_episode(const Replay *p, unsigned i)
{
    return p->n[i] < p->r->episodes[i]->len ? episode(p->r, i, p->n[i]) : NULL;
}

static bool can_begin(const Replay *p, unsigned stream)
{
    const GuestEpisode *e = present_episode(p, stream), *other;

    for (unsigned i = 0; i < p->r->n_streams; i++) {
        other = present_episode(p, i);
        if (other && (other->cuts < e->cuts ||
                      (p->r->order == GUEST_RERUN && other->cuts == e->cuts &&
                       other->e.time < e->e.time))) {
            return false;
        }
        if (p->wakes[i][stream] < mentions(e, i, true)) {
            return false;
        }
    }
    return true;
}

static void begin(Replay *p, unsigned stream)
{
    for (unsigned i = 0; i < p->r->n_streams; i++) {
        p->wakes[i][stream] -= mentions(present_episode(p, stream), i, true);
    }
    p->begun[stream] = true;
}

static void end(Replay *p, unsigned stream)
{
    for (unsigned i = 0; i < p->r->n_streams; i++) {
        p->wakes[stream][i] += mentions(present_episode(p, stream), i, false);
    }
    p->begun[stream] = false;
    p->n[stream]++;
}

static void replay_step(Replay *p, unsigned stream)
{
    const GArray *accesses = p->r->accesses;

    for (unsigned k = 0; k < accesses->len; k++) {
        const GuestAccess *a = &g_array_index(accesses, GuestAccess, k);

        if (a->stream == stream && a->position == p->position[stream]) {
            unsigned found = p->writes[a->line] + (a->is_write ? p->reads[a->line] : 0);

            p->is_wrong |= found != a->version;
            p->writes[a->line] += a->is_write;
            p->reads[a->line] += !a->is_write;
        }
    }
    p->position[stream]++;
}

/* Go on with @stream.  Return false if it waits, or is at its end. */
static bool advance(Replay *p, unsigned stream)
{
    const GuestEpisode *e = present_episode(p, stream);

    if (!e || (!p->begun[stream] && !can_begin(p, stream))) {
        return false;
    }
    if (!p->begun[stream]) {
        begin(p, stream);
    } else if (p->position[stream] == e->e.end) {
        end(p, stream);
    } else {
        replay_step(p, stream);
    }
    return true;
}

/* Let a random stream go on that can.  Return false if none can. */
static bool advance_any(Replay *p)
{
    unsigned first = random_below(&p->random, p->r->n_streams);

    for (unsigned k = 0; k < p->r->n_streams; k++) {
        if (advance(p, (first + k) % p->r->n_streams)) {
            return true;
        }
    }
    return false;
}

static const char *check_replay(const GuestRecord *r, uint64_t seed)
{
    Replay p = { .r = r, .random = seed };

    while (advance_any(&p)) {
    }
    for (unsigned i = 0; i < r->n_streams; i++) {
        if (present_episode(&p, i)) {
            return "a replay stopped";
        }
    }
    return p.is_wrong ? "a replay had an access out of order" : NULL;
}

/* --- all checks ------------------------------------------------------------------------------- */

/* The critical path is found, and is neither longer than all steps nor shorter than a stream. */
static const char *check_path(const GuestRecord *r)
{
    g_autoptr(KarmaPath) path = karma_path_new(r->n_streams);
    Position longest = 0;

    for (unsigned i = 0; i < r->n_streams; i++) {
        for (unsigned n = 0; n < r->episodes[i]->len; n++) {
            karma_path_add(path, i, &episode(r, i, n)->e);
        }
        longest = MAX(longest, r->end[i]);
    }
    return karma_path_meet(path) && karma_path_longest(path) >= longest &&
           karma_path_longest(path) <= karma_path_steps(path) ? NULL : "no critical path";
}

/* Check three replays, and nothing else: what a broken rule means in the end. */
static const char *check_replays(const GuestRecord *r, uint64_t seed)
{
    const char *wrong = NULL;

    for (unsigned k = 0; k < 3 && !wrong; k++) {
        wrong = check_replay(r, seed + k);
    }
    return wrong;
}

static const char *check_record(const GuestRecord *r, uint64_t seed)
{
    const char *wrong = check_log(r);

    wrong = wrong ? wrong : check_conflicts(r);
    wrong = wrong || r->order == GUEST_RERUN ? wrong : check_path(r);
    return wrong ? wrong : check_replays(r, seed);
}

static const char *check_all(GuestOrder order, uint64_t seed)
{
    g_autoptr(GuestRecord) r = guest_record(order, seed);
    g_autoptr(GuestRecord) converted = guest_convert(r, seed % 9);
    const char *wrong = check_record(r, seed);

    return wrong ? wrong : check_record(converted, seed);
}

static void all_rules_hold(const void *data)
{
    GuestOrder order = GPOINTER_TO_INT(data);

    broken_episode_rule = EPISODE_RULE_NONE;
    for (uint64_t seed = 1; seed <= (g_test_slow() ? SLOW_SEEDS : SEEDS); seed++) {
        const char *wrong = check_all(order, seed);

        if (wrong) {
            g_test_message("seed %" G_GUINT64_FORMAT ": %s", seed, wrong);
        }
        g_assert_null(wrong);
    }
}

static bool is_noticed(GuestOrder order)
{
    for (uint64_t seed = 1; seed <= MOST_SEEDS; seed++) {
        g_autoptr(GuestRecord) r = guest_record(order, seed);
        const char *wrong = check_replays(r, seed);

        if (wrong) {
            g_test_message("seed %" G_GUINT64_FORMAT ": %s", seed, wrong);
            return true;
        }
    }
    return false;
}

static void broken_rule_is_noticed(const void *data)
{
    broken_episode_rule = GPOINTER_TO_INT(data);
    if (broken_episode_rule < EPISODE_RULE_CONFLICT ||
        broken_episode_rule >= EPISODE_RULE_PASSED) {
        g_assert_true(is_noticed(GUEST_KARMA));
    }
    if (broken_episode_rule >= EPISODE_RULE_CONFLICT) {
        g_assert_true(is_noticed(GUEST_RERUN));
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/karma/random", GINT_TO_POINTER(GUEST_KARMA), all_rules_hold);
    g_test_add_data_func("/rerun/random", GINT_TO_POINTER(GUEST_RERUN), all_rules_hold);
#define ADD(name, text) \
    g_test_add_data_func("/broken/" #name, GINT_TO_POINTER(EPISODE_RULE_##name), \
                         broken_rule_is_noticed);
    EPISODE_RULES(ADD)
#undef ADD
    return g_test_run();
}
