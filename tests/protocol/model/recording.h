/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A recording of the small guest: for each processor, its steps, and the events that must happen
 * before each step.  Replay gets no more than that.  What steps saw is only for checks.
 *
 * Several orders of steps may be recorded at once.  Each has its own events: those of FDR are
 * logged, those of Karma and Rerun are made of their episodes afterwards (episodes.c).
 */
#ifndef TESTS_RECORDING_H
#define TESTS_RECORDING_H

#include "recording/held-waits.h"
#include "recording/karma-episodes.h"
#include "recording/orders.h"
#include "tests/protocol/model/guest.h"

#define MAX_PROCESSORS (MAX_VCPUS + 1)
#define MAX_CUTS 2

typedef enum EventKind {
    EVENT_WAIT,
    EVENT_DROP_WORD,
    EVENT_DROP_ALL,
    EVENT_DROP_CODE,
    EVENT_INTERRUPT,
} EventKind;

typedef struct Event {
    EventKind kind;
    Position at;                /* the event comes before this step */
    unsigned from;              /* of a wait: the processor that is waited for */
    uint64_t value;             /* its position; the offset of a word; or the vector */
} Event;

typedef struct Step {
    bool nop;
    bool ends_nothing;          /* the position does not advance, which breaks a rule */
    uint64_t state;             /* of the vCPU, after the step */
    uint32_t dma_offset;
    unsigned dma_size;
    unsigned first_seen, n_seen;
} Step;

/* A vCPU got a write bit: from @step on, it may change these words without a request. */
typedef struct WriteBit {
    unsigned step;
    uint32_t word;              /* the first word of the line */
    uint32_t version[GUEST_LINE_WORDS];
} WriteBit;

/* An entry of a stream's log of episodes. */
typedef struct LoggedEpisode {
    bool cut;                   /* no episode: all streams were cut, this one at @e.end */
    KarmaClosed e;              /* of Rerun: without edges */
} LoggedEpisode;

typedef struct Stream {
    GArray *events[RACE_ORDERS];   /* Event; drops are in all of them */
    GArray *episodes[RACE_ORDERS]; /* LoggedEpisode; none of FDR */
    GArray *limited;            /* positions where episodes of the largest size were ended */
    HeldWaits held;             /* WAITs of FDR that are not in @events yet */
    GArray *steps;              /* Step */
    Position end;
    GArray *seen;               /* Seen */
    GArray *write_bits;         /* WriteBit */
    bool waited_twice;          /* for one access: the first grant was lost again */
    bool torn;                  /* a step was abandoned between two stores */
    unsigned taken, delivered;  /* interrupts */
    bool unasked;               /* one was delivered though the guest had masked them */
} Stream;

/* The position of a stream at a cut. */
typedef struct Place {
    unsigned event[RACE_ORDERS], step, insn;
    Position position;
    uint64_t state;
    bool user, masked;
} Place;

/* A checkpoint, at which all streams are between two steps. */
typedef struct Cut {
    Memory memory;
    Place place[MAX_PROCESSORS];
} Cut;

/* What happened to vCPUs of x86. */
typedef struct ModeCounts {
    uint64_t interrupts, exceptions, nested, abandoned, exclusive, entries, maps;
} ModeCounts;

typedef struct Recording {
    unsigned n_vcpus, n_insns;
    bool has_modes, has_maps;   /* the guest is one of x86; its memory map changes */
    Insn delivery[VECTORS];
    Orders orders;              /* that were recorded */
    Insn *insns[MAX_VCPUS];
    Memory before, after;
    Stream stream[MAX_PROCESSORS];
    unsigned n_cuts;
    Cut cut[MAX_CUTS];
    SphereCounts counts;        /* sums over all processors */
    ModeCounts modes;
} Recording;

#define MAX_OF_SEED UINT64_MAX

/*
 * Make the recording of a seed in each of @orders, to be freed by the caller; NULL if there is no
 * progress: then the sphere's state was printed, and the process must end.  The seed decides on a
 * maximum of episodes that is MAX_OF_SEED, and on the orders if the set is empty.
 */
Recording *recording_make(uint64_t seed, const Orders *orders);
void recording_free(Recording *recording);
/* Add counters, all of 64 bits, @size bytes of them. */
void recording_add_counts(void *to, const void *from, size_t size);
void recording_print(const Recording *recording, RaceOrder order);

/*
 * Check the episodes of @order by themselves: none is lost or too long, times grow, and edges pair.
 * Return NULL, or what is wrong, in words, to be freed by the caller.
 */
char *recording_check_episodes(const Recording *recording, RaceOrder order);
/* Make the events of @order from its episodes, as recording/order-reader.h says. */
void recording_make_events(Recording *recording, RaceOrder order);
/*
 * Check that @order has every pair of conflicting accesses.  Return NULL, or a pair that is not
 * ordered, in words, to be freed by the caller.
 */
char *recording_check_order(const Recording *recording, RaceOrder order);
/*
 * Replay as @order allows, otherwise at random, from the start or from a cut.  Karma's episodes
 * wait for positions, or for wake-ups.  Return NULL, or the first difference, in words, to be freed
 * by the caller.
 */
char *recording_replay(const Recording *recording, RaceOrder order, const Cut *from, uint64_t seed);

#endif
