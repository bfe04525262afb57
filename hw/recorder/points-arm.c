/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See points.h.  Watchpoints of an Arm guest stop before the access, by an exception of its step,
 * as QEMU does it.  So there is nothing to be noted.
 */
#include "qemu/osdep.h"
#include "hw/core/cpu.h"

#include "hw/recorder/recorder.h"

bool recorder_meets_points_slow(CPUState *cpu, vaddr address, vaddr size, int kind,
                                uintptr_t retaddr)
{
    return false;
}

void recorder_forget_points(CPUState *cpu)
{
}

void recorder_fault_forgets_points(CPUState *cpu)
{
}

bool recorder_take_points(CPUState *cpu)
{
    return false;
}

void recorder_trap_points(CPUState *cpu)
{
}

unsigned recorder_points_hit(CPUState *cpu)
{
    return 0;
}

void recorder_points_begin(CPUState *cpu)
{
}

void recorder_points_end(CPUState *cpu)
{
}
