/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A RAM image opened for reading: its header and its table of blocks, checked.
 * For recording/ram-image-*.c alone.
 */
#ifndef RECORDING_RAM_IMAGE_FILE_H
#define RECORDING_RAM_IMAGE_FILE_H

#include "recording/ram-image-format.h"

typedef struct RamImageTableBlock {
    char *name;
    uint64_t size;
} RamImageTableBlock;

typedef struct RamImageFile {
    char *path;
    int fd;
    uint32_t n_blocks;
    uint64_t n_chunks;
    uint64_t chunks_end;            /* offset */
    uint64_t size;
    uint32_t table_crc;
    bool changes;                   /* RAM_IMAGE_CHANGES */
    RamImageTableBlock *blocks;
} RamImageFile;

RamImageFile *ram_image_file_open(const char *path, GError **error);
void ram_image_file_free(RamImageFile *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RamImageFile, ram_image_file_free)

/* Read all @n bytes at @offset.  Any thread. */
bool ram_image_file_read(const RamImageFile *file, void *bytes, size_t n, uint64_t offset,
                         GError **error);

/* Set @error to "PATH: ..." and return false. */
G_GNUC_PRINTF(4, 5)
bool ram_image_file_fail(const RamImageFile *file, GError **error, RamImageError code,
                         const char *format, ...);

#endif
