/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See guest_convert() in episode-guest.h.  The accesses of a record are walked in the order in
 * which they happened.  FDR's vectors (Netzer's reduction) decide which waits there are, and only
 * these are told.
 */
#include <string.h>

#include "tests/recording/episode-guest.h"

/* How many steps of each stream come before a step. */
typedef struct Vector {
    Position of[GUEST_STREAMS];
} Vector;

/* The last read and the last write of a line by a stream: the position behind, and the vector. */
typedef struct LastAccess {
    Position behind;
    Vector vector;
} LastAccess;

typedef struct Converter {
    KarmaOptions karma_options;
    RerunOptions rerun_options;
    KarmaStream karma[GUEST_STREAMS];
    RerunStream rerun[GUEST_STREAMS];
    Vector seen[GUEST_STREAMS];
    LastAccess last[GUEST_LINES][GUEST_STREAMS][2];     /* [is_write] */
    GuestRecord *record;
} Converter;

/* Bring a stream to @position, and end episodes at their limits on the way. */
static void advance(Converter *c, unsigned i, Position position)
{
    if (c->record->order == GUEST_RERUN) {
        while (rerun_limit(&c->rerun[i]) <= position) {
            rerun_end_episode(&c->rerun[i], rerun_limit(&c->rerun[i]));
        }
    } else {
        while (karma_limit(&c->karma[i]) <= position) {
            karma_end_episode(&c->karma[i], karma_limit(&c->karma[i]));
        }
    }
}

/* Let @to wait for @last of stream @from, unless its vector says that it need not. */
static void wait_for(Converter *c, unsigned to, unsigned from, const LastAccess *last)
{
    Vector *seen = &c->seen[to];

    if (last->behind <= seen->of[from]) {
        return;
    }
    if (c->record->order == GUEST_RERUN) {
        rerun_follow(&c->rerun[to], &c->rerun[from], last->behind);
    } else {
        karma_follow(&c->karma[to], &c->karma[from], last->behind);
    }
    for (unsigned i = 0; i < GUEST_STREAMS; i++) {
        seen->of[i] = MAX(seen->of[i], last->vector.of[i]);
    }
    seen->of[from] = last->behind;
}

static void convert_access(Converter *c, const GuestAccess *a)
{
    unsigned to = a->stream;

    advance(c, to, a->position);
    for (unsigned from = 0; from < c->record->n_streams; from++) {
        if (from != to) {
            wait_for(c, to, from, &c->last[a->line][from][true]);
            if (a->is_write) {
                wait_for(c, to, from, &c->last[a->line][from][false]);
            }
        }
    }
    if (c->record->order == GUEST_RERUN) {
        rerun_emit(&c->rerun[to], a->position);
    } else {
        karma_emit(&c->karma[to], a->position);
    }
}

/* All accesses of one step emit before it ends. */
static void note_access(Converter *c, const GuestAccess *a)
{
    c->last[a->line][a->stream][a->is_write] =
        (LastAccess) { a->position + 1, c->seen[a->stream] };
}

static void end(Converter *c)
{
    for (unsigned i = 0; i < c->record->n_streams; i++) {
        advance(c, i, c->record->end[i]);
        if (c->record->order == GUEST_RERUN) {
            rerun_end_episode(&c->rerun[i], c->record->end[i]);
        } else {
            karma_cut(&c->karma[i], c->record->end[i]);
        }
        guest_record_collect(c->record, i, &c->karma[i], &c->rerun[i], 0);
        karma_clear(&c->karma[i]);
        rerun_clear(&c->rerun[i]);
    }
}

static Converter *converter_new(const GuestRecord *record, Position max)
{
    Converter *c = g_new0(Converter, 1);

    c->record = g_new0(GuestRecord, 1);
    *c->record = *record;
    g_array_ref(record->accesses);
    c->karma_options = karma_options(record->n_streams, max);
    c->rerun_options = (RerunOptions) { record->n_streams, max };
    for (unsigned i = 0; i < record->n_streams; i++) {
        c->record->episodes[i] = g_array_new(false, false, sizeof(GuestEpisode));
        karma_init(&c->karma[i], i, &c->karma_options);
        rerun_init(&c->rerun[i], i, &c->rerun_options);
    }
    return c;
}

GuestRecord *guest_convert(const GuestRecord *record, Position max)
{
    g_autofree Converter *c = converter_new(record, max);

    for (unsigned n = 0; n < record->accesses->len; n++) {
        const GuestAccess *a = &g_array_index(record->accesses, GuestAccess, n);

        convert_access(c, a);
        note_access(c, a);
    }
    end(c);
    return c->record;
}
