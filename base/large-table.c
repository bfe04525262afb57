/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See large-table.h.
 */
#include "base/large-table.h"

#include <glib.h>
#include <stdint.h>
#include <sys/mman.h>

#define HUGE (UINT64_C(2) << 20)

/* Round @size up to huge pages.  Return 0 for a small table (a test's guest), which needs none. */
static size_t huge_pages(size_t size)
{
    return size < HUGE ? 0 : (size + HUGE - 1) / HUGE * HUGE;
}

void *large_table_new(size_t size)
{
    size_t length = huge_pages(size);
    uint8_t *all, *table;

    if (!length) {
        return g_malloc0(size);
    }
    /* One huge page more, so that the table can be aligned to one. */
    all = mmap(NULL, length + HUGE, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) {
        g_error("cannot allocate a table of %zu bytes", size);
    }
    table = all + -(uintptr_t)all % HUGE;
    if (table > all) {
        munmap(all, table - all);
    }
    munmap(table + length, all + HUGE - table);
    madvise(table, length, MADV_HUGEPAGE);
    return table;
}

void large_table_free(void *table, size_t size)
{
    if (!huge_pages(size)) {
        g_free(table);
    } else if (table) {
        munmap(table, huge_pages(size));
    }
}
