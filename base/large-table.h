/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Large tables with an entry for each line or page of the guest's memory.  They are zeroed, and
 * take host memory only where they are touched.
 *
 * Nearly every access of the guest touches such a table, at any place of it.  In small pages of the
 * host each place would need a TLB entry of its own, so tables lie in huge pages where the host
 * has them.
 */
#ifndef BASE_LARGE_TABLE_H
#define BASE_LARGE_TABLE_H

#include <stddef.h>

/* Return a zeroed table, to be freed by large_table_free() with the same @size. */
void *large_table_new(size_t size);
void large_table_free(void *table, size_t size);

#endif
