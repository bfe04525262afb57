/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Accesses of vCPUs to guest RAM that are not in the L1, and code fetches: they
 * go to the sphere, whose rules are in sphere.h.
 *
 * Nobody waits in mid-step, but for a moment in which nobody waits for it.  An
 * instruction that needs a line of a vCPU that runs, and is not given it at once,
 * is abandoned like one that faults, its vCPU waits at the boundary, and then runs
 * it again, alone in its TB and with no boundary before it, so with what it asked
 * for in hand.  One that fails too often, since it needs several lines at once that
 * others want too, runs exclusively.
 *
 * A vCPU that is alone keeps all of memory as if it were one line, and tests for
 * it at boundaries only: there is only DMA to take it away.
 */
#include "qemu/osdep.h"
#include "accel/tcg/internal-common.h"
#include "exec/cputlb.h"
#include "accel/tcg/cpu-ops.h"
#include "exec/exec-all.h"
#include "exec/ram_addr.h"
#include "exec/tb-flush.h"
#include "exec/translation-block.h"
#include "hw/core/cpu.h"
#include "qemu/main-loop.h"

#include "hw/recorder/access.h"
#include "hw/recorder/chaos-vcpu.h"
#include "hw/recorder/machine-state.h"
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

bool recorder_force_slow_path;
bool recorder_several_vcpus;

/* Of a vCPU that waits for an event: Linux has the timer send one that often. */
#define MOST_DOZE_US 100

/* --- arcs ------------------------------------------------------------------- */

static void emit_wait(Processor *p, unsigned from, Position source, void *opaque)
{
    RecorderVcpu *v = opaque;

    log_event(v->log, LOG_EVENT_WAIT, sphere_floor(p), (uint64_t)from, source);
    recorder_count(v, RECORDER_COUNT_ARCS);
}

static void log_arcs(RecorderVcpu *v)
{
    sphere_arcs(v->record.processor, emit_wait, v);
}

/*
 * At a boundary, before others may take lines.  Whoever comes after this vCPU
 * must come after what it waited for; so a step must end in between, and
 * if the vCPU made none, this is one.
 */
static Position settle(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    if (!sphere_is_settled(v->record.processor, recorder_position(cpu))) {
        log_event(v->log, LOG_EVENT_STEP, recorder_position(cpu));
        recorder_step_slow(cpu);
    }
    return recorder_position(cpu);
}

/* --- running and safe --------------------------------------------------------- */

/* Translations that others have changed.  At a boundary. */
static void drop_copies(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;
    uint64_t words[SPHERE_MAX_DROPS];
    bool code = false;
    unsigned n = sphere_take_drops(v->record.processor, words, &code);

    for (unsigned i = 0; i < n; i++) {
        vaddr page = n <= SPHERE_MAX_DROPS ? recorder_table_word_page(cpu, words[i]) : RECORDER_ALL;

        if (page == RECORDER_NONE) {
            continue;
        }
        log_event(v->log, LOG_EVENT_DROP, recorder_position(cpu), page);
        recorder_drop(cpu, page);
        if (page == RECORDER_ALL) {
            break;
        }
    }
    if (code) {
        memset(v->record.code_pages, 0, v->record.code_pages_size);
        tcg_flush_jmp_cache(cpu);
    }
}

/* Wait for what was asked for, if anything was. */
static void complete(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    if (v->record.asked) {
        Position position = sphere_is_granted(v->record.processor) ? recorder_position(cpu) :
                            settle(cpu);

        log_stream_rest(v->log, position);
        recorder_waits(v, RECORDER_WAITS_FOR_LINE);
        sphere_await(v->record.processor, position);
        recorder_waits(v, RECORDER_WAITS_FOR_NOTHING);
        log_stream_resume(v->log);
        v->record.asked = false;
        log_arcs(v);
    }
}

/*
 * The last insn of a TB may make the vCPU safe in its middle (a device access):
 * then it must come to a boundary before it touches memory again.
 */
void recorder_enter_running(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    sphere_run(v->record.processor);
    recorder_waits(v, RECORDER_WAITS_FOR_NOTHING);
    qatomic_set(&v->record.running, true);
    log_stream_resume(v->log);
    if (recorder_has_lost(v)) {
        recorder_kick(cpu);
    }
}

static Position stop_running(CPUState *cpu, bool between_steps)
{
    RecorderVcpu *v = cpu->recorder;
    Position position;

    complete(cpu);
    position = settle(cpu);
    /* Between an instruction and the exception that it raised, replay cannot stop. */
    log_stream_rest(v->log, between_steps && cpu->exception_index < 0 ? position : 0);
    qatomic_set(&v->record.running, false);
    return position;
}

void recorder_leave_running(CPUState *cpu, bool between_steps)
{
    Position position = stop_running(cpu, between_steps);

    sphere_safe(cpu->recorder->record.processor, position);
}

/*
 * WFE: the guest waits until another vCPU writes what it has read, so until it
 * loses a line; or until something else happens, which it sees a little later.
 */
void recorder_wait_for_event(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    if (recorder_recording() && !v->alone) {
        if (!v->record.event) {
            Position position = stop_running(cpu, false);

            sphere_doze(v->record.processor, position, MOST_DOZE_US);
            recorder_enter_running(cpu);
        }
        v->record.event = false;
    } else if (!recorder_active()) {
        sched_yield();
    }
}

/* SEVL: the next WFE does not wait. */
void recorder_local_event(CPUState *cpu)
{
    if (recorder_recording()) {
        cpu->recorder->record.event = true;
    }
}

CPUState *recorder_wait_begin_slow(void)
{
    CPUState *cpu = current_cpu;

    if (!cpu || !cpu->recorder || !cpu->recorder->record.running) {
        return NULL;
    }
    /* In mid-TB its position would not be known. */
    g_assert(cpu->neg.can_do_io);
    recorder_leave_running(cpu, false);
    recorder_waits(cpu->recorder, RECORDER_WAITS_FOR_LOCK);
    return cpu;
}

/* A vCPU that is alone has all of memory, or waits for it here. */
static void have_all_memory(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    while (!(v->record.l1[0] & L1_WRITE)) {
        v->record.asked = sphere_acquire(v->record.processor, 0, 1, SPHERE_WRITE) == SPHERE_ASKED;
        if (v->record.asked) {
            complete(cpu);
        } else {
            log_arcs(v);
        }
    }
}

/*
 * In user mode others may take what only the kernel reaches.  recorder_step_slow() ends that: the
 * kernel is entered by exceptions alone, whose delivery is a step.
 */
static void tell_mode(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    if (!v->alone && !sphere_in_user(v->record.processor) && recorder_in_user_mode(cpu) &&
        cpu->exception_index < 0 &&
        sphere_is_settled(v->record.processor, recorder_position(cpu))) {
        sphere_enter_user(v->record.processor, recorder_position(cpu));
    }
}

static void give_way(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;
    Position position = settle(cpu);

    log_stream_rest(v->log, position);
    sphere_yield_core(v->record.processor, position);
    log_stream_resume(v->log);
}

void recorder_safepoint(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;
    bool leased;

    if (v->record.running) {
        complete(cpu);
        leased = sphere_look_at_leases(v->record.processor, recorder_position(cpu));
        if (sphere_is_pressed(v->record.processor)) {
            sphere_serve(v->record.processor, settle(cpu));
        }
        if (sphere_has_lent(v->record.processor)) {
            sphere_give_back(v->record.processor, recorder_position(cpu));
        }
        if (sphere_gives_way(v->record.processor, recorder_position(cpu))) {
            give_way(cpu);
        }
        if (leased) {
            Position look_again = recorder_position(cpu) + chaos.look_again;

            recorder_grant(cpu, MIN(recorder_limit(cpu), look_again));
        }
    }
    sphere_boundary(v->record.processor, recorder_position(cpu));
    tell_mode(cpu);
    if (v->alone && v->record.running) {
        have_all_memory(cpu);
    }
    if (sphere_has_drops(v->record.processor)) {
        drop_copies(cpu);
    }
}

/*
 * Before anything is looked up for the next step: replay drops there what it is told at this
 * position, so recording must not find what it is about to drop.
 */
static void take_drops(CPUState *cpu)
{
    recorder_drop_translations(cpu);
    if (sphere_has_drops(cpu->recorder->record.processor)) {
        drop_copies(cpu);
    }
}

void recorder_retry_slow(CPUState *cpu)
{
    complete(cpu);
    take_drops(cpu);
    recorder_grant_one(cpu);
}

void recorder_resumed_slow(CPUState *cpu)
{
    take_drops(cpu);
}

/* Nobody else runs: every line is granted at once. */
void recorder_exclusive_begin_slow(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    recorder_enter_running(cpu);
    sphere_set_exclusive(v->record.processor, true);
    sphere_counts(v->record.processor)->exclusive++;
    recorder_safepoint(cpu);
    recorder_grant_one(cpu);
}

/* If it turns out that the host cannot do the instruction in parallel, it is not for lines. */
bool recorder_exclusive_for_lines_slow(CPUState *cpu)
{
    bool lacks_lines = cpu->recorder->record.lacks_lines;

    cpu->recorder->record.lacks_lines = false;
    return lacks_lines;
}

/*
 * The step has read what made it fault, so it must have ended before others may write that: it is
 * counted before the vCPU is safe.  The exception is delivered here as well, since a vCPU that is
 * stopped between the two could be saved in a checkpoint, which does not know where it leads.
 * The delivery of a firmware call may leave by a jump, and come here again.
 */
static void take_exception(CPUState *cpu)
{
    recorder_fault_slow(cpu);
    bql_lock();
    cpu->cc->tcg_ops->do_interrupt(cpu);
    bql_unlock();
    recorder_step_slow(cpu);
    /* As QEMU has it: gdb does not miss the first instruction of the handler. */
    cpu->exception_index = cpu->singlestep_enabled ? EXCP_DEBUG : -1;
}

void recorder_exclusive_end_slow(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    if (v->record.processor) {
        sphere_set_exclusive(v->record.processor, false);
    }
    if (cpu->exception_index == EXCP_DEBUG && cpu->watchpoint_hit &&
        cpu->watchpoint_hit->flags & BP_CPU) {
        /* The guest's own: the handler makes a fault of it, and jumps here again. */
        cpu->cc->tcg_ops->debug_excp_handler(cpu);
    }
    if (cpu->exception_index >= 0 && cpu->exception_index < EXCP_INTERRUPT) {
        take_exception(cpu);
    }
    if (recorder_recording()) {
        recorder_leave_running(cpu, true);
    }
}

/* --- accesses ------------------------------------------------------------------ */

/* The instruction whose start is restored, while no other vCPU runs: all lines are granted. */
G_NORETURN static void run_exclusively(CPUState *cpu)
{
    cpu->recorder->record.lacks_lines = true;
    cpu->cflags_next_tb = -1;
    cpu->exception_index = EXCP_ATOMIC;
    cpu_loop_exit(cpu);
}

G_NORETURN static void abandon(CPUState *cpu, uintptr_t retaddr)
{
    RecorderVcpu *v = cpu->recorder;
    uint64_t instruction;

    if (retaddr) {
        cpu_restore_state(cpu, retaddr);
    }
    instruction = recorder_position(cpu) - v->counters[RECORDER_COUNT_OTHER_STEPS];
    v->record.tries = instruction == v->record.tried ? v->record.tries + 1 : 1;
    v->record.tried = instruction;
    sphere_counts(v->record.processor)->abandoned++;
    if (v->record.tries > chaos.most_tries) {
        run_exclusively(cpu);
    }
    recorder_run_again(cpu);
}

/*
 * What comes in now may be waited for before this instruction, no earlier: replay has
 * the more to do at once.  The blocks up to here have been counted to their ends.
 */
static void raise_floor(CPUState *cpu, uintptr_t retaddr)
{
    Processor *p = cpu->recorder->record.processor;
    int left = -1;

    if (retaddr && recorder_position(cpu) - sphere_floor(p) > chaos.old_floor) {
        left = cpu_insns_left(retaddr);
    }
    if (left > 0) {
        sphere_boundary(p, recorder_position(cpu) - left);
    }
}

static void answer(CPUState *cpu, SphereAnswer answer, uintptr_t retaddr)
{
    RecorderVcpu *v = cpu->recorder;

    if (answer == SPHERE_ASKED && !sphere_linger(v->record.processor)) {
        v->record.asked = true;
        abandon(cpu, retaddr);
    }
    if (sphere_has_arcs(v->record.processor)) {
        raise_floor(cpu, retaddr);
        log_arcs(v);
    }
    recorder_nap(v);
}

/* Is there anybody else to have lines?  If so, it may touch memory only while it runs. */
static bool needs_lines(const RecorderVcpu *v)
{
    if (!v->alone && !v->record.running) {
        recorder_fail("a vCPU touched memory where it must not");
    }
    return !v->alone && v->record.running;
}

/*
 * An instruction that was with a device cannot be abandoned any more, and its position is
 * published: it may not get anything now.  (A fetch, which has no @retaddr, comes after it.)
 */
static bool was_with_device(CPUState *cpu, uintptr_t retaddr)
{
    bool was = retaddr && cpu->recorder->record.device_at == recorder_position(cpu);

    if (was) {
        recorder_fail("an instruction accessed a device and then memory");
    }
    return was;
}

static bool in_l1(const RecorderVcpu *v, uint64_t offset, unsigned size, uint8_t bit)
{
    uint64_t last = (offset + size - 1) >> SPHERE_LINE_SHIFT;

    for (uint64_t line = offset >> SPHERE_LINE_SHIFT; line <= last; line++) {
        if (!(v->record.l1[line] & bit)) {
            return false;
        }
    }
    return true;
}

void recorder_access_slow(CPUState *cpu, const void *host, unsigned size, bool write,
                          uintptr_t retaddr)
{
    RecorderVcpu *v = cpu->recorder;
    uint64_t offset;

    if (!needs_lines(v)) {
        return;
    }
    v->record.acquired = false;
    if (!recorder_ram_offset(host, &offset)) {
        if (write) {
            recorder_fail("the guest wrote to memory that is not its main memory");
        }
    } else if (!in_l1(v, offset, size, write ? L1_WRITE : L1_READ) &&
               !was_with_device(cpu, retaddr)) {
        if (write) {
            recorder_widen_store(cpu, &offset, &size);
        }
        answer(cpu, sphere_acquire(v->record.processor, offset, size,
                                   write ? SPHERE_WRITE : SPHERE_READ), retaddr);
        v->record.acquired = true;
    }
}

/*
 * With the write bit in the L1 the translation is right: who makes code from the line reads it, and
 * so takes the bit away first; who makes translations from its page gives up its own bits.
 * Without lines (with one vCPU, or replaying) nobody waits in recorder_access().
 */
bool recorder_sees_store_slow(CPUState *cpu, const void *host)
{
    RecorderVcpu *v = cpu->recorder;
    bool has_lines = recorder_recording() && !v->alone;
    uint64_t offset;

    return (!has_lines || v->record.acquired) && recorder_ram_offset(host, &offset) &&
           (recorder_is_table_slow(cpu, recorder_ram.start + offset) ||
            (has_lines && cpu_physical_memory_is_clean(recorder_ram.start + offset)));
}

static bool may_write(const RecorderVcpu *v, const void *host, unsigned size)
{
    uint64_t offset;

    return host && recorder_ram_offset(host, &offset) && in_l1(v, offset, size, L1_WRITE);
}

/*
 * With all write bits no store asks again.  In a page with copies there are none, each store does,
 * and words are in hand in one page only: so one of them might be refused after others were made.
 */
void recorder_stores_in_two_pages(CPUState *cpu, const void *host, unsigned size,
                                  const void *next_host, unsigned next_size, uintptr_t retaddr)
{
    RecorderVcpu *v = cpu->recorder;

    if (recorder_recording() && needs_lines(v) && !sphere_is_exclusive(v->record.processor) &&
        !(may_write(v, host, size) && may_write(v, next_host, next_size))) {
        cpu_restore_state(cpu, retaddr);
        run_exclusively(cpu);
    }
}

bool recorder_notes;

void recorder_note_slow(CPUState *cpu, const void *host, unsigned size, AccessBy by, bool write,
                        uintptr_t retaddr)
{
    replay_port->note(cpu, host, size, by, write, retaddr);
}

void recorder_mixed_access_slow(void)
{
    recorder_fail("one access of the guest lies in memory and in a device");
}

void recorder_walk_for_slow(CPUState *cpu, uintptr_t retaddr)
{
    cpu->recorder->walk_retaddr = retaddr;
}

uintptr_t recorder_retaddr(CPUState *cpu, uintptr_t retaddr)
{
    return recorder_active() ? cpu->recorder->walk_retaddr : retaddr;
}

void recorder_fetch_slow(CPUState *cpu, const void *host)
{
    RecorderVcpu *v = cpu->recorder;
    uint64_t offset, page;

    if (!needs_lines(v) || !recorder_ram_offset(host, &offset)) {
        return;
    }
    page = offset >> SPHERE_PAGE_SHIFT;
    if (!(v->record.code_pages[page / 8] & 1 << page % 8)) {
        answer(cpu, sphere_enter_code(v->record.processor, offset), 0);
        v->record.code_pages[page / 8] |= 1 << page % 8;
    }
}

/* A table's word is about to be read; @entered: translations were made from its page. */
void recorder_table_access(CPUState *cpu, uint64_t offset, bool entered)
{
    RecorderVcpu *v = cpu->recorder;

    if (!needs_lines(v) || was_with_device(cpu, v->walk_retaddr)) {
        return;
    }
    if (!entered) {
        answer(cpu, sphere_enter_table(v->record.processor, offset), v->walk_retaddr);
    }
    if (!in_l1(v, offset, 8, L1_READ)) {
        answer(cpu, sphere_acquire(v->record.processor, offset, 8, SPHERE_READ), v->walk_retaddr);
    }
}

/*
 * The instruction cannot be the one to set a flag: it may be abandoned after that, and
 * another vCPU see the flag before the step in which replay would set it.  So the
 * flag is a step of its own, and the instruction runs again.
 */
void recorder_walk_writes_slow(CPUState *cpu, void *host, uint64_t word)
{
    RecorderVcpu *v = cpu->recorder;
    uint64_t offset;

    if (!recorder_ram_offset(host, &offset)) {
        return;
    }
    machine_state_written(offset, sizeof(word));
    if (v->alone) {
        recorder_note(cpu, host, sizeof(word), ACCESS_BY_WALK, true, v->walk_retaddr);
        return;
    }
    if (recorder_replaying()) {
        replay_port->diverged(cpu, recorder_position(cpu), "a page walk set flags of its own");
        return;
    }
    if (!needs_lines(v) || was_with_device(cpu, v->walk_retaddr)) {
        return;
    }
    answer(cpu, sphere_acquire(v->record.processor, offset, 8, SPHERE_WRITE), v->walk_retaddr);
    if (v->walk_retaddr) {
        cpu_restore_state(cpu, v->walk_retaddr);
    }
    sphere_boundary(v->record.processor, recorder_position(cpu));
    log_event(v->log, LOG_EVENT_ACCESS_FLAG, recorder_position(cpu), offset, word);
    qatomic_set((uint64_t *)host, word);
    recorder_step_slow(cpu);
    recorder_run_again(cpu);
}

void recorder_translated_slow(CPUState *cpu, int mmu_idx, const void *host)
{
    uint64_t offset;

    if (!cpu->recorder->alone && !recorder_is_kernel_only(mmu_idx) &&
        recorder_ram_offset(host, &offset)) {
        sphere_open_page(sphere_of(cpu->recorder->record.processor), offset);
    }
}

/* What is not main RAM has no L1 byte. */
bool recorder_hides_slow(MemoryRegion *mr)
{
    return recorder_several_vcpus && (recorder_force_slow_path ||
                                      memory_region_get_ram_ptr(mr) != recorder_ram.host);
}
