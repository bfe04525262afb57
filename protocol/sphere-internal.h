/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of the sphere share: sphere.c, copies.c, recorders of order.
 */
#ifndef PROTOCOL_SPHERE_INTERNAL_H
#define PROTOCOL_SPHERE_INTERNAL_H

#include "protocol/directory.h"

/* tests/model breaks one rule at a time, to see whether its tester notices. */
#ifndef SPHERE_RULE
#define SPHERE_RULE(name) true
#endif

static inline uint64_t sphere_page_offset(const Sphere *sphere, const SpherePage *page)
{
    return (uint64_t)(page - sphere->pages) << SPHERE_PAGE_SHIFT;
}

static inline SpherePage *sphere_page_at(Sphere *sphere, uint64_t offset)
{
    g_assert(offset < sphere->size);
    return &sphere->pages[offset >> SPHERE_PAGE_SHIFT];
}

/* Its L1 bytes of this page. */
static inline uint8_t *sphere_l1_of(const Processor *processor, const SpherePage *page)
{
    return processor->l1 + (sphere_page_offset(processor->sphere, page) >> SPHERE_LINE_SHIFT);
}

/* The page is locked.  A page with copies has no write bits. */
void sphere_set_l1(Processor *processor, const SpherePage *page, unsigned line, uint8_t byte);

#endif
