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

/* Each belongs to the thread of its vCPU while that runs. */
typedef struct VcpuHits {
    bool any;
    Hit hit;
    Position ignored;           /* UINT64_MAX: none */
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

static void note(CPUState *cpu, const Hit *hit)
{
    VcpuHits *mine = kept == HITS_NONE ? NULL : &hits[cpu->cpu_index];

    if (mine && hit->position != mine->ignored && !(kept == HITS_FIRST && mine->any)) {
        mine->any = true;
        mine->hit = *hit;
    }
}

/* Before the instruction is looked up, so it is not charged yet. */
void recorder_pass_breakpoint(CPUState *cpu)
{
    note(cpu, &(Hit) { .position = recorder_position(cpu) });
}

/* The position is known for sure if the instruction is the last of its block. */
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
        .position = recorder_position_in_insn(cpu), .is_watchpoint = true, .address = address,
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
