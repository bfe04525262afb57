/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The headers in a log file, as structs and as bytes; docs/log-format.md has
 * the tables.  Shared by writer and reader.  No state: any thread.
 *
 * Headers have a checksum of their own, so that a reader does not trust a
 * damaged size, and can tell a damaged file from one that was cut off.
 */
#ifndef RECORDING_LOG_BLOCK_H
#define RECORDING_LOG_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "recording/log-events.h"
#include "recording/log-format.h"
#include "recording/position.h"

typedef struct LogFileHeader {
    unsigned version;
    uint32_t compatible;
    uint32_t incompatible;
    unsigned stream;
    LogSubstream substream;
    unsigned n_vcpus;
} LogFileHeader;

typedef struct LogBlockHeader {
    unsigned stream;
    LogSubstream substream;
    unsigned flags;
    uint64_t sequence;          /* 0, 1, ... in a file */
    Position start;             /* where the block before ended; 0 in the first */
    Position end;               /* of the last event */
    uint32_t n_events;
    uint32_t raw_size;          /* of the events */
    uint32_t stored_size;       /* of the payload in the file */
    uint32_t payload_crc;       /* of the payload in the file */
} LogBlockHeader;

/* The payload of the block that stands for dropped blocks. */
typedef struct LogDropped {
    uint64_t offset;            /* of the next block in the file */
    Position reached;           /* steps that the stream had made by then */
} LogDropped;

/* Encode the block that stands for all blocks before @sequence, which starts at @start. */
#define LOG_DROPPED_BLOCK_BYTES (LOG_BLOCK_HEADER_BYTES + LOG_DROPPED_BYTES)
void log_dropped_put(unsigned stream, LogSubstream substream, uint64_t sequence, Position start,
                     const LogDropped *dropped, uint8_t bytes[LOG_DROPPED_BLOCK_BYTES]);
void log_dropped_get(LogDropped *dropped, const uint8_t payload[LOG_DROPPED_BYTES]);

void log_file_header_put(const LogFileHeader *header, uint8_t bytes[LOG_FILE_HEADER_BYTES]);
void log_block_header_put(const LogBlockHeader *header, uint8_t bytes[LOG_BLOCK_HEADER_BYTES]);

/*
 * Decode @bytes into @header.  Return NULL, or a static text that says what is
 * wrong with the bytes by themselves.  A version other than LOG_VERSION is no
 * error here, but then only the version is set: the rest may have another layout.
 */
const char *log_file_header_get(LogFileHeader *header,
                                const uint8_t bytes[LOG_FILE_HEADER_BYTES]);
const char *log_block_header_get(LogBlockHeader *header,
                                 const uint8_t bytes[LOG_BLOCK_HEADER_BYTES]);

/* Convert the orders of a recording to the incompatible bits of a file header, and back. */
uint32_t log_file_features(OrderSet orders);
OrderSet log_file_orders(uint32_t incompatible);

/*
 * Return true if there is such a log.  DMA, the stream after the vCPUs, has no data log.  Karma and
 * Rerun have logs of their own.
 */
static inline bool log_file_exists(unsigned n_vcpus, OrderSet orders, unsigned stream,
                                   LogSubstream substream)
{
    return stream <= n_vcpus && (substream != LOG_DATA || stream < n_vcpus) &&
           (substream != LOG_KARMA || order_set_has(orders, RACE_KARMA)) &&
           (substream != LOG_RERUN || order_set_has(orders, RACE_RERUN));
}

/*
 * Return the file's name in the directory of the recording, to be freed by the caller:
 * "vcpu-0.order", "dma.order".  Logs of all orders have names, whether they exist or not.
 */
char *log_file_name(unsigned n_vcpus, unsigned stream, LogSubstream substream);

#endif
