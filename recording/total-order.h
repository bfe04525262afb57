/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One order of all steps of a recording.
 *
 * What two vCPUs did without passing lines to each other has no order, and replay needs none.
 * People do: "before" must mean the same each time they look.  So this order is a function of the
 * logs alone.  Nobody comes before what it waits for; and from one checkpoint to the next, whose
 * points lie on it, all vCPUs go on at such a pace that they arrive together.
 *
 * A *moment* is a place in it: how many steps have been made, by all vCPUs and by DMA.
 */
#ifndef RECORDING_TOTAL_ORDER_H
#define RECORDING_TOTAL_ORDER_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "recording/manifest.h"
#include "recording/position.h"

typedef struct TotalOrder TotalOrder;

/* Steps of one stream that follow each other. */
typedef struct Run {
    unsigned stream;            /* vCPU, or DMA, which is the last */
    Position from, to;
} Run;

/* From the checkpoint of this number on.  The recording is sound (verify.h). */
TotalOrder *total_order_open(const char *directory, const Manifest *manifest, unsigned checkpoint,
                             GError **error);
/* The last checkpoint that is not after @moment; or the first. */
unsigned total_order_checkpoint(const char *directory, const Manifest *manifest, uint64_t moment);
/* From the latest checkpoint that is not after @moment, up to that. */
TotalOrder *total_order_open_at(const char *directory, const Manifest *manifest, uint64_t moment,
                                GError **error);
/* Another one that stands at the same place, and the memory that one takes. */
TotalOrder *total_order_copy(const TotalOrder *order);
size_t total_order_size(const TotalOrder *order);
void total_order_free(TotalOrder *order);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(TotalOrder, total_order_free)

/* The next steps, at most @most; false: there are none, or @error. */
bool total_order_next(TotalOrder *order, uint64_t most, Run *run, GError **error);

/* On to a moment; false: that is not ahead, or @error. */
bool total_order_follow(TotalOrder *order, uint64_t moment, GError **error);
/*
 * When does @stream, which has made @position steps, make the next one?  That is not behind.  False:
 * never, or @error.  The order goes on to the end of the run with that step, or to the end.
 */
bool total_order_find(TotalOrder *order, unsigned stream, Position position, uint64_t *moment,
                      GError **error);

/* Where it is: the moment, and what each stream has done. */
uint64_t total_order_moment(const TotalOrder *order);
Position total_order_reached(const TotalOrder *order, unsigned stream);

#define TOTAL_ORDER_ERROR total_order_error_quark()
GQuark total_order_error_quark(void);

typedef enum TotalOrderError {
    TOTAL_ORDER_ERROR_NONE,     /* the logs have no order */
    TOTAL_ORDER_ERROR_OUTSIDE,  /* no such moment, no such checkpoint */
} TotalOrderError;

#endif
