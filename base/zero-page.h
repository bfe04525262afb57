/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The test for zero pages of guest memory.  It reads every page, so it must be
 * fast: most pages that are not zero differ in their first bytes, and the loop
 * reads the rest in strides that compilers turn into vector code.
 */
#ifndef BASE_ZERO_PAGE_H
#define BASE_ZERO_PAGE_H

#include <stdbool.h>
#include <stdint.h>

/* Return true if all bytes are 0.  @page is aligned to 8, @size a multiple of 64. */
static inline bool page_is_zero(const uint8_t *page, unsigned size)
{
    const uint64_t *word = (const uint64_t *)page;
    const uint64_t *end = word + size / sizeof(*word);

    for (; word < end; word += 8) {
        if (word[0] | word[1] | word[2] | word[3] | word[4] | word[5] | word[6] | word[7]) {
            return false;
        }
    }
    return true;
}

#endif
