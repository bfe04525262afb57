/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See karma-episodes.h.  P1 to P5 are the caller's promises there.
 *
 * Why there is no cycle.  Edges follow no clock: an edge leads to the begin of an episode, which
 * may lie before the moment at which the edge is made.  Only the times prevent cycles (section
 * 3.2).
 *
 * T1. Times grow along a stream: an episode begins with a later time than the one before it has,
 *     and the time of an episode that has ended does not change.
 * T2. The time of an edge's target is later than that of its source.  The source's time is fixed
 *     when the edge is made, since the source has a successor from then on.  karma_emit() puts the
 *     edge into an episode whose time is later: it raises the time of one without successors, or
 *     ends one with successors and begins another.
 *
 * Hence edges and program order together have no cycle.
 *
 * Why every pair is covered.  The edge leaves an episode of @from at or behind that with the step
 * s - 1, and by P3 it enters an episode of @to at or before that with the step f.  No edge is made
 * if there is a path already:
 *
 * - @to is in SUCC of the source or of a later episode: that edge entered an episode of @to that
 *   has begun, or will be emitted with this pair (section 4.3, Figure 5 a, b, d);
 * - the vector says so: it is made of edges and of vectors of their sources, hence of paths.  A
 *   vector may lack edges that its episode got later, so it must not decide about cycles;
 * - s was covered before;
 * - s does not lie behind the last cut (P5).
 *
 * All these rely on the source episode to reach up to s.  So an episode that was asked for s never
 * ends below s, even if no edge was made: P2 and @given.
 *
 * Why chains of pairs hold.  A stream that got a line and gives it away, unused, must pass on the
 * edges that came with it.  It gives a position behind its floor (P4), or at its floor if that lies
 * behind the begin of its episode.  Either way s lies behind the begin of the episode that the
 * edges entered, so the next edge leaves that episode or a later one.
 *
 * Why mentions pair.  Of the edges from j to i, each leaves a later episode than the one before: an
 * episode has one edge to i at most, and @last gets none once @now has one.  Their targets never
 * go back.  So the k-th mention of i at j and the k-th mention of j at i are one edge (section 4.3,
 * last paragraph).  An episode that gets two edges from j mentions j twice.
 */
#include "recording/karma-episodes.h"

#include "recording/episode-rules.h"

#define BIT(stream) (UINT32_C(1) << (stream))

KarmaOptions karma_options(unsigned n_streams, Position max)
{
    return (KarmaOptions) {
        .n_streams = n_streams, .max = max, .reduction = KARMA_REDUCTION_VECTOR, .extend = true,
        .slack = max ? MIN(KARMA_SLACK, (max + 1) / 2) : 0,
    };
}

void karma_init(KarmaStream *stream, unsigned index, const KarmaOptions *options)
{
    g_assert(options->n_streams <= KARMA_MAX_STREAMS && index < options->n_streams);
    *stream = (KarmaStream) { .stream = index, .options = options, .fresh = true };
    episode_queue_init(&stream->closed, sizeof(KarmaClosed));
}

void karma_clear(KarmaStream *stream)
{
    episode_queue_clear(&stream->closed);
}

bool karma_has_closed(const KarmaStream *stream)
{
    return episode_queue_any(&stream->closed);
}

bool karma_take_closed(KarmaStream *stream, KarmaClosed *closed)
{
    return episode_queue_pop(&stream->closed, closed);
}

unsigned karma_n_preds(const KarmaClosed *closed)
{
    unsigned n = __builtin_popcount(closed->pred);

    for (unsigned i = 0; i < KARMA_MAX_STREAMS; i++) {
        n += closed->again[i];
    }
    return n;
}

static void raise_vector(const KarmaStream *k, uint64_t *vector, const uint64_t *other)
{
    for (unsigned i = 0; i < k->options->n_streams; i++) {
        vector[i] = MAX(vector[i], other[i]);
    }
}

/* Return the streams from which edges wait to be emitted. */
static uint32_t waiting_edges(const KarmaStream *k)
{
    uint32_t set = 0;

    for (unsigned i = 0; i < k->options->n_streams; i++) {
        set |= k->told.edges[i] ? BIT(i) : 0;
    }
    return set;
}

/* --- the source: Figure 6 (a) ----------------------------------------------------------- */

/*
 * Return the episode that an edge from position @s leaves, NULL if none is needed.  Section 4.4
 * asks the filter: what was not touched in the present episode was touched in the one before it, or
 * earlier.
 */
static KarmaEpisode *episode_before(KarmaStream *from, Position s)
{
    if (s <= from->cut && EPISODE_RULE(BARRIER)) {
        return NULL;
    }
    if (s > from->now.begin && (EPISODE_RULE(LAST) || from->fresh)) {
        return &from->now;
    }
    return &from->last;
}

bool karma_is_covered(const KarmaStream *to, unsigned from, Position s)
{
    return s <= to->covered[from];
}

/* Return true if an edge from @e to @to would repeat a path that is known. */
static bool is_ordered(const KarmaStream *to, const KarmaStream *from, const KarmaEpisode *e)
{
    uint64_t known = MAX(to->known[from->stream], to->told.known[from->stream]);

    if ((e->succ | from->now.succ) & BIT(to->stream)) {
        return true;
    }
    return to->options->reduction == KARMA_REDUCTION_VECTOR && known > e->index;
}

static void add_edge(KarmaStream *to, const KarmaStream *from, KarmaEpisode *e)
{
    uint64_t *known = &to->told.known[from->stream];

    e->succ |= BIT(to->stream);
    to->told.edges[from->stream]++;
    to->told.need = MAX(to->told.need, e->time + 1);
    *known = MAX(*known, e->index + 1);
}

static void follow_episode(KarmaStream *to, KarmaStream *from, KarmaEpisode *e, Position s)
{
    bool is_now = e == &from->now;

    /* What comes before @e comes before @to's next step, even if the edge is an old one. */
    raise_vector(to, to->told.known, EPISODE_RULE(SNAPSHOT) ? e->before : from->now.before);
    if (is_ordered(to, from, e)) {
        return;
    }
    if (is_now && !e->succ) {
        from->gave = s;
    }
    add_edge(to, from, e);
    if (is_now && !from->options->extend) {
        karma_split(from, s);
    }
}

void karma_follow(KarmaStream *to, KarmaStream *from, Position s)
{
    KarmaEpisode *e;

    g_assert(to != from);
    if (karma_is_covered(to, from->stream, s)) {
        return;
    }
    to->covered[from->stream] = s;
    e = episode_before(from, s);
    if (!e) {
        return;
    }
    if (EPISODE_RULE(GIVEN)) {
        from->given = MAX(from->given, s);
    }
    follow_episode(to, from, e, s);
}

/* --- the end of an episode: section 4.4, last paragraph ---------------------------------- */

/* Return true if @last is a relay that no edge left: the log does not need it. */
static bool is_unused(const KarmaStream *k)
{
    return k->last.begin == k->now.begin && (!k->last.succ || !EPISODE_RULE(RELAY));
}

static void close_last(KarmaStream *k)
{
    KarmaClosed closed = {
        .index = k->last.index, .begin = k->last.begin, .end = k->now.begin,
        .pred = k->last.pred, .succ = k->last.succ, .time = k->last.time,
    };

    memcpy(closed.again, k->last.again, sizeof(closed.again));
    if (!is_unused(k)) {
        episode_queue_push(&k->closed, &closed);
    }
}

/* End the present episode.  It may be empty if no edge enters it. */
static void end_episode(KarmaStream *k, Position at)
{
    g_assert(at > k->now.begin || (at == k->now.begin && !k->now.pred));
    g_assert(at >= k->given);
    if (!k->fresh) {
        close_last(k);
    }
    k->fresh = false;
    k->last = k->now;
    k->now = (KarmaEpisode) {
        .index = k->last.index + 1, .begin = at, .time = k->last.time + 1,
    };
    memcpy(k->now.before, k->last.before, sizeof(k->now.before));
    k->now.before[k->stream] = k->now.index;
    k->given = at;
}

void karma_end_episode(KarmaStream *stream, Position at)
{
    g_assert(at > stream->now.begin);
    end_episode(stream, at);
}

/*
 * The steps from @at on have not been given, so they may form an episode of their own.  Edges that
 * entered the present episode stay with its first part, which the second follows.
 */
bool karma_split(KarmaStream *stream, Position at)
{
    if (at <= stream->now.begin || at < stream->given) {
        return false;
    }
    end_episode(stream, at);
    return true;
}

Position karma_limit(const KarmaStream *stream)
{
    const KarmaOptions *options = stream->options;
    Position limit = options->max ? stream->now.begin + options->max : UINT64_MAX;

    if (options->slack && stream->now.succ) {
        limit = MIN(limit, MAX(stream->gave + options->slack, stream->given));
    }
    return limit;
}

/* End episodes until @last is a relay: an empty episode that stands for all before it. */
bool karma_flush(KarmaStream *stream, Position at)
{
    if (at == stream->now.begin && stream->now.pred) {
        return false;
    }
    if (at > stream->now.begin) {
        end_episode(stream, at);
    }
    if (!stream->fresh && !is_unused(stream)) {
        end_episode(stream, at);
    }
    return true;
}

void karma_cut(KarmaStream *stream, Position at)
{
    g_assert(!waiting_edges(stream));
    if (!karma_flush(stream, at)) {
        g_assert_not_reached();
    }
    stream->fresh = true;
    stream->cut = at;
}

/* --- the target: Figure 6 (b) ------------------------------------------------------------ */

/* Return true if edges from the streams in @set to the step at @floor need another episode. */
static bool must_end(const KarmaStream *k, uint32_t set, Position floor)
{
    if (k->options->slack && floor - k->now.begin > k->options->slack) {
        return true;
    }
    if (EPISODE_RULE(TIME) && EPISODE_RULE(FROZEN) && k->now.succ &&
        k->told.need > k->now.time) {
        return true;            /* "to prevent cycles" */
    }
    return EPISODE_RULE(SECOND) && (k->now.pred & set);         /* Figure 5 (c) */
}

static void count_again(KarmaStream *k, uint32_t set)
{
    for (unsigned i = 0; i < k->options->n_streams; i++) {
        if (set & BIT(i)) {
            g_assert(k->now.again[i] < UINT16_MAX);
            k->now.again[i]++;
        }
    }
}

/* Let one edge from each stream in @set enter the present episode. */
static void enter(KarmaStream *k, uint32_t set)
{
    if (EPISODE_RULE(AGAIN) && EPISODE_RULE(SECOND)) {
        count_again(k, k->now.pred & set);
    }
    k->now.pred |= set;
    if (EPISODE_RULE(TIME) || !k->now.succ) {
        k->now.time = MAX(k->now.time, k->told.need);
    }
    for (unsigned i = 0; i < k->options->n_streams; i++) {
        k->told.edges[i] -= set >> i & 1;
    }
}

/*
 * An episode that begins at @floor cannot end there.  It has no successors then (P2), so its time
 * may be raised; and a stream that enters it twice is counted twice.
 */
static bool enter_edges(KarmaStream *k, Position floor)
{
    uint32_t set;
    bool any = false;

    while ((set = waiting_edges(k))) {
        if (floor > k->now.begin && must_end(k, set, floor)) {
            end_episode(k, floor);
        }
        enter(k, set);
        any = true;
    }
    return any;
}

static void forget_told(KarmaStream *k)
{
    for (unsigned i = 0; i < k->options->n_streams; i++) {
        k->told.known[i] = 0;
    }
    k->told.need = 0;
}

bool karma_emit(KarmaStream *to, Position floor)
{
    bool any;

    g_assert(floor >= to->given);
    any = enter_edges(to, floor);
    raise_vector(to, to->known, to->told.known);
    raise_vector(to, to->now.before, to->known);
    to->now.before[to->stream] = to->now.index;
    forget_told(to);
    /* Behind the begin, a step of this episode has been made: the edges are passed on. */
    return any && floor == to->now.begin;
}
