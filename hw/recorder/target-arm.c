/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the recorder must know of Arm CPUs: registers, delivery of interrupts, tables of user mode,
 * instructions with several stores, and features that cannot be recorded.
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "cpu.h"
#include "cpu-features.h"
#include "cpregs.h"
#include "internals.h"
#include "accel/tcg/cpu-ops.h"

#include "arm-powerctl.h"
#include "exec/cputlb.h"
#include "exec/exec-all.h"
#include "exec/helper-proto.h"
#include "multiprocessing.h"
#include "tcg/insn-start-words.h"

#include "hw/recorder/recorder.h"
#include "hw/recorder/target.h"
#include "hw/recorder/translations.h"
#include "hw/recorder/vcpu.h"
#include "protocol/sphere.h"
#include "recording/registers.h"

const RegisterSet *const recorder_register_set = &arm_register_set;

static uint64_t mix_words(uint64_t digest, const void *words, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(uint64_t); i++) {
        digest = recorder_mix(digest, ((const uint64_t *)words)[i]);
    }
    return digest;
}

/*
 * Return a digest of the state of SVE and SME, or 0 without them.  Their vectors are too long and
 * too many to be logged.
 */
static uint64_t digest_of_vectors(CPUARMState *env)
{
    ARMCPU *arm = env_archcpu(env);
    uint64_t digest = 0;

    if (!cpu_isar_feature(aa64_sve, arm) && !cpu_isar_feature(aa64_sme, arm)) {
        return 0;
    }
    digest = mix_words(digest, env->vfp.zregs, 32 * sizeof(env->vfp.zregs[0]));
    digest = mix_words(digest, env->vfp.pregs, sizeof(env->vfp.pregs));
    digest = mix_words(digest, env->vfp.zcr_el, sizeof(env->vfp.zcr_el));
    digest = mix_words(digest, env->vfp.smcr_el, sizeof(env->vfp.smcr_el));
    digest = recorder_mix(digest, env->svcr);
    digest = recorder_mix(digest, env->cp15.tpidr2_el0);
    if (FIELD_EX64(env->svcr, SVCR, ZA)) {
        digest = mix_words(digest, env->zarray, sizeof(env->zarray));
    }
    return digest;
}

void recorder_registers(CPUState *cpu, Registers *registers)
{
    CPUARMState *env = cpu_env(cpu);

    RECORDER_FILL_REGISTERS(registers, ARM_REGISTERS);
}

/*
 * Called before an access with the rights of user mode, or before such accesses become possible:
 * return to EL0, LDTR, STTR.  Drop translations made with another TTBR0: see recorder_table_base().
 */
void HELPER(recorder_user_access)(CPUARMState *env)
{
    CPUState *cpu = env_cpu(env);

    if (recorder_active() && cpu->recorder->translations.user_tables != env->cp15.ttbr0_el[1]) {
        cpu->recorder->translations.user_tables = env->cp15.ttbr0_el[1];
        if (cpu->neg.tlb.c.dirty & ARMMMUIdxBit_E10_0) {
            recorder_drop_user_mode(cpu, ARMMMUIdxBit_E10_0);
        }
    }
}

/*
 * Return false if user mode may have been entered with a TTBR0 that the recorder did not see, as at
 * the start.
 */
static bool user_tables_are_known(const RecorderVcpu *v)
{
    return v->translations.user_tables != 0 && v->translations.user_tables != UINT64_MAX;
}

/* Trust translations while the vCPU is in user mode: they are those of the current TTBR0. */
bool recorder_may_be_stale(CPUState *cpu, int mmu_idx, vaddr address)
{
    return (mmu_idx | ARM_MMU_IDX_A) == ARMMMUIdx_E10_0 && recorder_is_user_address(address) &&
           !user_tables_are_known(cpu->recorder) && !recorder_in_user_mode(cpu);
}

static const char *fault_name(ARMFaultType type)
{
    switch (type) {
    case ARMFault_Translation:
        return "a translation fault";
    case ARMFault_AccessFlag:
        return "a clear access flag";
    case ARMFault_Permission:
        return "a permission fault";
    case ARMFault_AddressSize:
        return "an address size fault";
    default:
        return "a fault";
    }
}

const char *recorder_walk_untraced(CPUState *cpu, vaddr address, int mmu_idx, MMUAccessType access,
                                   CPUTLBEntryFull *found)
{
    CPUARMState *env = cpu_env(cpu);
    uint64_t ttbr0 = env->cp15.ttbr0_el[1];
    GetPhysAddrResult result = { };
    ARMMMUFaultInfo fault = { };
    bool faults;

    if ((mmu_idx | ARM_MMU_IDX_A) == ARMMMUIdx_E10_0 && user_tables_are_known(cpu->recorder)) {
        env->cp15.ttbr0_el[1] = cpu->recorder->translations.user_tables;
    }
    faults = get_phys_addr_untraced(env, address, access, core_to_arm_mmu_idx(env, mmu_idx),
                                    &result, &fault);
    env->cp15.ttbr0_el[1] = ttbr0;
    result.f.extra.arm.pte_attrs = result.cacheattrs.attrs;
    result.f.extra.arm.shareability = result.cacheattrs.shareability;
    *found = result.f;
    return faults ? fault_name(fault.type) : NULL;
}

int recorder_block_mmu_idx(const TranslationBlock *tb)
{
    CPUARMTBFlags flags = { .flags = tb->flags, .flags2 = tb->cs_base };

    return EX_TBFLAG_ANY(flags, MMUIDX);
}

/* Set the flags of RNDR and RNDRRS: Z if there was no random number, and then the value is 0. */
void recorder_replayed_sysreg(CPUARMState *env, const void *reginfo, uint64_t value)
{
    const ARMCPRegInfo *ri = reginfo;

    if (ri->opc0 == 3 && ri->opc1 == 3 && ri->crn == 2 && ri->crm == 4) {
        env->NF = env->CF = env->VF = 0;
        env->ZF = value != 0;
    }
}

bool recorder_in_user_mode(CPUState *cpu)
{
    return arm_current_el(cpu_env(cpu)) == 0;
}

bool recorder_is_kernel_only(int mmu_idx)
{
    int idx = mmu_idx | ARM_MMU_IDX_A;

    return idx == ARMMMUIdx_E10_1 || idx == ARMMMUIdx_E10_1_PAN;
}

bool recorder_delivers_unlocked(void)
{
    return false;       /* firmware calls are exceptions, and use devices */
}

void recorder_woken(CPUState *cpu)
{
}

unsigned recorder_a20(CPUState *cpu)
{
    g_assert_not_reached();
}

void recorder_set_a20(CPUState *cpu, unsigned on)
{
    g_assert_not_reached();
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

void recorder_forget_past(CPUState *cpu)
{
    hw_watchpoint_update_all(ARM_CPU(cpu));
}

void recorder_get_pending(CPUState *cpu, uint64_t words[RECORDER_PENDING_WORDS])
{
    memset(words, 0, RECORDER_PENDING_WORDS * sizeof(*words));
}

void recorder_set_pending(CPUState *cpu, const uint64_t words[RECORDER_PENDING_WORDS])
{
}

void recorder_before_save(CPUState *cpu)
{
}

/* QEMU saves all registers; what else it may leave out is the outside, or is not used then. */
void recorder_before_load(CPUState *cpu)
{
}

/* TTBR0 translates it. */
bool recorder_is_user_address(vaddr address)
{
    return !extract64(address, 55, 1);
}

bool recorder_is_atomic(CPUState *cpu, vaddr pc)
{
    return true;
}

/* Unwind in the middle of a TB, where the register holds no more than the page. */
vaddr recorder_pc(CPUState *cpu, uintptr_t retaddr)
{
    vaddr pc = cpu->cc->get_pc(cpu);
    uint64_t data[TARGET_INSN_START_WORDS];

    if (!retaddr || !cpu_unwind_state_data(cpu, retaddr, data)) {
        return pc;
    }
    return tcg_cflags_has(cpu, CF_PCREL) ? (pc & TARGET_PAGE_MASK) | data[0] : data[0];
}

/* Do as PSCI does.  The vCPU's thread resets the vCPU when it leaves cpu_exec(). */
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
    if (arm_feature(env, ARM_FEATURE_EL2)) {
        return g_strdup("nested virtualisation (-machine virtualization=off)");
    }
    if (arm_feature(env, ARM_FEATURE_EL3)) {
        return g_strdup("the secure world (-machine secure=off)");
    }
    if (cpu_isar_feature(aa64_mte, arm)) {
        return g_strdup("memory tags (-machine mte=off)");
    }
    return NULL;
}

/* Properties of a model that -cpu can set, and the value that is not mentioned; NULL: any is. */
static const struct { const char *name, *usual; } cpu_properties[] = {
    { "pmu" }, { "cfgend", "false" }, { "vfp", "true" }, { "neon", "true" }, { "lpa2", "true" },
    { "sve" }, { "sme" }, { "sme_fa64" }, { "pauth", "true" }, { "pauth-impdef", "false" },
    { "pauth-qarma3", "false" }, { "pauth-qarma5", "false" },
};

static void describe_property(GString *text, CPUState *cpu, const char *name, const char *usual)
{
    g_autofree char *value = object_property_print(OBJECT(cpu), name, false, NULL);

    if (value && g_strcmp0(value, usual) != 0) {
        g_string_append_printf(text, ",%s=%s", name, g_str_equal(value, "true") ? "on" : "off");
    }
}

/* Name all vector lengths that are supported: no other length is. */
char *recorder_cpu_description(CPUState *cpu)
{
    g_autofree char *model = cpu_model_from_type(object_get_typename(OBJECT(cpu)));
    GString *text = g_string_new(model);

    for (size_t i = 0; i < ARRAY_SIZE(cpu_properties); i++) {
        describe_property(text, cpu, cpu_properties[i].name, cpu_properties[i].usual);
    }
    for (unsigned bits = 128; bits <= 128 * ARM_MAX_VQ; bits += 128) {
        g_autofree char *sve = g_strdup_printf("sve%u", bits);
        g_autofree char *sme = g_strdup_printf("sme%u", bits);

        describe_property(text, cpu, sve, "false");
        describe_property(text, cpu, sme, "false");
    }
    return g_string_free(text, false);
}

/*
 * Obtain permission for all stores of an instruction before the first: see gen_prepare_stores().
 * They lie in several lines.
 */
void HELPER(recorder_stores)(CPUARMState *env, uint64_t address, uint32_t size, uint32_t mmu_idx)
{
    uintptr_t retaddr = GETPC();
    unsigned first = MIN(size, -(address | TARGET_PAGE_MASK));
    void *host = probe_write(env, address, first, mmu_idx, retaddr);

    if (first < size) {
        void *next_host = probe_write(env, address + first, size - first, mmu_idx, retaddr);

        recorder_stores_in_two_pages(env_cpu(env), host, first, next_host, size - first, retaddr);
    }
}

/*
 * Obtain permission for all loads of an instruction before the first: see gen_prepare_loads().
 * They lie in several lines.
 */
void HELPER(recorder_loads)(CPUARMState *env, uint64_t address, uint32_t size, uint32_t mmu_idx)
{
    unsigned first = MIN(size, -(address | TARGET_PAGE_MASK));

    probe_read(env, address, first, mmu_idx, GETPC());
    if (first < size) {
        probe_read(env, address + first, size - first, mmu_idx, GETPC());
    }
}

/*
 * Let the first store request what all of them need.  The stores lie in one line, so
 * HELPER(recorder_stores) was not called.  In a page with copies each store makes a request, and
 * none may be refused after others were made.  What generated code has left here may belong to an
 * earlier instruction.  Then the store requests more than it needs, which does no harm.
 */
void recorder_widen_store(CPUState *cpu, uint64_t *offset, unsigned *size)
{
    CPUARMState *env = cpu_env(cpu);
    unsigned store = *offset & ~TARGET_PAGE_MASK;
    unsigned first = env->recorder_stores.address & ~TARGET_PAGE_MASK;
    unsigned last = first + env->recorder_stores.size - 1;

    if (env->recorder_stores.size && store >= first && store + *size - 1 <= last &&
        first >> SPHERE_LINE_SHIFT == last >> SPHERE_LINE_SHIFT) {
        *offset = *offset - store + first;
        *size = env->recorder_stores.size;
    }
}
