/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A small random guest, whose streams pass lines of memory to each other, and the episodes that
 * Karma or Rerun make of it.  A seed decides everything.
 */
#ifndef TESTS_EPISODE_GUEST_H
#define TESTS_EPISODE_GUEST_H

#include <glib.h>
#include <stdbool.h>

#include "recording/karma-episodes.h"
#include "recording/rerun-episodes.h"

enum { GUEST_STREAMS = 5, GUEST_LINES = 5 };

typedef enum GuestOrder {
    GUEST_KARMA,
    GUEST_RERUN,
} GuestOrder;

/* An access, by the step at @position of @stream. */
typedef struct GuestAccess {
    unsigned stream, line;
    Position position;
    bool is_write;
    unsigned version;           /* how many writes came before it; for a write, reads, too */
} GuestAccess;

/* An episode of either kind, and how many cuts lie before it. */
typedef struct GuestEpisode {
    KarmaClosed e;              /* of Rerun: begin, end and time only */
    unsigned cuts;
} GuestEpisode;

typedef struct GuestRecord {
    GuestOrder order;
    unsigned n_streams;
    GArray *accesses;           /* of GuestAccess, in the order in which they happened */
    GArray *episodes[GUEST_STREAMS];    /* of GuestEpisode */
    Position end[GUEST_STREAMS];
} GuestRecord;

GuestRecord *guest_record(GuestOrder order, uint64_t seed);
/* Move the episodes that both streams, of number @i, have closed to @record. */
void guest_record_collect(GuestRecord *record, unsigned i, KarmaStream *karma, RerunStream *rerun,
                          unsigned n_cuts);
/*
 * Make the episodes again, of the waits that FDR would log for the same accesses: those that its
 * vectors do not imply.  The recorder's steps cannot be changed by that.  @max as in options.
 */
GuestRecord *guest_convert(const GuestRecord *record, Position max);
void guest_record_free(GuestRecord *record);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(GuestRecord, guest_record_free)

#endif
