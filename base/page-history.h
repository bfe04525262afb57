/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What memory was like at several moments of a replay, to go back there.
 *
 * Version 0 is all of memory.  Each one after it has the pages that were written since the version
 * before, or some more, as they were then.  Versions are in the order of time, but may come to be
 * in any order: replay is exact, so what was true of a moment stays true.
 */
#ifndef BASE_PAGE_HISTORY_H
#define BASE_PAGE_HISTORY_H

#include <glib.h>
#include <stdint.h>

#define PAGE_HISTORY_PAGE 4096

typedef struct PageHistory PageHistory;

/* With version 0, the memory as it is. */
PageHistory *page_history_new(const uint8_t *memory, uint32_t n_pages);
void page_history_free(PageHistory *history);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PageHistory, page_history_free)

unsigned page_history_n_versions(const PageHistory *history);
/* How much memory it takes, without version 0. */
uint64_t page_history_bytes(const PageHistory *history);

/* A version after @version: no others than @pages (uint32_t, ascending) of @memory were written. */
void page_history_add(PageHistory *history, unsigned version, const GArray *pages,
                      const uint8_t *memory);
/* Not version 0.  The others stay what they are. */
void page_history_remove(PageHistory *history, unsigned version);

typedef void PageHistoryFn(uint32_t page, const uint8_t *bytes);

/*
 * Memory is as in version @from, but for @pages, which were written since.  Calls @write for all
 * that must be written so that it is as in version @to.
 */
void page_history_go(const PageHistory *history, unsigned from, const GArray *pages, unsigned to,
                     PageHistoryFn *write);

#endif
