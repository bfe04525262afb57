/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The RAM part of a checkpoint: one file with all of a guest's RAM blocks.
 * Zero pages cost nothing, the others are compressed, every chunk has a
 * checksum.  docs/log-format.md, "RAM image", describes the bytes.
 *
 * One thread at a time calls these; inside they use several (parallel.h).  The
 * guest must not use its memory while blocks are added or loaded.
 */
#ifndef RECORDING_RAM_IMAGE_H
#define RECORDING_RAM_IMAGE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* The file's name in the directory of a checkpoint. */
#define RAM_IMAGE_FILE       "ram"

#define RAM_IMAGE_PAGE       4096u
#define RAM_IMAGE_MAX_BLOCKS 256u
#define RAM_IMAGE_MAX_NAME   255u           /* bytes, of a block's name */
#define RAM_IMAGE_MAX_SIZE   (UINT64_C(1) << 44)    /* of a block */

typedef struct RamImageWriter RamImageWriter;

/* Start a new file, which must not exist. */
RamImageWriter *ram_image_create(const char *path, GError **error);

/*
 * Add a block: @size is a multiple of RAM_IMAGE_PAGE, @host is aligned to 8,
 * names differ.  On return all of @host has been read, and may change.
 */
bool ram_image_add_block(RamImageWriter *writer, const char *name,
                         const uint8_t *host, uint64_t size, GError **error);

/*
 * The same, but add only the pages of @changed: a word for each chunk of RAM_IMAGE_CHUNK_PAGES, in
 * which bit i stands for page i.  The file is then an image of changes to an earlier image.
 */
#define RAM_IMAGE_CHUNK_PAGES 64u
bool ram_image_add_changes(RamImageWriter *writer, const char *name, const uint8_t *host,
                           uint64_t size, const uint64_t *changed, GError **error);

/*
 * Make the file valid, and sync it.  Does not read guest memory: the guest may
 * run on before this call.
 */
bool ram_image_close(RamImageWriter *writer, GError **error);

/* Free the writer; remove the file unless ram_image_close() returned true. */
void ram_image_writer_free(RamImageWriter *writer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RamImageWriter, ram_image_writer_free)

/*
 * Return the memory for block @name of @size bytes, aligned to 8; NULL refuses the
 * block, and the load fails.  Set *@zeroed if all this memory is known to be zero.
 * Called once per block, in the order in which blocks were added, before anything is
 * written.  The caller of the load checks that all expected blocks were asked for.
 */
typedef uint8_t *RamImageBlockFn(void *opaque, const char *name, uint64_t size,
                                 bool *zeroed);

/*
 * Fill the blocks.  Pages that are zero already and shall be zero are not
 * written, so that untouched memory stays untouched.  After a failure the
 * contents of the blocks are undefined.
 */
bool ram_image_load(const char *path, RamImageBlockFn *lookup, void *opaque,
                    GError **error);

/* The same on top of images that were loaded before; the file may be an image of changes. */
bool ram_image_load_changes(const char *path, RamImageBlockFn *lookup, void *opaque,
                            GError **error);
/* Return true if every byte of the image is valid, and it has one block, of @size bytes. */
bool ram_image_check(const char *path, uint64_t size, GError **error);

/*
 * Replace the last of @n images, each of which is on top of the one before, by a whole image.  A
 * crash leaves the former image or the new one, which are equivalent on top of the others.
 */
bool ram_image_merge(char *const *paths, unsigned n, GError **error);

/* Get the sum of the sizes of all blocks, from header and table alone. */
bool ram_image_raw_size(const char *path, uint64_t *size, GError **error);

#define RAM_IMAGE_ERROR ram_image_error_quark()
GQuark ram_image_error_quark(void);

typedef enum RamImageError {
    RAM_IMAGE_ERROR_IO,
    RAM_IMAGE_ERROR_FOREIGN,    /* not a RAM image, or never finished */
    RAM_IMAGE_ERROR_VERSION,
    RAM_IMAGE_ERROR_DAMAGED,
    RAM_IMAGE_ERROR_REFUSED,    /* a block that cannot be added, or that lookup refused */
} RamImageError;

#endif
