/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads one of the orders of steps of a recording, as FDR logs it: as the events of the order logs
 * with WAITs.  FDR's order is read as it is.  For Karma and Rerun the WAITs are made of the karma
 * logs or of the rerun logs (docs/log-format.md, "Episodes"), and WAITs and MARKs of FDR, which the
 * recording may have as well, are left out:
 *
 *  - Where an episode begins, before all other events there, it waits for the ends of the episodes
 *    that come before it.  For Karma these are those with an edge to it.  For Rerun it is the last
 *    episode of each other stream that has a smaller time, since the last cut.
 *  - A cut becomes a WAIT on each other stream, for the position of its cut.
 *  - If what is waited for is not there, since a log was cut off, the WAIT is for UINT64_MAX steps.
 *  - A log of episodes that was cut off also cuts off the events: the last one is a MARK at the end
 *    of the last episode.  The order log has all events before that (log-writer.c).
 *
 * WAITs that those of the same stream before them imply may be left out.
 *
 * Each stream is read by one thread at a time, different streams by any threads.
 */
#ifndef RECORDING_ORDER_READER_H
#define RECORDING_ORDER_READER_H

#include <glib.h>
#include <stdbool.h>

#include "recording/log-reader.h"

typedef struct OrderReader OrderReader;

/*
 * Open the logs of all streams, to follow @order; from @places on, where a checkpoint is.  NULL:
 * from the start on, or from the first checkpoint if the start was dropped.  Return NULL and @error
 * on failure, such as an order that the recording does not have.
 */
OrderReader *order_reader_open(const char *directory, unsigned n_vcpus, RaceOrder order,
                               LogPlaces *places, GError **error);
void order_reader_free(OrderReader *reader);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(OrderReader, order_reader_free)

/*
 * Return a copy of @reader, at the same places.  No thread reads meanwhile.  The bytes of an event
 * that was returned stay with @reader.
 */
OrderReader *order_reader_copy(const OrderReader *reader);
/* Return the memory that @reader takes, in bytes.  No thread reads meanwhile. */
size_t order_reader_size(const OrderReader *reader);

/* Take a log that is bad as one that was cut off there.  Before the first event is read. */
void order_reader_tolerate(OrderReader *reader);
/*
 * Read Karma's order as it was logged, by wake-ups, instead of by positions.  Before the first
 * event is read.  The steps of a WAIT are then a count: how often its source must have woken the
 * stream, since the place where the reader was opened.  An EPISODE comes where it ends, before all
 * other events there, unless it has no successors, which are value[1] as in its log.  A cut is an
 * EPISODE before all other streams, and WAITs for each of them; cuts at one position wait behind
 * all their EPISODEs.
 */
void order_reader_use_wake_ups(OrderReader *reader);

/*
 * Read the order log of @stream up to byte @bytes, as log_reader_bound() says.  For FDR's order
 * alone: the logs of others are read ahead.
 */
void order_reader_bound(OrderReader *reader, unsigned stream, uint64_t bytes);
/* Read the next event of @stream, as log_reader_next() does. */
LogReaderResult order_reader_next(OrderReader *reader, unsigned stream, LogEvent *event,
                                  GError **error);
/* After LOG_READER_END, return true if the stream was cut off, as log_reader_cut_off() does. */
bool order_reader_cut_off(const OrderReader *reader, unsigned stream);
/*
 * Return the kind of the event that is the step of @stream at @at, if order_reader_next() has not
 * returned it yet, nor an event behind it.  Return LOG_EVENT_KINDS if that step is no event.
 */
LogEventKind order_reader_step_at(const OrderReader *reader, unsigned stream, Position at);
/* Return the order log of @stream, which belongs to @reader: its path, and what was dropped. */
const LogReader *order_reader_log(const OrderReader *reader, unsigned stream);

#endif
