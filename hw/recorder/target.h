/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What depends on the guest's architecture: target-arm.c, target-x86.c.  A vCPU's functions run in
 * its thread, or while it is stopped.
 */
#ifndef RECORDER_TARGET_H
#define RECORDER_TARGET_H

#include "hw/core/cpu.h"

#include "recording/registers.h"

/* The registers that a vCPU has. */
extern const RegisterSet *const recorder_register_set;
/* Set @registers to those of the vCPU. */
void recorder_registers(CPUState *cpu, Registers *registers);
/* Set @registers to the values of @LIST, one of the lists in recording/..-registers.h. */
#define RECORDER_FILL_REGISTERS(registers, LIST) \
    do { \
        uint64_t *next_ = (registers)->value; \
        LIST(RECORDER_FILL_REGISTERS_X) \
        memset(next_, 0, (char *)((registers) + 1) - (char *)next_); \
    } while (0)
#define RECORDER_FILL_REGISTERS_X(name, count, value) \
    for (unsigned i = 0; i < (count); i++) { \
        *next_++ = (value); \
    }
/*
 * Deliver an interrupt as an INTERRUPT event tells: of Arm, exception @number at exception level
 * @kind; of x86, vector @number of a RecorderX86Interrupt.  Replaying only.  The delivery of an x86
 * interrupt may raise an exception, and longjmp.
 */
void recorder_deliver(CPUState *cpu, int number, int kind);
/*
 * A vCPU that is replayed may be stopped between a fault and its delivery, if the delivery touches
 * memory.  Get or set what the delivery depends on besides registers and the exception's number.
 */
#define RECORDER_PENDING_WORDS 4
void recorder_get_pending(CPUState *cpu, uint64_t words[RECORDER_PENDING_WORDS]);
void recorder_set_pending(CPUState *cpu, const uint64_t words[RECORDER_PENDING_WORDS]);
/* Finish what halted the vCPU, before it goes on: it may have raised an exception.  Replaying. */
void recorder_woken(CPUState *cpu);
/* Return the state of the A20 gate of an x86 vCPU, or set it. */
unsigned recorder_a20(CPUState *cpu);
void recorder_set_a20(CPUState *cpu, unsigned on);
/* Return true if the vCPU reaches no more than user mode does, until an exception is delivered. */
bool recorder_in_user_mode(CPUState *cpu);
/*
 * If the store of *@size bytes at *@offset of main RAM is one of several stores of the running
 * instruction, all in one line, make *@offset and *@size cover all of them.
 */
void recorder_widen_store(CPUState *cpu, uint64_t *offset, unsigned *size);
/* Return true if translations of @mmu_idx are used neither in user mode nor for page walks. */
bool recorder_is_kernel_only(int mmu_idx);
/* Recompute state that is derived from registers, so that it depends on the registers alone. */
void recorder_forget_past(CPUState *cpu);
/* Bring registers that are updated lazily up to date, before they are saved. */
void recorder_before_save(CPUState *cpu);
/*
 * Set what a saved state lacks if it is as after a reset to that, before the state is loaded into a
 * vCPU that has run.
 */
void recorder_before_load(CPUState *cpu);
/* Return true if @address is one that user mode may have: its table base is that of user mode. */
bool recorder_is_user_address(vaddr address);
/* Return the address of the running instruction.  @retaddr: return address into its TB, or 0. */
vaddr recorder_pc(CPUState *cpu, uintptr_t retaddr);
/* Return true if the instruction at @pc, which loads and stores the same bytes, is an atomic. */
bool recorder_is_atomic(CPUState *cpu, vaddr pc);
/*
 * Walk page tables for an @access to @address, without a trace: no flag is set, no TLB is filled,
 * no hook is called.  Set *@found to the result.  Return NULL, or the reason of a fault.  A walk
 * for user mode uses the tables that user mode used last.
 */
const char *recorder_walk_untraced(CPUState *cpu, vaddr address, int mmu_idx, MMUAccessType access,
                                   CPUTLBEntryFull *found);
/*
 * Return true if @mmu_idx and @address are user mode's, and the tables of its translations unknown.
 */
bool recorder_may_be_stale(CPUState *cpu, int mmu_idx, vaddr address);
/* Return the MMU index with which the instructions of @tb are fetched. */
int recorder_block_mmu_idx(const TranslationBlock *tb);
/*
 * Turn the vCPU on as firmware does, when it next leaves cpu_exec().  Replaying only.  Takes the
 * BQL.
 */
void recorder_turn_on(CPUState *cpu, uint64_t entry, uint64_t context, int level);
/* Return why this vCPU cannot be recorded, or NULL.  The caller frees the text. */
char *recorder_cpu_objection(CPUState *cpu);
/*
 * Return model and properties as -cpu takes them, for a vCPU just like this one.  The caller frees
 * the text.
 */
char *recorder_cpu_description(CPUState *cpu);

#endif
