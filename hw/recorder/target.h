/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What depends on the guest's architecture: target-arm.c, or target-none.c, its stand-in for those
 * that cannot be recorded.
 */
#ifndef RECORDER_TARGET_H
#define RECORDER_TARGET_H

#include "hw/core/cpu.h"

#include "recording/registers.h"

void recorder_registers(CPUState *cpu, Registers *registers);
void recorder_deliver(CPUState *cpu, int exception, int level);
/* Can it reach no more than user mode does, until an exception is delivered? */
bool recorder_in_user_mode(CPUState *cpu);
/* If the running instruction has several stores, all in one line, one of which this is: all. */
void recorder_widen_store(CPUState *cpu, uint64_t *offset, unsigned *size);
/* Are translations of this kind never used in user mode, nor for walks? */
bool recorder_is_kernel_only(int mmu_idx);
/* Make what is derived from registers depend on these alone, as when they are loaded. */
void recorder_forget_past(CPUState *cpu);
/* Where the running instruction is, of which @retaddr is the host's return address; or 0. */
vaddr recorder_pc(CPUState *cpu, uintptr_t retaddr);
/*
 * What a walk of memory for an @access to @address would find now: in @found, or NULL and why it
 * faults.  It leaves no trace.  For user mode it is that of the tables which user mode used last.
 */
const char *recorder_walk_untraced(CPUState *cpu, vaddr address, int mmu_idx, MMUAccessType access,
                                   CPUTLBEntryFull *found);
/* Is @address one of user mode, of tables that are not known? */
bool recorder_may_be_stale(CPUState *cpu, int mmu_idx, vaddr address);
/* The mmu index with which the instructions of a block are fetched. */
int recorder_block_mmu_idx(const TranslationBlock *tb);
/* Firmware turns the vCPU on, when it next leaves cpu_exec(). */
void recorder_turn_on(CPUState *cpu, uint64_t entry, uint64_t context, int level);
/* Why this vCPU cannot be recorded, alone or with others like it; NULL if it can. */
char *recorder_cpu_objection(CPUState *cpu, bool several);
/* Its model and properties, as -cpu wants them, for another one just like it. */
char *recorder_cpu_description(CPUState *cpu);

#endif
