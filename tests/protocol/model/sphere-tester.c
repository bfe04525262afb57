/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records and replays a small random guest for each seed, and ends at the first seed whose log does
 * not order all conflicting accesses, or whose replay differs.
 *
 *   sphere-tester [--first SEED] [--seeds N] [--seconds S] [--print] [--break RULE] [--rules]
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

static const struct {
    const char *name, *text;
} rules[] = {
    { "NONE", "" },
#define RULE_NAME(name, text) { #name, text },
    RULES(RULE_NAME)
};

static SphereCounts totals;
static bool print;

static void add_totals(const SphereCounts *counts)
{
    uint64_t *to = (uint64_t *)&totals;

    for (unsigned i = 0; i < sizeof(*counts) / sizeof(*to); i++) {
        to[i] += ((const uint64_t *)counts)[i];
    }
}

static char *check_waits(const Recording *recording)
{
    for (unsigned i = 0; i < recording->n_vcpus; i++) {
        if (recording->stream[i].waited_twice) {
            return g_strdup_printf("vCPU %u waited twice for one access", i);
        }
        if (recording->stream[i].torn) {
            return g_strdup_printf("vCPU %u abandoned a step between two stores", i);
        }
    }
    return NULL;
}

/* Return NULL, or what went wrong, to be freed by the caller. */
static char *test_seed(uint64_t seed)
{
    Recording *recording = recording_make(seed);
    char *trouble;

    if (!recording) {
        return g_strdup("recording hangs");
    }
    trouble = check_waits(recording);
    if (!trouble) {
        trouble = recording_check_order(recording);
    }
    for (unsigned i = 0; i < REPLAYS && !trouble; i++) {
        trouble = recording_replay(recording, NULL, seed * REPLAYS + i);
    }
    for (unsigned i = 0; i < recording->n_cuts && !trouble; i++) {
        trouble = recording_replay(recording, &recording->cut[i], seed * REPLAYS + i);
    }
    if (trouble && print) {
        recording_print(recording);
    }
    add_totals(&recording->counts);
    recording_free(recording);
    return trouble;
}

/* Handle SIGABRT: an assertion of the sphere has noticed the broken rule. */
static void assertion_failed(int signal G_GNUC_UNUSED)
{
    _Exit(0);
}

static int find_rule(const char *name)
{
    for (unsigned i = 1; i < G_N_ELEMENTS(rules); i++) {
        if (!strcmp(rules[i].name, name)) {
            return i;
        }
    }
    fprintf(stderr, "sphere-tester: no rule is called %s; --rules lists them\n", name);
    exit(2);
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
            for (unsigned k = 1; k < G_N_ELEMENTS(rules); k++) {
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
            broken_rule = find_rule(value);
            signal(SIGABRT, assertion_failed);
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
    if (trouble) {
        printf("seed %" PRIu64 ": %s\n", first + done - 1, trouble);
    }
    fflush(stdout);
    /* Not exit(): a recording without progress has threads that still run. */
    _Exit(broken_rule ? !trouble : !!trouble);
}
