/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The header and the block table of a RAM image, which may be cut off, damaged
 * or hostile (docs/log-format.md, "RAM image", says what is valid).
 */
#include "recording/ram-image-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"

G_DEFINE_QUARK(ram-image-error-quark, ram_image_error)

bool ram_image_file_fail(const RamImageFile *file, GError **error, RamImageError code,
                         const char *format, ...)
{
    g_autofree char *what = NULL;
    va_list args;

    va_start(args, format);
    what = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error(error, RAM_IMAGE_ERROR, code, "%s: %s", file->path, what);
    return false;
}

bool ram_image_file_read(const RamImageFile *file, void *bytes, size_t n, uint64_t offset,
                         GError **error)
{
    uint8_t *p = bytes;

    while (n > 0) {
        ssize_t got = pread(file->fd, p, n, offset);

        if (got == 0) {
            return ram_image_file_fail(file, error, RAM_IMAGE_ERROR_DAMAGED, "cut off");
        }
        if (got < 0 && errno != EINTR) {
            return ram_image_file_fail(file, error, RAM_IMAGE_ERROR_IO, "cannot read: %s",
                        g_strerror(errno));
        }
        if (got > 0) {
            p += got;
            n -= got;
            offset += got;
        }
    }
    return true;
}

static bool read_header(RamImageFile *file, GError **error)
{
    RamImageHeader raw;
    struct stat st;
    uint32_t version, unknown;

    if (file->fd < 0 || fstat(file->fd, &st) < 0) {
        return ram_image_file_fail(file, error, RAM_IMAGE_ERROR_IO, "cannot open: %s",
                                   g_strerror(errno));
    }
    if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(raw)) {
        return ram_image_file_fail(file, error, RAM_IMAGE_ERROR_FOREIGN,
                                   "not a RAM image, or cut off");
    }
    if (!ram_image_file_read(file, &raw, sizeof(raw), 0, error)) {
        return false;
    }
    if (memcmp(raw.magic, RAM_IMAGE_MAGIC, sizeof(raw.magic)) != 0) {
        return ram_image_file_fail(file, error, RAM_IMAGE_ERROR_FOREIGN,
                                   "not a RAM image, or one that was never finished");
    }
    version = GUINT32_FROM_LE(raw.version);
    if (version != RAM_IMAGE_VERSION) {
        return ram_image_file_fail(file, error, RAM_IMAGE_ERROR_VERSION,
                                   "version %u of the RAM image, this reprise knows %d",
                                   version, RAM_IMAGE_VERSION);
    }
    if (GUINT32_FROM_LE(raw.crc) != recording_crc32c(0, &raw, offsetof(RamImageHeader, crc))) {
        return ram_image_file_fail(file, error, RAM_IMAGE_ERROR_DAMAGED, "damaged header");
    }
    unknown = GUINT32_FROM_LE(raw.incompatible) & ~RAM_IMAGE_INCOMPATIBLE_KNOWN;
    if (unknown) {
        return ram_image_file_fail(file, error, RAM_IMAGE_ERROR_VERSION,
                                   "features 0x%x, which this reprise does not know", unknown);
    }
    file->changes = GUINT32_FROM_LE(raw.incompatible) & RAM_IMAGE_CHANGES;
    file->size = GUINT64_FROM_LE(raw.file_size);
    if (file->size != (uint64_t)st.st_size) {
        return ram_image_file_fail(file, error, RAM_IMAGE_ERROR_DAMAGED,
                                   "%" G_GUINT64_FORMAT " bytes instead of %" G_GUINT64_FORMAT,
                                   (uint64_t)st.st_size, file->size);
    }
    file->n_blocks = GUINT32_FROM_LE(raw.n_blocks);
    file->n_chunks = GUINT64_FROM_LE(raw.n_chunks);
    file->chunks_end = GUINT64_FROM_LE(raw.table_offset);
    file->table_crc = GUINT32_FROM_LE(raw.table_crc);
    if (GUINT32_FROM_LE(raw.page_size) != RAM_IMAGE_PAGE ||
        GUINT32_FROM_LE(raw.chunk_size) != RAM_IMAGE_CHUNK ||
        file->n_blocks > RAM_IMAGE_MAX_BLOCKS ||
        file->chunks_end < sizeof(raw) || file->chunks_end > file->size ||
        file->size - file->chunks_end > RAM_IMAGE_MAX_TABLE ||
        file->n_chunks > (file->chunks_end - sizeof(raw)) / sizeof(RamImageChunk)) {
        return ram_image_file_fail(file, error, RAM_IMAGE_ERROR_DAMAGED, "impossible header");
    }
    return true;
}

/* Take the next block of the table, which has *@left bytes at *@next.  Return false if invalid. */
static bool take_block(const RamImageFile *file, RamImageTableBlock *block,
                       const uint8_t **next, size_t *left)
{
    RamImageTableEntry entry;
    uint32_t length;

    if (*left < sizeof(entry)) {
        return false;
    }
    memcpy(&entry, *next, sizeof(entry));
    *next += sizeof(entry);
    *left -= sizeof(entry);
    length = GUINT32_FROM_LE(entry.name_length);
    block->size = GUINT64_FROM_LE(entry.size);
    if (length > *left || block->size % RAM_IMAGE_PAGE || entry.reserved ||
        block->size > RAM_IMAGE_MAX_SIZE) {
        return false;
    }
    block->name = g_strndup((const char *)*next, length);
    *next += length;
    *left -= length;
    for (const RamImageTableBlock *other = file->blocks; other < block; other++) {
        if (g_str_equal(other->name, block->name)) {
            return false;
        }
    }
    return strlen(block->name) == length && ram_image_name_ok(block->name);
}

static bool read_table(RamImageFile *file, GError **error)
{
    size_t left = file->size - file->chunks_end;
    g_autofree uint8_t *table = g_malloc(left);
    const uint8_t *next = table;

    if (!ram_image_file_read(file, table, left, file->chunks_end, error)) {
        return false;
    }
    if (recording_crc32c(0, table, left) != file->table_crc) {
        return ram_image_file_fail(file, error, RAM_IMAGE_ERROR_DAMAGED,
                                   "damaged table of blocks");
    }
    file->blocks = g_new0(RamImageTableBlock, file->n_blocks);
    for (uint32_t i = 0; i < file->n_blocks; i++) {
        if (!take_block(file, &file->blocks[i], &next, &left)) {
            return ram_image_file_fail(file, error, RAM_IMAGE_ERROR_DAMAGED,
                                       "impossible block %u in the table", i);
        }
    }
    return left == 0 || ram_image_file_fail(file, error, RAM_IMAGE_ERROR_DAMAGED,
                                            "table of blocks too long");
}

RamImageFile *ram_image_file_open(const char *path, GError **error)
{
    g_autoptr(RamImageFile) file = g_new0(RamImageFile, 1);

    file->path = g_strdup(path);
    /* Do not hang if the path is a FIFO. */
    file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (!read_header(file, error) || !read_table(file, error)) {
        return NULL;
    }
    return g_steal_pointer(&file);
}

void ram_image_file_free(RamImageFile *file)
{
    if (!file) {
        return;
    }
    if (file->fd >= 0) {
        close(file->fd);
    }
    for (uint32_t i = 0; file->blocks && i < file->n_blocks; i++) {
        g_free(file->blocks[i].name);
    }
    g_free(file->blocks);
    g_free(file->path);
    g_free(file);
}

bool ram_image_raw_size(const char *path, uint64_t *size, GError **error)
{
    g_autoptr(RamImageFile) file = ram_image_file_open(path, error);

    if (!file) {
        return false;
    }
    *size = 0;
    for (uint32_t i = 0; i < file->n_blocks; i++) {
        *size += file->blocks[i].size;
    }
    return true;
}
