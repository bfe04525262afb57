/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The worked examples of Karma (Basu, Bobba, Hill: ICS 2011), each number.  The texts of the paper
 * that we have lack the pictures.  So the accesses below are reconstructed: they satisfy every
 * sentence of the paper about its figure.
 *
 * The machine has infinite caches and exact filters, and each step is one access.  An access is
 * written as core, kind and block: "1RA" is a read of A by core 1; "0E" ends the episode of core 0,
 * as its bound would.  An episode is printed as its length, [PRED > SUCC].
 */
#include <glib.h>
#include <inttypes.h>
#include <string.h>

#include "recording/episode-path.h"
#include "recording/karma-episodes.h"
#include "recording/rerun-episodes.h"

enum { CORES = 5, BLOCKS = 128 };

/* What core has of a block: the position behind its last access, and whether it may write. */
typedef struct Copy {
    Position behind;            /* 0: none since it lost the block */
    bool dirty;                 /* it wrote the block, and no other core has written it since */
    bool owned;                 /* it writes without asking */
} Copy;

typedef struct Machine {
    KarmaOptions karma_options;
    RerunOptions rerun_options;
    KarmaStream karma[CORES];
    RerunStream rerun[CORES];
    Position position[CORES];
    Copy copy[BLOCKS][CORES];
} Machine;

static Machine *machine_new(bool extend, KarmaReduction reduction)
{
    Machine *m = g_new0(Machine, 1);

    m->karma_options = (KarmaOptions) { .n_streams = CORES, .extend = extend,
                                        .reduction = reduction };
    m->rerun_options = (RerunOptions) { .n_streams = CORES };
    for (unsigned i = 0; i < CORES; i++) {
        karma_init(&m->karma[i], i, &m->karma_options);
        rerun_init(&m->rerun[i], i, &m->rerun_options);
    }
    return m;
}

static void machine_free(Machine *m)
{
    for (unsigned i = 0; i < CORES; i++) {
        karma_clear(&m->karma[i]);
        rerun_clear(&m->rerun[i]);
    }
    g_free(m);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Machine, machine_free)

/* A filter knows whether the block was touched in the episode that began at @begin, no more. */
static Position filtered(const Machine *m, unsigned core, Position behind, Position begin)
{
    return behind > begin ? m->position[core] : behind;
}

/* A coherence reply from @from to @to: section 4.4. */
static void reply(Machine *m, unsigned to, unsigned from, Position behind)
{
    karma_follow(&m->karma[to], &m->karma[from],
                 filtered(m, from, behind, m->karma[from].now.begin));
    rerun_follow(&m->rerun[to], &m->rerun[from],
                 filtered(m, from, behind, m->rerun[from].begin));
}

static void miss(Machine *m, unsigned core, bool is_write, Copy *copies)
{
    for (unsigned i = 0; i < CORES; i++) {
        if (i != core && copies[i].behind && (is_write || copies[i].dirty)) {
            reply(m, core, i, copies[i].behind);
            copies[i].owned = false;
            copies[i] = is_write ? (Copy) { 0 } : copies[i];
        }
    }
    karma_emit(&m->karma[core], m->position[core]);
    rerun_emit(&m->rerun[core], m->position[core]);
}

static void access_block(Machine *m, unsigned core, bool is_write, Copy *copies)
{
    Copy *own = &copies[core];

    if (is_write ? !own->owned : !own->behind) {
        miss(m, core, is_write, copies);
    }
    own->behind = ++m->position[core];
    own->dirty |= is_write;
    own->owned |= is_write;
}

static void play(Machine *m, const char *accesses)
{
    g_auto(GStrv) tokens = g_strsplit(accesses, " ", 0);

    for (char **t = tokens; *t; t++) {
        unsigned core = (*t)[0] - '0';

        if ((*t)[1] == 'E') {
            karma_end_episode(&m->karma[core], m->position[core]);
            rerun_end_episode(&m->rerun[core], m->position[core]);
        } else {
            access_block(m, core, (*t)[1] == 'W', m->copy[(unsigned char)(*t)[2]]);
        }
    }
}

/* --- what comes out --------------------------------------------------------------------- */

static void print_set(GString *text, uint32_t set, const uint16_t *again)
{
    for (unsigned i = 0; i < CORES; i++) {
        for (unsigned n = set >> i & 1 ? 1 + (again ? again[i] : 0) : 0; n > 0; n--) {
            g_string_append_printf(text, "%u", i);
        }
    }
}

static void print_episode(GString *text, const KarmaClosed *e)
{
    g_string_append_printf(text, "%s%" PRIu64 "[", text->len ? " " : "", e->end - e->begin);
    print_set(text, e->pred, e->again);
    g_string_append_c(text, '>');
    print_set(text, e->succ, NULL);
    g_string_append_c(text, ']');
}

/* End the episodes of @core and compare them; add them to @path, if there is one. */
static void assert_karma(Machine *m, unsigned core, const char *expected, KarmaPath *path)
{
    g_autoptr(GString) text = g_string_new("");
    KarmaClosed closed;

    karma_cut(&m->karma[core], m->position[core]);
    while (karma_take_closed(&m->karma[core], &closed)) {
        print_episode(text, &closed);
        if (path) {
            karma_path_add(path, core, &closed);
        }
    }
    g_assert_cmpstr(text->str, ==, expected);
}

static void assert_rerun(Machine *m, unsigned core, const char *expected, RerunPath *path)
{
    g_autoptr(GString) text = g_string_new("");
    RerunClosed closed;

    rerun_end_episode(&m->rerun[core], m->position[core]);
    while (rerun_take_closed(&m->rerun[core], &closed)) {
        g_string_append_printf(text, "%s%" PRIu64 "@%" PRIu64, text->len ? " " : "",
                               closed.end - closed.begin, closed.time);
        rerun_path_add(path, &closed);
    }
    g_assert_cmpstr(text->str, ==, expected);
}

/* --- Figures 1 to 3 --------------------------------------------------------------------- */

static void play_figure_1(Machine *m)
{
    play(m, "2WX 3WY 0WA 0RB 1RA 1WE 3RX 2RY 0WC 0RE");
    for (unsigned i = 0; i < 39; i++) {
        play(m, "1Rp");
    }
    play(m, "0RB 2RY 3RX");
}

/*
 * Rerun (section 2.2).  E00 ends when C1 reads A, and E10 gets a later time.  E21 and E31 have one
 * time.  E20 is ordered with episodes of C0 and C1, which are independent of it.
 */
static void figure_1(void)
{
    g_autoptr(Machine) m = machine_new(true, KARMA_REDUCTION_PAPER);
    g_autoptr(RerunPath) path = rerun_path_new();

    play_figure_1(m);
    assert_rerun(m, 0, "2@0 3@2", path);
    assert_rerun(m, 1, "2@1 39@2", path);
    assert_rerun(m, 2, "1@0 2@2", path);
    assert_rerun(m, 3, "2@1 1@2", path);
    g_assert_cmpuint(rerun_path_idealised(path), ==, 2 + 2 + 39);
    g_assert_cmpuint(rerun_path_sequential(path), ==, 52);
}

/* Karma with Rerun's episodes (section 3.1): E20 has no path to or from C0 and C1. */
static void figure_2(void)
{
    g_autoptr(Machine) m = machine_new(false, KARMA_REDUCTION_PAPER);
    g_autoptr(KarmaPath) path = karma_path_new(CORES);

    play_figure_1(m);
    assert_karma(m, 0, "2[>1] 3[1>]", path);
    assert_karma(m, 1, "2[0>0] 39[>]", path);
    assert_karma(m, 2, "1[>3] 2[3>]", path);
    assert_karma(m, 3, "2[2>2] 1[>]", path);
    g_assert_true(karma_path_meet(path));
    g_assert_cmpuint(karma_path_longest(path), ==, 43);
    g_assert_cmpuint(karma_path_steps(path), ==, 52);
}

/*
 * Extended episodes (section 3.2).  One episode covers the 41 references of C1.  E01 begins with
 * the fourth reference of C0, and starts only after all 41: replay is less parallel.
 */
static void figure_3(void)
{
    g_autoptr(Machine) m = machine_new(true, KARMA_REDUCTION_PAPER);
    g_autoptr(KarmaPath) path = karma_path_new(CORES);

    play_figure_1(m);
    assert_karma(m, 0, "3[>1] 2[1>]", path);
    assert_karma(m, 1, "41[0>0]", path);
    assert_karma(m, 2, "1[>3] 2[3>]", path);
    assert_karma(m, 3, "3[2>2]", path);
    g_assert_true(karma_path_meet(path));
    g_assert_cmpuint(karma_path_longest(path), ==, 3 + 41 + 2);
}

/* --- Figure 5: second edges between two cores (section 4.3) -------------------------------- */

typedef struct Example {
    const char *accesses;
    const char *expected[3];    /* episodes of C0, C1, C2 */
    bool vector;
} Example;

static const Example figure_5[] = {
    /* (a), (b): the second reply has previouslyOrdered set. */
    { "0WA 0WB 1RA 1RB", { "2[>1]", "2[0>]", "" }, false },
    { "0WA 0WB 0E 0WC 1RA 1RB", { "2[>1] 1[>]", "2[0>]", "" }, false },
    /* (c): a second edge into one episode ends it. */
    { "0WA 1RA 0E 0WB 1RB", { "1[>1] 1[>1]", "1[0>] 1[0>]", "" }, false },
    /* (d): C1 is ordered after the present episode of C0 already. */
    { "0WA 1RA 0WC 1RC", { "2[>1]", "2[0>]", "" }, false },
    /* The paper makes an edge from C0 to C2, which the one through C1 implies. */
    { "0WA 1RA 1WD 2RD 2RA", { "1[>12]", "2[0>2]", "2[01>]" }, false },
    { "0WA 1RA 1WD 2RD 2RA", { "1[>1]", "2[0>2]", "2[1>]" }, true },
};

static void second_edges(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(figure_5); i++) {
        const Example *e = &figure_5[i];
        g_autoptr(Machine) m = machine_new(true, e->vector ? KARMA_REDUCTION_VECTOR :
                                                             KARMA_REDUCTION_PAPER);

        play(m, e->accesses);
        for (unsigned core = 0; core < 3; core++) {
            assert_karma(m, core, e->expected[core], NULL);
        }
    }
}

/* --- Figure 6: each branch of the algorithm ----------------------------------------------- */

/* Let core 0 have an episode [0, 3) before the present one, [3, 5). */
static Machine *machine_with_two(void)
{
    Machine *m = machine_new(true, KARMA_REDUCTION_PAPER);

    play(m, "0WA 0WB 0WC 0E 0WD 0WE");
    return m;
}

static void sending(void)
{
    g_autoptr(Machine) m = machine_with_two();
    KarmaStream *k = m->karma;

    /* The filter does not match: TS0 and SUCC0. */
    play(m, "1RA");
    g_assert_cmpuint(k[0].last.succ, ==, 1u << 1);
    g_assert_cmpuint(k[0].now.succ, ==, 0);
    g_assert_cmpuint(k[1].now.time, ==, k[0].last.time + 1);
    /* SUCC0 has the requester: previouslyOrdered. */
    play(m, "1RB");
    g_assert_cmpuint(k[1].told.edges[0], ==, 0);
    g_assert_cmpuint(k[1].now.index, ==, 0);
    /* The filter matches: TS1 and SUCC1. */
    play(m, "2RD");
    g_assert_cmpuint(k[0].now.succ, ==, 1u << 2);
    g_assert_cmpuint(k[2].now.time, ==, k[0].now.time + 1);
    /* SUCC1 has the requester: previouslyOrdered, whatever the filter says. */
    play(m, "2RA 2RE");
    g_assert_cmpuint(k[0].last.succ, ==, 1u << 1);
    assert_karma(m, 0, "3[>1] 2[>2]", NULL);
    assert_karma(m, 2, "3[0>]", NULL);
}

static void receiving(void)
{
    g_autoptr(Machine) m = machine_with_two();
    KarmaStream *k = m->karma;

    /* SUCC1 is empty: the episode goes on, with a later time. */
    play(m, "1Rp 1RD");
    g_assert_cmpuint(k[1].now.index, ==, 0);
    g_assert_cmpuint(k[1].now.time, ==, k[0].now.time + 1);
    /* SUCC1 is not empty, but the time is not greater than its own: the episode goes on. */
    play(m, "1WF 2RF 3WG 1RG");
    g_assert_cmpuint(k[1].now.index, ==, 0);
    /* The time is greater: the episode ends.  PRED has the source alone, SUCC is empty. */
    play(m, "2WH 1RH");
    g_assert_cmpuint(k[1].now.index, ==, 1);
    g_assert_cmpuint(k[1].now.pred, ==, 1u << 2);
    g_assert_cmpuint(k[1].now.succ, ==, 0);
    g_assert_cmpuint(k[1].now.time, ==, k[2].now.time + 1);
    /* PRED1 has the source: the episode ends. */
    play(m, "2E 2WI 1RI");
    g_assert_cmpuint(k[1].now.index, ==, 2);
    assert_karma(m, 1, "4[03>2] 1[2>] 1[2>]", NULL);
}

/*
 * The text compares "the message's timestamp" with the present episode's.  A time that is equal
 * must end the episode, too, or two such edges make a cycle.  So what is compared is the time that
 * the receiver would need: one more than the source's.
 */
static void equal_times(void)
{
    g_autoptr(Machine) m = machine_new(true, KARMA_REDUCTION_PAPER);

    play(m, "0WA 1WB 2RA 3RB 0WC 1WD");
    g_assert_cmpuint(m->karma[0].now.time, ==, m->karma[1].now.time);
    play(m, "0RD 1RC");
    assert_karma(m, 0, "2[>12] 1[1>]", NULL);
    assert_karma(m, 1, "2[>03] 1[0>]", NULL);
}

/* --- Figure 7: replay of Figure 5 (c) ----------------------------------------------------- */

/* Both wake-ups come before C1 begins; the second one waits for the second episode. */
static void early_wakes(void)
{
    g_autoptr(Machine) m = machine_new(true, KARMA_REDUCTION_PAPER);
    g_autoptr(KarmaPath) path = karma_path_new(CORES);

    play(m, "0WA 1RA 0E 0WB 1RB");
    assert_karma(m, 0, "1[>1] 1[>1]", path);
    g_assert_cmpuint(karma_path_longest(path), ==, 2);
    g_assert_false(karma_path_meet(path));
    assert_karma(m, 1, "1[0>] 1[0>]", path);
    g_assert_true(karma_path_meet(path));
    g_assert_cmpuint(karma_path_longest(path), ==, 3);
}

/* An episode that no other wakes stays where it is. */
static void lost_wake(void)
{
    g_autoptr(KarmaPath) path = karma_path_new(2);
    KarmaClosed waits = { .begin = 0, .end = 5, .pred = 1 };

    karma_path_add(path, 1, &waits);
    g_assert_cmpuint(karma_path_longest(path), ==, 0);
    g_assert_false(karma_path_meet(path));
}

/* At a cut all streams meet. */
static void path_of_cut(void)
{
    g_autoptr(KarmaPath) path = karma_path_new(2);
    KarmaClosed first = { .begin = 0, .end = 5 }, second = { .begin = 5, .end = 12 };
    KarmaClosed other = { .begin = 0, .end = 3 };

    karma_path_add(path, 0, &first);
    g_assert_true(karma_path_meet(path));
    karma_path_add(path, 0, &second);
    karma_path_add(path, 1, &other);
    g_assert_true(karma_path_meet(path));
    g_assert_cmpuint(karma_path_longest(path), ==, 12);
    g_assert_cmpuint(karma_path_steps(path), ==, 15);
}

static void rerun_path_of_cut(void)
{
    g_autoptr(RerunPath) path = rerun_path_new();
    RerunClosed short_one = { 0, 3, 7 }, long_one = { 0, 5, 7 };

    rerun_path_add(path, &short_one);
    rerun_path_add(path, &long_one);
    g_assert_cmpuint(rerun_path_idealised(path), ==, 5);
    rerun_path_meet(path);
    rerun_path_add(path, &short_one);
    g_assert_cmpuint(rerun_path_idealised(path), ==, 8);
    g_assert_cmpuint(rerun_path_sequential(path), ==, 11);
}

/* --- section 4.6: finite caches ------------------------------------------------------------ */

/*
 * C0 read A in an episode that has ended, and lost the block silently.  The acknowledgement comes
 * from its present episode: a later one than needed, which is allowed.  The same holds for a block
 * that was written back, and whose owner the directory still names.
 */
static void replaced_block(void)
{
    g_autoptr(Machine) m = machine_new(true, KARMA_REDUCTION_PAPER);

    play(m, "0RA 0E 0RB");
    karma_follow(&m->karma[1], &m->karma[0], m->position[0]);
    play(m, "1WA");
    assert_karma(m, 0, "1[>] 1[>1]", NULL);
    assert_karma(m, 1, "1[0>]", NULL);
}

/* C0 wrote A, C1 and C2 read it: both ask the last writer. */
static void last_writer(void)
{
    g_autoptr(Machine) m = machine_new(true, KARMA_REDUCTION_PAPER);

    play(m, "0WA 1RA 2RA");
    assert_karma(m, 0, "1[>12]", NULL);
    assert_karma(m, 1, "1[0>]", NULL);
    assert_karma(m, 2, "1[0>]", NULL);
}

/* Block 100 of C0 leaves the L2: core 4 is its proxy.  Later C1 is ordered after core 4. */
static void proxy_core(bool has_begun)
{
    g_autoptr(Machine) m = machine_new(true, KARMA_REDUCTION_VECTOR);
    unsigned proxy = 100 % 16;
    bool must_step;

    play(m, "0WA");
    if (has_begun) {
        play(m, "4RZ");
    }
    karma_follow(&m->karma[proxy], &m->karma[0], m->position[0]);
    must_step = karma_emit(&m->karma[proxy], m->position[proxy]);
    /* An empty episode cannot pass on the edge (P4). */
    g_assert_true(must_step == !has_begun);
    m->position[proxy] += must_step;
    karma_follow(&m->karma[1], &m->karma[proxy], m->position[proxy]);
    play(m, "1Rp");
    assert_karma(m, 0, "1[>4]", NULL);
    assert_karma(m, proxy, "1[0>1]", NULL);
    assert_karma(m, 1, "1[4>]", NULL);
}

static void evicted_block(void)
{
    proxy_core(true);
    proxy_core(false);
}

/* --- beyond the paper ----------------------------------------------------------------------- */

/*
 * A stream in user mode, since position 4, has given position 2 to C1.  At position 6 it gives to
 * C1 again, which makes no edge.  A taker that knows that all it needs lies before 4 must not split
 * the episode there: the steps 4 and 5 would come to lie behind the edge to C1.
 */
static void split_behind_what_was_given(void)
{
    g_autoptr(Machine) m = machine_new(true, KARMA_REDUCTION_PAPER);
    KarmaStream *k = m->karma;

    m->position[0] = 2;
    karma_follow(&k[1], &k[0], 2);
    karma_emit(&k[1], 0);
    m->position[1] = 1;
    m->position[0] = 6;
    g_assert_false(karma_split(&k[0], 1));
    karma_follow(&k[1], &k[0], 6);
    karma_emit(&k[1], 1);
    m->position[1] = 2;
    g_assert_false(karma_split(&k[0], 4));
    g_assert_true(karma_split(&k[0], 6));
    assert_karma(m, 0, "6[>1]", NULL);
    assert_karma(m, 1, "2[0>]", NULL);
}

/* A taker splits where user mode was entered, and waits for the first part alone. */
static void split_at_user_mode(void)
{
    g_autoptr(Machine) m = machine_new(true, KARMA_REDUCTION_PAPER);
    KarmaStream *k = m->karma;

    m->position[0] = 10;
    g_assert_true(karma_split(&k[0], 4));
    karma_follow(&k[1], &k[0], 4);
    karma_emit(&k[1], 0);
    m->position[1] = 1;
    assert_karma(m, 0, "4[>1] 6[>]", NULL);
    assert_karma(m, 1, "1[0>]", NULL);
}

/* What was flushed gets no more edges: an empty relay does.  Without an edge it is not logged. */
static void relay(void)
{
    g_autoptr(Machine) m = machine_new(true, KARMA_REDUCTION_PAPER);
    KarmaClosed closed;

    play(m, "0WA");
    g_assert_true(karma_flush(&m->karma[0], 1));
    g_assert_true(karma_take_closed(&m->karma[0], &closed));
    g_assert_cmpuint(closed.succ, ==, 0);
    g_assert_true(karma_flush(&m->karma[0], 1));
    g_assert_false(karma_take_closed(&m->karma[0], &closed));
    play(m, "1RA 0RB");
    assert_karma(m, 0, "0[>1] 1[>]", NULL);
    assert_karma(m, 1, "1[0>]", NULL);
}

/* One step misses twice, and its source moves on meanwhile: the edge is counted twice. */
static void counted_twice(void)
{
    g_autoptr(Machine) m = machine_new(true, KARMA_REDUCTION_PAPER);
    KarmaStream *k = m->karma;
    g_autoptr(KarmaPath) path = karma_path_new(CORES);

    play(m, "0WA");
    karma_follow(&k[1], &k[0], 1);
    g_assert_true(karma_emit(&k[1], 0));
    play(m, "0E 0WB");
    karma_follow(&k[1], &k[0], 2);
    g_assert_true(karma_emit(&k[1], 0));
    g_assert_false(karma_flush(&k[1], 0));
    m->position[1] = 1;
    assert_karma(m, 1, "1[00>]", path);
    assert_karma(m, 0, "1[>1] 1[>1]", path);
    g_assert_true(karma_path_meet(path));
    g_assert_cmpuint(karma_path_longest(path), ==, 3);
}

/* Nothing before a cut needs an edge behind it. */
static void cut(void)
{
    g_autoptr(Machine) m = machine_new(true, KARMA_REDUCTION_PAPER);

    play(m, "0WA");
    for (unsigned i = 0; i < CORES; i++) {
        assert_karma(m, i, i ? "" : "1[>]", NULL);
    }
    play(m, "1RA");
    assert_karma(m, 0, "", NULL);
    assert_karma(m, 1, "1[>]", NULL);
}

/* Ours: how many steps an edge may order beyond its pair, where it leaves and where it enters. */
static void slack(void)
{
    KarmaOptions options = karma_options(3, 4096);
    KarmaStream k[3];

    g_assert_cmpuint(options.slack, ==, KARMA_SLACK);
    g_assert_cmpuint(karma_options(3, 100).slack, ==, 50);
    g_assert_cmpuint(karma_options(3, 0).slack, ==, 0);
    for (unsigned i = 0; i < 3; i++) {
        karma_init(&k[i], i, &options);
    }
    g_assert_cmpuint(karma_limit(&k[0]), ==, 4096);
    karma_follow(&k[1], &k[0], 100);
    karma_follow(&k[2], &k[0], 200);            /* the first edge counts */
    g_assert_cmpuint(karma_limit(&k[0]), ==, 100 + KARMA_SLACK);
    karma_emit(&k[1], KARMA_SLACK);
    g_assert_cmpuint(k[1].now.begin, ==, 0);
    karma_emit(&k[2], KARMA_SLACK + 1);
    g_assert_cmpuint(k[2].now.begin, ==, KARMA_SLACK + 1);
    g_assert_cmphex(k[2].now.pred, ==, 1);
    karma_end_episode(&k[0], 100 + KARMA_SLACK);
    g_assert_cmpuint(karma_limit(&k[0]), ==, 100 + KARMA_SLACK + 4096);
    for (unsigned i = 0; i < 3; i++) {
        karma_clear(&k[i]);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/karma/figure-1-rerun", figure_1);
    g_test_add_func("/karma/figure-2", figure_2);
    g_test_add_func("/karma/figure-3", figure_3);
    g_test_add_func("/karma/figure-5", second_edges);
    g_test_add_func("/karma/figure-6-sending", sending);
    g_test_add_func("/karma/figure-6-receiving", receiving);
    g_test_add_func("/karma/equal-times", equal_times);
    g_test_add_func("/karma/figure-7", early_wakes);
    g_test_add_func("/karma/lost-wake", lost_wake);
    g_test_add_func("/karma/path-of-cut", path_of_cut);
    g_test_add_func("/rerun/path-of-cut", rerun_path_of_cut);
    g_test_add_func("/karma/replaced-block", replaced_block);
    g_test_add_func("/karma/last-writer", last_writer);
    g_test_add_func("/karma/evicted-block", evicted_block);
    g_test_add_func("/karma/split-behind-what-was-given", split_behind_what_was_given);
    g_test_add_func("/karma/split-at-user-mode", split_at_user_mode);
    g_test_add_func("/karma/relay", relay);
    g_test_add_func("/karma/counted-twice", counted_twice);
    g_test_add_func("/karma/cut", cut);
    g_test_add_func("/karma/slack", slack);
    return g_test_run();
}
