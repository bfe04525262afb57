/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sphere and its processors are made and freed here.  And accessors of a processor, for the
 * callers of the sphere: sphere.h says which thread may use each.
 */
#include <inttypes.h>

#include "base/large-table.h"
#include "protocol/chaos.h"
#include "protocol/directory.h"
#include "protocol/order.h"
#include "protocol/sphere-internal.h"

/* --- the sphere ------------------------------------------------------------- */

static size_t pages_size(const Sphere *sphere)
{
    return (sphere->size >> SPHERE_PAGE_SHIFT) * sizeof(SpherePage);
}

static size_t l1_size(const Sphere *sphere)
{
    return sphere->size >> SPHERE_LINE_SHIFT;
}

static void choose_recorders(Sphere *sphere, const Orders *orders)
{
    static const OrderRecorder *const recorders[RACE_ORDERS] = {
        [RACE_FDR] = &fdr_recorder,
        [RACE_KARMA] = &karma_recorder,
        [RACE_RERUN] = &rerun_recorder,
    };

    for (unsigned i = 0; i < RACE_ORDERS; i++) {
        if (orders_has(orders, i)) {
            sphere->recorder[i] = recorders[i];
            sphere->has_episodes |= recorders[i]->log != NULL;
        }
    }
}

Sphere *sphere_new(unsigned n_vcpus, unsigned n_cores, const void *memory, uint64_t size,
                   const SphereOps *ops, const Orders *orders)
{
    Sphere *sphere = g_new0(Sphere, 1);

    g_assert(n_vcpus <= SPHERE_MAX_VCPUS);
    sphere->n_processors = n_vcpus + 1;
    sphere->n_cores = n_cores;
    sphere->memory = memory;
    sphere->size = size;
    sphere->ops = ops;
    choose_recorders(sphere, orders);
    sphere->pages = large_table_new(pages_size(sphere));
    for (unsigned i = 0; i < sphere->n_processors; i++) {
        Processor *p = &sphere->processor[i];

        p->sphere = sphere;
        p->index = i;
        p->epoch = 1;
        p->random = chaos_stream(&chaos, i);
        FOREACH_RECORDER(recorder, p) {
            p->order[recorder->order] = recorder->new(i, sphere->n_processors,
                                                      orders->max[recorder->order]);
        }
        episodes_show_limit(p);
        p->l1 = i < n_vcpus ? large_table_new(l1_size(sphere)) : NULL;
    }
    return sphere;
}

void sphere_free(Sphere *sphere)
{
    if (!sphere) {
        return;
    }
    for (uint64_t i = 0; i < sphere->size >> SPHERE_PAGE_SHIFT; i++) {
        g_free(sphere->pages[i].lines);
        g_free(sphere->pages[i].tables);
    }
    for (unsigned i = 0; i < sphere->n_processors; i++) {
        large_table_free(sphere->processor[i].l1, l1_size(sphere));
        FOREACH_RECORDER(recorder, &sphere->processor[i]) {
            recorder->free(sphere->processor[i].order[recorder->order]);
        }
    }
    large_table_free(sphere->pages, pages_size(sphere));
    g_free(sphere);
}

uint64_t sphere_memory(const Sphere *sphere)
{
    return pages_size(sphere) + (sphere->n_processors - 1) * l1_size(sphere) +
           __atomic_load_n(&sphere->lines_bytes, __ATOMIC_RELAXED);
}

/* --- accessors ---------------------------------------------------------------- */

unsigned sphere_n_vcpus(const Sphere *sphere)
{
    return sphere->n_processors - 1;
}

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

bool sphere_has_drops(const Processor *p)
{
    return __atomic_load_n(&p->n_drops, __ATOMIC_RELAXED) ||
           __atomic_load_n(&p->drop_code, __ATOMIC_RELAXED);
}

bool sphere_has_arcs(const Processor *p)
{
    return p->told.sources;
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
