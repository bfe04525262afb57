/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads the logs of a recording, which may be cut off, damaged or hostile.
 * A reader of one log belongs to one thread.
 */
#ifndef RECORDING_LOG_READER_H
#define RECORDING_LOG_READER_H

#include <glib.h>
#include <stdbool.h>

#include "recording/log-events.h"
#include "recording/log-writer.h"
#include "recording/position.h"

typedef struct LogReader LogReader;

typedef struct LogEvent {
    LogEventKind kind;
    Position position;
    uint64_t value[LOG_EVENT_MAX_FIELDS];
    const uint8_t *bytes;       /* valid until the next log_reader_next() */
    size_t n_bytes;
} LogEvent;

/* Streams as in log-writer.h. */
LogReader *log_reader_open(const char *directory, unsigned n_vcpus, unsigned stream,
                           LogSubstream substream, GError **error);
/* The same from a place on; if no block begins there, the first read says so. */
LogReader *log_reader_open_at(const char *directory, unsigned n_vcpus, unsigned stream,
                              LogSubstream substream, const LogPlace *place, GError **error);
/*
 * Another one that stands at the same place, on the same file.  @last: a copy of the event that was
 * read last, if it is still of interest; its bytes are those of the new reader then.
 */
LogReader *log_reader_copy(const LogReader *reader, LogEvent *last);
/* How much memory it takes. */
size_t log_reader_size(const LogReader *reader);
void log_reader_free(LogReader *reader);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LogReader, log_reader_free)

typedef enum LogReaderResult {
    LOG_READER_EVENT,
    LOG_READER_END,         /* the log ends here; perhaps cut off */
    LOG_READER_BAD,         /* @error says what and where */
} LogReaderResult;

LogReaderResult log_reader_next(LogReader *reader, LogEvent *event, GError **error);

/*
 * After LOG_READER_END: was the log not ended by log_writer_finish()?  Then the
 * last event read may not have been the last at its position.
 */
bool log_reader_cut_off(const LogReader *reader);

/* Were the first blocks dropped?  Then *@reached is how many steps had been made before. */
bool log_reader_dropped(const LogReader *reader, Position *reached);

/* "DIRECTORY/vcpu-0.order" */
const char *log_reader_path(const LogReader *reader);

/* Where the block of the last event begins in the file. */
uint64_t log_reader_block(const LogReader *reader);
/* Have all events of that block been read? */
bool log_reader_at_block_end(const LogReader *reader);

/* What was read so far. */
typedef struct LogTotals {
    uint64_t stored_bytes;      /* in the file, headers included */
    uint64_t good_bytes;        /* the same, of blocks whose events are all good */
    uint64_t raw_bytes;         /* of events, before compression */
    uint64_t account_bytes[LOG_ACCOUNTS];   /* the same, apart */
    uint64_t events;
    Position last;              /* of the last event */
    bool cut_off;               /* as log_reader_cut_off() */
} LogTotals;

const LogTotals *log_reader_totals(const LogReader *reader);

/* Reads a whole log for its totals. */
bool log_totals_read(const char *directory, unsigned n_vcpus, unsigned stream,
                     LogSubstream substream, LogTotals *totals, GError **error);

/*
 * A recorder has its logs open for writing, and then nobody gets a lease; where there are no
 * leases, or for the file of another user, one has to know.
 */
bool log_file_being_written(int fd);
bool log_reader_being_written(const LogReader *reader);

/* How many vCPUs the logs in @directory are of, by vCPU 0's; 0 and @error if there are none. */
unsigned log_directory_n_vcpus(const char *directory, GError **error);

/* For people: "dma-write at 17: address=0x40001000 bytes=64". */
char *log_event_format(const LogEvent *event);
/* The fields alone: "address=0x40001000 bytes=64", or "". */
char *log_event_format_fields(const LogEvent *event);

/* A file that cannot be opened or read is a G_FILE_ERROR instead. */
#define LOG_READER_ERROR log_reader_error_quark()
GQuark log_reader_error_quark(void);

typedef enum LogReaderError {
    LOG_READER_ERROR_VERSION,       /* another version, or a feature we lack */
    LOG_READER_ERROR_DAMAGED,
} LogReaderError;

#endif
