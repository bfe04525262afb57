/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory layout of the small guest: two levels of tables, code, data.
 */
#ifndef TESTS_PLACES_H
#define TESTS_PLACES_H

#include "tests/protocol/model/guest.h"

/* A vCPU with modes can reach only the last one in user mode, but for walks and fetches. */
enum { ROOT_PAGE, LEAF_PAGE, CODE_PAGE, DATA_PAGE, USER_PAGE };

#define PAGE(n) ((uint32_t)(n) << SPHERE_PAGE_SHIFT)
#define LINE(n) ((uint32_t)(n) << SPHERE_LINE_SHIFT)

#define N_ROOTS 4

static inline uint32_t guest_root_offset(unsigned virtual)
{
    unsigned i = virtual % N_ROOTS;

    return PAGE(ROOT_PAGE) + LINE(i / 2) + i % 2 * 8;
}

/* A root entry that is not zero selects one of three groups of leaves; two groups share a line. */
static inline uint32_t guest_leaf_offset(uint64_t root, unsigned virtual)
{
    unsigned group = root % 3;

    return PAGE(LEAF_PAGE) + LINE(group / 2) + group % 2 * 32 + virtual / N_ROOTS * 8;
}

static inline uint32_t guest_line_offset(uint64_t leaf)
{
    return PAGE(DATA_PAGE) + LINE(leaf % 3) + PAGE(leaf % 2);
}

static inline uint32_t guest_code_offset(unsigned i)
{
    return PAGE(CODE_PAGE) + LINE(i / 2) + i % 2 * 8;
}

static inline bool guest_is_table(uint32_t offset)
{
    return offset >> SPHERE_PAGE_SHIFT <= LEAF_PAGE;
}

/* Make a third of all table entries zero, so that walks fault often. */
static inline uint64_t guest_sanitize(uint32_t offset, uint64_t value)
{
    return guest_is_table(offset) && value % 3 == 0 ? 0 : value;
}

#endif
