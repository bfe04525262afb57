/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The headers in a log file; see docs/log-format.md, "Files" and "Blocks".
 */
#include <glib.h>
#include <string.h>

#include "base/crc32c.h"
#include "recording/log-block.h"

/* Offsets; docs/log-format.md has the same tables. */
enum {
    FILE_MAGIC = 0,
    FILE_VERSION = 8,
    FILE_COMPATIBLE = 12,
    FILE_INCOMPATIBLE = 16,
    FILE_STREAM = 20,
    FILE_SUBSTREAM = 22,
    FILE_ZERO = 23,
    FILE_N_VCPUS = 24,
    FILE_CRC = 28,

    BLOCK_MAGIC = 0,
    BLOCK_STREAM = 4,
    BLOCK_SUBSTREAM = 6,
    BLOCK_FLAGS = 7,
    BLOCK_SEQUENCE = 8,
    BLOCK_START = 16,
    BLOCK_END = 24,
    BLOCK_N_EVENTS = 32,
    BLOCK_RAW_SIZE = 36,
    BLOCK_STORED_SIZE = 40,
    BLOCK_PAYLOAD_CRC = 44,
    BLOCK_CRC = 48,
};

G_STATIC_ASSERT(FILE_CRC + 4 == LOG_FILE_HEADER_BYTES);
G_STATIC_ASSERT(BLOCK_CRC + 4 == LOG_BLOCK_HEADER_BYTES);
G_STATIC_ASSERT(RECORDER_MAX_VCPUS <= UINT16_MAX);
/* A block is at most one event larger than the target (log-writer.c). */
G_STATIC_ASSERT(LOG_BLOCK_TARGET + LOG_EVENT_MAX_BYTES +
                (LOG_EVENT_MAX_FIELDS + 3) * LOG_VARINT_MAX_BYTES <= LOG_BLOCK_MAX);

/* Store and load @n bytes, little endian. */
static void put(uint8_t *p, uint64_t value, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        p[i] = value >> (8 * i);
    }
}

static uint64_t get(const uint8_t *p, unsigned n)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < n; i++) {
        value |= (uint64_t)p[i] << (8 * i);
    }
    return value;
}

uint32_t log_file_features(OrderSet orders)
{
    return (order_set_has(orders, RACE_KARMA) ? LOG_FILE_KARMA : 0) |
           (order_set_has(orders, RACE_RERUN) ? LOG_FILE_RERUN : 0) |
           (order_set_has(orders, RACE_FDR) ? 0 : LOG_FILE_NO_FDR);
}

OrderSet log_file_orders(uint32_t incompatible)
{
    return (incompatible & LOG_FILE_KARMA ? ORDER_SET(RACE_KARMA) : 0) |
           (incompatible & LOG_FILE_RERUN ? ORDER_SET(RACE_RERUN) : 0) |
           (incompatible & LOG_FILE_NO_FDR ? 0 : ORDER_SET_FDR);
}

void log_file_header_put(const LogFileHeader *header, uint8_t bytes[LOG_FILE_HEADER_BYTES])
{
    memcpy(bytes + FILE_MAGIC, LOG_FILE_MAGIC, strlen(LOG_FILE_MAGIC));
    put(bytes + FILE_VERSION, header->version, 4);
    put(bytes + FILE_COMPATIBLE, header->compatible, 4);
    put(bytes + FILE_INCOMPATIBLE, header->incompatible, 4);
    put(bytes + FILE_STREAM, header->stream, 2);
    put(bytes + FILE_SUBSTREAM, header->substream, 1);
    put(bytes + FILE_ZERO, 0, 1);
    put(bytes + FILE_N_VCPUS, header->n_vcpus, 4);
    put(bytes + FILE_CRC, recording_crc32c(0, bytes, FILE_CRC), 4);
}

const char *log_file_header_get(LogFileHeader *header,
                                const uint8_t bytes[LOG_FILE_HEADER_BYTES])
{
    *header = (LogFileHeader) { 0 };
    if (memcmp(bytes + FILE_MAGIC, LOG_FILE_MAGIC, strlen(LOG_FILE_MAGIC)) != 0) {
        return "this is not a log";
    }
    header->version = get(bytes + FILE_VERSION, 4);
    if (header->version != LOG_VERSION) {
        return NULL;
    }
    if (get(bytes + FILE_CRC, 4) != recording_crc32c(0, bytes, FILE_CRC)) {
        return "the file header has a wrong checksum";
    }
    header->compatible = get(bytes + FILE_COMPATIBLE, 4);
    header->incompatible = get(bytes + FILE_INCOMPATIBLE, 4);
    header->stream = get(bytes + FILE_STREAM, 2);
    header->substream = get(bytes + FILE_SUBSTREAM, 1);
    header->n_vcpus = get(bytes + FILE_N_VCPUS, 4);
    if (bytes[FILE_ZERO] != 0) {
        return "a reserved byte of the file header is not 0";
    }
    if (header->n_vcpus == 0 || header->n_vcpus > RECORDER_MAX_VCPUS) {
        return "the file header has an impossible number of vCPUs";
    }
    if (header->incompatible == LOG_FILE_NO_FDR) {
        return "the file header names no order";
    }
    if (header->substream >= LOG_SUBSTREAMS ||
        !log_file_exists(header->n_vcpus, log_file_orders(header->incompatible), header->stream,
                         header->substream)) {
        return "the file header names a log that no recording has";
    }
    return NULL;
}

void log_block_header_put(const LogBlockHeader *header, uint8_t bytes[LOG_BLOCK_HEADER_BYTES])
{
    memcpy(bytes + BLOCK_MAGIC, LOG_BLOCK_MAGIC, strlen(LOG_BLOCK_MAGIC));
    put(bytes + BLOCK_STREAM, header->stream, 2);
    put(bytes + BLOCK_SUBSTREAM, header->substream, 1);
    put(bytes + BLOCK_FLAGS, header->flags, 1);
    put(bytes + BLOCK_SEQUENCE, header->sequence, 8);
    put(bytes + BLOCK_START, header->start, 8);
    put(bytes + BLOCK_END, header->end, 8);
    put(bytes + BLOCK_N_EVENTS, header->n_events, 4);
    put(bytes + BLOCK_RAW_SIZE, header->raw_size, 4);
    put(bytes + BLOCK_STORED_SIZE, header->stored_size, 4);
    put(bytes + BLOCK_PAYLOAD_CRC, header->payload_crc, 4);
    put(bytes + BLOCK_CRC, recording_crc32c(0, bytes, BLOCK_CRC), 4);
}

void log_dropped_put(unsigned stream, LogSubstream substream, uint64_t sequence, Position start,
                     const LogDropped *dropped, uint8_t bytes[LOG_DROPPED_BLOCK_BYTES])
{
    uint8_t *payload = bytes + LOG_BLOCK_HEADER_BYTES;
    LogBlockHeader header = {
        .stream = stream,
        .substream = substream,
        .flags = LOG_BLOCK_DROPPED,
        .sequence = sequence,
        .end = start,
        .raw_size = LOG_DROPPED_BYTES,
        .stored_size = LOG_DROPPED_BYTES,
    };

    put(payload, dropped->offset, 8);
    put(payload + 8, dropped->reached, 8);
    header.payload_crc = recording_crc32c(0, payload, LOG_DROPPED_BYTES);
    log_block_header_put(&header, bytes);
}

void log_dropped_get(LogDropped *dropped, const uint8_t payload[LOG_DROPPED_BYTES])
{
    dropped->offset = get(payload, 8);
    dropped->reached = get(payload + 8, 8);
}

/*
 * Check the rules of docs/log-format.md that concern one header by itself.  Return what is wrong,
 * or NULL.
 */
static const char *check_block_header(const LogBlockHeader *header)
{
    if (header->flags & ~LOG_BLOCK_FLAGS) {
        return "the block header has unknown flags";
    }
    if (header->end < header->start) {
        return "the block ends before it starts";
    }
    if (header->raw_size > LOG_BLOCK_MAX) {
        return "the block is too large";
    }
    if (header->flags & LOG_BLOCK_LZ4 ? header->stored_size >= header->raw_size
                                      : header->stored_size != header->raw_size) {
        return "the sizes in the block header contradict each other";
    }
    if (header->n_events > header->raw_size / LOG_EVENT_MIN_SIZE) {
        return "the block header claims more events than fit";
    }
    if (header->flags & LOG_BLOCK_DROPPED) {
        return header->flags == LOG_BLOCK_DROPPED && header->n_events == 0 && header->start == 0 &&
               header->raw_size == LOG_DROPPED_BYTES ? NULL
               : "the block that stands for dropped ones says something else, too";
    }
    /* An empty block only says that the log ends. */
    if (header->n_events == 0 && (header->raw_size > 0 || header->end != header->start ||
                                  !(header->flags & LOG_BLOCK_LAST))) {
        return "the block has no events";
    }
    return NULL;
}

const char *log_block_header_get(LogBlockHeader *header,
                                 const uint8_t bytes[LOG_BLOCK_HEADER_BYTES])
{
    if (memcmp(bytes + BLOCK_MAGIC, LOG_BLOCK_MAGIC, strlen(LOG_BLOCK_MAGIC)) != 0) {
        return "no block begins here";
    }
    if (get(bytes + BLOCK_CRC, 4) != recording_crc32c(0, bytes, BLOCK_CRC)) {
        return "the block header has a wrong checksum";
    }
    *header = (LogBlockHeader) {
        .stream = get(bytes + BLOCK_STREAM, 2),
        .substream = get(bytes + BLOCK_SUBSTREAM, 1),
        .flags = get(bytes + BLOCK_FLAGS, 1),
        .sequence = get(bytes + BLOCK_SEQUENCE, 8),
        .start = get(bytes + BLOCK_START, 8),
        .end = get(bytes + BLOCK_END, 8),
        .n_events = get(bytes + BLOCK_N_EVENTS, 4),
        .raw_size = get(bytes + BLOCK_RAW_SIZE, 4),
        .stored_size = get(bytes + BLOCK_STORED_SIZE, 4),
        .payload_crc = get(bytes + BLOCK_PAYLOAD_CRC, 4),
    };
    return check_block_header(header);
}

char *log_file_name(unsigned n_vcpus, unsigned stream, LogSubstream substream)
{
    g_assert(log_file_exists(n_vcpus, ORDER_SET_ALL, stream, substream));
    if (stream == n_vcpus) {
        return g_strdup_printf("dma.%s", log_substream_name(substream));
    }
    return g_strdup_printf("vcpu-%u.%s", stream, log_substream_name(substream));
}
