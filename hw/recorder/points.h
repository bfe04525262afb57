/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Data breakpoints of the guest, and a debugger's watchpoints of a guest that is recorded, where
 * CPUs stop after the access: points-x86.c.  Arm CPUs stop before it, as QEMU does: points-arm.c.
 * In CPUState.recorder_points is what the running step has hit, or the latest one.
 *
 * All functions run in the vCPU's thread, or while it is stopped.  Part of recorder.h.
 */
#ifndef RECORDER_POINTS_H
#define RECORDER_POINTS_H

#include "hw/core/cpu.h"

/*
 * Note which data breakpoints of the guest, and watchpoints of a debugger, an access of @kind
 * (BP_MEM_READ, BP_MEM_WRITE or both) to @size bytes at @address hits.  They stop the vCPU after
 * the step.  Return false if CPUs of the architecture stop before the access, as QEMU does.  Does
 * not return if the instruction must run again, alone in its TB.
 */
bool recorder_meets_points_slow(CPUState *cpu, vaddr address, vaddr size, int kind,
                                uintptr_t retaddr);

static inline bool recorder_meets_points(CPUState *cpu, vaddr address, vaddr size, int kind,
                                         uintptr_t retaddr)
{
    return recorder_active() && recorder_meets_points_slow(cpu, address, size, kind, retaddr);
}

/* Forget what was hit in a step that begins anew. */
void recorder_forget_points(CPUState *cpu);
/* Forget what was hit in a step that ends in an exception. */
void recorder_fault_forgets_points(CPUState *cpu);
/*
 * Stop the vCPU if the step that has just completed has hit something.  At the end of a boundary.
 * Return true if the vCPU must leave cpu_exec(), for a debugger.  Does not return if the guest gets
 * an exception.
 */
bool recorder_take_points(CPUState *cpu);
/* The same at the end of an exclusive step, where a debugger must wait for the next boundary. */
void recorder_trap_points(CPUState *cpu);
/*
 * Return which data breakpoints are about to trap, for a checkpoint or snapshot.  Whoever loads it
 * sets CPUState.recorder_points to that.
 */
unsigned recorder_points_hit(CPUState *cpu);
/*
 * Take over from QEMU when the vCPU is attached, and give back when a recording has ended, or the
 * guest goes on live from a checkpoint.
 */
void recorder_points_begin(CPUState *cpu);
void recorder_points_end(CPUState *cpu);

#endif
