/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The contract with QEMU: all functions that the patches in qemu-patches/ call.
 *
 * Terms of all comments in this directory (docs/design.md has more):
 *   step      unit of ordering on one vCPU: an instruction that retires or faults, the delivery of
 *             an exception or interrupt, or an event that is a step (log_event_is_step())
 *   position  number of steps that a vCPU has completed since the recording started
 *   boundary  point between two steps: in cpu_exec()'s loop, before a TB is looked up.  Position
 *             and registers are exact there.
 *   line      64 bytes of main RAM.  While several vCPUs are recorded, a vCPU may access a line
 *             only while it holds the line, for reading or for writing.
 *   RUNNING   state of a vCPU from which no other processor takes lines, except lines that user
 *             mode cannot reach (sphere_enter_user())
 *   SAFE      state of a vCPU from which other processors may take any line
 *   abandon   undo the running instruction as for a fault (restore the state, longjmp to
 *             cpu_exec()); the instruction runs again later
 *   drop      invalidate translations; DROP is the log event for it
 *   sphere    what is recorded: vCPUs and main RAM.  Everything else is outside of it.
 *
 * While the recorder is off, most hooks cost one test of recorder_mode.  No hook lies on the fast
 * path of generated code.  QEMU calls the inline function, which tests the mode; the function with
 * the suffix _slow behind it does the work.
 *
 * Concurrency: a hook with a CPUState argument is called in that vCPU's thread.  The comments of
 * the other hooks name the thread.  recorder_mode changes only while all vCPUs are stopped.
 */
#ifndef RECORDER_H
#define RECORDER_H

#include "hw/core/cpu.h"
#include "exec/memory.h"

typedef struct TranslationBlock TranslationBlock;

typedef enum RecorderMode {
    RECORDER_OFF,
    RECORDER_RECORDING,
    RECORDER_REPLAYING,
} RecorderMode;

/* Hidden visibility: a test of the mode needs no load of the variable's address. */
extern G_GNUC_INTERNAL RecorderMode recorder_mode;
/* True while accesses to some bytes are watched.  Replaying only (replay/access-watch.h). */
extern G_GNUC_INTERNAL bool recorder_notes;
/*
 * True while translations and code are compared with memory.  Replaying only (replay/paranoid.h).
 */
extern G_GNUC_INTERNAL bool recorder_paranoid;
/* True if TLBs grow as while recording, though the guest is neither recorded nor replayed. */
extern G_GNUC_INTERNAL bool recorder_grows_tlbs;

static inline bool recorder_active(void)
{
    return unlikely(recorder_mode != RECORDER_OFF);
}

static inline bool recorder_recording(void)
{
    return unlikely(recorder_mode == RECORDER_RECORDING);
}

static inline bool recorder_replaying(void)
{
    return unlikely(recorder_mode == RECORDER_REPLAYING);
}

#include "hw/recorder/input.h"
#include "hw/recorder/points.h"
#include "hw/recorder/repeat.h"

/* --- inputs, beyond input.h -------------------------------------------------- */

/*
 * Apply the side effects of reading the register @reginfo (ARMCPRegInfo), whose @value came from
 * the log.  Replaying only.
 */
void recorder_replayed_sysreg(CPUArchState *env, const void *reginfo, uint64_t value);

/*
 * End the recording before the running instruction, which replay could not make.  While recording
 * this does not return: the instruction runs again when there is no recording any more.
 */
void recorder_cannot_do(CPUState *cpu, const char *what, uintptr_t retaddr);

/* --- steps (vcpu.c) --------------------------------------------------------- */

/*
 * Grant instructions after @tb was not entered because the instruction counter had expired.  Make
 * the next TB shorter if an event is due inside @tb.  Return false if the vCPU is neither recorded
 * nor replayed: then the counter is QEMU's own.
 */
bool recorder_refill(CPUState *cpu, TranslationBlock *tb);

/*
 * Do what is due at a boundary: answer requests for lines, drop translations, log a digest.
 * Recording only.  Called without the BQL, after icount_decr.u16.high is cleared.  May block.
 * Return true if the vCPU must leave cpu_exec() before its next step.
 */
bool recorder_boundary_slow(CPUState *cpu);
/*
 * Apply the events of the log at this position.  Replaying only.  Called like recorder_boundary().
 * Return true if the vCPU must leave cpu_exec().  Set *@applied if an event was applied: the
 * program flow may have changed, so the last TB must not be linked to the next one.
 */
bool recorder_replay_boundary(CPUState *cpu, bool *applied);

static inline bool recorder_boundary(CPUState *cpu)
{
    return recorder_recording() && (recorder_boundary_slow(cpu) || recorder_take_points(cpu));
}

/*
 * Return true if the vCPU must go to a boundary before the next TB is looked up.  A lookup may walk
 * page tables and fault, so all events at this position must be handled before it.
 */
bool recorder_must_stop_slow(CPUState *cpu);

/* While recording, whatever is due has kicked the vCPU or ends its budget. */
static inline bool recorder_must_stop(CPUState *cpu)
{
    return recorder_active() &&
           (cpu->neg.icount_decr.u16.low == 0 ||
            qatomic_read(&cpu->neg.icount_decr.u16.high) != 0 ||
            (recorder_replaying() && recorder_must_stop_slow(cpu)));
}

/* Count a step that is not an instruction, such as the delivery of an exception. */
void recorder_step_slow(CPUState *cpu);

static inline void recorder_step(CPUState *cpu)
{
    if (recorder_active()) {
        recorder_step_slow(cpu);
    }
}

/*
 * Count the attempt of an instruction that has faulted as a step.  Called before the exception is
 * delivered, which is another step.  Return false if the vCPU must leave cpu_exec() first, and keep
 * the exception: replaying, where the delivery may have to wait.
 */
bool recorder_fault_slow(CPUState *cpu);

static inline bool recorder_fault(CPUState *cpu)
{
    return !recorder_active() || recorder_fault_slow(cpu);
}

/*
 * Record that interrupt @exception is about to be delivered at exception level @level, and count
 * the delivery as a step.  Called with the BQL held.
 */
void recorder_interrupt_slow(CPUState *cpu, int exception, int level);

static inline void recorder_interrupt(CPUState *cpu, int exception, int level)
{
    if (recorder_recording()) {
        recorder_interrupt_slow(cpu, exception, level);
    }
}

/*
 * Make @cr3 the root of the page tables of an x86 vCPU, and drop the translations that may differ
 * with it.  The kernel's stay if the root has the same tables for them.  Return false if it did
 * nothing: then the caller drops all translations.  May not return.
 */
bool recorder_new_root(CPUArchState *env, uint64_t cr3, uintptr_t retaddr);

/*
 * Bracket the delivery of interrupt @vector to an x86 vCPU, which touches memory.  The delivery is
 * a step.  If it raises an exception, recorder_fault() ends it.  If it is abandoned, it is made
 * again at the next boundary.  Called with the BQL held.
 */
typedef enum RecorderX86Interrupt {
    RECORDER_X86_HARD,          /* from a PIC or an APIC */
    RECORDER_X86_NMI,
    RECORDER_X86_MCE,
    RECORDER_X86_INIT,          /* resets the vCPU; touches no memory */
    RECORDER_X86_SIPI,          /* starts it; touches no memory */
} RecorderX86Interrupt;

void recorder_interrupt_begins_slow(CPUState *cpu, int vector, RecorderX86Interrupt kind);
void recorder_interrupt_ends_slow(CPUState *cpu);

static inline void recorder_interrupt_begins(CPUState *cpu, int vector, RecorderX86Interrupt kind)
{
    if (recorder_recording()) {
        recorder_interrupt_begins_slow(cpu, vector, kind);
    }
}

static inline void recorder_interrupt_ends(CPUState *cpu)
{
    if (recorder_recording()) {
        recorder_interrupt_ends_slow(cpu);
    }
}

/* Return true if the deliveries of this architecture need no BQL (target-*.c). */
bool recorder_delivers_unlocked(void);

/* Return true if the BQL must be held while an exception is delivered. */
static inline bool recorder_delivery_needs_lock(void)
{
    return !recorder_active() || !recorder_delivers_unlocked();
}

/*
 * Account for firmware that is about to turn the vCPU on: to reset it and start it at @entry, in
 * exception level @level, with the argument @context.  Called outside of cpu_exec(), before the
 * reset.
 */
void recorder_turned_on_slow(CPUState *cpu, uint64_t entry, uint64_t context, int level);

static inline void recorder_turned_on(CPUState *cpu, uint64_t entry, uint64_t context, int level)
{
    if (recorder_active()) {
        recorder_turned_on_slow(cpu, entry, context, level);
    }
}

/* Record that a halted vCPU continues; that is a step. */
void recorder_wake_slow(CPUState *cpu);

static inline void recorder_wake(CPUState *cpu)
{
    if (recorder_recording()) {
        recorder_wake_slow(cpu);
    }
}

/* --- debuggers (replay/debugger/breakpoint-hits.c) ---------------------------------- */

/* Note that the next instruction has a breakpoint of the debugger, and go on.  Replaying only. */
void recorder_pass_breakpoint(CPUState *cpu);
/*
 * Note that the running instruction hits the debugger's watchpoint at @address, and go on.  Does
 * not return if the instruction must run again, alone in its TB, so that its position is exact.
 * Replaying only.
 */
void recorder_pass_watchpoint(CPUState *cpu, vaddr address, uintptr_t retaddr);
/*
 * Return true if a watchpoint suppresses a load that must not fault (SVE first-fault and no-fault
 * loads).  While replaying, a watchpoint of the debugger does not: recorder_pass_watchpoint() notes
 * the hit, and may not return.
 */
bool recorder_watchpoint_stops(CPUState *cpu, vaddr address, vaddr size, uintptr_t retaddr);

/* --- accesses to guest RAM (access.c) ----------------------------------------- */

/*
 * Obtain permission for an access to @size bytes at host address @host, within one page.  Called
 * before the data moves.  Does not return if the vCPU must wait for a line: the instruction is
 * abandoned.  @retaddr: host return address into the TB, or 0 outside of a TB.  Recording only.
 */
void recorder_access_slow(CPUState *cpu, const void *host, unsigned size, bool write,
                          uintptr_t retaddr);
/*
 * Obtain permission to run code from the page at @host, which was just looked up.  Does not return
 * if the vCPU must wait for lines.  Recording only.
 */
void recorder_fetch_slow(CPUState *cpu, const void *host);
/*
 * Remember @retaddr, the return address of the access for which page tables are about to be walked.
 * The hooks of the walk use it to abandon the instruction.
 */
void recorder_walk_for_slow(CPUState *cpu, uintptr_t retaddr);
/* Return the address last given to recorder_walk_for(), or @retaddr if the recorder is off. */
uintptr_t recorder_retaddr(CPUState *cpu, uintptr_t retaddr);

static inline void recorder_access(CPUState *cpu, const void *host, unsigned size, bool write,
                                   uintptr_t retaddr)
{
    if (recorder_recording()) {
        recorder_access_slow(cpu, host, size, write, retaddr);
    }
}

/*
 * Check that an instruction which has probed for all its stores can make them all: @size bytes at
 * @host and, in the next page, @next_size bytes at @next_host.  Does not return if the instruction
 * must run exclusively.
 */
void recorder_stores_in_two_pages(CPUState *cpu, const void *host, unsigned size,
                                  const void *next_host, unsigned next_size, uintptr_t retaddr);

/*
 * Obtain permission for several stores of an x86 instruction or delivery, before the first: all in
 * the @size bytes at @address, at most two pages, up- or @downwards.  What would fault is left to
 * the stores.  Does not return if the vCPU must wait, or be exclusive.
 */
void recorder_prepare(CPUArchState *env, vaddr address, unsigned size, bool downwards, int mmu_idx,
                      uintptr_t retaddr);
/*
 * Run the instruction or delivery exclusively, if several vCPUs are recorded: otherwise, or if it
 * does, return.
 */
void recorder_be_exclusive(CPUState *cpu, uintptr_t retaddr);

/*
 * Return true if a store to @host must take the slow path (TLB_NOTDIRTY), whatever the TLB entry
 * said before recorder_access() for this store.  While the vCPU waited there, other vCPUs may have
 * generated TBs from the page.
 */
bool recorder_sees_store_slow(CPUState *cpu, const void *host);

static inline bool recorder_sees_store(CPUState *cpu, const void *host)
{
    return recorder_recording() && recorder_sees_store_slow(cpu, host);
}

/*
 * Return true if a store to two pages must take the slow path for the first, at @host, whatever the
 * TLB entry said: the walk for the second page may have made the first page a table page.
 */
bool recorder_walk_found_table_slow(CPUState *cpu, const void *host);

static inline bool recorder_walk_found_table(CPUState *cpu, const void *host)
{
    return recorder_active() && recorder_walk_found_table_slow(cpu, host);
}

/*
 * End the recording: one access of the guest lies partly in RAM and partly in a device.  There is
 * no moment at which the vCPU has both.  Called in a vCPU's thread.
 */
void recorder_mixed_access_slow(void);

static inline void recorder_mixed_access(void)
{
    if (recorder_recording()) {
        recorder_mixed_access_slow();
    }
}

static inline void recorder_fetch(CPUState *cpu, const void *host)
{
    if (recorder_recording()) {
        recorder_fetch_slow(cpu, host);
    }
}

static inline void recorder_walk_for(CPUState *cpu, uintptr_t retaddr)
{
    if (recorder_active()) {
        recorder_walk_for_slow(cpu, retaddr);
    }
}

/*
 * Prepare an instruction that is about to run again without a boundary before it: forget which data
 * breakpoints it has hit.  While recording, wait for the lines that it requested, and drop what is
 * due.
 */
void recorder_retry_slow(CPUState *cpu);

static inline void recorder_retry(CPUState *cpu)
{
    if (recorder_active()) {
        recorder_retry_slow(cpu);
    }
}

/*
 * Drop translations and code that other processors have changed.  Called if the vCPU may have been
 * SAFE since its boundary, because it waited for the BQL, and is about to look up a TB.
 */
void recorder_resumed_slow(CPUState *cpu);

static inline void recorder_resumed(CPUState *cpu)
{
    if (recorder_recording()) {
        recorder_resumed_slow(cpu);
    }
}

/*
 * Return true if the vCPU has dropped translations since the last call.  Then the TB that it left
 * must not be linked to the next one, whose address may now lie in another page.
 */
bool recorder_has_dropped_slow(CPUState *cpu);

static inline bool recorder_has_dropped(CPUState *cpu)
{
    return recorder_active() && recorder_has_dropped_slow(cpu);
}

/*
 * Bracket an instruction that runs in cpu_exec_step_atomic(), while no other vCPU runs.  If the
 * instruction has raised an exception, recorder_exclusive_end() delivers it, before the vCPU can be
 * stopped.
 */
void recorder_exclusive_begin_slow(CPUState *cpu);
void recorder_exclusive_end_slow(CPUState *cpu);

/*
 * Return true if the vCPU runs an instruction exclusively only because it could not get its lines,
 * and forget that.  Replay runs this instruction in parallel, so the caller must generate it for
 * parallel execution as well: then it raises the same faults.
 */
bool recorder_exclusive_for_lines_slow(CPUState *cpu);

static inline bool recorder_exclusive_for_lines(CPUState *cpu)
{
    return recorder_recording() && recorder_exclusive_for_lines_slow(cpu);
}

static inline void recorder_exclusive_begin(CPUState *cpu)
{
    if (recorder_recording()) {
        recorder_exclusive_begin_slow(cpu);
    }
}

static inline void recorder_exclusive_end(CPUState *cpu)
{
    if (recorder_active()) {
        recorder_exclusive_end_slow(cpu);
    }
}

/*
 * Prepare for a new TLB entry: make the TLB of @mmu_idx larger if it is nearly full, and note that
 * user mode can reach the page at @host from now on if @mmu_idx is not the kernel's alone.  @host
 * is NULL if the page is not RAM.
 */
void recorder_translated_slow(CPUState *cpu, int mmu_idx, const void *host);
void recorder_grow_tlb_slow(CPUState *cpu, int mmu_idx);

static inline void recorder_translated(CPUState *cpu, int mmu_idx, const void *host)
{
    if (recorder_active() || unlikely(recorder_grows_tlbs)) {
        recorder_grow_tlb_slow(cpu, mmu_idx);
    }
    if (recorder_recording()) {
        recorder_translated_slow(cpu, mmu_idx, host);
    }
}

/* Add the accelerator's property x-tlb-grow.  Main thread, before any guest. */
void recorder_add_tlb_property(ObjectClass *accel);

/*
 * Return true if generated code must not access @mr itself (TLB_RECORDED): only main RAM has
 * permission bytes.  Called in a vCPU's thread.
 */
bool recorder_hides_slow(MemoryRegion *mr);

static inline bool recorder_hides(MemoryRegion *mr)
{
    return recorder_recording() && recorder_hides_slow(mr);
}

/* --- watched accesses, replaying (replay/access-watch.c) ----------------------------- */

/* What accesses memory, as shown to users: X(kind, name). */
#define ACCESS_BYS(X) \
    X(INSTRUCTION, "load or store") \
    X(ATOMIC, "atomic") \
    X(DELIVERY, "delivery") \
    X(ZVA, "dc-zva") \
    X(VECTOR, "vector") \
    X(COPY, "memory-copy") \
    X(WALK, "page-walk") \
    X(FLAG, "access-flag") \
    X(DMA, "dma")

typedef enum AccessBy {
#define X(kind, name) ACCESS_BY_##kind,
    ACCESS_BYS(X)
#undef X
    N_ACCESS_BYS
} AccessBy;

bool recorder_notes_page_slow(ram_addr_t page, bool write);
void recorder_note_slow(CPUState *cpu, const void *host, unsigned size, AccessBy by, bool write,
                        uintptr_t retaddr);

/*
 * Return true if loads from the page at RAM address @page, or stores to it if @write, must take the
 * slow path because some of its bytes are watched.  Called in a vCPU's thread.  The answer changes
 * only while all vCPUs are stopped.
 */
static inline bool recorder_notes_page(ram_addr_t page, bool write)
{
    return unlikely(recorder_notes) && recorder_notes_page_slow(page, write);
}

/*
 * Note an access of a vCPU to @size bytes at @host, within one page.  Called before the data moves,
 * when nothing but a restart of the instruction can still prevent the access.
 */
static inline void recorder_note(CPUState *cpu, const void *host, unsigned size, AccessBy by,
                                 bool write, uintptr_t retaddr)
{
    if (unlikely(recorder_notes)) {
        recorder_note_slow(cpu, host, size, by, write, retaddr);
    }
}

/* --- copies of memory: translations and code (translations.c) ---------------------- */

/*
 * Note that a page walk for @address is about to read the word at @host, which translates @span
 * bytes (all ones if unknown).  From now on the vCPU's stores to the page of the word take the slow
 * path.  @privileged: the walk is not made for user mode.  Does not return if the vCPU must wait
 * for the line.
 */
void recorder_walk_slow(CPUState *cpu, const void *host, vaddr address, uint64_t span,
                        bool privileged);

static inline void recorder_walk(CPUState *cpu, const void *host, vaddr address,
                                 uint64_t span, bool privileged)
{
    if (recorder_active()) {
        recorder_walk_slow(cpu, host, address, span, privileged);
    }
}

/*
 * Return the descriptor at guest-physical @address, outside of RAM, for a page walk, and set
 * *@result.  While replaying both come from the log.  Does not return if the instruction must run
 * again, alone in its TB.  Called only while recording or replaying.
 */
uint64_t recorder_walk_outside(CPUState *cpu, AddressSpace *as, hwaddr address, MemTxAttrs attrs,
                               bool big_endian, MemTxResult *result);

/*
 * Prepare for a page walk that is about to set flags in the word at @host, making it @word.  With
 * one vCPU the caller sets the flags.  With several vCPUs the recorder sets the flags, in a step of
 * its own, and does not return: the instruction runs again.  In a replay of several vCPUs the log
 * has set all flags, so the call reports a divergence.
 */
void recorder_walk_writes_slow(CPUState *cpu, void *host, uint64_t word);

static inline void recorder_walk_writes(CPUState *cpu, void *host, uint64_t word)
{
    if (recorder_active()) {
        recorder_walk_writes_slow(cpu, host, word);
    }
}

/*
 * Record that a page walk for an instruction fetch has set the access flag in the word at @host.
 * This happens with one vCPU only: see recorder_walk_writes().
 */
void recorder_fetch_wrote_slow(CPUState *cpu, const void *host);

static inline void recorder_fetch_wrote(CPUState *cpu, const void *host)
{
    if (recorder_active()) {
        recorder_fetch_wrote_slow(cpu, host);
    }
}

/*
 * Drop the translations that depend on a register which is about to change.  @user: it is the table
 * base for user addresses (TTBR0 of Arm).  Otherwise all translations are dropped: it is another
 * table base, or decides what table entries mean.
 */
void recorder_table_base_slow(CPUState *cpu, bool user);

static inline void recorder_table_base(CPUState *cpu, bool user)
{
    if (recorder_active()) {
        recorder_table_base_slow(cpu, user);
    }
}

/*
 * Return true while the recorder drops the translation of a single page.  Then QEMU must not extend
 * the flush to a range of large pages: the recorder drops every page that is affected.
 */
bool recorder_drops_one_page(CPUState *cpu);

/*
 * Return true while only translations of user mode are dropped.  Then QEMU keeps the jump cache:
 * the recorder removes the entries of user addresses.
 */
bool recorder_keeps_blocks(CPUState *cpu);

/* Note that entry @i of the vCPU's jump cache is now a block at @pc. */
void recorder_cached_block_slow(CPUState *cpu, unsigned i, vaddr pc);

static inline void recorder_cached_block(CPUState *cpu, unsigned i, vaddr pc)
{
    if (recorder_active()) {
        recorder_cached_block_slow(cpu, i, pc);
    }
}

/*
 * Drop what a store of @size bytes at RAM address @address changes.  Called before a store to a
 * page with TLB_NOTDIRTY.  Does not return if the instruction must run again, alone in its TB.
 */
void recorder_store_slow(CPUState *cpu, ram_addr_t address, unsigned size,
                         uintptr_t retaddr);

static inline void recorder_store(CPUState *cpu, ram_addr_t address,
                                  unsigned size, uintptr_t retaddr)
{
    if (recorder_active()) {
        recorder_store_slow(cpu, address, size, retaddr);
    }
}

/*
 * Return true if the vCPU's stores to the page at RAM address @address must take the slow path: the
 * vCPU has, or recently had, translations made from the page.
 */
bool recorder_is_table_slow(CPUState *cpu, ram_addr_t address);

static inline bool recorder_is_table(CPUState *cpu, ram_addr_t address)
{
    return recorder_active() && recorder_is_table_slow(cpu, address);
}

/* Note that the vCPU has dropped all its translations. */
void recorder_flushed_slow(CPUState *cpu);

static inline void recorder_flushed(CPUState *cpu)
{
    if (recorder_active()) {
        recorder_flushed_slow(cpu);
    }
}

/*
 * Note the guest's code of a new TB, before other vCPUs can find the TB.  Called in a vCPU's thread
 * (replay/paranoid.c).
 */
void recorder_block_made_slow(const TranslationBlock *tb);

static inline void recorder_block_made(const TranslationBlock *tb)
{
    if (unlikely(recorder_paranoid)) {
        recorder_block_made_slow(tb);
    }
}

/* --- DMA, waits and the machine --------------------------------------------- */

/*
 * Bracket a write of a device to guest RAM.  recorder_dma_begin() waits until the DMA stream holds
 * the lines, and returns how many bytes may be written before recorder_dma_end().  In between the
 * caller holds the lock of the DMA stream.  Any thread.
 */
hwaddr recorder_dma_begin_slow(MemoryRegion *mr, hwaddr offset, hwaddr size);
void recorder_dma_end_slow(MemoryRegion *mr, hwaddr offset, hwaddr size);

static inline hwaddr recorder_dma_begin(MemoryRegion *mr, hwaddr offset, hwaddr size)
{
    return recorder_recording() ? recorder_dma_begin_slow(mr, offset, size) : size;
}

static inline void recorder_dma_end(MemoryRegion *mr, hwaddr offset, hwaddr size)
{
    if (recorder_recording()) {
        recorder_dma_end_slow(mr, offset, size);
    }
}

/*
 * End the recording: a vCPU or a device writes to @mr, which changes by commands, as flash does.
 * The guest reads it as memory, and in a replay no device would change it.  Any thread.
 */
void recorder_rom_written_slow(MemoryRegion *mr);

static inline void recorder_device_written(MemoryRegion *mr)
{
    if (recorder_recording() && mr->rom_device) {
        recorder_rom_written_slow(mr);
    }
}

/*
 * Make a vCPU RUNNING or SAFE.  SAFE is the default: code outside of cpu_exec() that blocks needs
 * no call, and cannot make other vCPUs wait.
 */
void recorder_enter_running(CPUState *cpu);
/*
 * @between_steps: the vCPU is at a boundary.  False in the middle of an instruction, which may
 * still log inputs.
 */
void recorder_leave_running(CPUState *cpu, bool between_steps);

static inline void recorder_running(CPUState *cpu)
{
    if (recorder_recording()) {
        recorder_enter_running(cpu);
    }
}

static inline void recorder_safe(CPUState *cpu)
{
    if (recorder_recording()) {
        recorder_leave_running(cpu, true);
    }
}

static inline void recorder_safe_in_insn(CPUState *cpu)
{
    if (recorder_recording()) {
        recorder_leave_running(cpu, false);
    }
}

/*
 * WFE: let the vCPU wait, SAFE, until it loses a line, for a short time at most.  SEVL
 * (recorder_local_event()): make the next WFE return at once.
 */
void recorder_wait_for_event(CPUState *cpu);
void recorder_local_event(CPUState *cpu);

/*
 * YIELD: let the host run another thread; the vCPU is SAFE meanwhile.  The guest polls, perhaps for
 * the progress of a vCPU that has no host core.
 */
static inline void recorder_yield(CPUState *cpu)
{
    if (!recorder_replaying()) {
        recorder_safe_in_insn(cpu);
        sched_yield();
        recorder_running(cpu);
    }
}

/*
 * Bracket a wait of any thread, such as for the BQL.  If the calling thread is that of a RUNNING
 * vCPU, the vCPU is SAFE until recorder_wait_end(), which takes the value returned here.
 */
CPUState *recorder_wait_begin_slow(void);

static inline CPUState *recorder_wait_begin(void)
{
    return recorder_recording() ? recorder_wait_begin_slow() : NULL;
}

static inline void recorder_wait_end(CPUState *cpu)
{
    if (cpu) {
        recorder_enter_running(cpu);
    }
}

/*
 * Return true if a TLBI for all vCPUs needs no action: translations are kept coherent with memory.
 * Called in a vCPU's thread.
 */
static inline bool recorder_ignores_tlbi(void)
{
    return recorder_active();
}

/*
 * Run a work item that was queued for a vCPU, between two steps.  An item that changes registers
 * ends the recording.
 */
void recorder_work_slow(CPUState *cpu, run_on_cpu_func function, run_on_cpu_data data);

static inline void recorder_work(CPUState *cpu, run_on_cpu_func function,
                                 run_on_cpu_data data)
{
    if (recorder_recording()) {
        recorder_work_slow(cpu, function, data);
    } else {
        function(cpu, data);
    }
}

/* End the recording before the machine is reset.  Main thread, BQL held. */
void recorder_system_reset(void);

/*
 * Return true and set *@errp if a saved state may not be loaded, or dirty bits of memory may not be
 * counted, because the guest is recorded or replayed (blocker.c).  Main thread, BQL held.
 */
bool recorder_refuses_load_slow(Error **errp);
bool recorder_refuses_dirty_rate_slow(Error **errp);

static inline bool recorder_refuses_load(Error **errp)
{
    return recorder_active() && recorder_refuses_load_slow(errp);
}

static inline bool recorder_refuses_dirty_rate(Error **errp)
{
    return recorder_active() && recorder_refuses_dirty_rate_slow(errp);
}

/* Tell the recorder that a device reports a panic of the guest.  Any thread. */
void recorder_guest_panicked(void);

#endif
