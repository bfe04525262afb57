/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finds registers that something other than the guest has changed: a debugger while the guest is
 * paused, or QEMU by a work item.  No list of such functions could be complete, so the registers
 * are compared before and after.
 *
 * Memory that a debugger writes is recorded as DMA; registers are not recorded.  So the recording
 * ends where the guest itself left them.  A vCPU whose registers were changed makes no more steps
 * that are recorded, and its log ends with the registers that the guest left.  Hence the rules
 * about which memory a vCPU may access, such as those for user mode, need not hold for it.
 *
 * Main thread, BQL held, vCPUs stopped; except recorder_work_changed().
 */
#include "qemu/osdep.h"
#include "hw/core/cpu.h"

#include "hw/recorder/paused.h"
#include "hw/recorder/session.h"
#include "hw/recorder/target.h"
#include "hw/recorder/vcpu.h"
#include "recording/registers.h"

static bool paused;             /* atomic: @as_left is valid, and no vCPU has run since */

void recorder_paused(void)
{
    CPUState *cpu;

    if (qatomic_xchg(&paused, true)) {
        return;                 /* a debugger may have changed registers since */
    }
    CPU_FOREACH(cpu) {
        if (!cpu->recorder->record.registers_changed) {
            recorder_registers(cpu, &cpu->recorder->record.as_left);
        }
    }
}

void recorder_goes_on(void)
{
    qatomic_set(&paused, false);
}

static bool is_changed(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;
    Registers now;

    if (qatomic_read(&paused) && !v->record.registers_changed) {
        recorder_registers(cpu, &now);
        v->record.registers_changed = !registers_equal(&now, &v->record.as_left);
    }
    return v->record.registers_changed;
}

bool recorder_check_registers(void)
{
    bool changed = false;
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        changed |= is_changed(cpu);
    }
    if (changed) {
        recorder_fail("registers were changed while the guest was paused");
    }
    return changed;
}

void recorder_work_changed(CPUState *cpu, const Registers *before)
{
    RecorderVcpu *v = cpu->recorder;

    if (!v->record.registers_changed && !qatomic_read(&paused)) {
        v->record.as_left = *before;
    }
    v->record.registers_changed = true;
    cpu->stop = true;           /* until the guest is resumed without a recording */
    recorder_fail("QEMU itself changed registers of vCPU %d", cpu->cpu_index);
}
