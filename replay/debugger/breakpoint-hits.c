/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See breakpoint-hits.h.
 */
#include "qemu/osdep.h"
#include "exec/breakpoint.h"
#include "exec/cpu-common.h"
#include "hw/core/cpu.h"

#include "hw/recorder/recorder.h"
#include "hw/recorder/vcpu.h"
#include "recording/position.h"
#include "replay/debugger/breakpoint-hits.h"

/* Hits of a vCPU.  It belongs to the vCPU thread, or to the main thread while that is paused. */
typedef struct VcpuHits {
    bool any;
    Hit hit;
    Position ignored;           /* hits there do not count; UINT64_MAX: all count */
} VcpuHits;

static HitsKept kept;
static VcpuHits *hits;

void hits_keep(HitsKept which, unsigned n_vcpus)
{
    kept = which;
    hits = g_renew(VcpuHits, hits, n_vcpus);
    for (unsigned i = 0; i < n_vcpus; i++) {
        hits[i] = (VcpuHits) { .ignored = UINT64_MAX };
    }
}

void hits_ignore(unsigned vcpu, Position position)
{
    hits[vcpu].ignored = position;
}

const Hit *hits_of(unsigned vcpu)
{
    return hits[vcpu].any ? &hits[vcpu].hit : NULL;
}

bool hits_stop_after_access(void)
{
    return !first_cpu->cc->gdb_stop_before_watchpoint;
}

bool hits_possible(void)
{
    CPUBreakpoint *bp;
    CPUWatchpoint *wp;
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        QTAILQ_FOREACH(bp, &cpu->breakpoints, entry) {
            if (bp->flags & BP_GDB) {
                return true;
            }
        }
        QTAILQ_FOREACH(wp, &cpu->watchpoints, entry) {
            if (wp->flags & BP_GDB) {
                return true;
            }
        }
    }
    return false;
}

/* Keep @hit if it is wanted.  The vCPU thread. */
static void note(CPUState *cpu, const Hit *hit)
{
    VcpuHits *mine = kept == HITS_NONE ? NULL : &hits[cpu->cpu_index];
    bool is_access = hit->is_watchpoint && hits_stop_after_access();

    if (mine && (is_access || hit->position != mine->ignored) &&
        !(kept == HITS_FIRST && mine->any)) {
        mine->any = true;
        mine->hit = *hit;
    }
}

/*
 * Note that @cpu has reached an instruction with a breakpoint.  The vCPU thread, before the TB is
 * looked up: the instruction is not charged yet, so its position is the vCPU's.
 */
void recorder_pass_breakpoint(CPUState *cpu)
{
    note(cpu, &(Hit) { .position = recorder_position(cpu) });
}

/*
 * Note that the instruction at @retaddr meets the watchpoint at @address.  The vCPU thread.  The
 * position is exact only in the last instruction of a TB.  Any other instruction is run again,
 * alone in its TB; then this does not return.
 */
void recorder_pass_watchpoint(CPUState *cpu, vaddr address, uintptr_t retaddr)
{
    if (kept == HITS_NONE) {
        return;
    }
    if (!cpu->neg.can_do_io) {
        cpu_restore_state(cpu, retaddr);
        recorder_run_again(cpu);
    }
    note(cpu, &(Hit) {
        /* A delivery is not charged yet. */
        .position = retaddr ? recorder_position_in_insn(cpu) : recorder_position(cpu),
        .is_watchpoint = true, .address = address,
    });
}

bool recorder_watchpoint_stops(CPUState *cpu, vaddr address, vaddr size, uintptr_t retaddr)
{
    bool stops = false;
    CPUWatchpoint *wp;

    QTAILQ_FOREACH(wp, &cpu->watchpoints, entry) {
        bool matches =
            wp->flags & BP_MEM_READ && address - wp->vaddr + size - 1 < wp->len + size - 1;

        if (matches && wp->flags & BP_GDB && recorder_replaying()) {
            recorder_pass_watchpoint(cpu, wp->vaddr, retaddr);
        } else {
            stops |= matches;
        }
    }
    return stops;
}
