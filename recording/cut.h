/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How far a recording can be replayed whose logs were cut off at different
 * places: the largest cut that is closed under its arcs.
 *
 * At the cut of a stream, nothing that the log says for this position is done.
 */
#ifndef RECORDING_CUT_H
#define RECORDING_CUT_H

#include <glib.h>
#include <stdbool.h>

#include "recording/position.h"

/* The stream goes on to its end. */
#define CUT_NONE UINT64_MAX

typedef struct Arcs Arcs;

Arcs *arcs_new(unsigned n_streams);
void arcs_free(Arcs *arcs);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Arcs, arcs_free)

/*
 * @stream waits at @position until @source has ended @steps steps.  Positions of
 * a stream never go back.
 */
void arcs_add(Arcs *arcs, unsigned stream, Position position, unsigned source, uint64_t steps);

/*
 * @reached: how many steps of each stream are in its log; @whole: the log was
 * not cut off there.  @cut gets one position per stream, or CUT_NONE.
 */
void arcs_find_cut(const Arcs *arcs, const Position *reached, const bool *whole, Position *cut);

/*
 * The cut of a recording, one position per stream, to be freed; NULL and @error if
 * a log is bad, or somebody writes to it.  @limit: no vCPU goes further than this,
 * whatever its log says; or NULL.
 */
Position *cut_find(const char *directory, unsigned n_vcpus, const Point *limit, GError **error);
/* Applies @limit to what is then given to arcs_find_cut(). */
void cut_limit(const Point *limit, Position *reached, bool *whole);

#endif
