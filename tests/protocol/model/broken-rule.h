/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Breaks one of the rules of protocol/rules.h or recording/episode-rules.h, to show that the tester
 * would notice.
 *
 * RULE(name) in the tester is false for the broken rule.  So is SPHERE_RULE(name) in those files of
 * the sphere that are compiled with fiber-lock.h, which includes this file before protocol/rules.h,
 * and EPISODE_RULE(name) in the files with the rules of episodes.
 */
#ifndef TESTS_BROKEN_RULE_H
#define TESTS_BROKEN_RULE_H

#ifdef PROTOCOL_RULES_H
#error "SPHERE_RULE() has its usual meaning already: include this file before the sphere's"
#endif

/* A SphereRule; RULE_NONE: all rules hold. */
extern int broken_rule;

#define RULE(name) (broken_rule != RULE_##name)
#define SPHERE_RULE(name) RULE(name)

#include "protocol/rules.h"
#include "tests/recording/episode-broken.h"

#endif
