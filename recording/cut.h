/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finds how far a recording can be replayed whose logs were cut off at different
 * places: the largest cut that is closed under its arcs, so that no step before
 * the cut waits for a step beyond it.  If a recording has several orders, the cut
 * is closed under the arcs of each, and so is the same whichever is replayed.
 *
 * Replay stops a stream at its cut, before it applies the events at that position.
 */
#ifndef RECORDING_CUT_H
#define RECORDING_CUT_H

#include <glib.h>
#include <stdbool.h>

#include "recording/position.h"

/* The stream is not cut: it goes on to its end. */
#define CUT_NONE UINT64_MAX

typedef struct Arcs Arcs;

Arcs *arcs_new(unsigned n_streams);
void arcs_free(Arcs *arcs);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Arcs, arcs_free)

/*
 * Add an arc: @stream waits at @position until @source has ended @steps steps.
 * Arcs of a stream are added in the order of their positions.
 */
void arcs_add(Arcs *arcs, unsigned stream, Position position, unsigned source, uint64_t steps);

/*
 * Find the largest closed cut.  @reached: how many steps of each stream are in its
 * log; @whole: the log was not cut off there.  @cut gets one position per stream,
 * or CUT_NONE.
 */
void arcs_find_cut(const Arcs *arcs, const Position *reached, const bool *whole, Position *cut);

/*
 * Return the cut of a recording, one position per stream or CUT_NONE, to be freed by
 * the caller; NULL and @error if a log is bad, or is being written.  @limit, unless
 * NULL: no vCPU goes further than this, whatever its log says.
 */
Position *cut_find(const char *directory, unsigned n_vcpus, const Point *limit, GError **error);
/* The same; a stream that is not cut ends where its log ends, as after `reprise repair`. */
Position *cut_find_ends(const char *directory, unsigned n_vcpus, const Point *limit,
                        GError **error);
/* Apply @limit, unless NULL, to the arguments of arcs_find_cut(). */
void cut_limit(const Point *limit, Position *reached, bool *whole);

#endif
