/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Between access.c and tables.c, which know of the same memory.
 */
#ifndef RECORDER_ACCESS_H
#define RECORDER_ACCESS_H

#include "hw/core/cpu.h"

/* Main RAM: the only memory that is tracked. */
typedef struct RecorderRam {
    uint8_t *host;
    ram_addr_t start;
    uint64_t size;
} RecorderRam;

extern RecorderRam recorder_ram;

/* For recorder_drop(): no page, or every page. */
#define RECORDER_NONE ((vaddr)1)
#define RECORDER_ALL ((vaddr)-1)

/* Have generated code check nothing, and make no access to RAM: for hosts whose
 * backend cannot, and for tests. */
extern bool recorder_force_slow_path;
extern bool recorder_several_vcpus;

/* access.c */
bool recorder_has_lost(struct RecorderVcpu *v);
void recorder_safepoint(CPUState *cpu);
void recorder_table_access(CPUState *cpu, uint64_t offset, bool entered);

/* tables.c: which page's translation was made from the word at @offset of RAM? */
vaddr recorder_table_word_page(CPUState *cpu, uint64_t offset);

#endif
