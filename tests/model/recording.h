/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A recording of the small guest: for each processor its steps, and what must
 * happen before which of them.  That is all that replay gets; what steps saw
 * is there for checking alone.
 */
#ifndef TESTS_RECORDING_H
#define TESTS_RECORDING_H

#include "tests/model/guest.h"

#define MAX_VCPUS 5
#define MAX_PROCESSORS (MAX_VCPUS + 1)

typedef enum EventKind {
    EVENT_WAIT,
    EVENT_DROP_WORD,
    EVENT_DROP_ALL,
    EVENT_DROP_CODE,
} EventKind;

typedef struct Event {
    EventKind kind;
    Position at;                /* before this step */
    unsigned from;
    uint64_t value;             /* source position, or offset of the word */
} Event;

typedef struct Step {
    bool nop;
    bool ends_nothing;          /* a broken rule: the position stays */
    uint64_t state;             /* of the vCPU, afterwards */
    uint32_t dma_offset;
    unsigned dma_size;
    unsigned first_seen, n_seen;
} Step;

typedef struct Stream {
    GArray *events;             /* Event */
    GArray *steps;              /* Step */
    GArray *seen;               /* Seen */
    bool waited_twice;          /* for one access: what it got was of no use */
} Stream;

typedef struct Recording {
    unsigned n_vcpus, n_insns;
    Insn *insns[MAX_VCPUS];
    Memory before, after;
    Stream stream[MAX_PROCESSORS];
    SphereCounts counts;        /* of all */
} Recording;

/* NULL if it hangs: the sphere's state was printed. */
Recording *recording_make(uint64_t seed);
void recording_free(Recording *recording);
void recording_print(const Recording *recording);

/* Is every pair of accesses that conflict ordered by the log?  NULL, or what is not. */
char *recording_check_order(const Recording *recording);
/* Replay in a random order that the log allows.  NULL, or the first difference. */
char *recording_replay(const Recording *recording, uint64_t seed);

#endif
