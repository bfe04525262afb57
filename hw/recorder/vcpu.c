/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Positions of a vCPU, and what happens at its boundaries.
 *
 * All functions run in the vCPU's thread, except recorder_query_point().  At a boundary, that is in
 * cpu_exec()'s loop before a TB is looked up, position and registers are exact.  In the middle of a
 * TB they are not, since a TB is charged when it is entered.
 */
#include "qemu/osdep.h"
#include "accel/tcg/internal-common.h"
#include "exec/translation-block.h"
#include "exec/cputlb.h"
#include "exec/exec-all.h"
#include "hw/core/cpu.h"

#include "hw/recorder/access.h"
#include "hw/recorder/chaos-vcpu.h"
#include "hw/recorder/episodes.h"
#include "hw/recorder/map-change.h"
#include "hw/recorder/paused.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/replay-port.h"
#include "hw/recorder/session.h"
#include "hw/recorder/target.h"
#include "hw/recorder/translations.h"
#include "hw/recorder/vcpu.h"
#include "protocol/chaos.h"
#include "protocol/sphere.h"
#include "recording/log-writer.h"
#include "recording/position.h"
#include "recording/registers.h"

RecorderMode recorder_mode;
const ReplayPort *replay_port;

/*
 * Return the largest budget.  A test with chaos may want smaller ones, but only while recording:
 * replay stops at every event anyway.
 */
static unsigned most_granted(RecorderVcpu *v)
{
    return chaos.most_granted == CHAOS_MOST_GRANTED || !recorder_recording() ?
        CHAOS_MOST_GRANTED : chaos_up_to(&v->random, chaos.most_granted);
}

void recorder_grant(CPUState *cpu, Position limit)
{
    RecorderVcpu *v = cpu->recorder;
    Position now = recorder_position(cpu);

    v->base = now;
    v->granted = limit > now ? MIN(limit - now, most_granted(v)) : 0;
    cpu->neg.icount_decr.u16.low = v->granted;
}

/* Provide for a TB without exit check, which takes its instruction without a test of the budget. */
void recorder_grant_one(CPUState *cpu)
{
    if (cpu->neg.icount_decr.u16.low == 0) {
        recorder_grant(cpu, MAX(recorder_limit(cpu), recorder_position(cpu) + 1));
    }
}

void recorder_run_again(CPUState *cpu)
{
    cpu->cflags_next_tb = curr_cflags(cpu) | CF_NOIRQ | 1;
    cpu_loop_exit_noexc(cpu);
}

/*
 * Invalidate no TB: those that count instructions have another key (CF_USE_ICOUNT).  The mode is
 * set after all vCPUs are attached, and cleared before the first is detached.  Hence cpu->recorder
 * is valid wherever the mode is not off.
 */
void recorder_vcpu_attach(CPUState *cpu, RecorderVcpu *v)
{
    cpu->recorder = v;
    v->translations.user_tables = RECORDER_ALL; /* unknown: the vCPU may be in user mode */
    v->random = chaos_stream(&chaos, SPHERE_MAX_PROCESSORS + cpu->cpu_index);
    v->granted = cpu->neg.icount_decr.u16.low = 0;
    v->record.exclusive_exception = -1;
    cpu->tcg_cflags |= CF_USE_ICOUNT;
    if (v->record.processor && !v->alone && !recorder_force_slow_path) {
        cpu->tcg_cflags |= CF_RECORD;
        cpu->neg.recorder_l1 =
            sphere_l1(v->record.processor) -
            ((uintptr_t)recorder_ram.host >> SPHERE_LINE_SHIFT);
    }
    cpu->cflags_next_tb = -1;   /* a TB that was chosen to be next does not count */
    recorder_points_begin(cpu);
    recorder_forget_past(cpu);
    tlb_flush(cpu);
}

RecorderVcpu *recorder_vcpu_detach(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    if (!recorder_active()) {
        recorder_points_end(cpu);
    }
    cpu->tcg_cflags &= ~(CF_USE_ICOUNT | CF_RECORD);
    cpu->neg.icount_decr.u16.low = 0;
    cpu->cflags_next_tb = -1;   /* and now none may count */
    tlb_flush(cpu);
    cpu->recorder = NULL;
    return v;
}

/*
 * Read positions while vCPUs run, perhaps between a change of @base and one of the counter.  That
 * is good enough for status, and for nothing else.
 */
void recorder_query_point(Point *point)
{
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        if (cpu->recorder && cpu->cpu_index < point->n_vcpus) {
            point->at[cpu->cpu_index] = recorder_position(cpu);
        }
    }
}

void recorder_vcpu_free(RecorderVcpu *v)
{
    recorder_translations_free(v->translations.made);
    g_free(v->record.code_pages);
    g_free(v);
}

Position recorder_limit(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    return MIN(v->digest_due, recorder_replaying() ? replay_port->limit(cpu) :
                              recorder_episode_limit(v->record.processor));
}

/*
 * End episodes that have no room for @tb at the boundary that comes next, before their limit.  That
 * saves a TB that is translated for the rest of the episode, and used once.  Return false if it is
 * something else that has no room; or if there is no room after the end of an episode, either.
 */
static bool end_episode_early(CPUState *cpu, TranslationBlock *tb)
{
    RecorderVcpu *v = cpu->recorder;
    Position now = recorder_position(cpu);

    if (!recorder_recording() || v->digest_due < now + tb->icount ||
        v->record.made_room_at == now) {
        return false;
    }
    v->record.room = tb->icount;
    v->record.made_room_at = now;
    recorder_grant(cpu, now);
    return true;
}

bool recorder_refill(CPUState *cpu, TranslationBlock *tb)
{
    RecorderVcpu *v = cpu->recorder;

    if (!v) {
        return false;
    }
    recorder_grant(cpu, recorder_limit(cpu));
    if (v->granted > 0 && v->granted < tb->icount && !end_episode_early(cpu, tb)) {
        /* Another vCPU may have invalidated @tb just now. */
        cpu->cflags_next_tb = (tb_cflags(tb) & ~(CF_COUNT_MASK | CF_INVALID)) | v->granted;
    }
    return true;
}

bool recorder_must_stop_slow(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    return v->translations.flush_due ||
           recorder_position(cpu) >= MIN(v->digest_due, v->next_position);
}

/* Add a step that is not an instruction.  The budget is granted anew, up to the same limit. */
void recorder_step_slow(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;
    Position now = recorder_position(cpu);

    if (recorder_replaying()) {
        replay_port->step(cpu, now);
    }
    v->base++;
    recorder_count(v, RECORDER_COUNT_OTHER_STEPS);
    if (recorder_recording()) {
        recorder_leave_user(cpu);       /* this may be an entry into the kernel */
        sphere_boundary(v->record.processor, now + 1);     /* later arcs lead to the next step */
    }
    recorder_grant(cpu, recorder_limit(cpu));
}

/*
 * Count the fault as a step, unless record_walk() in input.c has counted it already, or the
 * delivery was abandoned.  The fault of an interrupt's delivery is another step, behind that of the
 * interrupt.
 *
 * The delivery to an x86 vCPU touches memory, so it may have to wait like an instruction.  Replay
 * has a boundary between the fault and its delivery, at which it applies what recording has logged
 * there.  A replayed vCPU can leave cpu_exec() there, and be stopped: @fault_counted and the
 * exception stay.
 */
bool recorder_fault_slow(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;
    bool applied = false;

    recorder_fault_forgets_points(cpu);
    if (v->delivers) {
        recorder_interrupt_ends_slow(cpu);
        if (recorder_replaying() && replay_port->boundary(cpu, &applied)) {
            return false;
        }
    }
    if (!v->fault_counted) {
        recorder_step_slow(cpu);
    }
    if (!recorder_delivers_unlocked()) {
        v->fault_counted = false;
        return true;
    }
    v->fault_counted = true;
    if (recorder_recording()) {
        recorder_resume_delivery(cpu);
    } else if (replay_port->boundary(cpu, &applied)) {
        return false;
    }
    v->fault_counted = false;
    return true;
}

/* --- digests ---------------------------------------------------------------- */

void recorder_digest_every(RecorderVcpu *v, uint64_t interval, Position first, Position last)
{
    v->digest_interval = interval;
    v->digest_last = last;
    v->digest_due = first;
}

uint64_t recorder_register_digest(CPUState *cpu)
{
    Registers now;

    recorder_registers(cpu, &now);
    return registers_digest(recorder_register_set, &now);
}

uint64_t recorder_log_digest(CPUState *cpu, LogEventKind kind)
{
    RecorderVcpu *v = cpu->recorder;
    Position position = recorder_position(cpu);
    Registers now;
    uint64_t digest;

    if (v->record.registers_changed) {
        now = v->record.as_left;       /* changes from outside are not recorded */
    } else {
        recorder_registers(cpu, &now);
    }
    digest = registers_digest(recorder_register_set, &now);
    registers_log(v->log, position, &v->logged, &now);
    log_event(v->log, kind, position, digest, v->store_hash);
    return digest;
}

/*
 * Log digests at multiples of the interval, so that all logs of one execution have the same ones.
 * No run has a digest between the two steps of a fault, the attempt and the delivery.
 */
void recorder_digest_if_due(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;
    Position now = recorder_position(cpu);
    Position next;

    if (now < v->digest_due || cpu->exception_index >= 0) {
        return;
    }
    if (now <= v->digest_last) {
        recorder_log_digest(cpu, LOG_EVENT_DIGEST);
    }
    next = now - now % v->digest_interval + v->digest_interval;
    /* The sum may overflow. */
    v->digest_due = next > now && next <= v->digest_last ? next : UINT64_MAX;
}

/* --- recording -------------------------------------------------------------- */

bool recorder_boundary_slow(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;
    bool leave;

    if (v->delivers) {
        recorder_redeliver(cpu);        /* its interrupt is not pending any more */
    }
    v->record.suspended = false;
    recorder_safepoint(cpu);
    recorder_chaos(cpu);
    recorder_drop_translations(cpu);
    recorder_digest_if_due(cpu);
    if (cpu->exception_index < 0) {
        recorder_episodes_boundary(v->record.processor, v->log, recorder_position(cpu),
                                   v->record.room);
        v->record.room = 0;
    }
    leave = recorder_log_map(cpu);
    if (!log_stream_boundary(v->log)) {
        recorder_fail("the log cannot be written");
    }
    /* What comes after a failure may not be replayable: wait here for the end. */
    return leave || recorder_failure();
}

void recorder_interrupt_slow(CPUState *cpu, int exception, int level)
{
    recorder_count(cpu->recorder, RECORDER_COUNT_INTERRUPTS);
    log_event(cpu->recorder->log, LOG_EVENT_INTERRUPT, recorder_position(cpu),
              (uint64_t)exception, (uint64_t)level);
    recorder_step_slow(cpu);
}

/*
 * Do what a boundary would do: the vCPU may have been SAFE since the last one, while it waited for
 * the BQL.  A reset clears the counter, so the position moves to @base alone.
 */
void recorder_interrupt_begins_slow(CPUState *cpu, int vector, RecorderX86Interrupt kind)
{
    RecorderVcpu *v = cpu->recorder;

    recorder_resume_delivery(cpu);
    recorder_leave_user(cpu);
    v->delivers = true;
    v->vector = vector;
    v->vector_kind = kind;
    if (kind == RECORDER_X86_INIT) {
        v->base = recorder_position(cpu);
        v->granted = cpu->neg.icount_decr.u16.low = 0;
    }
}

/* Deliver the interrupt whose delivery was abandoned: it may be abandoned again, or fault. */
void recorder_redeliver(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    recorder_forget_points(cpu);
    recorder_resume_delivery(cpu);
    recorder_deliver(cpu, v->vector, v->vector_kind);
    recorder_interrupt_ends_slow(cpu);
}

/*
 * Log the interrupt after its delivery: the log has a step's waits before its other events, and the
 * delivery may have had to wait.  If the delivery has hit a data breakpoint, go to a boundary
 * before anything is looked up for the next step.
 */
void recorder_interrupt_ends_slow(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    v->delivers = false;
    recorder_count(v, RECORDER_COUNT_INTERRUPTS);
    if (recorder_recording()) {
        log_event(v->log, LOG_EVENT_INTERRUPT, recorder_position(cpu), (uint64_t)v->vector,
                  (uint64_t)v->vector_kind);
    }
    recorder_step_slow(cpu);
    if (recorder_recording() && cpu->recorder_points && cpu->exception_index < 0) {
        cpu_loop_exit_noexc(cpu);
    }
}

/*
 * Log a flag that a fetch has set, with one vCPU.  The fetch belongs to the next step.  Replay
 * applies the event before it fetches, so a fetch never sets a flag in replay.
 */
void recorder_fetch_wrote_slow(CPUState *cpu, const void *host)
{
    Position position = recorder_position(cpu);
    uint64_t offset;

    if (recorder_recording() && !cpu->recorder->alone) {
        return;                 /* recorder_walk_writes_slow() has logged it */
    }
    if (recorder_replaying()) {
        replay_port->diverged(cpu, position, "an instruction fetch set an access flag");
    } else if (!cpu->neg.can_do_io || !recorder_ram_offset(host, &offset)) {
        recorder_fail("an access flag was set at an unknown position");
    } else {
        log_event(cpu->recorder->log, LOG_EVENT_ACCESS_FLAG, position, offset,
                  ldq_he_p(host));
        recorder_step_slow(cpu);
        recorder_grant_one(cpu);
    }
}

/*
 * Run a work item, and compare the registers before and after.  Work items (flushes, breakpoints,
 * statistics) run at a time that no log knows, so they must not change what the guest sees.  No
 * list of items that do could be complete.  The only such change that is logged is to turn the vCPU
 * on.
 */
void recorder_work_slow(CPUState *cpu, run_on_cpu_func function, run_on_cpu_data data)
{
    RecorderVcpu *v = cpu->recorder;
    Registers before, after;

    recorder_registers(cpu, &before);
    v->record.turned_on = false;
    function(cpu, data);
    if (!recorder_recording()) {
        return;
    }
    recorder_registers(cpu, &after);
    if (v->record.turned_on) {
        v->record.as_left = after;
    } else if (!registers_equal(&after, &before)) {
        recorder_work_changed(cpu, &before);
    }
}

void recorder_wake_slow(CPUState *cpu)
{
    recorder_count(cpu->recorder, RECORDER_COUNT_WAKE_UPS);
    log_event(cpu->recorder->log, LOG_EVENT_WAKE, recorder_position(cpu));
    recorder_step_slow(cpu);
}

/*
 * Log the start, and move the position to @base alone: the reset that follows clears the counter.
 */
void recorder_turned_on_slow(CPUState *cpu, uint64_t entry, uint64_t context, int level)
{
    RecorderVcpu *v = cpu->recorder;

    if (recorder_recording()) {
        recorder_enter_running(cpu);
        log_event(v->log, LOG_EVENT_START, recorder_position(cpu), entry, context,
                  (uint64_t)level);
        recorder_step_slow(cpu);
        recorder_leave_running(cpu, false);
    }
    v->record.turned_on = true;
    v->base = recorder_position(cpu);
    v->granted = cpu->neg.icount_decr.u16.low = 0;
}
