/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads the logs of a recording, which may be cut off, damaged or hostile.
 * A reader reads one log and belongs to one thread at a time.
 */
#ifndef RECORDING_LOG_READER_H
#define RECORDING_LOG_READER_H

#include <glib.h>
#include <stdbool.h>

#include "recording/event-coding.h"
#include "recording/log-events.h"
#include "recording/log-writer.h"
#include "recording/position.h"

typedef struct LogReader LogReader;

/* Open a log.  Streams are numbered as in log-writer.h.  Return NULL and @error on failure. */
LogReader *log_reader_open(const char *directory, unsigned n_vcpus, unsigned stream,
                           LogSubstream substream, GError **error);
/* The same from @place on.  If no block begins there, the first log_reader_next() fails. */
LogReader *log_reader_open_at(const char *directory, unsigned n_vcpus, unsigned stream,
                              LogSubstream substream, const LogPlace *place, GError **error);
/*
 * Return a copy of @reader, at the same place of the same open file.  @last is the caller's copy of
 * the event that was read last; its bytes are redirected to those of the new reader.
 */
LogReader *log_reader_copy(const LogReader *reader, LogEvent *last);
/*
 * Read no block that begins at byte @bytes of the file or behind it: there is the end of the log so
 * far.  Blocks end there.  With a larger number, log_reader_next() goes on.
 */
void log_reader_bound(LogReader *reader, uint64_t bytes);
/* Return the memory that @reader takes, in bytes. */
size_t log_reader_size(const LogReader *reader);
void log_reader_free(LogReader *reader);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LogReader, log_reader_free)

typedef enum LogReaderResult {
    LOG_READER_EVENT,
    LOG_READER_END,         /* the log ends here; perhaps cut off */
    LOG_READER_BAD,         /* @error says what and where */
} LogReaderResult;

/* Read the next event.  After LOG_READER_END or LOG_READER_BAD the result stays the same. */
LogReaderResult log_reader_next(LogReader *reader, LogEvent *event, GError **error);

/*
 * After LOG_READER_END, return true if the log was not ended by
 * log_writer_finish().  Then the last event read may not have been the last at its
 * position.
 */
bool log_reader_cut_off(const LogReader *reader);

/*
 * Return true if the first blocks were dropped.  *@reached is how many steps the stream had made
 * before the blocks that are left; 0 if none were dropped.
 */
bool log_reader_dropped(const LogReader *reader, Position *reached);

/* Return the orders of the recording to which the log belongs. */
OrderSet log_reader_orders(const LogReader *reader);

/* Return the path of the log, "DIRECTORY/vcpu-0.order"; it belongs to @reader. */
const char *log_reader_path(const LogReader *reader);

/* Return the offset of the last event's block in the file. */
uint64_t log_reader_block(const LogReader *reader);
/* Return true if all events of that block have been read. */
bool log_reader_at_block_end(const LogReader *reader);

/* Totals of what was read so far. */
typedef struct LogTotals {
    uint64_t stored_bytes;      /* in the file, headers included */
    uint64_t good_bytes;        /* offset after the last block whose events are all good */
    uint64_t raw_bytes;         /* of events, before compression */
    uint64_t account_bytes[LOG_ACCOUNTS];   /* the same, by account */
    uint64_t events;
    Position last;              /* of the last event */
    bool cut_off;               /* as log_reader_cut_off() */
} LogTotals;

const LogTotals *log_reader_totals(const LogReader *reader);

/* Read a whole log for its totals.  Return false and @error if the log is bad. */
bool log_totals_read(const char *directory, unsigned n_vcpus, unsigned stream,
                     LogSubstream substream, LogTotals *totals, GError **error);

typedef enum LogFileWriter {
    LOG_FILE_HAS_NO_WRITER,
    LOG_FILE_HAS_WRITER,
    LOG_FILE_WRITER_UNKNOWN,    /* a file system without leases, or the file of another user */
} LogFileWriter;

/*
 * Tell whether a process, such as a recorder, has the file open for writing: the kernel refuses a
 * read lease then.
 */
LogFileWriter log_file_writer(int fd);
LogFileWriter log_reader_writer(const LogReader *reader);

/* Return the number of vCPUs by the log of vCPU 0 in @directory; 0 and @error on failure. */
unsigned log_directory_n_vcpus(const char *directory, GError **error);
/*
 * Return the orders of a recording, by the log of vCPU 0 in @directory.  Return FDR's if that
 * cannot be read, which callers notice when they open it.
 */
OrderSet log_directory_orders(const char *directory);

/* Return "dma-write at 17: address=0x40001000 bytes=64", to be freed by the caller. */
char *log_event_format(const LogEvent *event);
/* Return the fields alone, "address=0x40001000 bytes=64" or "", to be freed by the caller. */
char *log_event_format_fields(const LogEvent *event);

/* A file that cannot be opened or read is a G_FILE_ERROR instead. */
#define LOG_READER_ERROR log_reader_error_quark()
GQuark log_reader_error_quark(void);

typedef enum LogReaderError {
    LOG_READER_ERROR_VERSION,       /* another version, or an unknown feature */
    LOG_READER_ERROR_DAMAGED,
} LogReaderError;

#endif
