/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rules of the protocol, each with what it demands.  docs/design/overview.md names the
 * invariants that rest on each rule, docs/design/protocol.md the place where each is kept.
 * The terms are those of sphere.h and copies.c.
 *
 * Code that keeps a rule asks for SPHERE_RULE(name), which is constant and true here.  Some rules
 * bind the caller of the sphere instead: the recorder and the player in QEMU, and the simulated
 * vCPUs of tests/protocol/model.  broken-rule.h there makes one rule false, to show that the tester
 * notices.
 */
#ifndef PROTOCOL_RULES_H
#define PROTOCOL_RULES_H

#define RULES(rule) \
    rule(ORDERED, "an abandoned step that acquired a line counts as a step") \
    rule(RESERVE, "the first requester of a line reserves it") \
    rule(TAKE_ARC, "a taker is ordered after the holder from which it takes a line") \
    rule(WRITER_ARC, "a processor that is granted a line is ordered after the line's last writer") \
    rule(PASS_ARCS, "a requester that passes a reserver is ordered after the reserver's sources") \
    rule(OLD_IMPLIES_NOTHING, "an old position of a source implies no other sources") \
    rule(HELD_BACK, "no arc is moved to before a position that has been published") \
    rule(DROP_TABLE, "a store to a table word makes other table users drop translations") \
    rule(DROP_CODE, "a store to code makes other code users forget their code") \
    rule(LEAVE_CODE, "a code user stores unseen to its page only after it has forgotten the code") \
    rule(PROTECT, "a processor that makes copies of a page has no write bits there") \
    rule(DEPOSIT, "a change of a table page is ordered after the page's former table users") \
    rule(LEFT_AT_READ, "a read that returns a write bit is ordered after former table users, too") \
    rule(LEFT_IS_EVENT, "a processor that drops all translations by itself logs that for replay") \
    rule(DROPS_TAKEN, "a processor drops translations that others changed before its next step") \
    rule(REPLAY_DROPS, "replay drops translations where recording did") \
    rule(REPLAY_WAITS_FIRST, "replay walks page tables only after all waits of the step") \
    rule(FAULT_IS_STEP, "a fault is a step") \
    rule(FAULT_COUNTED_FIRST, "a fault in an exclusive step is counted before other vCPUs run") \
    rule(FAULT_COUNTED_ONCE, "a fault is not counted again if its delivery is abandoned") \
    rule(PUSHES_FIRST, "a delivery owns all lines that it pushes to before its first push") \
    rule(REGISTERS_LAST, "a delivery changes registers only after its last access to memory") \
    rule(INTERRUPT_LOGGED_LAST, "an interrupt is logged after its delivery, behind its waits") \
    rule(INTERRUPT_KEPT, "an interrupt stays with its vCPU until its delivery has been made") \
    rule(REDELIVERED_FIRST, "a delivery that was abandoned is made before any other step") \
    rule(EXCLUSIVE_DELIVERS, "an exclusive step is the delivery that was abandoned, if any") \
    rule(MAP_AFTER_ALL, "a change of the memory map is ordered after all that other vCPUs did") \
    rule(MAP_BEFORE_ALL, "other vCPUs are ordered after a change of the memory map") \
    rule(OWN_ALL_FIRST, "an instruction owns all its lines before its first store") \
    rule(ALL_AT_FIRST_MISS, "of several stores to one line, the first that misses requests all") \
    rule(TWO_PAGES_ALONE, "stores to two pages, of which one has no write bits, run exclusively") \
    rule(NO_MIGRATION, "no line of a page with copies migrates") \
    rule(IN_HAND, "a store whose words are in hand does not ask table users again") \
    rule(IN_HAND_PASSES, "a store whose words are in hand does not wait behind a reservation") \
    rule(IN_HAND_STAYS, "words in hand stay in hand for the later stores of an instruction") \
    rule(OFFER_ARC, "a processor that takes an offered line is ordered after the offer") \
    rule(OFFER_SETTLED, "lines are offered only after a step has ended since the latest arc") \
    rule(OFFER_RETURNS, "a line that is taken back has the permission that it was offered with") \
    rule(CODE_STAYS, "a code user does not offer lines of its code") \
    rule(OFFERED_ONLY, "only offered lines are taken from a holder that runs on") \
    rule(USER_ARC, "a taker from user mode is ordered after the holder's entry to user mode") \
    rule(OPEN, "lines that user mode can reach are not taken from a processor in user mode") \
    rule(LEAVE_USER, "a processor leaves user mode before it accesses a closed page") \
    rule(LEAVE_AT_SYSCALL, "a vCPU in the kernel has left user mode at its next boundary") \
    rule(LEAVE_AT_DELIVERY, "a fault and a delivery leave user mode") \
    rule(LEAVE_AT_ACCESS, "an access of the kernel that user mode brings about leaves user mode") \
    rule(USER_OPENS, "a page is open before user mode has a translation of it") \
    rule(LEAVE_WAITS, "a processor that leaves user mode waits for who takes lines from it") \
    rule(WALKS_OPEN, "a page that user mode walks or runs code from is open") \
    rule(GOES_ON, "a store takes back only a write bit that was put aside") \
    rule(RUN_AT_GRANT, "a waiter runs from its grant on, so the line stays until it is used") \
    rule(LIMIT_EPISODES, "an episode of the largest size ends at a boundary") \
    rule(FLUSH_AT_REST, "others flush the episodes only of a processor that rests") \
    rule(CUT_AT_REST, "episodes are cut only while all processors rest") \
    rule(CUT_ALL, "at a cut, the episodes of all processors end") \
    rule(REPLAY_MEETS, "replay goes behind a cut only when all streams have come to it")

typedef enum SphereRule {
    RULE_NONE,
#define RULE_ENUM(name, text) RULE_##name,
    RULES(RULE_ENUM)
#undef RULE_ENUM
} SphereRule;

/* Return true, unless the tester breaks the rule.  A name that is not in RULES does not compile. */
#ifndef SPHERE_RULE
#define SPHERE_RULE(name) (RULE_##name != RULE_NONE)
#endif

#endif
