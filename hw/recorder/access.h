/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Between access.c and translations.c, which know of the same memory.
 */
#ifndef RECORDER_ACCESS_H
#define RECORDER_ACCESS_H

#include "hw/recorder/recorder-internal.h"

/* Main RAM: the only memory that is tracked. */
typedef struct RecorderRam {
    uint8_t *host;
    ram_addr_t start;
    uint64_t size;
} RecorderRam;

extern RecorderRam recorder_ram;

/* Where in main RAM that is; false if it lies elsewhere. */
static inline bool recorder_ram_offset(const void *host, uint64_t *offset)
{
    *offset = (const uint8_t *)host - recorder_ram.host;
    return *offset < recorder_ram.size;
}

/* For recorder_drop(): no page, or every page. */
#define RECORDER_NONE ((vaddr)1)
#define RECORDER_ALL ((vaddr)-1)

/* Have generated code check nothing, and make no access to RAM: for hosts whose
 * backend cannot, and for tests. */
extern bool recorder_force_slow_path;
extern bool recorder_several_vcpus;

/* Must it come to a boundary before it touches memory again? */
static inline bool recorder_has_lost(const RecorderVcpu *v)
{
    return sphere_has_drops(v->processor) || (v->alone && !(v->processor->l1[0] & L1_WRITE));
}

/* access.c */
void recorder_safepoint(CPUState *cpu);
void recorder_table_access(CPUState *cpu, uint64_t offset, bool entered);

/* translations.c: which page's translation was made from the word at @offset of RAM? */
vaddr recorder_table_word_page(CPUState *cpu, uint64_t offset);

#endif
