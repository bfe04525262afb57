/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the writer (log-writer.c, log-output.c) and the reader (log-reader.c) of
 * a log must agree on.  docs/log-format.md describes the bytes.
 */
#ifndef RECORDING_LOG_FORMAT_H
#define RECORDING_LOG_FORMAT_H

/*
 * Bump it when a reader of the former version would misread what is written
 * now: another integer coding, another meaning of a field.  Additions that a
 * former reader can skip, or must refuse by name, are feature bits instead.
 */
#define LOG_VERSION 5

/*
 * Integers: 7 bits a byte, least significant group first, the top bit set on
 * all bytes but the last; signed ones zigzagged first, so that small
 * differences of either sign stay small.
 */
#define LOG_VARINT_MAX_BYTES 10
#define LOG_VARINT_MORE      0x80
#define LOG_VARINT_BITS      7

/*
 * A log file is a file header and blocks.  Unknown compatible bits are ignored,
 * unknown incompatible ones refused.
 */
#define LOG_FILE_MAGIC              "RepriseL"
#define LOG_FILE_HEADER_BYTES       32
#define LOG_FILE_COMPATIBLE         0
/* The orders of the recording; the same in all files. */
#define LOG_FILE_KARMA              1   /* the streams have karma logs */
#define LOG_FILE_RERUN              2   /* the streams have rerun logs */
#define LOG_FILE_NO_FDR             4   /* the order logs have no WAIT; only with one of these */
#define LOG_FILE_INCOMPATIBLE       (LOG_FILE_KARMA | LOG_FILE_RERUN | LOG_FILE_NO_FDR)

#define LOG_BLOCK_MAGIC             "RBlk"
#define LOG_BLOCK_HEADER_BYTES      52
/* Flags of a block. */
#define LOG_BLOCK_LZ4               1   /* the payload is compressed */
#define LOG_BLOCK_LAST              2   /* the log was ended properly after this */
#define LOG_BLOCK_DROPPED           4   /* stands for dropped blocks; only the first has it */
#define LOG_BLOCK_FLAGS             (LOG_BLOCK_LZ4 | LOG_BLOCK_LAST | LOG_BLOCK_DROPPED)
/* The payload of such a block: the offset of the next block, and the steps made before it. */
#define LOG_DROPPED_BYTES           16

/* A block is closed when its events have this many bytes, enough for lz4 to compress well. */
#define LOG_BLOCK_TARGET            (64 * 1024)
/* The longest "bytes" of one event. */
#define LOG_EVENT_MAX_BYTES         (8 * 1024 * 1024)
/* No block is larger before compression.  Bounds what readers allocate. */
#define LOG_BLOCK_MAX               (16 * 1024 * 1024)
/* Episodes name streams below this. */
#define LOG_EPISODE_STREAMS         32
/* The shortest event: a head, and a difference of positions or of steps; a byte each. */
#define LOG_EVENT_MIN_SIZE          2

#endif
