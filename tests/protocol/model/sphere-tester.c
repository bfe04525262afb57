/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records and replays a small random guest for each seed, and ends at the first seed whose log does
 * not order all conflicting accesses, or whose replay differs.
 *
 *   sphere-tester [--order ORDER] [--first SEED] [--seeds N] [--seconds S] [--print]
 *                 [--break RULE] [--rules]
 *
 * --order is fdr, karma, karma:MAX, rerun, rerun:MAX; all, which is the default; or any, which lets
 * each seed draw some of them.  Each order that is recorded is checked and replayed by itself.  But
 * if one demands that a step ends before a line is given away, all have that step; so each order
 * must also be recorded alone.
 *
 * --break switches one rule of the protocol off.  Then the exit status is 0 if a seed fails, which
 * shows that the tester would notice.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/protocol/model/broken-rule.h"
#include "tests/protocol/model/recording.h"

#define REPLAYS 3

int broken_rule;

int broken_episode_rule;

static const struct {
    const char *name, *text;
    int number, *broken;
} rules[] = {
#define RULE_NAME(name, text) { #name, text, RULE_##name, &broken_rule },
    RULES(RULE_NAME)
#define EPISODE_RULE_NAME(name, text) \
    { #name, text, EPISODE_RULE_##name, &broken_episode_rule },
    EPISODE_RULES(EPISODE_RULE_NAME)
};

/* Rules of episodes that bind their caller.  The sphere has them as PASS_ARCS and ORDERED. */
#define N_RULES (G_N_ELEMENTS(rules) - 2)
G_STATIC_ASSERT(EPISODE_RULE_PASSED == EPISODE_N_RULES - 2);
G_STATIC_ASSERT(EPISODE_RULE_STEP == EPISODE_N_RULES - 1);

static const char *const order_names[RACE_ORDERS] = { "fdr", "karma", "rerun" };
static Orders orders = {
    .set = (1 << RACE_ORDERS) - 1, .max = { MAX_OF_SEED, MAX_OF_SEED, MAX_OF_SEED },
};

static SphereCounts totals;
static ModeCounts modes;
static uint64_t n_karma, n_edges, n_relays, n_again, n_rerun;
static bool print;

static void count_episode(const KarmaClosed *e)
{
    n_karma++;
    n_edges += __builtin_popcount(e->succ);
    n_relays += e->begin == e->end;
    for (unsigned i = 0; i < MAX_PROCESSORS; i++) {
        n_again += e->again[i];
    }
}

static void count_episodes(const Recording *recording)
{
    for (unsigned i = 0; i <= recording->n_vcpus; i++) {
        const GArray *karma = recording->stream[i].episodes[RACE_KARMA];

        for (unsigned k = 0; k < karma->len; k++) {
            const LoggedEpisode *e = &g_array_index(karma, LoggedEpisode, k);

            if (!e->cut) {
                count_episode(&e->e);
            }
        }
        n_rerun += recording->stream[i].episodes[RACE_RERUN]->len - recording->n_cuts;
    }
}

static char *check_vcpus(const Recording *recording)
{
    for (unsigned i = 0; i < recording->n_vcpus; i++) {
        if (recording->stream[i].waited_twice) {
            return g_strdup_printf("vCPU %u waited twice for one access", i);
        }
        if (recording->stream[i].torn) {
            return g_strdup_printf("vCPU %u abandoned a step between two stores", i);
        }
        if (recording->stream[i].unasked) {
            return g_strdup_printf("vCPU %u took an interrupt that it had masked", i);
        }
        if (recording->stream[i].taken != recording->stream[i].delivered) {
            return g_strdup_printf("vCPU %u lost an interrupt", i);
        }
    }
    return NULL;
}

/* Check and replay one order.  Return NULL, or what went wrong, to be freed by the caller. */
static char *test_order(const Recording *recording, RaceOrder order, uint64_t seed)
{
    char *trouble = order == RACE_FDR ? NULL : recording_check_episodes(recording, order);

    if (!trouble) {
        trouble = recording_check_order(recording, order);
    }
    for (unsigned i = 0; i < REPLAYS && !trouble; i++) {
        trouble = recording_replay(recording, order, NULL, seed * REPLAYS + i);
    }
    for (unsigned i = 0; i < recording->n_cuts && !trouble; i++) {
        trouble = recording_replay(recording, order, &recording->cut[i], seed * REPLAYS + i);
    }
    return trouble;
}

static char *test_orders(const Recording *recording, uint64_t seed)
{
    for (RaceOrder order = 0; order < RACE_ORDERS; order++) {
        g_autofree char *trouble = NULL;

        if (orders_has(&recording->orders, order)) {
            trouble = test_order(recording, order, seed);
        }
        if (trouble) {
            if (print) {
                recording_print(recording, order);
            }
            return g_strdup_printf("%s: %s", order_names[order], trouble);
        }
    }
    return NULL;
}

/* Return NULL, or what went wrong, to be freed by the caller. */
static char *test_seed(uint64_t seed)
{
    Recording *recording = recording_make(seed, &orders);
    char *trouble;

    if (!recording) {
        return g_strdup("recording hangs");
    }
    trouble = check_vcpus(recording);
    if (!trouble) {
        trouble = test_orders(recording, seed);
    }
    recording_add_counts(&totals, &recording->counts, sizeof(totals));
    recording_add_counts(&modes, &recording->modes, sizeof(modes));
    count_episodes(recording);
    recording_free(recording);
    return trouble;
}

/* Handle SIGABRT: an assertion of the sphere has noticed the broken rule. */
static void assertion_failed(int signal G_GNUC_UNUSED)
{
    _Exit(0);
}

static void break_rule(const char *name)
{
    for (unsigned i = 0; i < N_RULES; i++) {
        if (!strcmp(rules[i].name, name)) {
            *rules[i].broken = rules[i].number;
            signal(SIGABRT, assertion_failed);
            return;
        }
    }
    fprintf(stderr, "sphere-tester: no rule is called %s; --rules lists them\n", name);
    exit(2);
}

static void choose_order(const char *name)
{
    g_auto(GStrv) parts = g_strsplit(name, ":", 2);

    for (RaceOrder order = 0; order < RACE_ORDERS; order++) {
        if (!strcmp(parts[0], order_names[order])) {
            orders.set = 1 << order;
            orders.max[order] = parts[1] ? strtoull(parts[1], NULL, 0) : MAX_OF_SEED;
            return;
        }
    }
    orders.set = strcmp(name, "any") ? orders.set : 0;
    if (strcmp(name, "all") && strcmp(name, "any")) {
        fprintf(stderr, "sphere-tester: no order is called %s\n", name);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    uint64_t first = 1, n = 1000, done = 0;
    double seconds = 1e9;
    int64_t start = g_get_monotonic_time();
    g_autofree char *trouble = NULL;

    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";

        if (!strcmp(argv[i], "--print")) {
            print = true;
        } else if (!strcmp(argv[i], "--rules")) {
            for (unsigned k = 0; k < N_RULES; k++) {
                printf("%s\t%s\n", rules[k].name, rules[k].text);
            }
            return 0;
        } else if (!strcmp(argv[i], "--first")) {
            first = strtoull(value, NULL, 0);
            i++;
        } else if (!strcmp(argv[i], "--seeds")) {
            n = strtoull(value, NULL, 0);
            i++;
        } else if (!strcmp(argv[i], "--seconds")) {
            seconds = strtod(value, NULL);
            i++;
        } else if (!strcmp(argv[i], "--break")) {
            break_rule(value);
            i++;
        } else if (!strcmp(argv[i], "--order")) {
            choose_order(value);
            i++;
        } else {
            fprintf(stderr, "sphere-tester: unknown option %s\n", argv[i]);
            return 2;
        }
    }
    while (!trouble && done < n && g_get_monotonic_time() - start < seconds * 1e6) {
        trouble = test_seed(first + done++);
    }
    printf("%" PRIu64 " seeds: %" PRIu64 " misses, %" PRIu64 " local, %" PRIu64 " taken, %" PRIu64
           " asked, %" PRIu64 " abandoned, %" PRIu64 " exclusive, %" PRIu64 " pages moved, %" PRIu64
           " migratory, %" PRIu64 " drops, %" PRIu64 " code left, %" PRIu64 " leases, %" PRIu64
           " ended early, %" PRIu64 " gave way\n", done, totals.misses,
           totals.local, totals.taken, totals.asked, totals.abandoned, totals.exclusive,
           totals.pages_moved, totals.migratory, totals.drops, totals.code_left,
           totals.leases, totals.leases_ended, totals.gave_way);
    printf("Karma: %" PRIu64 " episodes, %" PRIu64 " edges, %" PRIu64 " relays, %" PRIu64
           " counted again; Rerun: %" PRIu64 " episodes\n", n_karma, n_edges, n_relays, n_again,
           n_rerun);
    printf("x86: %" PRIu64 " interrupts, %" PRIu64 " exceptions, %" PRIu64 " nested, %" PRIu64
           " deliveries abandoned, %" PRIu64 " exclusive, %" PRIu64 " entries to the kernel, "
           "%" PRIu64 " maps\n", modes.interrupts, modes.exceptions, modes.nested, modes.abandoned,
           modes.exclusive, modes.entries, modes.maps);
    if (trouble) {
        printf("seed %" PRIu64 ": %s\n", first + done - 1, trouble);
    }
    fflush(stdout);
    /* Not exit(): a recording without progress has threads that still run. */
    _Exit(broken_rule || broken_episode_rule ? !trouble : !!trouble);
}
