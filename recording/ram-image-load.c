/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Loads a guest's RAM; docs/log-format.md, "RAM image", describes the bytes and
 * when they are valid.  The file may be cut off, damaged or hostile: every
 * length is checked against what is left, every chunk has one place in one
 * block, and no two threads ever write the same memory.
 *
 * Chunks are claimed one after the other with a lock held, which covers only the
 * chunk's header.  Threads read, check and unpack the data in parallel.
 */
#include <lz4.h>
#include <pthread.h>

#include "base/crc32c.h"
#include "base/parallel.h"
#include "base/zero-page.h"
#include "recording/ram-image-file.h"

typedef struct Block {
    uint64_t size;
    uint8_t *host;              /* NULL: the block is only checked */
    bool zeroed;
    uint8_t *seen;              /* one bit per chunk: the chunk is in the file */
} Block;

typedef struct Scratch {
    uint8_t stored[RAM_IMAGE_CHUNK];
    uint8_t pages[RAM_IMAGE_CHUNK];
} Scratch;

typedef struct Loader {
    RamImageFile *file;
    Block *blocks;
    Scratch *scratch[PARALLEL_MAX_WORKERS];
    pthread_mutex_t lock;       /* protects all fields below, and Block.seen */
    uint64_t next_offset;
    GError *error;              /* the first */
} Loader;

static Loader *loader_new(RamImageFile *file)
{
    Loader *loader = g_new0(Loader, 1);

    loader->file = file;
    loader->blocks = g_new0(Block, file->n_blocks);
    loader->next_offset = sizeof(RamImageHeader);
    pthread_mutex_init(&loader->lock, NULL);
    return loader;
}

static void loader_free(Loader *loader)
{
    for (uint32_t i = 0; i < loader->file->n_blocks; i++) {
        g_free(loader->blocks[i].seen);
    }
    for (unsigned i = 0; i < PARALLEL_MAX_WORKERS; i++) {
        g_free(loader->scratch[i]);
    }
    pthread_mutex_destroy(&loader->lock);
    g_clear_error(&loader->error);
    g_free(loader->blocks);
    g_free(loader);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Loader, loader_free)

static bool damaged_chunk(const Loader *loader, uint64_t offset, GError **error)
{
    return ram_image_file_fail(loader->file, error, RAM_IMAGE_ERROR_DAMAGED,
                               "damaged chunk at offset %" G_GUINT64_FORMAT, offset);
}

static bool find_places(Loader *loader, RamImageBlockFn *lookup, void *opaque,
                        GError **error)
{
    for (uint32_t i = 0; i < loader->file->n_blocks; i++) {
        const RamImageTableBlock *wanted = &loader->file->blocks[i];
        Block *block = &loader->blocks[i];

        block->size = wanted->size;
        block->host = lookup(opaque, wanted->name, wanted->size, &block->zeroed);
        if (!block->host) {
            return ram_image_file_fail(loader->file, error, RAM_IMAGE_ERROR_REFUSED,
                                       "RAM block '%s' of %" G_GUINT64_FORMAT
                                       " bytes does not fit this machine",
                                       wanted->name, wanted->size);
        }
        block->seen = g_malloc0(ram_image_chunks(block->size) / 8 + 1);
    }
    return true;
}

static bool chunk_seen(const Block *block, uint64_t number)
{
    return block->seen[number / 8] >> (number % 8) & 1;
}

static void clear_page(uint8_t *page)
{
    if (!page_is_zero(page, RAM_IMAGE_PAGE)) {
        memset(page, 0, RAM_IMAGE_PAGE);
    }
}

/*
 * Claim the next chunk of the file: get its header, and the offset of its data.  Called with
 * loader->lock held.
 */
static bool claim_chunk(Loader *loader, RamImageChunk *raw, uint64_t *data_offset,
                        GError **error)
{
    uint64_t left = loader->file->chunks_end - loader->next_offset;
    uint64_t number, pages;
    uint32_t block_number, stored;
    const Block *block;
    unsigned n_pages;

    if (left < sizeof(*raw)) {
        return ram_image_file_fail(loader->file, error, RAM_IMAGE_ERROR_DAMAGED,
                                   "chunks are missing");
    }
    if (!ram_image_file_read(loader->file, raw, sizeof(*raw), loader->next_offset, error)) {
        return false;
    }
    block_number = GUINT32_FROM_LE(raw->block);
    number = GUINT64_FROM_LE(raw->number);
    pages = GUINT64_FROM_LE(raw->pages);
    stored = GUINT32_FROM_LE(raw->stored);
    if (block_number >= loader->file->n_blocks ||
        number >= ram_image_chunks(loader->blocks[block_number].size) ||
        pages == 0 || stored == 0 || stored > left - sizeof(*raw) ||
        stored > __builtin_popcountll(pages) * RAM_IMAGE_PAGE || raw->reserved) {
        return damaged_chunk(loader, loader->next_offset, error);
    }
    block = &loader->blocks[block_number];
    n_pages = ram_image_chunk_pages(block->size, number);
    if ((n_pages < RAM_IMAGE_CHUNK_PAGES && pages >> n_pages) || chunk_seen(block, number)) {
        return damaged_chunk(loader, loader->next_offset, error);
    }
    block->seen[number / 8] |= 1 << (number % 8);
    *data_offset = loader->next_offset + sizeof(*raw);
    loader->next_offset = *data_offset + stored;
    return true;
}

/* Read, check and unpack the data of a claimed chunk. */
static bool fill_chunk(Loader *loader, Scratch *scratch, const RamImageChunk *raw,
                       uint64_t data_offset, GError **error)
{
    const Block *block = &loader->blocks[GUINT32_FROM_LE(raw->block)];
    uint64_t number = GUINT64_FROM_LE(raw->number);
    uint64_t pages = GUINT64_FROM_LE(raw->pages);
    uint32_t stored = GUINT32_FROM_LE(raw->stored);
    uint32_t size = __builtin_popcountll(pages) * RAM_IMAGE_PAGE;
    uint8_t *host = block->host ? block->host + number * RAM_IMAGE_CHUNK : NULL;
    bool in_place = host && ram_image_one_run(pages);
    uint8_t *to = in_place ? host + __builtin_ctzll(pages) * RAM_IMAGE_PAGE : scratch->pages;
    const size_t crc_size = sizeof(raw->crc);
    uint32_t crc;

    if (!ram_image_file_read(loader->file, scratch->stored, stored, data_offset, error)) {
        return false;
    }
    crc = recording_crc32c(0, (const uint8_t *)raw + crc_size, sizeof(*raw) - crc_size);
    crc = recording_crc32c(crc, scratch->stored, stored);
    if (crc != GUINT32_FROM_LE(raw->crc)) {
        return damaged_chunk(loader, data_offset - sizeof(*raw), error);
    }
    if (stored == size) {
        memcpy(to, scratch->stored, size);
    } else if (LZ4_decompress_safe((const char *)scratch->stored, (char *)to,
                                   stored, size) != (int)size) {
        return damaged_chunk(loader, data_offset - sizeof(*raw), error);
    }
    for (unsigned i = 0; host && i < ram_image_chunk_pages(block->size, number); i++) {
        uint8_t *page = host + i * RAM_IMAGE_PAGE;

        if (!(pages >> i & 1)) {
            if (!block->zeroed && !loader->file->changes) {
                clear_page(page);
            }
        } else if (!in_place) {
            memcpy(page, to, RAM_IMAGE_PAGE);
            to += RAM_IMAGE_PAGE;
        }
    }
    return true;
}

static void load_chunk(void *opaque, G_GNUC_UNUSED uint64_t item, unsigned worker)
{
    Loader *loader = opaque;
    g_autoptr(GError) error = NULL;
    RamImageChunk raw;
    uint64_t data_offset = 0;
    bool claimed;

    pthread_mutex_lock(&loader->lock);
    claimed = !loader->error && claim_chunk(loader, &raw, &data_offset, &loader->error);
    pthread_mutex_unlock(&loader->lock);
    if (!claimed) {
        return;
    }
    if (!loader->scratch[worker]) {
        loader->scratch[worker] = g_new(Scratch, 1);
    }
    if (!fill_chunk(loader, loader->scratch[worker], &raw, data_offset, &error)) {
        pthread_mutex_lock(&loader->lock);
        if (!loader->error) {
            loader->error = g_steal_pointer(&error);
        }
        pthread_mutex_unlock(&loader->lock);
    }
}

/* Zero a chunk that is not in the file. */
static void clear_chunk(void *opaque, uint64_t number, G_GNUC_UNUSED unsigned worker)
{
    const Block *block = opaque;
    uint8_t *host = block->host + number * RAM_IMAGE_CHUNK;

    if (chunk_seen(block, number)) {
        return;
    }
    for (unsigned i = 0; i < ram_image_chunk_pages(block->size, number); i++) {
        clear_page(host + i * RAM_IMAGE_PAGE);
    }
}

static bool load_chunks(Loader *loader, GError **error)
{
    parallel_for(loader->file->n_chunks, load_chunk, loader);
    if (loader->error) {
        g_propagate_error(error, g_steal_pointer(&loader->error));
        return false;
    }
    return loader->next_offset == loader->file->chunks_end ||
           ram_image_file_fail(loader->file, error, RAM_IMAGE_ERROR_DAMAGED,
                               "more chunks than promised");
}

bool ram_image_check(const char *path, uint64_t size, GError **error)
{
    g_autoptr(RamImageFile) file = ram_image_file_open(path, error);
    g_autoptr(Loader) loader = file ? loader_new(file) : NULL;

    if (!file) {
        return false;
    }
    if (file->n_blocks != 1 || file->blocks[0].size != size) {
        return ram_image_file_fail(file, error, RAM_IMAGE_ERROR_REFUSED,
                                   "it is not one block of %" G_GUINT64_FORMAT " bytes, which the "
                                   "manifest says", size);
    }
    loader->blocks[0].size = size;
    loader->blocks[0].seen = g_malloc0(ram_image_chunks(size) / 8 + 1);
    return load_chunks(loader, error);
}

/* Load an image.  @later: the blocks hold the contents of earlier images. */
static bool load(const char *path, bool later, RamImageBlockFn *lookup, void *opaque,
                 GError **error)
{
    g_autoptr(RamImageFile) file = ram_image_file_open(path, error);
    g_autoptr(Loader) loader = file ? loader_new(file) : NULL;

    if (!file) {
        return false;
    }
    if (file->changes && !later) {
        return ram_image_file_fail(file, error, RAM_IMAGE_ERROR_FOREIGN,
                                   "only changes, where a whole image is expected");
    }
    if (!find_places(loader, lookup, opaque, error) || !load_chunks(loader, error)) {
        return false;
    }
    for (uint32_t i = 0; i < file->n_blocks; i++) {
        Block *block = &loader->blocks[i];

        if (!block->zeroed && !file->changes) {
            parallel_for(ram_image_chunks(block->size), clear_chunk, block);
        }
    }
    return true;
}

bool ram_image_load(const char *path, RamImageBlockFn *lookup, void *opaque, GError **error)
{
    return load(path, false, lookup, opaque, error);
}

bool ram_image_load_changes(const char *path, RamImageBlockFn *lookup, void *opaque,
                            GError **error)
{
    return load(path, true, lookup, opaque, error);
}
