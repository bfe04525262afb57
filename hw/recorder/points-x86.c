/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Data breakpoints that an x86 guest sets (DR0 to DR3), and a debugger's watchpoints of such a
 * guest while it is recorded.
 *
 * An x86 CPU traps after the step that made the access.  For that QEMU takes the BQL in the middle
 * of the instruction, and requests an interrupt.  A recorded vCPU may be SAFE while it waits for
 * the BQL, so it would lose the lines that it is about to access, and a replayed vCPU looks at no
 * interrupt requests.  So here an access only notes what it hits, and brings the vCPU to the next
 * boundary.  There the vCPU traps, before anything else is delivered, recording or replaying: what
 * a step hits depends on the step alone, so the log has nothing of it.
 *
 * What is noted holds if the step completes.  A step that is abandoned or faults gives its count
 * back.  So what an instruction hit is noted together with the number of instructions, and is
 * forgotten where a step begins anew.  A delivery is no instruction: it completes, or begins anew,
 * or faults.
 *
 * All functions run in the vCPU's thread, or while it is stopped.
 */
#include "qemu/osdep.h"
#include "cpu.h"
#include "exec/exec-all.h"
#include "exec/cpu-interrupt.h"
#include "tcg/helper-tcg.h"

#include "hw/recorder/recorder.h"
#include "hw/recorder/vcpu.h"

/* In CPUState.recorder_points: one bit for each of DR0 to DR3, and one for a debugger. */
#define GUESTS_POINTS   0xfu
#define DEBUGGERS_POINT 0x10u

/* In RecorderVcpu.points_at: the step that hit something has completed. */
#define COMPLETED UINT64_MAX

/* Return the bit of @point, a data breakpoint of the guest. */
static unsigned bit_of(CPUX86State *env, const CPUWatchpoint *point)
{
    for (unsigned i = 0; i < DR7_MAX_BP; i++) {
        if (env->cpu_watchpoint[i] == point) {
            return 1u << i;
        }
    }
    g_assert_not_reached();
}

/* Return true if @size bytes at @address have one in common with @point; both may end at 2^64. */
static bool overlaps(const CPUWatchpoint *point, vaddr address, vaddr size)
{
    return address <= point->vaddr + point->len - 1 && point->vaddr <= address + size - 1;
}

/* The position is exact in the last instruction of a TB, so any other runs again, alone. */
static void note(CPUState *cpu, unsigned points, uintptr_t retaddr)
{
    RecorderVcpu *v = cpu->recorder;

    if (!cpu->neg.can_do_io) {
        g_assert(retaddr);
        cpu_restore_state(cpu, retaddr);
        recorder_run_again(cpu);
    }
    cpu->recorder_points |= points;
    v->points_at = recorder_instructions(cpu);
    recorder_kick(cpu);
}

bool recorder_meets_points_slow(CPUState *cpu, vaddr address, vaddr size, int kind,
                                uintptr_t retaddr)
{
    CPUWatchpoint *point;
    unsigned points = 0;

    QTAILQ_FOREACH(point, &cpu->watchpoints, entry) {
        if (!(point->flags & kind) || !overlaps(point, address, size)) {
            continue;
        }
        if (point->flags & BP_CPU) {
            points |= bit_of(cpu_env(cpu), point);
        } else if (recorder_replaying()) {
            recorder_pass_watchpoint(cpu, point->vaddr, retaddr);
        } else {
            points |= DEBUGGERS_POINT;
            cpu->recorder->debuggers_point = point->vaddr;
        }
    }
    if (points) {
        note(cpu, points, retaddr);
    }
    return true;
}

/* Return what a step that has completed has hit.  Between two steps. */
static unsigned hit(CPUState *cpu)
{
    const RecorderVcpu *v = cpu->recorder;

    return v->points_at == COMPLETED || v->points_at == recorder_instructions(cpu) ?
        cpu->recorder_points : 0;
}

void recorder_forget_points(CPUState *cpu)
{
    if (cpu->recorder->points_at != COMPLETED) {
        cpu->recorder_points = 0;
    }
}

/*
 * A trap of an instruction that has completed, a single step, has told the guest of what the
 * instruction hit.  A fault comes before that: the instruction runs again, and hits it again.
 */
void recorder_fault_forgets_points(CPUState *cpu)
{
    cpu->recorder_points = hit(cpu) & DEBUGGERS_POINT;
}

/* Let gdbstub tell of the debugger's watchpoint, if that is still there. */
static bool stop_for_debugger(CPUState *cpu)
{
    CPUWatchpoint *point;

    cpu->recorder_points &= ~DEBUGGERS_POINT;
    QTAILQ_FOREACH(point, &cpu->watchpoints, entry) {
        if (point->flags & BP_GDB && point->vaddr == cpu->recorder->debuggers_point) {
            cpu->watchpoint_hit = point;
            cpu->exception_index = EXCP_DEBUG;
            return true;
        }
    }
    return false;
}

bool recorder_take_points(CPUState *cpu)
{
    if (!cpu->recorder_points || cpu->exception_index >= 0) {
        return false;
    }
    cpu->recorder_points = hit(cpu);
    cpu->recorder->points_at = COMPLETED;
    if (cpu->recorder_points & DEBUGGERS_POINT && stop_for_debugger(cpu)) {
        return true;                    /* the guest's are taken when the vCPU goes on */
    }
    recorder_trap_points(cpu);
    return false;
}

void recorder_trap_points(CPUState *cpu)
{
    CPUX86State *env = cpu_env(cpu);

    if (hit(cpu) & GUESTS_POINTS) {
        check_hw_breakpoints(env, true);        /* it looks at recorder_points */
        cpu->recorder_points &= ~GUESTS_POINTS;
        raise_exception(env, EXCP01_DB);
    }
}

/* --- begin and end, checkpoints ----------------------------------------------------- */

/* Return which data breakpoints QEMU is about to trap: nothing is recorded or replayed. */
static unsigned hit_in_qemu(CPUState *cpu)
{
    CPUWatchpoint *point;
    unsigned points = 0;

    if (!(cpu->interrupt_request & CPU_INTERRUPT_DEBUG) || !cpu->watchpoint_hit ||
        !(cpu->watchpoint_hit->flags & BP_CPU)) {
        return 0;
    }
    QTAILQ_FOREACH(point, &cpu->watchpoints, entry) {
        if (point->flags & BP_CPU && point->flags & BP_WATCHPOINT_HIT) {
            points |= bit_of(cpu_env(cpu), point);
        }
    }
    return points;
}

unsigned recorder_points_hit(CPUState *cpu)
{
    return cpu->recorder ? hit(cpu) & GUESTS_POINTS : hit_in_qemu(cpu);
}

/* QEMU has noted a hit if the vCPU was stopped behind an exclusive step, or is to repeat one. */
void recorder_points_begin(CPUState *cpu)
{
    CPUWatchpoint *point;
    unsigned points = hit_in_qemu(cpu);

    if (points) {
        cpu_reset_interrupt(cpu, CPU_INTERRUPT_DEBUG);
    }
    if (cpu->watchpoint_hit && cpu->watchpoint_hit->flags & BP_CPU) {
        cpu->watchpoint_hit = NULL;
    }
    QTAILQ_FOREACH(point, &cpu->watchpoints, entry) {
        if (point->flags & BP_CPU) {
            point->flags &= ~BP_WATCHPOINT_HIT;
        }
    }
    cpu->recorder_points |= points;             /* those of the checkpoint are there already */
    cpu->recorder->points_at = COMPLETED;
}

/*
 * Give back to QEMU what was to trap at the next boundary.  A vCPU that is not attached has it from
 * a checkpoint.
 */
void recorder_points_end(CPUState *cpu)
{
    CPUX86State *env = cpu_env(cpu);
    unsigned points = cpu->recorder ? hit(cpu) & GUESTS_POINTS : cpu->recorder_points;

    cpu->recorder_points = 0;
    for (unsigned i = 0; i < DR7_MAX_BP; i++) {
        if (points >> i & 1) {
            cpu->watchpoint_hit = env->cpu_watchpoint[i];
            cpu->watchpoint_hit->flags |= BP_WATCHPOINT_HIT;
        }
    }
    if (points) {
        cpu_interrupt(cpu, CPU_INTERRUPT_DEBUG);
    }
}
