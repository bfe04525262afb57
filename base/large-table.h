/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Large tables with an entry for each line or page of the guest's memory: zeroed, and they take
 * memory as they are touched.
 *
 * They are touched all over, at nearly every access of the guest.  In small pages of the host each
 * of those would need a TLB entry of its own, so they lie in huge ones where there are any.
 */
#ifndef BASE_LARGE_TABLE_H
#define BASE_LARGE_TABLE_H

#include <stddef.h>

void *large_table_new(size_t size);
void large_table_free(void *table, size_t size);

#endif
