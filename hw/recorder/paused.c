/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registers that somebody else than the guest changes: a debugger, while the guest is paused, or
 * QEMU, by work that is queued for a vCPU.  No list of such functions could be complete, so the
 * registers are compared before and after.
 *
 * Memory that a debugger writes is recorded as DMA; registers are not recorded.  So the recording
 * ends where the guest itself left them: a vCPU whose registers were changed makes no more steps
 * that are recorded, and what its log says of its registers is what the guest left.  For that
 * reason none of the rules of who may touch which memory, user mode's for one, need hold for it.
 *
 * Main thread, big lock held, vCPUs stopped; but for recorder_work_changed().
 */
#include "qemu/osdep.h"
#include "hw/core/cpu.h"

#include "hw/recorder/paused.h"
#include "hw/recorder/session.h"
#include "hw/recorder/target.h"
#include "hw/recorder/vcpu.h"
#include "recording/registers.h"

static bool paused;             /* atomic: no vCPU has run since @as_left was written */

void recorder_paused(void)
{
    CPUState *cpu;

    if (qatomic_xchg(&paused, true)) {
        return;                 /* a debugger may have been here already */
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
    cpu->stop = true;           /* until the guest is resumed without being recorded */
    recorder_fail("QEMU itself changed registers of vCPU %d", cpu->cpu_index);
}
