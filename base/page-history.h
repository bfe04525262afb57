/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's memory at several moments of a replay, so that the debugger can go back to them.
 *
 * Version 0 is all of memory.  Each later version has the pages that were written since the version
 * before, and possibly more, with their contents at that moment.  Versions are numbered in the
 * order of time, but may be added in any order: replay is exact, so memory at a given moment is
 * always the same.  No locks: the caller serializes all calls.
 */
#ifndef BASE_PAGE_HISTORY_H
#define BASE_PAGE_HISTORY_H

#include <glib.h>
#include <stdint.h>

#define PAGE_HISTORY_PAGE 4096

typedef struct PageHistory PageHistory;

/* Create a history with version 0, a copy of @memory. */
PageHistory *page_history_new(const uint8_t *memory, uint32_t n_pages);
void page_history_free(PageHistory *history);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PageHistory, page_history_free)

unsigned page_history_n_versions(const PageHistory *history);
/* Return the size of all versions but version 0. */
uint64_t page_history_bytes(const PageHistory *history);

/*
 * Insert a version after @version; the numbers of later versions grow by one.  @pages (uint32_t,
 * ascending) are all pages of @memory that were written since @version, and possibly more.
 */
void page_history_add(PageHistory *history, unsigned version, const GArray *pages,
                      const uint8_t *memory);
/*
 * Remove @version, which is not 0.  All other versions keep their contents; the numbers of later
 * versions shrink by one.
 */
void page_history_remove(PageHistory *history, unsigned version);

typedef void PageHistoryFn(uint32_t page, const uint8_t *bytes);

/*
 * Call @write for each page that must be written to bring memory to version @to.  Memory is as in
 * version @from, except for @pages, which were written since.
 */
void page_history_go(const PageHistory *history, unsigned from, const GArray *pages, unsigned to,
                     PageHistoryFn *write);

#endif
