/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes the logs of a recording: one stream per vCPU, and one for DMA.
 *
 * A stream belongs to one thread at a time.  log_event() only appends to a
 * buffer, without a lock; a full buffer is handed over at a boundary to the log
 * writer thread, which compresses it, adds a checksum, and writes it.
 */
#ifndef RECORDING_LOG_WRITER_H
#define RECORDING_LOG_WRITER_H

#include <glib.h>
#include <stdbool.h>

#include "recording/event-coding.h"
#include "recording/log-events.h"
#include "recording/log-format.h"
#include "recording/orders.h"
#include "recording/position.h"

typedef struct LogWriter LogWriter;
typedef struct LogStream LogStream;

/*
 * Start to write logs in @directory, which exists and has none yet.  Stream i is
 * vCPU i, stream @n_vcpus is DMA.  @orders are those of the recording.  Without FDR's the caller
 * logs no WAIT.
 */
LogWriter *log_writer_new(const char *directory, unsigned n_vcpus, OrderSet orders,
                          GError **error);
LogStream *log_writer_stream(LogWriter *writer, unsigned stream);
/* Merge waits that are at most @most steps apart; 0, as at first: none.  Before the first event. */
void log_writer_hold_waits(LogWriter *writer, Position most);

/*
 * Append an event.  Called by the stream's owner.  @position never decreases
 * within a log.  A uint64_t follows for each integer field of the event.
 */
void log_event(LogStream *stream, LogEventKind kind, Position position, ...);
/* Append an event that was read from another log, whatever its kind. */
void log_event_again(LogStream *stream, const LogEvent *event);
/*
 * Append a WAIT, or merge it into an earlier one.  Return false if it was merged.  Called by the
 * stream's owner.
 */
bool log_wait(LogStream *stream, Position position, unsigned source, Position steps);
/*
 * Merge no later wait into those that were made so far.  Called by the stream's owner before other
 * streams can come after a position that it has reached (held-waits.h).  log_stream_rest() does so,
 * too.
 */
void log_stream_publish(LogStream *stream);
/* The same for an event whose last field is "bytes"; @n <= LOG_EVENT_MAX_BYTES. */
void log_event_bytes(LogStream *stream, LogEventKind kind, Position position,
                     uint64_t value, const void *bytes, size_t n);

/*
 * Episodes.  Called by the stream's owner while the stream does not rest.  Of a stream that rests,
 * called by a LogTick for that stream, or between log_stream_hold() and log_stream_release().
 *
 * log_episode() appends an EPISODE of Karma that ended at @end, after all events of the order log
 * before @end.  @pred and @succ are sets of other streams below LOG_EPISODE_STREAMS.  @again:
 * @n_again streams of @pred, in ascending order, one for each further edge.
 */
void log_episode(LogStream *stream, Position end, uint32_t pred, uint32_t succ,
                 const uint8_t *again, size_t n_again);
/* Append an episode of Rerun, in the same way.  Times of a stream grow. */
void log_stamped(LogStream *stream, Position end, uint64_t time);
/* Append a barrier to the log of @order, which has episodes.  All streams append theirs. */
void log_cut(LogStream *stream, RaceOrder order, Position position);

/*
 * Hand over the blocks that are due.  Called by the stream's owner at a boundary,
 * where it may block: the call waits while the disk is too slow (back-pressure).
 * Return false once writing has failed.
 */
bool log_stream_boundary(LogStream *stream);
/*
 * Return true if the next log_stream_boundary() hands over all events, since they get old.  The
 * owner logs the episodes that it has ended before that.
 */
bool log_stream_tick(LogStream *stream);

#define LOG_UNKNOWN UINT64_MAX

/*
 * Begin and end a time in which the owner does not use the stream (the vCPU is
 * halted, no DMA is in progress).  Meanwhile the log writer thread hands over its
 * events.  Otherwise the last events before a long sleep would be lost if the
 * process is killed, and with them all that other vCPUs did after them.  Neither
 * call waits for the disk.
 *
 * @reached: the log has all events before this position.  If the stream still rests
 * when its events are handed over, and no event tells this position, a MARK is
 * appended, since other streams may wait for it.  LOG_UNKNOWN: the position is unknown.
 * Without FDR's order there are no MARKs: the end of an episode tells its position.
 */
void log_stream_rest(LogStream *stream, Position reached);
void log_stream_resume(LogStream *stream);

/*
 * Keep a stream that rests from being resumed or handed over, so that the caller can append
 * episodes and cuts to it.  Any thread.
 */
void log_stream_hold(LogStream *stream);
void log_stream_release(LogStream *stream);

/*
 * Told of a stream that rests at @reached, which is known, before its events are handed over.  May
 * append episodes to it.  Called by the log writer thread, with the stream held.
 */
typedef void LogTick(unsigned stream, Position reached, void *opaque);
/* Set what is called then.  Before the first event. */
void log_writer_set_tick(LogWriter *writer, LogTick *tick, void *opaque);

/* The place where a log continues, between two blocks. */
typedef struct LogPlace {
    uint64_t offset;            /* of the next block in the file */
    uint64_t block;             /* sequence number of the next block */
    Position start;             /* of the next block */
} LogPlace;

/* The places of all logs at one moment; log_place_of() finds that of a log. */
typedef struct LogPlaces {
    struct LogMark *mark;
    unsigned n_streams;
    OrderSet episodes;          /* the orders that have logs of their own */
    LogPlace place[];           /* stream * LOG_SUBSTREAMS + substream */
} LogPlaces;

/*
 * Return the places where all logs continue, to be freed by the caller.  All streams rest, and none
 * is resumed meanwhile.  All events so far lie before these places, and a MARK tells how far each
 * vCPU is, if that is known.  log_places_wait() returns true when these events are written, and
 * sets the offsets; false and @error if they cannot be written.  Any thread, before
 * log_writer_free().
 */
LogPlaces *log_writer_places(LogWriter *writer);
bool log_places_wait(LogPlaces *places, GError **error);
void log_places_free(LogPlaces *places);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LogPlaces, log_places_free)

/*
 * Drop all blocks before @places, for which log_places_wait() has returned true.  @reached: how
 * many steps each stream had made there.  Any thread.
 */
void log_writer_drop(LogWriter *writer, LogPlaces *places, const Position *reached);
/* Return true if the file system can do that.  Any thread, before the logs grow (log-files.h). */
bool log_writer_can_drop(LogWriter *writer, GError **error);

static inline LogPlace *log_place_of(LogPlaces *places, unsigned stream, LogSubstream substream)
{
    return &places->place[stream * LOG_SUBSTREAMS + substream];
}

/* Get the bytes, before compression, that were appended under each account.  Any thread. */
void log_writer_accounts(LogWriter *writer, uint64_t bytes[LOG_ACCOUNTS]);
/* Return how many bytes were written, and how many of them were not dropped.  Any thread. */
uint64_t log_writer_written(LogWriter *writer);
uint64_t log_writer_stored(LogWriter *writer);
/*
 * Return true if the files are still where they were created.  The log writer thread checks this as
 * well, five times a second.  Any thread.
 */
bool log_writer_check(LogWriter *writer, GError **error);
/* Return false once writing has failed, as log_stream_boundary() does.  Any thread. */
bool log_writer_ok(LogWriter *writer);

/*
 * Write everything out, and sync.  Called when no thread uses a stream any more.
 * Return false and set @error to the first failure since log_writer_new(), if any.
 * A writer that is freed without this call leaves logs that are cut off, as if the
 * process had died.
 */
bool log_writer_finish(LogWriter *writer, GError **error);
void log_writer_free(LogWriter *writer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LogWriter, log_writer_free)

#endif
