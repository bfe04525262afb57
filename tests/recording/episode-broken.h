/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Breaks one of the rules of recording/episode-rules.h, to show that the random test notices. */
#ifndef TESTS_EPISODE_BROKEN_H
#define TESTS_EPISODE_BROKEN_H

#ifdef RECORDING_EPISODE_RULES_H
#error "EPISODE_RULE() has its usual meaning already: include this file first"
#endif

/* An EpisodeRule; EPISODE_RULE_NONE: all rules hold. */
extern int broken_episode_rule;

#define EPISODE_RULE(name) (broken_episode_rule != EPISODE_RULE_##name)

#include "recording/episode-rules.h"

#endif
