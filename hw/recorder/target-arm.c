/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the recorder must know of an Arm CPU: its registers, how an interrupt is
 * delivered, and which of its features cannot be recorded.
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "cpu.h"
#include "cpu-features.h"
#include "internals.h"
#include "accel/tcg/cpu-ops.h"

#include "arm-powerctl.h"
#include "exec/cputlb.h"
#include "exec/exec-all.h"
#include "exec/helper-proto.h"
#include "multiprocessing.h"

#include "hw/recorder/recorder.h"
#include "hw/recorder/recorder-internal.h"

void recorder_registers(CPUState *cpu, Registers *registers)
{
    CPUARMState *env = cpu_env(cpu);
    uint64_t *next = registers->value;

#define X(name, count, value)                   \
    for (unsigned i = 0; i < (count); i++) {    \
        *next++ = (value);                      \
    }
    ARM_REGISTERS(X)
#undef X
}

/*
 * An access in user mode is about to be made, or may be from now on: return to
 * EL0, LDTR, STTR.  See recorder_table_base().
 */
void HELPER(recorder_user_access)(CPUARMState *env)
{
    CPUState *cpu = env_cpu(env);

    if (recorder_active() && cpu->recorder->user_tables != env->cp15.ttbr0_el[1]) {
        cpu->recorder->user_tables = env->cp15.ttbr0_el[1];
        tlb_flush_by_mmuidx(cpu, ARMMMUIdxBit_E10_0);
    }
}

void recorder_deliver(CPUState *cpu, int exception, int level)
{
    CPUARMState *env = cpu_env(cpu);

    cpu->exception_index = exception;
    env->exception.target_el = level;
    bql_lock();
    cpu->cc->tcg_ops->do_interrupt(cpu);
    bql_unlock();
    cpu->exception_index = -1;
}

/* As arm_set_cpu_on() has it; the vCPU's thread does it when it leaves cpu_exec(). */
void recorder_turn_on(CPUState *cpu, uint64_t entry, uint64_t context, int level)
{
    ARMCPU *arm = ARM_CPU(cpu);

    bql_lock();
    arm->power_state = PSCI_OFF;
    arm_set_cpu_on(arm_cpu_mp_affinity(arm), entry, context, level, true);
    bql_unlock();
}

char *recorder_cpu_objection(CPUState *cpu)
{
    ARMCPU *arm = ARM_CPU(cpu);
    CPUARMState *env = &arm->env;

    if (!arm_feature(env, ARM_FEATURE_AARCH64)) {
        return g_strdup("a 32-bit CPU model");
    }
    if (arm_feature(env, ARM_FEATURE_PMU)) {
        return g_strdup("a performance monitor (add pmu=off to -cpu)");
    }
    if (arm_feature(env, ARM_FEATURE_EL2)) {
        return g_strdup("nested virtualisation (-machine virtualization=off)");
    }
    if (arm_feature(env, ARM_FEATURE_EL3)) {
        return g_strdup("the secure world (-machine secure=off)");
    }
    if (cpu_isar_feature(aa64_hafs, arm)) {
        return g_strdup("hardware update of access flags (FEAT_HAFDBS; use cortex-a57 or cortex-a72)");
    }
    if (cpu_isar_feature(aa64_rndr, arm)) {
        return g_strdup("random number registers (FEAT_RNG)");
    }
    if (cpu_isar_feature(aa64_mte_insn_reg, arm)) {
        return g_strdup("memory tags (FEAT_MTE)");
    }
    if (cpu_isar_feature(aa64_mops, arm)) {
        return g_strdup("memory copy instructions (FEAT_MOPS)");
    }
    if (cpu_isar_feature(aa64_wfxt, arm)) {
        return g_strdup("WFI with timeout (FEAT_WFxT)");
    }
    return NULL;
}

/* See gen_prepare_stores(). */
void HELPER(recorder_stores)(CPUARMState *env, uint64_t address, uint32_t size, uint32_t mmu_idx)
{
    uintptr_t retaddr = GETPC();
    unsigned first = MIN(size, -(address | TARGET_PAGE_MASK));

    probe_write(env, address, first, mmu_idx, retaddr);
    if (first < size) {
        probe_write(env, address + first, size - first, mmu_idx, retaddr);
    }
}
