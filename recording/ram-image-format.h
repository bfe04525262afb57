/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What writer and reader of a RAM image must agree on.  docs/log-format.md,
 * "RAM image", describes the bytes; all integers are little-endian.
 */
#ifndef RECORDING_RAM_IMAGE_FORMAT_H
#define RECORDING_RAM_IMAGE_FORMAT_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "recording/ram-image.h"

/*
 * Bump it when a reader of the former version would misread what is written
 * now.  Additions are feature bits: compatible ones may be ignored.
 */
#define RAM_IMAGE_VERSION 1
#define RAM_IMAGE_MAGIC   "RPRS-RAM"
#define RAM_IMAGE_CHANGES 1u    /* pages that are not stored are as in the image before */
#define RAM_IMAGE_INCOMPATIBLE_KNOWN RAM_IMAGE_CHANGES

/* A chunk has as many pages as its bitmap has bits. */
#define RAM_IMAGE_CHUNK       (RAM_IMAGE_CHUNK_PAGES * RAM_IMAGE_PAGE)

typedef struct RamImageHeader {
    uint8_t magic[8];
    uint32_t version;
    uint32_t incompatible;
    uint32_t compatible;
    uint32_t n_blocks;
    uint64_t n_chunks;
    uint64_t table_offset;      /* the block table follows the last chunk */
    uint64_t file_size;
    uint32_t page_size;
    uint32_t chunk_size;
    uint32_t table_crc;
    uint32_t crc;               /* of all fields before */
} RamImageHeader;
G_STATIC_ASSERT(sizeof(RamImageHeader) == 64);

/* Followed by the name, without a terminating 0. */
typedef struct RamImageTableEntry {
    uint64_t size;
    uint32_t name_length;
    uint32_t reserved;
} RamImageTableEntry;
G_STATIC_ASSERT(sizeof(RamImageTableEntry) == 16);

#define RAM_IMAGE_MAX_TABLE \
    (RAM_IMAGE_MAX_BLOCKS * (sizeof(RamImageTableEntry) + RAM_IMAGE_MAX_NAME))

/* Followed by @stored bytes: the pages of @pages, in order, as one lz4 block. */
typedef struct RamImageChunk {
    uint32_t crc;               /* of all after it, and the data */
    uint32_t block;
    uint64_t number;            /* of the chunk in its block */
    uint64_t pages;             /* bit i: page i of the chunk is stored */
    uint32_t stored;            /* if this is the size of the pages: not compressed */
    uint32_t reserved;
} RamImageChunk;
G_STATIC_ASSERT(sizeof(RamImageChunk) == 32);

static inline uint64_t ram_image_chunks(uint64_t block_size)
{
    return block_size / RAM_IMAGE_CHUNK + (block_size % RAM_IMAGE_CHUNK != 0);
}

/* Return the number of pages of chunk @number; the last chunk of a block may have fewer. */
static inline unsigned ram_image_chunk_pages(uint64_t block_size, uint64_t number)
{
    uint64_t left = block_size - number * RAM_IMAGE_CHUNK;

    return MIN(left, RAM_IMAGE_CHUNK) / RAM_IMAGE_PAGE;
}

/* Return true if the pages of a bitmap, which is not 0, are one run without gaps. */
static inline bool ram_image_one_run(uint64_t pages)
{
    uint64_t run = pages >> __builtin_ctzll(pages);

    return (run & (run + 1)) == 0;
}

/* Return true if @name is printable: it appears in messages, and other tools may show the file. */
static inline bool ram_image_name_ok(const char *name)
{
    size_t length = strlen(name);

    for (size_t i = 0; i < length; i++) {
        if (!g_ascii_isprint(name[i])) {
            return false;
        }
    }
    return length > 0 && length <= RAM_IMAGE_MAX_NAME;
}

#endif
