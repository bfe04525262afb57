/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes the logs of a recording: one stream per vCPU, and one for DMA.
 *
 * A stream belongs to one thread at a time.  log_event() only appends to a
 * buffer, without a lock; a full buffer is handed over at a boundary to the
 * writer's own thread, which compresses it, adds a checksum, and writes it.
 */
#ifndef RECORDING_LOG_WRITER_H
#define RECORDING_LOG_WRITER_H

#include <glib.h>
#include <stdbool.h>

#include "recording/log-events.h"
#include "recording/log-format.h"
#include "recording/position.h"

typedef struct LogWriter LogWriter;
typedef struct LogStream LogStream;

/*
 * Starts to write in @directory, which exists and has no logs yet.  Stream i is
 * vCPU i, stream @n_vcpus is DMA.
 */
LogWriter *log_writer_new(const char *directory, unsigned n_vcpus, GError **error);
LogStream *log_writer_stream(LogWriter *writer, unsigned stream);

/*
 * Append an event.  @position never goes back within a stream's log.  There
 * are as many values as the event has integer fields.
 */
void log_event(LogStream *stream, LogEventKind kind, Position position, ...);
/* The same for an event whose last field is "bytes"; @n <= LOG_EVENT_MAX_BYTES. */
void log_event_bytes(LogStream *stream, LogEventKind kind, Position position,
                     uint64_t value, const void *bytes, size_t n);

/*
 * At a boundary, where the caller may block and holds no lock: hand over what is
 * due.  Blocks while the disk is too slow.  False once writing has failed.
 */
bool log_stream_boundary(LogStream *stream);

/*
 * Around a time in which nobody uses the stream (a halted vCPU, no DMA going
 * on): in between, the writer's thread hands over what lies in it.  Otherwise the
 * last events before a long sleep would be lost if the process is killed, and
 * with them all that other vCPUs did after them.  Neither blocks on the disk.
 *
 * @reached: all that happens before this position is in the log.  If the stream
 * still rests when it is handed over, and the log would not tell, a MARK does: others may
 * wait for it.  0: nothing is known.
 */
void log_stream_rest(LogStream *stream, Position reached);
void log_stream_resume(LogStream *stream);

/* Where a log goes on. */
typedef struct LogPlace {
    uint64_t offset;            /* in its file */
    uint64_t block;             /* the next one's sequence number */
    Position start;             /* of that */
} LogPlace;

/* All logs at one moment; log_place_of() finds one. */
typedef struct LogPlaces {
    struct LogMark *mark;
    unsigned n_streams;
    LogPlace place[];           /* stream * LOG_SUBSTREAMS + substream */
} LogPlaces;

/*
 * All streams rest, and none is resumed meanwhile: what was logged so far lies before these
 * places, and a MARK says how far each vCPU is.  log_places_wait() returns when that is
 * written, or cannot be; then offsets are known.  Any thread, before log_writer_free().
 */
LogPlaces *log_writer_places(LogWriter *writer);
bool log_places_wait(LogPlaces *places, GError **error);
void log_places_free(LogPlaces *places);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LogPlaces, log_places_free)

/*
 * Forget what lies before these places, whose offsets are known; @reached: how many steps each
 * stream had made.  Any thread.
 */
void log_writer_drop(LogWriter *writer, LogPlaces *places, const Position *reached);
/* Can that be done where the logs are? */
bool log_writer_can_drop(LogWriter *writer, GError **error);

static inline LogPlace *log_place_of(LogPlaces *places, unsigned stream, LogSubstream substream)
{
    return &places->place[stream * LOG_SUBSTREAMS + substream];
}

/* How many bytes (before compression) were appended under each account.  Any thread. */
void log_writer_accounts(LogWriter *writer, uint64_t bytes[LOG_ACCOUNTS]);
/* How many bytes were written so far, and how many are in its files by now.  Any thread. */
uint64_t log_writer_written(LogWriter *writer);
uint64_t log_writer_stored(LogWriter *writer);
/* Are its files where they were created?  Looked at by itself now and then.  Any thread. */
bool log_writer_check(LogWriter *writer, GError **error);
/* False once writing has failed, as log_stream_boundary() tells it.  Any thread. */
bool log_writer_ok(LogWriter *writer);

/*
 * Writes everything out and syncs.  No thread uses a stream any more.  Sets
 * @error to the first thing that went wrong since log_writer_new().  A writer that
 * is freed without it leaves logs that are cut off, as if the process had died.
 */
bool log_writer_finish(LogWriter *writer, GError **error);
void log_writer_free(LogWriter *writer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LogWriter, log_writer_free)

#endif
