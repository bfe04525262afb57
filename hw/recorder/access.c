/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code fetches, and accesses of vCPUs to main RAM without permission in the L1.  They go to the
 * sphere, whose rules are in protocol/sphere.h.
 *
 * A vCPU does not block in the middle of a step, except for chaos.linger_us, and only while no
 * other processor presses it for lines.  If an instruction needs a line of a RUNNING vCPU and does
 * not get it in that time, the instruction is abandoned.  Its vCPU waits at the boundary, SAFE.
 * Then it runs the instruction again, alone in its TB and without a boundary before it, so it still
 * holds what it requested.  An instruction that is abandoned more than chaos.most_tries times,
 * because it needs several lines that other processors want too, runs exclusively.
 *
 * A vCPU that is alone holds all of memory as one line, and tests for it at boundaries only:
 * nothing but DMA can take it away.
 *
 * All functions run in the vCPU's thread; recorder_wait_begin() may run in any thread.
 */
#include "qemu/osdep.h"
#include "accel/tcg/internal-common.h"
#include "accel/tcg/tb-context.h"
#include "accel/tcg/tb-internal.h"
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
#include "hw/recorder/episodes.h"
#include "hw/recorder/exclusive.h"
#include "hw/recorder/machine-state.h"
#include "hw/recorder/map-change.h"
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

/* The longest wait in WFE.  Linux has its timer send an event that often. */
#define MOST_DOZE_US 100

/* --- arcs ------------------------------------------------------------------- */

static void emit_wait(Processor *p, unsigned from, Position source, void *opaque)
{
    RecorderVcpu *v = opaque;

    recorder_count(v, log_wait(v->log, sphere_floor(p), from, source) ?
                      RECORDER_COUNT_ARCS : RECORDER_COUNT_MERGED_ARCS);
}

static void log_arcs(RecorderVcpu *v)
{
    sphere_arcs(v->record.processor, emit_wait, v);
}

void recorder_log_arcs(CPUState *cpu)
{
    log_arcs(cpu->recorder);
}

/*
 * Return the position to publish, at a boundary, before other processors may take lines.  A
 * processor that comes after this vCPU must also come after what this vCPU waited for.  So a step
 * must end between the arc that came in and the arcs that go out.  If the vCPU has completed none,
 * a STEP event is logged as one.
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

/* Drop translations and code that other processors have changed.  At a boundary. */
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

/* Wait until the vCPU's request is granted, if it has made one.  The vCPU is SAFE meanwhile. */
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
 * Make the vCPU RUNNING, and kick it if it has lost something while it was SAFE.  That may have
 * been in the middle of the last instruction of a TB (a device access), so the vCPU must go to a
 * boundary before it accesses memory again.
 */
void recorder_enter_running(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    sphere_run(v->record.processor);
    recorder_waits(v, RECORDER_WAITS_FOR_NOTHING);
    qatomic_set(&v->record.running, true);
    log_stream_resume(v->log);
    recorder_follow_map(cpu);
    if (recorder_has_lost(v)) {
        recorder_kick(cpu);
    }
}

/* Prepare the vCPU to be SAFE.  Return the position to publish. */
static Position stop_running(CPUState *cpu, bool between_steps)
{
    RecorderVcpu *v = cpu->recorder;
    Position position;

    complete(cpu);
    position = settle(cpu);
    if (between_steps && cpu->halted && cpu->exception_index < 0) {
        sphere_end_episodes(v->record.processor, position);
    }
    /* Replay cannot stop between an instruction and the exception that it raised. */
    log_stream_rest(v->log, between_steps && cpu->exception_index < 0 ? position :
                            LOG_UNKNOWN);
    qatomic_set(&v->record.running, false);
    return position;
}

void recorder_leave_running(CPUState *cpu, bool between_steps)
{
    Position position = stop_running(cpu, between_steps);

    sphere_safe(cpu->recorder->record.processor, position);
}

/*
 * Sleep until the vCPU loses a line.  In WFE the guest waits until another vCPU writes what this
 * vCPU has read, and that write takes the line.  Any other end of the guest's wait is seen after
 * MOST_DOZE_US.
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
    /* In the middle of a TB the position would be unknown. */
    g_assert(cpu->neg.can_do_io);
    recorder_leave_running(cpu, false);
    recorder_waits(cpu->recorder, RECORDER_WAITS_FOR_LOCK);
    return cpu;
}

/* Wait until a vCPU that is alone holds all of memory. */
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

void recorder_leave_user(CPUState *cpu)
{
    Processor *p = cpu->recorder->record.processor;

    if (sphere_in_user(p)) {
        sphere_leave_user(p);
    }
}

/*
 * Tell the sphere that the vCPU is in user mode: other processors may take lines that only the
 * kernel can reach.  It must be told of the end before the vCPU accesses such a line.  The kernel
 * is entered by exceptions and interrupts, whose delivery is a step (recorder_step_slow()); on x86
 * also by instructions, which access nothing that is closed (SYSCALL), or say so in
 * recorder_access() (far calls), and return to a boundary.
 */
static void tell_mode(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    if (!recorder_in_user_mode(cpu)) {
        recorder_leave_user(cpu);
    } else if (!v->alone && !v->delivers && !sphere_in_user(v->record.processor) &&
        cpu->exception_index < 0 &&
        sphere_is_settled(v->record.processor, recorder_position(cpu))) {
        sphere_enter_user(v->record.processor, recorder_position(cpu));
    }
}

/* Let the host run other threads for a moment (protocol/core-yield.c); the vCPU is SAFE. */
static void give_way(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;
    Position position = settle(cpu);

    log_stream_rest(v->log, position);
    sphere_yield_core(v->record.processor, position);
    log_stream_resume(v->log);
}

/*
 * Return true if this boundary is here to end an episode.  It may lie in the middle of what the
 * guest does with a line, so it is too early to offer lines.
 */
static bool ends_episode(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    return recorder_position(cpu) + v->record.room >= recorder_episode_limit(v->record.processor);
}

void recorder_safepoint(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;
    Position look_again;
    bool waited;

    qatomic_set(&v->record.safepoints, v->record.safepoints + 1);
    if (v->record.running) {
        waited = v->record.asked;       /* for a line that is not to be offered before it is used */
        complete(cpu);
        look_again = sphere_look_at_leases(v->record.processor, recorder_position(cpu));
        if (sphere_is_pressed(v->record.processor)) {
            sphere_serve(v->record.processor, settle(cpu));
        }
        if (sphere_has_offers(v->record.processor) && !waited && !ends_episode(cpu)) {
            sphere_offer(v->record.processor, recorder_position(cpu));
        }
        if (sphere_gives_way(v->record.processor, recorder_position(cpu))) {
            give_way(cpu);
        }
        if (look_again != SPHERE_NO_LEASE) {
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
 * Drop what is due before anything is looked up for the next step.  Replay applies the DROP events
 * of this position before its lookup, so recording must not find what it is about to drop.
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
    recorder_forget_points(cpu);
    if (recorder_recording()) {
        complete(cpu);
        take_drops(cpu);
        recorder_grant_one(cpu);
    }
}

void recorder_resumed_slow(CPUState *cpu)
{
    take_drops(cpu);
}

void recorder_resume_delivery(CPUState *cpu)
{
    complete(cpu);
    if (cpu->recorder->alone) {
        have_all_memory(cpu);
    }
    take_drops(cpu);
}

/* --- accesses ------------------------------------------------------------------ */

/*
 * Undo the running instruction or delivery, and run it again after the wait.  After too many
 * attempts, run it exclusively.
 */
G_NORETURN static void abandon(CPUState *cpu, uintptr_t retaddr)
{
    RecorderVcpu *v = cpu->recorder;
    uint64_t instruction;

    if (retaddr) {
        cpu_restore_state(cpu, retaddr);
    }
    instruction = recorder_instructions(cpu);
    v->record.tries = instruction == v->record.tried ? v->record.tries + 1 : 1;
    v->record.tried = instruction;
    sphere_counts(v->record.processor)->abandoned++;
    if (v->record.tries > chaos.most_tries) {
        recorder_run_exclusively(cpu);
    }
    recorder_run_step_again(cpu);
}

/*
 * Return how many instructions of the running TB are left, or -1.  To search all TBs takes as long
 * as the rest of a miss, so the latest results are kept.
 */
static int insns_left(RecorderVcpu *v, uintptr_t retaddr)
{
    unsigned slot = (retaddr >> 2) % RECORDER_INSNS_LEFT;
    InsnsLeft *kept = &v->record.insns_left[slot];
    unsigned flushes = qatomic_read(&tb_ctx.tb_flush_count);

    if (kept->retaddr != retaddr || kept->flushes != flushes) {
        *kept = (InsnsLeft) { retaddr, flushes, cpu_insns_left(retaddr) };
    }
    return kept->left;
}

/*
 * Raise the floor to the running instruction, if the latest boundary lies far behind.  The arcs
 * that come in now need not be waited for earlier, so replay does more in parallel.  The position
 * of the instruction is that of the vCPU, which is the end of the running TB, less what is left of
 * the TB.
 */
static void raise_floor(CPUState *cpu, uintptr_t retaddr)
{
    Processor *p = cpu->recorder->record.processor;
    int left = -1;

    if (retaddr && recorder_position(cpu) - sphere_floor(p) > chaos.old_floor) {
        left = insns_left(cpu->recorder, retaddr);
    }
    if (left > 0) {
        sphere_boundary(p, recorder_position(cpu) - left);
    }
}

/*
 * Act on the sphere's answer to a request.  Does not return if the vCPU must wait at the boundary.
 * If the lines are granted, log the arcs that came with them.
 */
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

/* Return true if accesses need lines: with several vCPUs.  Then the vCPU must be RUNNING. */
static bool needs_lines(const RecorderVcpu *v)
{
    if (!v->alone && !v->record.running) {
        recorder_fail("a vCPU touched memory where it must not");
    }
    return !v->alone && v->record.running;
}

/*
 * Return true if the running instruction has accessed a device, and end the recording then.  The
 * instruction cannot be abandoned any more, and its position is published, so it must not obtain
 * lines.  A fetch, which has no @retaddr, belongs to the next step.
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
        if (!(qatomic_read(&v->record.l1[line]) & bit)) {
            return false;
        }
    }
    return true;
}

void recorder_access_slow(CPUState *cpu, const void *host, unsigned size, bool write,
                          uintptr_t retaddr)
{
    RecorderVcpu *v = cpu->recorder;
    SphereAccess access = write ? SPHERE_WRITE : SPHERE_READ;
    uint64_t offset;

    if (!needs_lines(v)) {
        return;
    }
    v->record.acquired = false;
    if (!recorder_ram_offset(host, &offset)) {
        if (write) {
            recorder_fail("the guest wrote to memory that is not its main memory");
        }
        return;
    }
    if (sphere_in_user(v->record.processor) &&
        !sphere_is_open(sphere_of(v->record.processor), offset)) {
        recorder_leave_user(cpu);       /* x86: descriptors, for example */
    }
    if (!in_l1(v, offset, size, write ? L1_WRITE : L1_READ) &&
               !was_with_device(cpu, retaddr) &&
               !sphere_take_back(v->record.processor, offset, size, access)) {
        if (write) {
            recorder_widen_store(cpu, &offset, &size);
        }
        answer(cpu, sphere_acquire(v->record.processor, offset, size, access), retaddr);
        v->record.acquired = true;
    }
}

/*
 * Trust the TLB entry if the write bit was in the L1, or put aside.  A vCPU that generates code
 * from the line reads the line, which takes the write bit away first.  A vCPU that makes
 * translations from the page gives up its own write bits.  Without lines (one vCPU, or replaying)
 * the vCPU does not wait in recorder_access(), and never acquires any.
 */
bool recorder_sees_store_slow(CPUState *cpu, const void *host)
{
    uint64_t offset;

    return cpu->recorder->record.acquired && recorder_ram_offset(host, &offset) &&
           (recorder_is_table_slow(cpu, recorder_ram.start + offset) ||
            cpu_physical_memory_is_clean(recorder_ram.start + offset));
}

bool recorder_walk_found_table_slow(CPUState *cpu, const void *host)
{
    uint64_t offset;

    return recorder_ram_offset(host, &offset) &&
           recorder_is_table_slow(cpu, recorder_ram.start + offset);
}

/* The L1 of a vCPU that is alone has no byte for each line: the vCPU holds all of memory. */
static bool may_write(const RecorderVcpu *v, const void *host, unsigned size)
{
    uint64_t offset;

    return host && recorder_ram_offset(host, &offset) &&
           (v->alone || in_l1(v, offset, size, L1_WRITE));
}

/*
 * Run the instruction exclusively unless the vCPU has all write bits.  With them no store makes
 * another request.  A page with copies has no write bits: each store makes a request, and words are
 * in hand in one page only (Processor.in_hand).  So a store might be refused after other stores of
 * the instruction were made.
 */
void recorder_stores_in_two_pages(CPUState *cpu, const void *host, unsigned size,
                                  const void *next_host, unsigned next_size, uintptr_t retaddr)
{
    RecorderVcpu *v = cpu->recorder;

    if (recorder_recording() &&
        !(may_write(v, host, size) && may_write(v, next_host, next_size))) {
        recorder_be_exclusive(cpu, retaddr);
    }
}

/*
 * See the stores to a range if there may be copies of it.  This is QEMU's notdirty_write(), which
 * goes by a TLB entry.
 */
static void see_stores(CPUState *cpu, const RecorderRange *range, uintptr_t retaddr)
{
    uint64_t offset;
    ram_addr_t address;

    if (!recorder_ram_offset(range->host, &offset)) {
        return;
    }
    address = recorder_ram.start + offset;
    if (recorder_is_table_slow(cpu, address) || cpu_physical_memory_is_clean(address)) {
        recorder_store_slow(cpu, address, range->size, retaddr);
        if (!cpu_physical_memory_get_dirty_flag(address, DIRTY_MEMORY_CODE)) {
            tb_invalidate_phys_range_fast(address, range->size, retaddr);
        }
        cpu_physical_memory_set_dirty_range(address, range->size, DIRTY_CLIENTS_NOCODE);
    }
}

/*
 * Run the instruction exclusively if it makes stores @one_by_one, which request lines again, as for
 * two pages above.  Stores through pointers request none.  While the vCPU runs, no other processor
 * can make copies of the lines that it owns.
 */
void recorder_prepare_stores(CPUState *cpu, const RecorderRange *ranges, unsigned n,
                             bool one_by_one, uintptr_t retaddr)
{
    for (unsigned i = 0; i < n; i++) {
        recorder_access(cpu, ranges[i].host, ranges[i].size, true, retaddr);
    }
    for (unsigned i = 0; i < n && one_by_one && recorder_recording(); i++) {
        if (!may_write(cpu->recorder, ranges[i].host, ranges[i].size)) {
            recorder_be_exclusive(cpu, retaddr);
        }
    }
    for (unsigned i = 0; i < n; i++) {
        see_stores(cpu, &ranges[i], retaddr);
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

void recorder_table_access(CPUState *cpu, uint64_t offset, bool entered)
{
    RecorderVcpu *v = cpu->recorder;

    if (!needs_lines(v)) {
        return;
    }
    if (!entered && !was_with_device(cpu, v->walk_retaddr)) {
        answer(cpu, sphere_enter_table(v->record.processor, offset), v->walk_retaddr);
    }
    if (!in_l1(v, offset, 8, L1_READ) && !was_with_device(cpu, v->walk_retaddr)) {
        answer(cpu, sphere_acquire(v->record.processor, offset, 8, SPHERE_READ), v->walk_retaddr);
    }
}

/*
 * Count the step of a flag that the running instruction sets: it comes before the instruction,
 * which is charged already.
 */
static void step_before_insn(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    v->base++;
    if (cpu->neg.icount_decr.u16.low > 0) {
        cpu->neg.icount_decr.u16.low--; /* up to the same limit */
        v->granted--;
    }
    recorder_count(v, RECORDER_COUNT_OTHER_STEPS);
    sphere_boundary(v->record.processor, recorder_position_in_insn(cpu));
}

/*
 * Log the flag that an exclusive instruction, fetch or delivery is about to set, as a step before
 * it.  It must not run again: it may have made stores, or keep what it has loaded.  Nobody can look
 * meanwhile.
 */
static void log_flag_exclusively(CPUState *cpu, uint64_t offset, uint64_t word)
{
    RecorderVcpu *v = cpu->recorder;
    bool in_insn = v->walk_retaddr;

    log_event(v->log, LOG_EVENT_ACCESS_FLAG,
              in_insn ? recorder_position_in_insn(cpu) : recorder_position(cpu), offset, word);
    if (in_insn) {
        step_before_insn(cpu);
    } else {
        recorder_step_slow(cpu);
        recorder_grant_one(cpu);
    }
}

/*
 * Set the flag in a step of its own if there are several vCPUs, and run the instruction again.  The
 * instruction must not set the flag: it may be abandoned after that, and another vCPU see the flag
 * before the step in which replay would set it.
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
    if (sphere_is_exclusive(v->record.processor)) {
        log_flag_exclusively(cpu, offset, word);
        return;
    }
    if (v->walk_retaddr) {
        cpu_restore_state(cpu, v->walk_retaddr);
    }
    sphere_boundary(v->record.processor, recorder_position(cpu));
    log_event(v->log, LOG_EVENT_ACCESS_FLAG, recorder_position(cpu), offset, word);
    qatomic_set((uint64_t *)host, word);
    recorder_step_slow(cpu);
    recorder_run_step_again(cpu);
}

void recorder_translated_slow(CPUState *cpu, int mmu_idx, const void *host)
{
    uint64_t offset;

    if (!cpu->recorder->alone && !recorder_is_kernel_only(mmu_idx) &&
        recorder_ram_offset(host, &offset)) {
        sphere_open_page(sphere_of(cpu->recorder->record.processor), offset);
    }
}

/* Hide what has no permission bytes: all but main RAM. */
bool recorder_hides_slow(MemoryRegion *mr)
{
    return recorder_several_vcpus && (recorder_force_slow_path ||
                                      memory_region_get_ram_ptr(mr) != recorder_ram.host);
}
