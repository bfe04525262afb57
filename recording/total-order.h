/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One total order of all steps of a recording.
 *
 * Steps of two vCPUs that passed no lines to each other have no order, and replay needs none.
 * Users do: "before" must mean the same each time they look.  So this order is a function of the
 * recording alone.  No step comes before a step that it waits for.  The points of checkpoints and
 * the ends of epochs lie on the order.  From one of these to the next, all vCPUs advance at such a
 * pace that they arrive together.  So the order up to the end of an epoch does not depend on what
 * is recorded later.
 *
 * A *moment* is a place in this order: how many steps all vCPUs and DMA together have made.
 *
 * No locks: a TotalOrder belongs to one thread at a time.
 */
#ifndef RECORDING_TOTAL_ORDER_H
#define RECORDING_TOTAL_ORDER_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "recording/manifest.h"
#include "recording/position.h"

typedef struct TotalOrder TotalOrder;

/* Consecutive steps of one stream. */
typedef struct Run {
    unsigned stream;            /* a vCPU, or DMA, the last stream */
    Position from, to;
} Run;

/*
 * Open the order at the checkpoint of this number.  The recording is sound (verify.h).  @manifest
 * must outlive the result, which is to be freed by the caller; it says which of the recorded orders
 * to follow.
 */
TotalOrder *total_order_open(const char *directory, const Manifest *manifest, unsigned checkpoint,
                             GError **error);
/* Return the number of the last checkpoint that is not after @moment; or of the first. */
unsigned total_order_checkpoint(const char *directory, const Manifest *manifest, uint64_t moment);
/* The same, at @moment: open at the checkpoint before it, and follow the order from there. */
TotalOrder *total_order_open_at(const char *directory, const Manifest *manifest, uint64_t moment,
                                GError **error);
/* Return a copy at the same place, to be freed by the caller; and the memory that @order takes. */
TotalOrder *total_order_copy(const TotalOrder *order);
size_t total_order_size(const TotalOrder *order);
void total_order_free(TotalOrder *order);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(TotalOrder, total_order_free)

/* Told of a wait: @waiter makes no step from @position on before @source has made @steps. */
typedef void TotalOrderWait(unsigned waiter, Position position, unsigned source, Position steps,
                            void *opaque);
/* Call @wait for each wait that ends, before the run of the waiter that comes after it. */
void total_order_on_wait(TotalOrder *order, TotalOrderWait *wait, void *opaque);

/* Told, before the next run, that all streams have met at the end of an epoch. */
typedef void TotalOrderMeet(void *opaque);
/* Call @meet at each.  @opaque is that of total_order_on_wait(), too. */
void total_order_on_epoch(TotalOrder *order, TotalOrderMeet *meet, void *opaque);

/* Make the next steps, *@run, at most @most.  Return false at the end, or with @error. */
bool total_order_next(TotalOrder *order, uint64_t most, Run *run, GError **error);

/* Advance to @moment.  Return false if that is past, or after the end, or with @error. */
bool total_order_follow(TotalOrder *order, uint64_t moment, GError **error);
/*
 * Find the moment at which @stream, having made @position steps, makes its next step.  @order must
 * not have passed that step.  Return false if there is no such step, or with @error.  @order
 * advances to the end of the run with that step, or to the end.
 */
bool total_order_find(TotalOrder *order, unsigned stream, Position position, uint64_t *moment,
                      GError **error);

/* Return the current moment, and how many steps @stream has made. */
uint64_t total_order_moment(const TotalOrder *order);
Position total_order_reached(const TotalOrder *order, unsigned stream);

#define TOTAL_ORDER_ERROR total_order_error_quark()
GQuark total_order_error_quark(void);

typedef enum TotalOrderError {
    TOTAL_ORDER_ERROR_NONE,     /* the logs have no order */
    TOTAL_ORDER_ERROR_OUTSIDE,  /* no such moment, no such checkpoint */
} TotalOrderError;

#endif
