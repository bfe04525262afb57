/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes the logs of a recording: one stream per vCPU, and one for DMA.
 *
 * A stream belongs to one thread at a time.  log_event() only appends to a
 * buffer, without a lock; a full buffer is handed over at a boundary to the
 * writer's own thread, which compresses it, adds a checksum, and writes it.
 */
#ifndef RECORDER_LOG_WRITER_H
#define RECORDER_LOG_WRITER_H

#include <glib.h>
#include <stdbool.h>

#include "log-events.h"
#include "log-format.h"
#include "position.h"

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

/* How many bytes (before compression) were appended under each account.  Any thread. */
void log_writer_accounts(LogWriter *writer, uint64_t bytes[LOG_ACCOUNTS]);

/*
 * Writes everything out and syncs.  No thread uses a stream any more.  Sets
 * @error to the first thing that went wrong since log_writer_new().  A writer that
 * is freed without it leaves logs that are cut off, as if the process had died.
 */
bool log_writer_finish(LogWriter *writer, GError **error);
void log_writer_free(LogWriter *writer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LogWriter, log_writer_free)

#endif
