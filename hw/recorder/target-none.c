/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Replaces target-arm.c for architectures that cannot be recorded yet.
 */
#include "qemu/osdep.h"
#include "hw/recorder/target.h"
#include "recording/registers.h"

char *recorder_cpu_objection(CPUState *cpu)
{
    return g_strdup("a CPU that is not Arm");
}

char *recorder_cpu_description(CPUState *cpu)
{
    g_assert_not_reached();
}

void recorder_registers(CPUState *cpu, Registers *registers)
{
    g_assert_not_reached();
}

void recorder_deliver(CPUState *cpu, int exception, int level)
{
    g_assert_not_reached();
}

bool recorder_in_user_mode(CPUState *cpu)
{
    g_assert_not_reached();
}

void recorder_widen_store(CPUState *cpu, uint64_t *offset, unsigned *size)
{
}

bool recorder_is_kernel_only(int mmu_idx)
{
    g_assert_not_reached();
}

void recorder_forget_past(CPUState *cpu)
{
    g_assert_not_reached();
}

const char *recorder_walk_untraced(CPUState *cpu, vaddr address, int mmu_idx, MMUAccessType access,
                                   CPUTLBEntryFull *found)
{
    g_assert_not_reached();
}

bool recorder_may_be_stale(CPUState *cpu, int mmu_idx, vaddr address)
{
    g_assert_not_reached();
}

int recorder_block_mmu_idx(const TranslationBlock *tb)
{
    g_assert_not_reached();
}

vaddr recorder_pc(CPUState *cpu, uintptr_t retaddr)
{
    g_assert_not_reached();
}

void recorder_turn_on(CPUState *cpu, uint64_t entry, uint64_t context, int level)
{
    g_assert_not_reached();
}
