/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The RAM part of a checkpoint: one file with all of a guest's RAM blocks.
 * Zero pages cost nothing, the others are compressed, every chunk has a
 * checksum.  docs/log-format.md, "RAM image", describes the bytes.
 *
 * One thread calls these; they use a second one inside, for speed.  The guest's
 * memory does not change while ram_image_add_block() or ram_image_load() runs.
 */
#ifndef RECORDING_RAM_IMAGE_H
#define RECORDING_RAM_IMAGE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Its name in the directory of a checkpoint. */
#define RAM_IMAGE_FILE       "ram"

#define RAM_IMAGE_PAGE       4096u
#define RAM_IMAGE_MAX_BLOCKS 256u
#define RAM_IMAGE_MAX_NAME   255u           /* bytes, of a block's name */
#define RAM_IMAGE_MAX_SIZE   (UINT64_C(1) << 44)    /* of a block */

typedef struct RamImageWriter RamImageWriter;

/* Starts a new file; one that exists is refused. */
RamImageWriter *ram_image_create(const char *path, GError **error);

/*
 * Adds a block: @size is a multiple of RAM_IMAGE_PAGE, @host is aligned to 8,
 * names differ.  When it returns, @host was read, and may change.
 */
bool ram_image_add_block(RamImageWriter *writer, const char *name,
                         const uint8_t *host, uint64_t size, GError **error);

/*
 * The same, but only the pages of @changed: a word for each chunk of RAM_IMAGE_CHUNK_PAGES, of
 * which bit i stands for page i.  The file then says what became of an earlier image.
 */
#define RAM_IMAGE_CHUNK_PAGES 64u
bool ram_image_add_changes(RamImageWriter *writer, const char *name, const uint8_t *host,
                           uint64_t size, const uint64_t *changed, GError **error);

/*
 * Makes the file valid, and syncs it.  Needs no guest memory: the guest may
 * run on before it is called.
 */
bool ram_image_close(RamImageWriter *writer, GError **error);

/* Frees the writer; removes the file unless ram_image_close() returned true. */
void ram_image_writer_free(RamImageWriter *writer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RamImageWriter, ram_image_writer_free)

/*
 * Where block @name, of @size bytes, shall go (aligned to 8); NULL refuses it, and the
 * load fails.  Set *@zeroed if all of it is known to be zero.  Called once per
 * block, in the order in which they were added, before anything is written; whether
 * all expected blocks were asked for is the caller's to check.
 */
typedef uint8_t *RamImageBlockFn(void *opaque, const char *name, uint64_t size,
                                 bool *zeroed);

/*
 * Fills the blocks.  Pages that are zero already and shall be zero are not
 * written, so that untouched memory stays untouched.  After a failure the
 * blocks hold anything.
 */
bool ram_image_load(const char *path, RamImageBlockFn *lookup, void *opaque,
                    GError **error);

/* Likewise on top of images that were loaded before: a whole one, or one of changes. */
bool ram_image_load_changes(const char *path, RamImageBlockFn *lookup, void *opaque,
                            GError **error);
/* Is the image sound to the last byte, of one block of @size bytes?  Keeps none of it. */
bool ram_image_check(const char *path, uint64_t size, GError **error);

/*
 * Makes the last of @n images, each on top of the one before, a whole one.  A crash leaves the
 * former one, or the new one, and either will do.
 */
bool ram_image_merge(char *const *paths, unsigned n, GError **error);

/* The sum of the sizes of all blocks, from the header alone. */
bool ram_image_raw_size(const char *path, uint64_t *size, GError **error);

#define RAM_IMAGE_ERROR ram_image_error_quark()
GQuark ram_image_error_quark(void);

typedef enum RamImageError {
    RAM_IMAGE_ERROR_IO,
    RAM_IMAGE_ERROR_FOREIGN,    /* not a RAM image, or never finished */
    RAM_IMAGE_ERROR_VERSION,
    RAM_IMAGE_ERROR_DAMAGED,
    RAM_IMAGE_ERROR_REFUSED,    /* a block that cannot be added, or has no place */
} RamImageError;

#endif
