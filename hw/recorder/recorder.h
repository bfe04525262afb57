/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What QEMU calls: the hooks of qemu-patches/, and start and stop.
 *
 * A hook that is off costs one test of recorder_mode, and none lies on the fast
 * path of generated code.  The mode changes only while all vCPUs are stopped.
 *
 * Who may call: hooks with a CPUState, the thread of that vCPU; the others, the
 * main thread with the big lock.
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

/* Internal: a test of it needs no load of its address. */
extern G_GNUC_INTERNAL RecorderMode recorder_mode;
/* Somebody wants to know of accesses to some bytes, while replaying (replay/access-watch.h). */
extern G_GNUC_INTERNAL bool recorder_notes;
/* A developer wants copies of memory to be compared with it, while replaying (replay/paranoid.h). */
extern G_GNUC_INTERNAL bool recorder_paranoid;

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

/* --- steps (vcpu.c) --------------------------------------------------------- */

/*
 * A TB that was not entered for lack of budget: grants more, and cuts the next
 * TB if an event lies inside it.  False if nobody counts.
 */
bool recorder_refill(CPUState *cpu, TranslationBlock *tb);

/*
 * Between two steps.  While replaying, true: leave cpu_exec().  @applied: an
 * event was, so the program flow may have changed.
 */
void recorder_boundary_slow(CPUState *cpu);
bool recorder_replay_boundary(CPUState *cpu, bool *applied);

static inline void recorder_boundary(CPUState *cpu)
{
    if (recorder_recording()) {
        recorder_boundary_slow(cpu);
    }
}

/*
 * Is something due before the next TB may be looked up?  A lookup may walk page
 * tables, and fault.
 */
bool recorder_must_stop_slow(CPUState *cpu);

/* Recording: whatever is due was kicked for, or the budget ends there. */
static inline bool recorder_must_stop(CPUState *cpu)
{
    return recorder_active() &&
           (cpu->neg.icount_decr.u16.low == 0 ||
            qatomic_read(&cpu->neg.icount_decr.u16.high) != 0 ||
            (recorder_replaying() && recorder_must_stop_slow(cpu)));
}

/* A step that is no instruction, such as the delivery of an exception. */
void recorder_step_slow(CPUState *cpu);

static inline void recorder_step(CPUState *cpu)
{
    if (recorder_active()) {
        recorder_step_slow(cpu);
    }
}

/* An instruction has faulted: the try is a step, before its exception is delivered. */
void recorder_fault_slow(CPUState *cpu);

static inline void recorder_fault(CPUState *cpu)
{
    if (recorder_active()) {
        recorder_fault_slow(cpu);
    }
}

/* An interrupt is about to be delivered. */
void recorder_interrupt_slow(CPUState *cpu, int exception, int level);

static inline void recorder_interrupt(CPUState *cpu, int exception, int level)
{
    if (recorder_recording()) {
        recorder_interrupt_slow(cpu, exception, level);
    }
}

/* Firmware is about to turn the vCPU on: it is reset, and starts at @entry. */
void recorder_turned_on_slow(CPUState *cpu, uint64_t entry, uint64_t context, int level);

static inline void recorder_turned_on(CPUState *cpu, uint64_t entry, uint64_t context, int level)
{
    if (recorder_active()) {
        recorder_turned_on_slow(cpu, entry, context, level);
    }
}

/* A halted vCPU goes on. */
void recorder_wake_slow(CPUState *cpu);

static inline void recorder_wake(CPUState *cpu)
{
    if (recorder_recording()) {
        recorder_wake_slow(cpu);
    }
}

/* --- debuggers (replay/debugger/breakpoint-hits.c) ------------------------------------------------ */

/* Replaying: an instruction with a breakpoint is next; one that runs meets a watchpoint. */
void recorder_pass_breakpoint(CPUState *cpu);
/* Does not return if the instruction must run again, alone. */
void recorder_pass_watchpoint(CPUState *cpu, vaddr address, uintptr_t retaddr);
/* A load that must not fault: does one keep it from it?  A debugger's does not, in a replay. */
bool recorder_watchpoint_stops(CPUState *cpu, vaddr address, vaddr size, uintptr_t retaddr);

/* --- inputs (input.c) ------------------------------------------------------- */

MemTxResult recorder_device_load(CPUState *cpu, MemoryRegion *mr, hwaddr offset,
                                 uint64_t *value, MemOp op, MemTxAttrs attrs,
                                 hwaddr address);
MemTxResult recorder_device_store(CPUState *cpu, MemoryRegion *mr, hwaddr offset,
                                  uint64_t value, MemOp op, MemTxAttrs attrs,
                                  hwaddr address);

/* Replaying: the recorded value.  Recording: note the value that was read. */
bool recorder_replay_sysreg(CPUState *cpu, uint64_t *value);
void recorder_record_sysreg(CPUState *cpu, uint64_t value);
/*
 * A system register with ARM_CP_IO is about to be written; true: do not.  @plain: it
 * is read as a field of the vCPU's state, unseen by us, so it is inside.
 */
bool recorder_sysreg_write(CPUState *cpu, uint64_t value, bool plain);

/* What reading a register changes beside its value, which the log has given. */
void recorder_replayed_sysreg(CPUArchState *env, const void *reginfo, uint64_t value);

/*
 * Does WFI find work?  As cpu_has_work(), now or then.  @timed_out: it would not
 * halt anyway.
 */
bool recorder_wfi_finds_work(CPUState *cpu, bool timed_out);

/* The vCPU is about to halt, maybe in the middle of a PSCI call, whose delivery is a step. */
void recorder_suspends_slow(CPUState *cpu);

static inline void recorder_suspends(CPUState *cpu)
{
    if (recorder_recording()) {
        recorder_suspends_slow(cpu);
    }
}

/* A PSCI call: replaying, what it returned, if it did. */
bool recorder_replay_psci(CPUState *cpu, bool *returns, int32_t *result);
void recorder_record_psci(CPUState *cpu, bool returns, int32_t result);

/* --- accesses to guest RAM (access.c) ----------------------------------------- */

/*
 * A vCPU is about to access what lies at @host, within a page; or has looked up
 * code there, or is about to walk page tables for an access.  These do not
 * return if the instruction must wait: it runs again.
 */
void recorder_access_slow(CPUState *cpu, const void *host, unsigned size, bool write,
                          uintptr_t retaddr);
void recorder_fetch_slow(CPUState *cpu, const void *host);
void recorder_walk_for_slow(CPUState *cpu, uintptr_t retaddr);
/* The return address that recorder_walk_for() was told last, or @retaddr if nobody counts. */
uintptr_t recorder_retaddr(CPUState *cpu, uintptr_t retaddr);

static inline void recorder_access(CPUState *cpu, const void *host, unsigned size, bool write,
                                   uintptr_t retaddr)
{
    if (recorder_recording()) {
        recorder_access_slow(cpu, host, size, write, retaddr);
    }
}

/*
 * An instruction has probed for all its stores, which lie at @host and, in the next page, at
 * @next_host.  Does not return if it must run exclusively.
 */
void recorder_stores_in_two_pages(CPUState *cpu, const void *host, unsigned size,
                                  const void *next_host, unsigned next_size, uintptr_t retaddr);

/*
 * Must a store to @host be seen, whatever the translation said before recorder_access()?  While
 * the vCPU waited there, others may have made blocks of code from that page; and the walk for the
 * second page of a store may have made the first one a table.
 */
bool recorder_sees_store_slow(CPUState *cpu, const void *host);

static inline bool recorder_sees_store(CPUState *cpu, const void *host)
{
    return recorder_active() && recorder_sees_store_slow(cpu, host);
}

/* One access that lies in memory and in a device: no moment at which it has both. */
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

/* An instruction is about to run again, with no boundary before it. */
void recorder_retry_slow(CPUState *cpu);

static inline void recorder_retry(CPUState *cpu)
{
    if (recorder_recording()) {
        recorder_retry_slow(cpu);
    }
}

/* The vCPU was safe between two steps, after its boundary, and is about to look a block up. */
void recorder_resumed_slow(CPUState *cpu);

static inline void recorder_resumed(CPUState *cpu)
{
    if (recorder_recording()) {
        recorder_resumed_slow(cpu);
    }
}

/*
 * Has the vCPU dropped translations since this was last asked?  Then the block that it left must
 * not be linked to the next one, which may be of another page by now.
 */
bool recorder_has_dropped_slow(CPUState *cpu);

static inline bool recorder_has_dropped(CPUState *cpu)
{
    return recorder_active() && recorder_has_dropped_slow(cpu);
}

/*
 * An instruction runs while no other vCPU does.  If it has raised an exception, that is taken
 * before the vCPU may be stopped.
 */
void recorder_exclusive_begin_slow(CPUState *cpu);
void recorder_exclusive_end_slow(CPUState *cpu);

/*
 * Does the vCPU run exclusively for want of lines alone?  Then the instruction is the one that
 * replay runs in parallel: generated for that, with the same faults.
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

/* A translation is about to be made of the page at @host. */
void recorder_translated_slow(CPUState *cpu, int mmu_idx, const void *host);
void recorder_grow_tlb_slow(CPUState *cpu, int mmu_idx);

static inline void recorder_translated(CPUState *cpu, int mmu_idx, const void *host)
{
    if (recorder_active()) {
        recorder_grow_tlb_slow(cpu, mmu_idx);
    }
    if (recorder_recording()) {
        recorder_translated_slow(cpu, mmu_idx, host);
    }
}

/* Must accesses to @mr not be made by generated code? */
bool recorder_hides_slow(MemoryRegion *mr);

static inline bool recorder_hides(MemoryRegion *mr)
{
    return recorder_recording() && recorder_hides_slow(mr);
}

/* --- accesses that somebody wants to know of, replaying (replay/access-watch.c) ---- */

/* By what memory is accessed, for those who want to know: X(kind, name). */
#define ACCESS_BYS(X) \
    X(INSTRUCTION, "load or store") \
    X(ATOMIC, "atomic") \
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

/* Must accesses to a page be seen?  All vCPUs are stopped while that changes. */
static inline bool recorder_notes_page(ram_addr_t page, bool write)
{
    return unlikely(recorder_notes) && recorder_notes_page_slow(page, write);
}

/*
 * A vCPU is about to access what lies at @host, within a page; nothing but a restart of the
 * instruction can keep it from that.
 */
static inline void recorder_note(CPUState *cpu, const void *host, unsigned size, AccessBy by,
                                 bool write, uintptr_t retaddr)
{
    if (unlikely(recorder_notes)) {
        recorder_note_slow(cpu, host, size, by, write, retaddr);
    }
}

/* The same, of all elements of a vector (SVEContLdSt) that @predicate selects. */
void recorder_note_elements_slow(CPUState *cpu, const void *vector, const uint64_t *predicate,
                                 int register_size, int memory_size, bool write,
                                 uintptr_t retaddr);

static inline void recorder_note_elements(CPUState *cpu, const void *vector,
                                          const uint64_t *predicate, int register_size,
                                          int memory_size, bool write, uintptr_t retaddr)
{
    if (unlikely(recorder_notes)) {
        recorder_note_elements_slow(cpu, vector, predicate, register_size, memory_size, write,
                                    retaddr);
    }
}

/* --- copies of memory: translations and code (translations.c) ---------------------- */

/*
 * A page walk for @address read the word at @host, which translates @span bytes
 * (all ones if that is not known).
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
 * A page walk reads a descriptor that lies outside of RAM.  Does not return if the instruction
 * must run again, alone in its TB.  Recording or replaying.
 */
uint64_t recorder_walk_outside(CPUState *cpu, AddressSpace *as, hwaddr address, MemTxAttrs attrs,
                               bool big_endian, MemTxResult *result);

/*
 * A page walk is about to set flags in the word at @host, and make it @word.  Does not
 * return if the instruction must run again: the recorder has set them.
 */
void recorder_walk_writes_slow(CPUState *cpu, void *host, uint64_t word);

static inline void recorder_walk_writes(CPUState *cpu, void *host, uint64_t word)
{
    if (recorder_active()) {
        recorder_walk_writes_slow(cpu, host, word);
    }
}

/*
 * A page walk for an instruction to be fetched set the access flag in the word at
 * @host.
 */
void recorder_fetch_wrote_slow(CPUState *cpu, const void *host);

static inline void recorder_fetch_wrote(CPUState *cpu, const void *host)
{
    if (recorder_active()) {
        recorder_fetch_wrote_slow(cpu, host);
    }
}

/*
 * Another table is about to be used: for user addresses (TTBR0 of Arm), or for all.
 * Or what is found in tables is about to mean something else.
 */
void recorder_table_base_slow(CPUState *cpu, bool user);

static inline void recorder_table_base(CPUState *cpu, bool user)
{
    if (recorder_active()) {
        recorder_table_base_slow(cpu, user);
    }
}

/*
 * Is a single page's translation being dropped, which is known not to be part of
 * a large one?  Then the rest of the TLB stays.
 */
bool recorder_drops_one_page(CPUState *cpu);

/* Are only translations of user mode being dropped?  Others find their blocks as before. */
bool recorder_keeps_blocks(CPUState *cpu);

/*
 * A store is about to hit a page that is not plain data.  Does not return if
 * the instruction must run again, alone in its TB.
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

/* Must stores to this page stay on the slow path? */
bool recorder_is_table_slow(CPUState *cpu, ram_addr_t address);

static inline bool recorder_is_table(CPUState *cpu, ram_addr_t address)
{
    return recorder_active() && recorder_is_table_slow(cpu, address);
}

/* The vCPU dropped all its translations. */
void recorder_flushed_slow(CPUState *cpu);

static inline void recorder_flushed(CPUState *cpu)
{
    if (recorder_active()) {
        recorder_flushed_slow(cpu);
    }
}

/* A block of code was made from guest memory, and no vCPU knows it yet (replay/paranoid.c). */
void recorder_block_made_slow(const TranslationBlock *tb);

static inline void recorder_block_made(const TranslationBlock *tb)
{
    if (unlikely(recorder_paranoid)) {
        recorder_block_made_slow(tb);
    }
}

/* --- the outside ------------------------------------------------------------ */

/*
 * A device writes guest RAM, in any thread, between these two.  Returns how much
 * it may write in one go.
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
 * A vCPU runs between these two, and is not touched.  It is safe everywhere
 * else: so a place that was forgotten is slow, not deadly.
 */
void recorder_enter_running(CPUState *cpu);
/* @between_steps: and not in the middle of an instruction, whose inputs are yet to come. */
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

/* WFE, and SEVL, after which the next WFE does not wait. */
void recorder_wait_for_event(CPUState *cpu);
void recorder_local_event(CPUState *cpu);

/* The guest polls, perhaps for what a vCPU does that has no host core. */
static inline void recorder_yield(CPUState *cpu)
{
    if (!recorder_replaying()) {
        recorder_safe_in_insn(cpu);
        sched_yield();
        recorder_running(cpu);
    }
}

/* A thread is about to wait; a vCPU that runs is safe meanwhile. */
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

/* TLBI for all vCPUs: translations are coherent, so there is nothing to do. */
static inline bool recorder_ignores_tlbi(void)
{
    return recorder_active();
}

/* Work that was queued for a vCPU is done, in its thread, between two steps. */
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

/* The machine is about to be reset: a recording ends before that. */
void recorder_system_reset(void);

/*
 * Another state is about to be loaded, or the dirty bits of memory to be counted: true if that
 * is refused, since the guest is recorded or replayed (blocker.c).
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

/* A device says that the guest has panicked. */
void recorder_guest_panicked(void);

#endif
