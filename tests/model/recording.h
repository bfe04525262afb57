/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A recording of the small guest: for each processor its steps, and what must
 * happen before which of them.  That is all that replay gets; what steps saw
 * is there for checking alone.
 */
#ifndef TESTS_RECORDING_H
#define TESTS_RECORDING_H

#include "tests/model/guest.h"

#define MAX_PROCESSORS (MAX_VCPUS + 1)
#define MAX_CUTS 2

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

/* A vCPU got a write bit: from now on it may change these words, unseen. */
typedef struct WriteBit {
    unsigned step;
    uint32_t word;              /* the first one of the line */
    uint32_t version[GUEST_LINE_WORDS];
} WriteBit;

typedef struct Stream {
    GArray *events;             /* Event */
    GArray *steps;              /* Step */
    GArray *seen;               /* Seen */
    GArray *write_bits;         /* WriteBit */
    bool waited_twice;          /* for one access: what it got was of no use */
    bool torn;                  /* a step was abandoned between two stores */
} Stream;

/* Where a stream is at a cut. */
typedef struct Place {
    unsigned event, step, insn;
    Position position;
    uint64_t state;
} Place;

/* A checkpoint: all are between two steps. */
typedef struct Cut {
    Memory memory;
    Place place[MAX_PROCESSORS];
} Cut;

typedef struct Recording {
    unsigned n_vcpus, n_insns;
    Insn *insns[MAX_VCPUS];
    Memory before, after;
    Stream stream[MAX_PROCESSORS];
    unsigned n_cuts;
    Cut cut[MAX_CUTS];
    SphereCounts counts;        /* of all */
} Recording;

/* NULL if it hangs: the sphere's state was printed. */
Recording *recording_make(uint64_t seed);
void recording_free(Recording *recording);
void recording_print(const Recording *recording);

/* Is every pair of accesses that conflict ordered by the log?  NULL, or what is not. */
char *recording_check_order(const Recording *recording);
/*
 * Replay in a random order that the log allows, from the start or from a cut.  NULL, or the first
 * difference.
 */
char *recording_replay(const Recording *recording, const Cut *from, uint64_t seed);

#endif
