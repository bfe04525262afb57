/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Steps that run while no other vCPU does, and steps that run again: instructions, and on x86
 * deliveries, which touch memory as well.
 *
 * QEMU runs an instruction exclusively if the host cannot run it in parallel.  The recorder asks
 * for it if an instruction or delivery was abandoned too often, or cannot be abandoned.
 *
 * All functions run in the vCPU's thread.
 */
#include "qemu/osdep.h"
#include "accel/tcg/cpu-ops.h"
#include "exec/exec-all.h"
#include "hw/core/cpu.h"
#include "qemu/main-loop.h"

#include "hw/recorder/access.h"
#include "hw/recorder/exclusive.h"
#include "hw/recorder/map-change.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/session.h"
#include "hw/recorder/translations.h"
#include "hw/recorder/vcpu.h"
#include "protocol/sphere.h"

/* Return true if the vCPU delivers an exception or interrupt, and touches memory for it. */
static bool is_delivering(CPUState *cpu)
{
    return cpu->recorder->delivers || cpu->exception_index >= 0;
}

/*
 * Run the instruction whose start was restored, or the delivery, while no other vCPU runs: all
 * lines are granted.
 */
void recorder_run_exclusively(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    v->record.lacks_lines = true;
    v->record.exclusive_interrupt = v->delivers;
    v->record.exclusive_exception = cpu->exception_index;
    v->fault_counted = cpu->exception_index >= 0;
    cpu->cflags_next_tb = -1;
    cpu->exception_index = EXCP_ATOMIC;
    cpu_loop_exit(cpu);
}

/*
 * Run the restored instruction again, or make the delivery again, without a boundary before it.  A
 * delivery changes registers after its last access to memory, so there is nothing to restore.
 */
void recorder_run_step_again(CPUState *cpu)
{
    if (!is_delivering(cpu)) {
        recorder_run_again(cpu);
    }
    cpu->recorder->fault_counted = cpu->exception_index >= 0;
    cpu_loop_exit(cpu);         /* the exception, or the interrupt (@delivers), is kept */
}

void recorder_be_exclusive(CPUState *cpu, uintptr_t retaddr)
{
    RecorderVcpu *v = cpu->recorder;

    if (recorder_recording() && !v->alone && !sphere_is_exclusive(v->record.processor)) {
        if (retaddr) {
            cpu_restore_state(cpu, retaddr);
        }
        recorder_run_exclusively(cpu);
    }
}

/*
 * Deliver the interrupt or exception for which the vCPU has become exclusive, and longjmp to the
 * end of the exclusive region.  There an exception is taken.
 */
static void deliver_exclusively(CPUState *cpu)
{
    RecordingVcpu *record = &cpu->recorder->record;

    if (record->exclusive_interrupt || cpu->exception_index >= 0) {
        record->lacks_lines = false;
    }
    if (record->exclusive_interrupt) {
        record->exclusive_interrupt = false;
        recorder_redeliver(cpu);
        cpu_loop_exit_noexc(cpu);
    }
    if (cpu->exception_index >= 0) {
        cpu_loop_exit(cpu);
    }
}

/* Have every line granted at once: no other vCPU runs. */
void recorder_exclusive_begin_slow(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    recorder_enter_running(cpu);
    sphere_set_exclusive(v->record.processor, true);
    sphere_counts(v->record.processor)->exclusive++;
    cpu->exception_index = v->record.exclusive_exception;
    v->record.exclusive_exception = -1;
    recorder_safepoint(cpu);
    recorder_drop_translations(cpu);
    deliver_exclusively(cpu);
    if (recorder_log_map_exclusively(cpu)) {
        cpu_loop_exit_noexc(cpu);       /* the step that changed the map has completed */
    }
    recorder_forget_points(cpu);        /* the step begins anew */
    recorder_grant_one(cpu);
}

/*
 * Return the reason once, since it holds for one attempt.  If the host cannot run the instruction
 * in parallel, that ends in EXCP_ATOMIC, and the next attempt is serial, as in replay.
 */
bool recorder_exclusive_for_lines_slow(CPUState *cpu)
{
    bool lacks_lines = cpu->recorder->record.lacks_lines;

    cpu->recorder->record.lacks_lines = false;
    return lacks_lines;
}

/*
 * Count the fault of an exclusive step as a step, and deliver its exception.  The step has read
 * what made it fault, so it must end before the vCPU is SAFE and other vCPUs may write that.  The
 * exception is delivered here because a vCPU that is stopped before the delivery could be saved in
 * a checkpoint, which does not contain the pending exception.  The delivery of a firmware call may
 * longjmp; then cpu_exec_step_atomic() calls recorder_exclusive_end() again.
 */
static void take_exception(CPUState *cpu)
{
    bool lock = recorder_delivery_needs_lock();

    recorder_fault_slow(cpu);
    if (lock) {
        bql_lock();
    }
    cpu->cc->tcg_ops->do_interrupt(cpu);
    if (lock) {
        bql_unlock();
    }
    recorder_step_slow(cpu);
    /* As in cpu_handle_exception(): gdb sees the first instruction of the handler. */
    cpu->exception_index = cpu->singlestep_enabled ? EXCP_DEBUG : -1;
}

/*
 * Take the exception that the exclusive step has raised: while exclusive, if its delivery touches
 * memory.  Such a delivery has a boundary before it in replay, so cpu_exec() makes it there.
 */
void recorder_exclusive_end_slow(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;
    bool touches_memory = recorder_delivers_unlocked();

    if (v->record.processor && !touches_memory) {
        sphere_set_exclusive(v->record.processor, false);
    }
    if (cpu->exception_index == EXCP_DEBUG && cpu->watchpoint_hit &&
        cpu->watchpoint_hit->flags & BP_CPU) {
        /* A watchpoint of the guest: the handler raises a fault, and longjmps to here again. */
        cpu->cc->tcg_ops->debug_excp_handler(cpu);
    }
    if (cpu->exception_index < 0) {
        recorder_trap_points(cpu);      /* the same */
    }
    if (cpu->exception_index >= 0 && cpu->exception_index < EXCP_INTERRUPT &&
        !(touches_memory && recorder_replaying())) {
        take_exception(cpu);
    }
    g_assert(!v->delivers);
    if (recorder_recording()) {
        sphere_set_exclusive(v->record.processor, false);
        recorder_leave_running(cpu, true);
    }
}
