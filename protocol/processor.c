/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Accessors of a processor, for the callers of the sphere: sphere.h says which thread may use each.
 */
#include <inttypes.h>

#include "protocol/sphere-internal.h"

Processor *sphere_vcpu(Sphere *sphere, unsigned index)
{
    g_assert(index + 1 < sphere->n_processors);
    return &sphere->processor[index];
}

Processor *sphere_dma(Sphere *sphere)
{
    return &sphere->processor[sphere->n_processors - 1];
}

Sphere *sphere_of(const Processor *p)
{
    return p->sphere;
}

void sphere_set_user(Processor *p, void *user)
{
    p->user = user;
}

uint8_t *sphere_l1(const Processor *p)
{
    return p->l1;
}

SphereCounts *sphere_counts(Processor *p)
{
    return &p->counts;
}

bool sphere_is_settled(const Processor *p, Position position)
{
    return position >= p->ordered;
}

void sphere_boundary(Processor *p, Position position)
{
    p->floor = position;
}

Position sphere_floor(const Processor *p)
{
    return p->floor;
}

void sphere_set_exclusive(Processor *p, bool exclusive)
{
    p->exclusive = exclusive;
}

bool sphere_is_exclusive(const Processor *p)
{
    return p->exclusive;
}

bool sphere_in_user(const Processor *p)
{
    return p->in_user;
}

bool sphere_has_lent(const Processor *p)
{
    return p->n_lent > 0;
}

bool sphere_has_drops(const Processor *p)
{
    return __atomic_load_n(&p->n_drops, __ATOMIC_RELAXED) ||
           __atomic_load_n(&p->drop_code, __ATOMIC_RELAXED);
}

bool sphere_has_arcs(const Processor *p)
{
    return p->has_new_sources;
}

/*
 * Name the page of the request, and the processors whose inbox has the request.  Any thread,
 * without locks, so the request may be served meanwhile.
 */
char *sphere_describe_wait(const Processor *p)
{
    const Sphere *sphere = p->sphere;
    const SpherePage *page = __atomic_load_n(&p->request.page, __ATOMIC_RELAXED);
    GString *text;
    const char *separator = " of ";

    if (!page) {
        return NULL;
    }
    text = g_string_new(NULL);
    g_string_printf(text, "memory at offset 0x%" PRIx64, sphere_page_offset(sphere, page));
    for (unsigned i = 0; i < sphere->n_processors; i++) {
        uint32_t inbox = __atomic_load_n(&sphere->processor[i].inbox, __ATOMIC_RELAXED);

        if (!(inbox & LINE_BIT(p->index))) {
            continue;
        }
        if (i + 1 == sphere->n_processors) {
            g_string_append_printf(text, "%sDMA", separator);
        } else {
            g_string_append_printf(text, "%svCPU %u", separator, i);
        }
        separator = ", ";
    }
    return g_string_free(text, FALSE);
}
