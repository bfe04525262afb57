/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rules of episodes (karma-episodes.c, rerun-episodes.c), each with what it demands.
 *
 * Code that keeps a rule asks for EPISODE_RULE(name), which is constant and true here.
 * tests/recording/episode-broken.h makes one rule false, to show that the random test notices.
 */
#ifndef RECORDING_EPISODE_RULES_H
#define RECORDING_EPISODE_RULES_H

#define EPISODE_RULES(rule) \
    rule(TIME, "an episode with successors ends before an edge that needs a later time") \
    rule(FROZEN, "the time of an episode with successors is not raised") \
    rule(SECOND, "a second edge from one stream ends the episode") \
    rule(AGAIN, "a second edge into an episode that cannot end is counted") \
    rule(LAST, "an edge leaves the last episode only if the present one made no step before it") \
    rule(GIVEN, "an episode does not end before a position that it has given") \
    rule(RELAY, "an empty episode with successors is logged") \
    rule(SNAPSHOT, "an edge carries the vector of its source, not that of a later episode") \
    rule(BARRIER, "no edge leads over a cut") \
    rule(CONFLICT, "in Rerun, an episode ends where it gives") \
    rule(LATER, "in Rerun, a receiver's time is later than the source's") \
    rule(PASSED, "a stream that passes another follows the sources of that one") \
    rule(STEP, "a stream makes a step after an edge into its next step, before it gives")

typedef enum EpisodeRule {
    EPISODE_RULE_NONE,
#define EPISODE_RULE_ENUM(name, text) EPISODE_RULE_##name,
    EPISODE_RULES(EPISODE_RULE_ENUM)
#undef EPISODE_RULE_ENUM
    EPISODE_N_RULES
} EpisodeRule;

/* Return true, unless the test breaks the rule. */
#ifndef EPISODE_RULE
#define EPISODE_RULE(name) (EPISODE_RULE_##name != EPISODE_RULE_NONE)
#endif

#endif
