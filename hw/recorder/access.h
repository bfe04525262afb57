/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Accesses of vCPUs to main RAM.
 */
#ifndef RECORDER_ACCESS_H
#define RECORDER_ACCESS_H

#include "hw/recorder/vcpu.h"

/* Main RAM: the only memory whose accesses are tracked. */
typedef struct RecorderRam {
    uint8_t *host;
    ram_addr_t start;
    uint64_t size;
} RecorderRam;

extern RecorderRam recorder_ram;

/* Set *@offset to the place of @host in main RAM.  Return false if @host lies elsewhere. */
static inline bool recorder_ram_offset(const void *host, uint64_t *offset)
{
    *offset = (const uint8_t *)host - recorder_ram.host;
    return *offset < recorder_ram.size;
}

/*
 * True if generated code checks no permission bytes, and makes no access to RAM itself.  For hosts
 * whose TCG back end lacks the check, and for tests.
 */
extern bool recorder_force_slow_path;
/* True if several vCPUs are recorded.  If false, all of memory is one line. */
extern bool recorder_several_vcpus;

/*
 * Return true if the vCPU must go to a boundary before it accesses memory again: it must drop
 * copies, or it is alone and has lost its memory.
 */
static inline bool recorder_has_lost(const RecorderVcpu *v)
{
    return sphere_has_drops(v->record.processor) ||
           (v->alone && !(v->record.l1[0] & L1_WRITE));
}

/*
 * Do what the sphere needs at a boundary: wait for requested lines, serve the inbox, offer
 * lines, yield the host core, set the floor, drop copies.  Called in the vCPU's thread, which may
 * block.
 */
void recorder_safepoint(CPUState *cpu);

/* Log what the sphere has told the vCPU's processor.  Recording only. */
void recorder_log_arcs(CPUState *cpu);
/* Tell the sphere that the vCPU may access what user mode cannot reach.  Recording only. */
void recorder_leave_user(CPUState *cpu);
/*
 * Prepare a vCPU for a delivery that touches memory.  The vCPU may have been SAFE since its
 * boundary, because it waited for the BQL, or have abandoned the delivery.  Recording only.
 */
void recorder_resume_delivery(CPUState *cpu);

/* Memory, within one page. */
typedef struct RecorderRange {
    const void *host;
    unsigned size;
} RecorderRange;

/*
 * Prepare an instruction's stores to @ranges, all that it makes in main RAM through host pointers:
 * obtain permission for each, and have what was made from there dropped.  @one_by_one: stores to
 * these ranges take the slow path.  Called after the instruction's last page walk, and before its
 * first store.  Does not return if the vCPU must wait for lines, or if the instruction must run
 * exclusively.  Recording or replaying.
 */
void recorder_prepare_stores(CPUState *cpu, const RecorderRange *ranges, unsigned n,
                             bool one_by_one, uintptr_t retaddr);
/*
 * Obtain permission to read the table word at @offset of main RAM, and to keep translations made
 * from it.  @entered: the vCPU already keeps translations made from the page.  Does not return if
 * the vCPU must wait.
 */
void recorder_table_access(CPUState *cpu, uint64_t offset, bool entered);

#endif
