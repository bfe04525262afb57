/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Positions of a vCPU, and what happens between two of its steps.
 *
 * Everything here runs in the vCPU's own thread.  Between two steps means: in
 * cpu_exec()'s loop, before a TB is looked up.  There, position and registers
 * are exact; in the middle of a TB they are not, since a TB is charged when it
 * is entered.
 */
#include "qemu/osdep.h"
#include "accel/tcg/internal-common.h"
#include "exec/translation-block.h"
#include "exec/cputlb.h"
#include "exec/exec-all.h"
#include "hw/core/cpu.h"

#include "hw/recorder/access.h"
#include "hw/recorder/chaos-vcpu.h"
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

/* Replay stops often enough. */
static unsigned most_granted(RecorderVcpu *v)
{
    return chaos.most_granted == CHAOS_MOST_GRANTED || !recorder_recording() ?
        CHAOS_MOST_GRANTED : chaos_up_to(&v->random, chaos.most_granted);
}

/* Let the vCPU run up to @limit, or as far as the counter reaches. */
void recorder_grant(CPUState *cpu, Position limit)
{
    RecorderVcpu *v = cpu->recorder;
    Position now = recorder_position(cpu);

    v->base = now;
    v->granted = limit > now ? MIN(limit - now, most_granted(v)) : 0;
    cpu->neg.icount_decr.u16.low = v->granted;
}

/* For a TB without exit check, which takes its instruction unasked. */
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
 * TBs that count are other TBs (CF_USE_ICOUNT is part of their key), so none
 * need be dropped.  The mode is set when all vCPUs are attached, and cleared
 * before the first is detached: who sees the mode finds cpu->recorder.
 */
void recorder_vcpu_attach(CPUState *cpu, RecorderVcpu *v)
{
    cpu->recorder = v;
    v->translations.user_tables = RECORDER_ALL; /* not known: the vCPU may be in user mode */
    v->random = chaos_stream(&chaos, SPHERE_MAX_PROCESSORS + cpu->cpu_index);
    v->granted = cpu->neg.icount_decr.u16.low = 0;
    cpu->tcg_cflags |= CF_USE_ICOUNT;
    if (v->record.processor && !v->alone && !recorder_force_slow_path) {
        cpu->tcg_cflags |= CF_RECORD;
        cpu->neg.recorder_l1 =
            sphere_l1(v->record.processor) -
            ((uintptr_t)recorder_ram.host >> SPHERE_LINE_SHIFT);
    }
    cpu->cflags_next_tb = -1;   /* one that was chosen to be next does not count */
    recorder_forget_past(cpu);
    tlb_flush(cpu);
}

RecorderVcpu *recorder_vcpu_detach(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    cpu->tcg_cflags &= ~(CF_USE_ICOUNT | CF_RECORD);
    cpu->neg.icount_decr.u16.low = 0;
    cpu->cflags_next_tb = -1;   /* nor may one count now */
    tlb_flush(cpu);
    cpu->recorder = NULL;
    return v;
}

/*
 * Looks at a vCPU that may be running, between a charge and its position: close
 * enough to show to people, for nothing else.
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
    Position due = cpu->recorder->digest_due;

    return recorder_replaying() ? MIN(replay_port->limit(cpu), due) : due;
}

bool recorder_refill(CPUState *cpu, TranslationBlock *tb)
{
    RecorderVcpu *v = cpu->recorder;

    if (!v) {
        return false;
    }
    recorder_grant(cpu, recorder_limit(cpu));
    if (v->granted > 0 && v->granted < tb->icount) {
        /* Another vCPU may have invalidated the block just now. */
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

/* Add a step that is no instruction; the budget shrinks with it. */
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
        if (sphere_in_user(v->record.processor)) {
            sphere_leave_user(v->record.processor);     /* perhaps the kernel is entered */
        }
        sphere_boundary(v->record.processor, now + 1);     /* waits come after it */
    }
    recorder_grant(cpu, recorder_limit(cpu));
}

/* An instruction that faults is a step, be it that it was counted before it was done. */
void recorder_fault_slow(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    if (!v->fault_counted) {
        recorder_step_slow(cpu);
    }
    v->fault_counted = false;
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
    return registers_digest(&now);
}

uint64_t recorder_log_digest(CPUState *cpu, LogEventKind kind)
{
    RecorderVcpu *v = cpu->recorder;
    Position position = recorder_position(cpu);
    Registers now;
    uint64_t digest;

    if (v->record.registers_changed) {
        now = v->record.as_left;       /* what was done to them is no part of the recording */
    } else {
        recorder_registers(cpu, &now);
    }
    digest = registers_digest(&now);
    registers_log(v->log, position, &v->logged, &now);
    log_event(v->log, kind, position, digest, v->store_hash);
    return digest;
}

/*
 * At multiples of the interval, so that logs of the same run have the same ones.
 * A fault is two steps between which nobody looks, in any run.
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
    /* Or it overflows. */
    v->digest_due = next > now && next <= v->digest_last ? next : UINT64_MAX;
}

/* --- recording -------------------------------------------------------------- */

void recorder_boundary_slow(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    v->record.suspended = false;
    recorder_safepoint(cpu);
    recorder_chaos(cpu);
    recorder_drop_translations(cpu);
    recorder_digest_if_due(cpu);
    if (!log_stream_boundary(v->log)) {
        recorder_fail("the log cannot be written");
    }
}

void recorder_interrupt_slow(CPUState *cpu, int exception, int level)
{
    recorder_count(cpu->recorder, RECORDER_COUNT_INTERRUPTS);
    log_event(cpu->recorder->log, LOG_EVENT_INTERRUPT, recorder_position(cpu),
              (uint64_t)exception, (uint64_t)level);
    recorder_step_slow(cpu);
}

/*
 * With one vCPU.  The fetch belongs to the step that comes next: replay does this
 * before, so it never has a flag to set itself.
 */
void recorder_fetch_wrote_slow(CPUState *cpu, const void *host)
{
    Position position = recorder_position(cpu);
    uint64_t offset;

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
 * Nothing of what is queued for a vCPU (flushes, breakpoints, statistics) may change
 * what the guest sees, for it comes at any time.  There is no list of functions
 * that do: whatever it was, it shows.  Only to be turned on is an event.
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
 * In the vCPU's thread, outside of cpu_exec().  The vCPU is about to be reset, and
 * its budget with it.
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
