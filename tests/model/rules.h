/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rules of the protocol that the tester can break, one at a time, to show that
 * it would notice.  SPHERE_RULE(name) in the sphere, and RULE(name) in the
 * tester, is false when that rule is broken.
 */
#ifndef TESTS_RULES_H
#define TESTS_RULES_H

#define RULES(rule) \
    rule(ORDERED, "an abandoned step that acquired something is a step") \
    rule(RESERVE, "the first asker reserves what it asks for") \
    rule(TAKE_ARC, "who takes a line comes after who held it") \
    rule(WRITER_ARC, "who gets a line comes after its last writer") \
    rule(PASS_ARCS, "who passes a reservation comes after what was taken for it") \
    rule(OLD_IMPLIES_NOTHING, "old sources imply nothing") \
    rule(DROP_TABLE, "who writes a table word makes others drop translations") \
    rule(DROP_CODE, "who writes code makes others forget theirs") \
    rule(LEAVE_CODE, "who writes to its own code may store unseen when it has forgotten it") \
    rule(PROTECT, "a page with copies has no write bits") \
    rule(DEPOSIT, "who left T comes before later changes") \
    rule(LEFT_AT_READ, "and before stores of who got a write bit with a read") \
    rule(LEFT_IS_EVENT, "who drops all translations by itself tells replay") \
    rule(DROPS_TAKEN, "translations are dropped before the next step") \
    rule(REPLAY_DROPS, "replay drops translations where recording did") \
    rule(REPLAY_WAITS_FIRST, "replay walks after all waits of the step") \
    rule(FAULT_IS_STEP, "a fault is a step") \
    rule(FAULT_COUNTED_FIRST, "a fault under exclusive execution is a step before others run") \
    rule(OWN_ALL_FIRST, "an instruction owns all its lines before its first store") \
    rule(ALL_AT_FIRST_MISS, "or its first store asks for all of them, if that is one line") \
    rule(TWO_PAGES_ALONE, "or it runs exclusively, if there are two and one has no write bits") \
    rule(NO_MIGRATION, "nothing migrates in a page with copies") \
    rule(IN_HAND, "a store that was granted need not ask again, be others in T") \
    rule(IN_HAND_PASSES, "nor wait behind who reserves what it has") \
    rule(IN_HAND_STAYS, "what is in hand stays so for the later stores of an instruction") \
    rule(READER_STAYS, "only who has written a line gives it back unasked") \
    rule(USER_ARC, "who takes from user mode comes after what the kernel did there") \
    rule(OPEN, "lines that user mode reaches are not taken from it") \
    rule(LEAVE_USER, "who needs others leaves user mode first") \
    rule(WALKS_OPEN, "what is walked in user mode is open") \
    rule(GOES_ON, "only who has put its write bit aside takes it back") \
    rule(RUN_AT_GRANT, "nobody takes back what was granted before it was used")

enum {
    RULE_NONE,
#define RULE_ENUM(name, text) RULE_##name,
    RULES(RULE_ENUM)
};

extern int broken_rule;

#define RULE(name) (broken_rule != RULE_##name)
#define SPHERE_RULE(name) RULE(name)

#endif
