/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Merges a whole RAM image and later changes into one whole image, so that earlier checkpoints can
 * be removed.  Takes as much memory as the guest has, for a short time.
 */
#include "recording/ram-image.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

/* The guest's main memory, which is one block. */
typedef struct Memory {
    char *name;                 /* NULL: none yet */
    uint64_t size;
    uint8_t *host;
} Memory;

static void memory_clear(Memory *memory)
{
    if (memory->host) {
        munmap(memory->host, memory->size);
    }
    g_free(memory->name);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Memory, memory_clear)

static uint8_t *find(void *opaque, const char *name, uint64_t size, bool *zeroed)
{
    Memory *memory = opaque;
    void *host;

    if (memory->name) {
        return g_str_equal(name, memory->name) && size == memory->size ? memory->host : NULL;
    }
    host = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
    if (host == MAP_FAILED) {
        return NULL;
    }
    *memory = (Memory) { g_strdup(name), size, host };
    *zeroed = true;
    return host;
}

static bool save(const Memory *memory, const char *path, GError **error)
{
    g_autofree char *new = g_strdup_printf("%s.new", path);
    g_autoptr(RamImageWriter) writer = ram_image_create(new, error);

    if (!writer ||
        !ram_image_add_block(writer, memory->name, memory->host, memory->size, error) ||
        !ram_image_close(writer, error)) {
        return false;
    }
    if (rename(new, path) < 0) {
        g_set_error(error, RAM_IMAGE_ERROR, RAM_IMAGE_ERROR_IO, "cannot rename %s: %s", new,
                    g_strerror(errno));
        remove(new);
        return false;
    }
    return true;
}

bool ram_image_merge(char *const *paths, unsigned n, GError **error)
{
    g_auto(Memory) memory = { 0 };

    for (unsigned i = 0; i < n; i++) {
        if (!(i ? ram_image_load_changes : ram_image_load)(paths[i], find, &memory, error)) {
            return false;
        }
    }
    return save(&memory, paths[n - 1], error);
}
