/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Accesses of vCPUs to main memory.
 */
#ifndef RECORDER_ACCESS_H
#define RECORDER_ACCESS_H

#include "hw/recorder/vcpu.h"

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

/* Have generated code check nothing, and make no access to RAM: for hosts whose
 * backend cannot, and for tests. */
extern bool recorder_force_slow_path;
extern bool recorder_several_vcpus;

/* Must it come to a boundary before it touches memory again? */
static inline bool recorder_has_lost(const RecorderVcpu *v)
{
    return sphere_has_drops(v->record.processor) ||
           (v->alone && !(v->record.l1[0] & L1_WRITE));
}

void recorder_safepoint(CPUState *cpu);
void recorder_table_access(CPUState *cpu, uint64_t offset, bool entered);

#endif
