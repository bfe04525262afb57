/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Recordings of random guests (episode-guest.h), which are written with the real writers, read as
 * WAITs, and replayed by these.  Each conflict must be ordered by them.
 */
#ifndef TESTS_ORDER_TEST_H
#define TESTS_ORDER_TEST_H

#include "recording/log-reader.h"
#include "tests/recording/episode-guest.h"

enum { MAX_CUTS = 16 };

typedef struct Recording {
    const GuestRecord *guest;
    char *directory;
    uint64_t random;
    unsigned n_vcpus, n_cuts;
    RaceOrder order;
    bool with_fdr;                      /* the order logs have waits, too */
    bool dropped;                       /* all before the last cut was dropped */
    unsigned n_drops[GUEST_STREAMS];    /* events of the order log but END */
    LogPlaces *places[MAX_CUTS];        /* behind each cut */
} Recording;

/* Write the recording of a guest, with the order of its episodes. */
void recording_init(Recording *r, const GuestRecord *guest, uint64_t seed);
/* The same, and drop all before the last cut. */
void recording_init_dropped(Recording *r, const GuestRecord *guest, uint64_t seed);
void recording_clear(Recording *r);

/* The events of all streams, as the adapter gives them. */
typedef struct Events {
    GArray *of[GUEST_STREAMS];          /* of LogEvent */
    bool cut_off[GUEST_STREAMS];
} Events;

/*
 * Read all streams from @places on, or from the start, in random turns.  The reader is copied on
 * the way.
 */
void events_read(Events *events, Recording *r, LogPlaces *places);
/* The same by wake-ups. */
void events_read_wake_ups(Events *events, Recording *r, LogPlaces *places);
void events_clear(Events *events);
const LogEvent *event_at(const Events *events, unsigned stream, unsigned n);

/* Positions never go back, WAITs come first at theirs, and the other events are in order. */
void check_stream(const Recording *r, const Events *events, unsigned stream, bool whole);
/*
 * Replay.  Each access that is reached comes after all earlier ones with which it conflicts.  The
 * cut that tools find is where the replay came to.
 */
void check_order(const Recording *r, const Events *events, bool whole);
/* In the order of all steps, which is copied on the way, each access finds what it found. */
void check_total_order(Recording *r);
/* If @r is of Karma: by wake-ups there are the same events from @places on. */
void check_wake_ups(Recording *r, LogPlaces *places, const Events *events);
/* Read and check all of a whole recording. */
void check_whole(Recording *r, Events *events);

#endif
