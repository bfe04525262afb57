/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Saves a guest's RAM; docs/log-format.md, "RAM image", describes the bytes.
 *
 * The guest is stopped meanwhile, so this must be quick.  A thread takes a
 * chunk, gathers the pages that are not zero, compresses them and writes them
 * at a place of the file that it claims by one atomic addition.  So chunks lie
 * there in any order, and no thread waits for another.  The header is written
 * last, when all else is on disk: without a header the file is not valid.
 */
#include <errno.h>
#include <fcntl.h>
#include <lz4.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/parallel.h"
#include "base/write-all.h"
#include "base/zero-page.h"
#include "recording/ram-image-format.h"

/* The buffers of a worker thread, for one chunk. */
typedef struct Scratch {
    uint64_t lz4_state[LZ4_STREAM_MINSIZE / sizeof(uint64_t)];
    uint8_t pages[RAM_IMAGE_CHUNK];
    struct {
        RamImageChunk header;
        uint8_t data[RAM_IMAGE_CHUNK];
    } record;
} Scratch;

struct RamImageWriter {
    char *path;
    int fd;
    bool closed;                /* successfully: the file is kept */
    bool changes;               /* an image of changes, not a whole one */
    GPtrArray *names;
    GByteArray *table;
    Scratch *scratch[PARALLEL_MAX_WORKERS];
    /* Shared by the worker threads; atomic. */
    uint64_t next_offset;
    uint64_t n_chunks;
    int failed;                 /* errno of the first failure */
};

typedef struct Block {
    RamImageWriter *writer;
    const uint8_t *host;
    uint64_t size;
    uint32_t number;
    const uint64_t *changed;    /* or NULL: all pages */
} Block;

static bool io_error(const RamImageWriter *writer, int code, GError **error)
{
    g_set_error(error, RAM_IMAGE_ERROR, RAM_IMAGE_ERROR_IO, "cannot write %s: %s",
                writer->path, g_strerror(code));
    return false;
}

RamImageWriter *ram_image_create(const char *path, GError **error)
{
    RamImageWriter *writer;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

    if (fd < 0) {
        g_set_error(error, RAM_IMAGE_ERROR, RAM_IMAGE_ERROR_IO, "cannot create %s: %s",
                    path, g_strerror(errno));
        return NULL;
    }
    writer = g_new0(RamImageWriter, 1);
    writer->path = g_strdup(path);
    writer->fd = fd;
    writer->names = g_ptr_array_new_with_free_func(g_free);
    writer->table = g_byte_array_new();
    writer->next_offset = sizeof(RamImageHeader);
    return writer;
}

void ram_image_writer_free(RamImageWriter *writer)
{
    if (!writer) {
        return;
    }
    if (writer->fd >= 0) {
        close(writer->fd);
    }
    if (!writer->closed) {
        unlink(writer->path);
    }
    for (unsigned i = 0; i < PARALLEL_MAX_WORKERS; i++) {
        g_free(writer->scratch[i]);
    }
    g_ptr_array_unref(writer->names);
    g_byte_array_unref(writer->table);
    g_free(writer->path);
    g_free(writer);
}

/* Return 0, or the errno. */
static int write_at(int fd, const void *bytes, size_t n, uint64_t offset)
{
    return write_all_at(fd, bytes, n, offset) ? 0 : errno;
}

static void write_chunk(RamImageWriter *writer, Scratch *scratch, size_t length)
{
    RamImageChunk *header = &scratch->record.header;
    const uint8_t *bytes = (const uint8_t *)&scratch->record;
    const size_t crc_size = sizeof(header->crc);
    uint64_t offset;
    int code, none = 0;

    header->crc = GUINT32_TO_LE(recording_crc32c(0, bytes + crc_size, length - crc_size));
    offset = __atomic_fetch_add(&writer->next_offset, length, __ATOMIC_RELAXED);
    __atomic_fetch_add(&writer->n_chunks, 1, __ATOMIC_RELAXED);
    code = write_at(writer->fd, bytes, length, offset);
    if (code) {
        __atomic_compare_exchange_n(&writer->failed, &none, code, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}

/*
 * Return the pages of a chunk to store: in a whole image those that are not zero, in an image of
 * changes also those that became zero.
 */
static uint64_t pages_to_save(const Block *block, uint64_t number)
{
    const uint8_t *host = block->host + number * RAM_IMAGE_CHUNK;
    uint64_t pages = 0;

    if (block->changed) {
        return block->changed[number];
    }
    for (unsigned i = 0; i < ram_image_chunk_pages(block->size, number); i++) {
        if (!page_is_zero(host + i * RAM_IMAGE_PAGE, RAM_IMAGE_PAGE)) {
            pages |= UINT64_C(1) << i;
        }
    }
    return pages;
}

static void save_chunk(void *opaque, uint64_t number, unsigned worker)
{
    const Block *block = opaque;
    RamImageWriter *writer = block->writer;
    Scratch *scratch;
    RamImageChunk *header;
    const uint8_t *host = block->host + number * RAM_IMAGE_CHUNK;
    const uint8_t *source;
    uint64_t pages;
    size_t raw;
    int stored;

    if (__atomic_load_n(&writer->failed, __ATOMIC_RELAXED)) {
        return;
    }
    pages = pages_to_save(block, number);
    if (!pages) {
        return;
    }

    if (!writer->scratch[worker]) {
        writer->scratch[worker] = g_new(Scratch, 1);
    }
    scratch = writer->scratch[worker];
    raw = __builtin_popcountll(pages) * RAM_IMAGE_PAGE;
    if (ram_image_one_run(pages)) {
        source = host + __builtin_ctzll(pages) * RAM_IMAGE_PAGE;
    } else {
        uint8_t *to = scratch->pages;

        for (uint64_t left = pages; left; left &= left - 1) {
            memcpy(to, host + __builtin_ctzll(left) * RAM_IMAGE_PAGE, RAM_IMAGE_PAGE);
            to += RAM_IMAGE_PAGE;
        }
        source = scratch->pages;
    }

    /* Returns 0 if the result would not be smaller than @raw. */
    stored = LZ4_compress_fast_extState(scratch->lz4_state, (const char *)source,
                                        (char *)scratch->record.data, raw, raw - 1, 1);
    if (stored <= 0) {
        memcpy(scratch->record.data, source, raw);
        stored = raw;
    }
    header = &scratch->record.header;
    header->block = GUINT32_TO_LE(block->number);
    header->number = GUINT64_TO_LE(number);
    header->pages = GUINT64_TO_LE(pages);
    header->stored = GUINT32_TO_LE(stored);
    header->reserved = 0;
    write_chunk(writer, scratch, sizeof(*header) + stored);
}

static bool add_block(RamImageWriter *writer, const char *name, const uint8_t *host,
                      uint64_t size, const uint64_t *changed, GError **error)
{
    Block block = { writer, host, size, writer->names->len, changed };
    RamImageTableEntry entry = { 0 };

    if (size % RAM_IMAGE_PAGE || size > RAM_IMAGE_MAX_SIZE || !ram_image_name_ok(name) ||
        writer->names->len >= RAM_IMAGE_MAX_BLOCKS ||
        g_ptr_array_find_with_equal_func(writer->names, name, g_str_equal, NULL)) {
        g_autofree char *shown = g_strescape(name, NULL);
        g_set_error(error, RAM_IMAGE_ERROR, RAM_IMAGE_ERROR_REFUSED,
                    "RAM block '%s' of %" G_GUINT64_FORMAT " bytes cannot be saved: "
                    "its size, its name or the number of blocks is out of bounds",
                    shown, size);
        return false;
    }
    g_ptr_array_add(writer->names, g_strdup(name));
    entry.size = GUINT64_TO_LE(size);
    entry.name_length = GUINT32_TO_LE(strlen(name));
    g_byte_array_append(writer->table, (const uint8_t *)&entry, sizeof(entry));
    g_byte_array_append(writer->table, (const uint8_t *)name, strlen(name));

    parallel_for(ram_image_chunks(size), save_chunk, &block);
    return !writer->failed || io_error(writer, writer->failed, error);
}

bool ram_image_add_block(RamImageWriter *writer, const char *name,
                         const uint8_t *host, uint64_t size, GError **error)
{
    g_assert(!writer->changes);
    return add_block(writer, name, host, size, NULL, error);
}

bool ram_image_add_changes(RamImageWriter *writer, const char *name, const uint8_t *host,
                           uint64_t size, const uint64_t *changed, GError **error)
{
    g_assert(writer->changes || writer->names->len == 0);
    writer->changes = true;
    return add_block(writer, name, host, size, changed, error);
}

bool ram_image_close(RamImageWriter *writer, GError **error)
{
    RamImageHeader header = {
        .magic = RAM_IMAGE_MAGIC,
        .version = GUINT32_TO_LE(RAM_IMAGE_VERSION),
        .incompatible = GUINT32_TO_LE(writer->changes ? RAM_IMAGE_CHANGES : 0),
        .n_blocks = GUINT32_TO_LE(writer->names->len),
        .n_chunks = GUINT64_TO_LE(writer->n_chunks),
        .table_offset = GUINT64_TO_LE(writer->next_offset),
        .file_size = GUINT64_TO_LE(writer->next_offset + writer->table->len),
        .page_size = GUINT32_TO_LE(RAM_IMAGE_PAGE),
        .chunk_size = GUINT32_TO_LE(RAM_IMAGE_CHUNK),
        .table_crc = GUINT32_TO_LE(recording_crc32c(0, writer->table->data, writer->table->len)),
    };
    int code = writer->failed;

    header.crc = GUINT32_TO_LE(recording_crc32c(0, &header, offsetof(RamImageHeader, crc)));
    if (!code) {
        code = write_at(writer->fd, writer->table->data, writer->table->len,
                        writer->next_offset);
    }
    if (!code && fsync(writer->fd) < 0) {
        code = errno;
    }
    if (!code) {
        code = write_at(writer->fd, &header, sizeof(header), 0);
    }
    if (!code && fsync(writer->fd) < 0) {
        code = errno;
    }
    if (close(writer->fd) < 0 && !code) {
        code = errno;
    }
    writer->fd = -1;
    writer->closed = code == 0;
    return writer->closed || io_error(writer, code, error);
}
