/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads one log, a block at a time; docs/log-format.md has the rules that are
 * checked here.
 *
 * Nothing in the file is trusted.  Checksums catch damage, but a hostile file has
 * right ones.  So every size is compared with a limit before memory is allocated,
 * and facts that are stored twice are compared.  A file that ends early, on the
 * other hand, is what a killed recorder leaves, and no error.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* F_SETLEASE */
#endif
#include <errno.h>
#include <fcntl.h>
#include <lz4.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "recording/log-block.h"
#include "recording/log-cursor.h"
#include "recording/log-reader.h"

G_DEFINE_QUARK(log-reader-error-quark, log_reader_error)

/* An open file, shared by the copies of a reader. */
typedef struct LogFile {
    int fd;
    char *path;
} LogFile;

struct LogReader {
    LogFile *file;              /* reference-counted */
    uint64_t at;                /* the next byte to be read */
    unsigned n_vcpus;
    unsigned stream;
    LogSubstream substream;
    OrderSet orders;            /* of the recording */

    uint64_t offset;            /* of the next block in the file */
    uint64_t bound;             /* no block is read from there on */
    uint64_t n_blocks;          /* sequence number of the next block */
    LogBlockHeader block;       /* the current one */
    uint64_t block_offset;      /* of the current block in the file */
    uint8_t *stored;            /* payload of the current block, as in the file */
    uint8_t *raw;               /* events of the current block, if they were compressed */
    LogCursor cursor;           /* in raw, or in stored */
    uint32_t events_left;       /* in the current block */
    EventCoder coder;           /* has the position of the last event */

    LogTotals totals;
    bool ended;
    bool dropped;               /* the first blocks were dropped */
    Position reached;           /* steps that the stream had made before the blocks that are left */
    GError *error;              /* why the log is bad; then all further reads fail */
};

/* Set the reader's error, one line: which file, which byte, what is wrong. */
static LogReaderResult G_GNUC_PRINTF(3, 4)
bad(LogReader *reader, uint64_t offset, const char *format, ...)
{
    g_autofree char *what = NULL;
    va_list arguments;

    va_start(arguments, format);
    what = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(&reader->error, LOG_READER_ERROR, LOG_READER_ERROR_DAMAGED,
                "%s: byte %" G_GUINT64_FORMAT ": %s", reader->file->path, offset, what);
    return LOG_READER_BAD;
}

/* The same for an event of the current block; @at counts uncompressed bytes. */
#define bad_event(reader, at, format, ...)                                      \
    bad(reader, (reader)->block_offset,                                         \
        "in the block that begins here, byte %zu of its events: " format,       \
        (size_t)(at), ##__VA_ARGS__)

/* Read @n bytes, or fewer if the file ends.  Return their number, or -1 and set the error. */
static ssize_t read_file(LogReader *reader, void *buffer, size_t n)
{
    size_t done = 0;

    while (done < n) {
        ssize_t got = pread(reader->file->fd, (uint8_t *)buffer + done, n - done, reader->at);

        if (got == 0) {
            break;
        }
        if (got > 0) {
            done += got;
            reader->at += got;
        } else if (errno != EINTR) {
            int failure = errno;

            g_set_error(&reader->error, G_FILE_ERROR, g_file_error_from_errno(failure),
                        "cannot read %s: %s", reader->file->path, g_strerror(failure));
            return -1;
        }
    }
    return done;
}

static LogReaderResult end(LogReader *reader, bool cut_off)
{
    if (reader->bound != UINT64_MAX) {
        return bad(reader, reader->offset, "it is truncated: it ends before byte %"
                   G_GUINT64_FORMAT, reader->bound);
    }
    reader->ended = true;
    reader->totals.cut_off = cut_off;
    return LOG_READER_END;
}

/* Compare the header with the file and with the block before.  Return what is wrong, or NULL. */
static const char *check_place(const LogReader *reader)
{
    const LogBlockHeader *block = &reader->block;

    if (block->stream != reader->stream || block->substream != reader->substream) {
        return "the block belongs to another log";
    }
    if (block->sequence != reader->n_blocks) {
        return "blocks are missing or in the wrong order";
    }
    if (block->start != reader->coder.position) {
        return "the block does not start at the position where the one before ended";
    }
    return NULL;
}

/* Check and decompress the payload of the current block. */
static LogReaderResult unpack_block(LogReader *reader)
{
    const LogBlockHeader *block = &reader->block;

    if (recording_crc32c(0, reader->stored, block->stored_size) != block->payload_crc) {
        return bad(reader, reader->block_offset, "the block has a wrong checksum");
    }
    if (block->flags & LOG_BLOCK_LZ4) {
        int size;

        reader->raw = g_realloc(reader->raw, block->raw_size);
        size = LZ4_decompress_safe((const char *)reader->stored, (char *)reader->raw,
                                   block->stored_size, block->raw_size);
        if (size < 0 || (uint32_t)size != block->raw_size) {
            return bad(reader, reader->block_offset, "the block cannot be decompressed");
        }
        log_cursor_init(&reader->cursor, reader->raw, block->raw_size);
    } else {
        log_cursor_init(&reader->cursor, reader->stored, block->stored_size);
    }
    reader->events_left = block->n_events;
    if (block->n_events == 0) {
        reader->totals.good_bytes = reader->offset;
    }
    event_coder_start_block(&reader->coder);
    return LOG_READER_EVENT;
}

static LogReaderResult next_block(LogReader *reader)
{
    uint8_t bytes[LOG_BLOCK_HEADER_BYTES];
    const char *wrong;
    ssize_t got;

    if (reader->offset >= reader->bound) {
        return LOG_READER_END;
    }
    got = read_file(reader, bytes, sizeof(bytes));
    if (got < 0) {
        return LOG_READER_BAD;
    }
    if (reader->n_blocks > 0 && reader->block.flags & LOG_BLOCK_LAST) {
        return got == 0 ? end(reader, false)
                        : bad(reader, reader->offset, "the log goes on after its end");
    }
    if ((size_t)got < sizeof(bytes)) {
        /* Only the start of a truncated block may be there. */
        if (memcmp(bytes, LOG_BLOCK_MAGIC, MIN((size_t)got, strlen(LOG_BLOCK_MAGIC))) != 0) {
            return bad(reader, reader->offset, "no block begins here");
        }
        return end(reader, true);
    }
    reader->block_offset = reader->offset;
    wrong = log_block_header_get(&reader->block, bytes);
    if (!wrong) {
        wrong = check_place(reader);
    }
    if (wrong) {
        return bad(reader, reader->block_offset, "%s", wrong);
    }
    reader->stored = g_realloc(reader->stored, MAX(reader->block.stored_size, 1));
    got = read_file(reader, reader->stored, reader->block.stored_size);
    if (got < 0) {
        return LOG_READER_BAD;
    }
    if ((size_t)got < reader->block.stored_size) {
        return end(reader, true);
    }
    if (reader->block.flags & LOG_BLOCK_DROPPED) {
        return bad(reader, reader->block_offset,
                   "a block that stands for dropped ones is not the first");
    }
    reader->offset += sizeof(bytes) + got;
    reader->totals.stored_bytes += sizeof(bytes) + got;
    reader->n_blocks++;
    return unpack_block(reader);
}

/*
 * Check, after the last event of a block, what its header says.  This is done before the event is
 * returned, so that no caller gets past a wrong block.
 */
static const char *check_block_end(const LogReader *reader)
{
    if (log_cursor_at_end(&reader->cursor) ? reader->events_left > 0 : reader->events_left == 0) {
        return "the block has another number of events than its header says";
    }
    if (reader->events_left == 0 && reader->coder.position != reader->block.end) {
        return "the block ends at another position than its header says";
    }
    return NULL;
}

static LogReaderResult decode_event(LogReader *reader, LogEvent *event)
{
    LogCursor *cursor = &reader->cursor;
    size_t at = log_cursor_offset(cursor);
    g_autofree char *wrong = event_get(&reader->coder, cursor, reader->substream, reader->n_vcpus,
                                       event);
    size_t size = log_cursor_offset(cursor) - at;

    if (!wrong) {
        reader->events_left--;
        wrong = g_strdup(check_block_end(reader));
    }
    if (wrong) {
        return bad_event(reader, at, "%s", wrong);
    }
    if (reader->events_left == 0) {
        reader->totals.good_bytes = reader->offset;
    }
    reader->totals.events++;
    reader->totals.last = event->position;
    reader->totals.raw_bytes += size;
    reader->totals.account_bytes[log_event_table()[event->kind].account] += size;
    return LOG_READER_EVENT;
}

LogReaderResult log_reader_next(LogReader *reader, LogEvent *event, GError **error)
{
    LogReaderResult result = reader->error ? LOG_READER_BAD :
                             reader->ended ? LOG_READER_END : LOG_READER_EVENT;

    while (result == LOG_READER_EVENT && reader->events_left == 0) {
        result = next_block(reader);
    }
    if (result == LOG_READER_EVENT) {
        result = decode_event(reader, event);
    }
    if (result == LOG_READER_BAD) {
        g_propagate_error(error, g_error_copy(reader->error));
    }
    return result;
}

void log_reader_bound(LogReader *reader, uint64_t bytes)
{
    reader->bound = bytes;
}

bool log_reader_dropped(const LogReader *reader, Position *reached)
{
    *reached = reader->reached;
    return reader->dropped;
}

OrderSet log_reader_orders(const LogReader *reader)
{
    return reader->orders;
}

const char *log_reader_path(const LogReader *reader)
{
    return reader->file->path;
}

uint64_t log_reader_block(const LogReader *reader)
{
    return reader->block_offset;
}

bool log_reader_at_block_end(const LogReader *reader)
{
    return reader->events_left == 0;
}

const LogTotals *log_reader_totals(const LogReader *reader)
{
    return &reader->totals;
}

/* Open the file and decode its header, which the caller compares with what is expected. */
static bool open_file(LogReader *reader, LogFileHeader *header)
{
    uint8_t bytes[LOG_FILE_HEADER_BYTES];
    struct stat status;
    const char *wrong;
    ssize_t got;

    /* Do not block on a FIFO. */
    reader->file->fd = open(reader->file->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (reader->file->fd < 0 || fstat(reader->file->fd, &status) < 0) {
        int failure = errno;

        g_set_error(&reader->error, G_FILE_ERROR, g_file_error_from_errno(failure),
                    "cannot open %s: %s", reader->file->path, g_strerror(failure));
        return false;
    }
    if (!S_ISREG(status.st_mode)) {
        bad(reader, 0, "this is not a regular file");
        return false;
    }
    got = read_file(reader, bytes, sizeof(bytes));
    if (got < 0) {
        return false;
    }
    if ((size_t)got < sizeof(bytes)) {
        bad(reader, got, "the file ends inside its header");
        return false;
    }
    wrong = log_file_header_get(header, bytes);
    if (wrong) {
        bad(reader, 0, "%s", wrong);
        return false;
    }
    if (header->version != LOG_VERSION) {
        g_set_error(&reader->error, LOG_READER_ERROR, LOG_READER_ERROR_VERSION,
                    "%s has log format %u; this reprise reads format %u",
                    reader->file->path, header->version, LOG_VERSION);
        return false;
    }
    if (header->incompatible & ~(uint32_t)LOG_FILE_INCOMPATIBLE) {
        g_set_error(&reader->error, LOG_READER_ERROR, LOG_READER_ERROR_VERSION,
                    "%s needs features 0x%x that this reprise does not have", reader->file->path,
                    header->incompatible & ~(uint32_t)LOG_FILE_INCOMPATIBLE);
        return false;
    }
    reader->offset = reader->totals.stored_bytes = reader->totals.good_bytes = sizeof(bytes);
    return true;
}

static LogReader *reader_new(const char *directory, const char *name)
{
    LogReader *reader = g_new0(LogReader, 1);

    reader->file = g_atomic_rc_box_new0(LogFile);
    reader->file->path = g_build_filename(directory, name, NULL);
    reader->file->fd = -1;
    reader->bound = UINT64_MAX;
    return reader;
}

static bool seek(LogReader *reader, uint64_t offset)
{
    if (offset > G_MAXINT64) {
        bad(reader, offset, "there is no such byte");
        return false;
    }
    reader->offset = reader->at = offset;
    return true;
}

/* If the first block stands for dropped blocks, seek to the block after them. */
static bool skip_dropped(LogReader *reader)
{
    uint8_t bytes[LOG_DROPPED_BLOCK_BYTES];
    uint8_t *payload = bytes + LOG_BLOCK_HEADER_BYTES;
    ssize_t got = read_file(reader, bytes, sizeof(bytes));
    LogBlockHeader header;
    LogDropped dropped;

    if (got < 0) {
        return false;
    }
    if ((size_t)got < sizeof(bytes) || log_block_header_get(&header, bytes) ||
        !(header.flags & LOG_BLOCK_DROPPED)) {
        return seek(reader, LOG_FILE_HEADER_BYTES);     /* next_block() reads it, good or bad */
    }
    if (header.stream != reader->stream || header.substream != reader->substream ||
        recording_crc32c(0, payload, LOG_DROPPED_BYTES) != header.payload_crc) {
        bad(reader, LOG_FILE_HEADER_BYTES, "the block that stands for dropped ones is wrong");
        return false;
    }
    log_dropped_get(&dropped, payload);
    reader->dropped = header.sequence > 0;
    reader->reached = dropped.reached;
    reader->n_blocks = header.sequence;
    reader->coder.position = header.end;
    reader->totals.stored_bytes += sizeof(bytes);
    reader->totals.good_bytes = dropped.offset;
    return seek(reader, dropped.offset);
}

LogReader *log_reader_open(const char *directory, unsigned n_vcpus, unsigned stream,
                           LogSubstream substream, GError **error)
{
    g_autofree char *name = log_file_name(n_vcpus, stream, substream);
    g_autoptr(LogReader) reader = reader_new(directory, name);
    LogFileHeader header = { 0 };

    if (open_file(reader, &header) &&
        (header.n_vcpus != n_vcpus || header.stream != stream || header.substream != substream)) {
        bad(reader, 0, "this is log %u.%s of %u vCPUs, expected %u.%s of %u",
            header.stream, log_substream_name(header.substream), header.n_vcpus,
            stream, log_substream_name(substream), n_vcpus);
    }
    reader->n_vcpus = n_vcpus;
    reader->stream = stream;
    reader->substream = substream;
    reader->orders = log_file_orders(header.incompatible);
    reader->coder.stream = stream;
    if (reader->error || !skip_dropped(reader)) {
        g_propagate_error(error, g_error_copy(reader->error));
        return NULL;
    }
    return g_steal_pointer(&reader);
}

LogReader *log_reader_open_at(const char *directory, unsigned n_vcpus, unsigned stream,
                              LogSubstream substream, const LogPlace *place, GError **error)
{
    g_autoptr(LogReader) reader = log_reader_open(directory, n_vcpus, stream, substream, error);

    if (!reader) {
        return NULL;
    }
    if (!seek(reader, place->offset)) {
        g_propagate_error(error, g_error_copy(reader->error));
        return NULL;
    }
    reader->n_blocks = place->block;
    reader->coder.position = place->start;
    return g_steal_pointer(&reader);
}

/* Read the header of the log that every recording has. */
static bool read_first_header(const char *directory, LogFileHeader *header, GError **error)
{
    g_autofree char *name = log_file_name(1, 0, LOG_ORDER);
    g_autoptr(LogReader) reader = reader_new(directory, name);

    if (!open_file(reader, header)) {
        g_propagate_error(error, g_error_copy(reader->error));
        return false;
    }
    return true;
}

unsigned log_directory_n_vcpus(const char *directory, GError **error)
{
    LogFileHeader header;

    return read_first_header(directory, &header, error) ? header.n_vcpus : 0;
}

OrderSet log_directory_orders(const char *directory)
{
    LogFileHeader header;

    return read_first_header(directory, &header, NULL) ? log_file_orders(header.incompatible)
                                                       : ORDER_SET_FDR;
}

LogReader *log_reader_copy(const LogReader *reader, LogEvent *last)
{
    bool is_packed = reader->block.flags & LOG_BLOCK_LZ4;
    LogReader *copy = g_memdup2(reader, sizeof(*reader));

    copy->file = g_atomic_rc_box_acquire(reader->file);
    copy->error = reader->error ? g_error_copy(reader->error) : NULL;
    copy->stored = copy->raw = NULL;
    if (reader->cursor.start) {
        size_t size = reader->cursor.end - reader->cursor.start;
        uint8_t *events = g_memdup2(reader->cursor.start, size);

        *(is_packed ? &copy->raw : &copy->stored) = events;
        copy->cursor.start = events;
        copy->cursor.next = events + (reader->cursor.next - reader->cursor.start);
        copy->cursor.end = events + size;
        if (last->bytes) {
            last->bytes = events + (last->bytes - reader->cursor.start);
        }
    }
    return copy;
}

size_t log_reader_size(const LogReader *reader)
{
    return sizeof(*reader) + (reader->cursor.end - reader->cursor.start);
}

LogFileWriter log_file_writer(int fd)
{
    bool is_leased;

    /*
     * A process that opens the file for writing meanwhile makes the kernel send a signal to this
     * process.  By default that is SIGIO, which ends the process.  SIGURG is ignored by default.
     */
    is_leased = fcntl(fd, F_SETSIG, SIGURG) == 0 && fcntl(fd, F_SETLEASE, F_RDLCK) == 0;
    if (is_leased) {
        fcntl(fd, F_SETLEASE, F_UNLCK);
    }
    return is_leased ? LOG_FILE_HAS_NO_WRITER :
           errno == EAGAIN ? LOG_FILE_HAS_WRITER : LOG_FILE_WRITER_UNKNOWN;
}

LogFileWriter log_reader_writer(const LogReader *reader)
{
    return log_file_writer(reader->file->fd);
}

static void close_file(gpointer data)
{
    LogFile *file = data;

    if (file->fd >= 0) {
        close(file->fd);
    }
    g_free(file->path);
}

void log_reader_free(LogReader *reader)
{
    if (reader) {
        g_atomic_rc_box_release_full(reader->file, close_file);
        g_clear_error(&reader->error);
        g_free(reader->stored);
        g_free(reader->raw);
        g_free(reader);
    }
}
