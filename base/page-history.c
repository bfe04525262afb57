/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See page-history.h.
 */
#include "base/page-history.h"

#include <string.h>
#include <sys/mman.h>

#include "base/zero-page.h"

/* The stored pages of a version in ascending order, and their bytes in the same order. */
typedef struct Version {
    uint32_t n_pages;
    uint32_t *page;
    uint8_t *bytes;
} Version;

struct PageHistory {
    uint32_t n_pages;
    uint8_t *all;               /* version 0; pages of zeros take no memory */
    GPtrArray *versions;        /* of Version: 1, 2, ... */
    uint64_t bytes;             /* of all versions but version 0 */
};

static uint64_t version_bytes(const Version *version)
{
    return sizeof(*version) + version->n_pages * (sizeof(uint32_t) + PAGE_HISTORY_PAGE);
}

static void version_free(gpointer data)
{
    Version *version = data;

    g_free(version->page);
    g_free(version->bytes);
    g_free(version);
}

static Version *version_new(uint32_t n_pages)
{
    Version *version = g_new(Version, 1);

    version->n_pages = n_pages;
    version->page = g_new(uint32_t, n_pages);
    version->bytes = g_malloc(n_pages * (size_t)PAGE_HISTORY_PAGE);
    return version;
}

static uint8_t *bytes_of(const Version *version, uint32_t index)
{
    return version->bytes + index * (size_t)PAGE_HISTORY_PAGE;
}

static void set_page(Version *version, uint32_t index, uint32_t page, const uint8_t *bytes)
{
    version->page[index] = page;
    memcpy(bytes_of(version, index), bytes, PAGE_HISTORY_PAGE);
}

static Version *get(const PageHistory *history, unsigned version)
{
    return history->versions->pdata[version - 1];
}

PageHistory *page_history_new(const uint8_t *memory, uint32_t n_pages)
{
    PageHistory *history = g_new0(PageHistory, 1);
    size_t size = n_pages * (size_t)PAGE_HISTORY_PAGE;

    history->n_pages = n_pages;
    history->versions = g_ptr_array_new_with_free_func(version_free);
    history->all = mmap(NULL, MAX(size, 1), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (history->all == MAP_FAILED) {
        g_error("cannot allocate %zu bytes for a copy of memory", size);
    }
    for (size_t at = 0; at < size; at += PAGE_HISTORY_PAGE) {
        if (!page_is_zero(memory + at, PAGE_HISTORY_PAGE)) {
            memcpy(history->all + at, memory + at, PAGE_HISTORY_PAGE);
        }
    }
    return history;
}

void page_history_free(PageHistory *history)
{
    if (history) {
        munmap(history->all, MAX(history->n_pages * (size_t)PAGE_HISTORY_PAGE, 1));
        g_ptr_array_unref(history->versions);
        g_free(history);
    }
}

unsigned page_history_n_versions(const PageHistory *history)
{
    return history->versions->len + 1;
}

uint64_t page_history_bytes(const PageHistory *history)
{
    return history->bytes;
}

void page_history_add(PageHistory *history, unsigned version, const GArray *pages,
                      const uint8_t *memory)
{
    Version *new = version_new(pages->len);

    for (unsigned i = 0; i < pages->len; i++) {
        uint32_t page = g_array_index(pages, uint32_t, i);

        g_assert(page < history->n_pages);
        set_page(new, i, page, memory + page * (size_t)PAGE_HISTORY_PAGE);
    }
    history->bytes += version_bytes(new);
    g_ptr_array_insert(history->versions, version, new);
}

/* Return all pages as in @newer.  A page that only @older has was not written in between. */
static Version *merge(const Version *older, const Version *newer)
{
    Version *both = version_new(older->n_pages + newer->n_pages);
    uint32_t i = 0, j = 0, n = 0;

    while (i < older->n_pages || j < newer->n_pages) {
        if (j == newer->n_pages || (i < older->n_pages && older->page[i] < newer->page[j])) {
            set_page(both, n++, older->page[i], bytes_of(older, i));
            i++;
        } else {
            i += i < older->n_pages && older->page[i] == newer->page[j];
            set_page(both, n++, newer->page[j], bytes_of(newer, j));
            j++;
        }
    }
    both->n_pages = n;
    both->page = g_renew(uint32_t, both->page, n);
    both->bytes = g_realloc(both->bytes, n * (size_t)PAGE_HISTORY_PAGE);
    return both;
}

void page_history_remove(PageHistory *history, unsigned version)
{
    Version *old = get(history, version);

    history->bytes -= version_bytes(old);
    if (version < history->versions->len) {
        Version *next = get(history, version + 1);
        Version *merged = merge(old, next);

        history->bytes += version_bytes(merged) - version_bytes(next);
        version_free(next);
        history->versions->pdata[version] = merged;
    }
    g_ptr_array_remove_index(history->versions, version - 1);
}

/* --- going to a version ---------------------------------------------------------- */

typedef struct Wanted {
    uint64_t *bits;
    uint32_t n_bits;            /* that are set */
} Wanted;

static void want(Wanted *wanted, uint32_t page)
{
    uint64_t bit = UINT64_C(1) << page % 64;

    wanted->n_bits += !(wanted->bits[page / 64] & bit);
    wanted->bits[page / 64] |= bit;
}

static bool take(Wanted *wanted, uint32_t page)
{
    uint64_t bit = UINT64_C(1) << page % 64;
    bool was = wanted->bits[page / 64] & bit;

    wanted->bits[page / 64] &= ~bit;
    wanted->n_bits -= was;
    return was;
}

void page_history_go(const PageHistory *history, unsigned from, const GArray *pages, unsigned to,
                     PageHistoryFn *write)
{
    g_autofree uint64_t *bits = g_new0(uint64_t, history->n_pages / 64 + 1);
    Wanted wanted = { .bits = bits };

    for (unsigned i = 0; i < pages->len; i++) {
        want(&wanted, g_array_index(pages, uint32_t, i));
    }
    for (unsigned v = MIN(from, to) + 1; v <= MAX(from, to); v++) {
        const Version *version = get(history, v);

        for (uint32_t i = 0; i < version->n_pages; i++) {
            want(&wanted, version->page[i]);
        }
    }
    for (unsigned v = to; v > 0 && wanted.n_bits > 0; v--) {
        const Version *version = get(history, v);

        for (uint32_t i = 0; i < version->n_pages; i++) {
            if (take(&wanted, version->page[i])) {
                write(version->page[i], bytes_of(version, i));
            }
        }
    }
    for (uint32_t page = 0; page < history->n_pages && wanted.n_bits > 0; page++) {
        if (take(&wanted, page)) {
            write(page, history->all + page * (size_t)PAGE_HISTORY_PAGE);
        }
    }
}
