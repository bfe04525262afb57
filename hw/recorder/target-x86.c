/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the recorder must know of x86_64 CPUs: registers, delivery of interrupts, the A20 gate, and
 * features that cannot be recorded.
 */
#include "qemu/osdep.h"
#include "cpu.h"
#include "cpu-internal.h"
#include "exec/cputlb.h"
#include "exec/exec-all.h"
#include "exec/helper-proto.h"
#include "exec/translation-block.h"
#include "hw/qdev-properties.h"
#include "qapi/error.h"
#include "qemu/main-loop.h"
#include "qom/object.h"
#include "tcg/helper-tcg.h"
#include "tcg/insn-start-words.h"

#include "hw/recorder/access.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/session.h"
#include "hw/recorder/target.h"
#include "hw/recorder/translations.h"
#include "hw/recorder/vcpu.h"
#include "recording/registers.h"

const RegisterSet *const recorder_register_set = &x86_register_set;

/* --- registers ---------------------------------------------------------------------- */

/* The flags of SSE's exceptions are collected elsewhere until somebody reads MXCSR. */
static uint64_t mxcsr_of(CPUX86State *env)
{
    update_mxcsr_from_sse_status(env);
    return env->mxcsr;
}

/* Return a digest of what is too long, or too seldom used, to be logged. */
static uint64_t digest_of_others(CPUX86State *env)
{
    uint64_t digest = 0;

    for (unsigned i = 0; i < CPU_NB_REGS; i++) {
        for (unsigned j = 2; j < ARRAY_SIZE(env->xmm_regs[i]._q_ZMMReg); j++) {
            digest = recorder_mix(digest, env->xmm_regs[i].ZMM_Q(j));
        }
    }
    for (unsigned i = 0; i < ARRAY_SIZE(env->features); i++) {
        digest = recorder_mix(digest, env->features[i]);        /* what CPUID tells */
    }
    for (unsigned i = 0; i < ARRAY_SIZE(env->mtrr_fixed); i++) {
        digest = recorder_mix(digest, env->mtrr_fixed[i]);
    }
    for (unsigned i = 0; i < ARRAY_SIZE(env->mtrr_var); i++) {
        digest = recorder_mix(digest, env->mtrr_var[i].base);
        digest = recorder_mix(digest, env->mtrr_var[i].mask);
    }
    for (unsigned i = 0; i < ARRAY_SIZE(env->bnd_regs); i++) {
        digest = recorder_mix(digest, env->bnd_regs[i].lb);
        digest = recorder_mix(digest, env->bnd_regs[i].ub);
    }
    digest = recorder_mix(digest, env->bndcs_regs.cfgu);
    digest = recorder_mix(digest, env->bndcs_regs.sts);
    digest = recorder_mix(digest, env->msr_bndcfgs);
    for (unsigned i = 0; i < ARRAY_SIZE(env->mce_banks); i++) {
        digest = recorder_mix(digest, env->mce_banks[i]);
    }
    digest = recorder_mix(digest, env->fpop);
    digest = recorder_mix(digest, env->fpcs);
    digest = recorder_mix(digest, env->fpds);
    digest = recorder_mix(digest, env->fpip);
    digest = recorder_mix(digest, env->fpdp);
    digest = recorder_mix(digest, env->mtrr_deftype);
    digest = recorder_mix(digest, env->mcg_status);
    digest = recorder_mix(digest, env->mcg_ctl);
    return recorder_mix(digest, env->vm_hsave);
}

void recorder_registers(CPUState *cpu, Registers *registers)
{
    CPUX86State *env = cpu_env(cpu);

    RECORDER_FILL_REGISTERS(registers, X86_REGISTERS);
}

/*
 * Compute the condition codes anew from the flags: the vCPU is outside of cpu_exec(), and the flags
 * may have been loaded.
 */
void recorder_forget_past(CPUState *cpu)
{
    CPUX86State *env = cpu_env(cpu);

    CC_SRC = env->eflags & (CC_O | CC_S | CC_Z | CC_A | CC_P | CC_C);
    CC_OP = CC_OP_EFLAGS;
    env->df = env->eflags & DF_MASK ? -1 : 1;
}

void recorder_before_save(CPUState *cpu)
{
    mxcsr_of(cpu_env(cpu));
}

/* These are the subsections of vmstate_x86_cpu that the guest can make QEMU save. */
void recorder_before_load(CPUState *cpu)
{
    CPUX86State *env = cpu_env(cpu);

    if (cpu->watchpoint_hit && cpu->watchpoint_hit->flags & BP_CPU) {
        cpu->watchpoint_hit = NULL;     /* loading DR7 makes the guest's breakpoints anew */
    }
    env->fpop = env->fpcs = env->fpds = 0;
    env->fpip = env->fpdp = 0;
    env->msr_ia32_misc_enable = MSR_IA32_MISC_ENABLE_DEFAULT;
    memset(env->bnd_regs, 0, sizeof(env->bnd_regs));
    env->bndcs_regs = (BNDCSReg) { };
    env->msr_bndcfgs = 0;
    env->pkru = env->pkrs = 0;
}

/* data[0] of an unwound instruction is a linear address, as that which get_pc() returns. */
vaddr recorder_pc(CPUState *cpu, uintptr_t retaddr)
{
    vaddr pc = cpu->cc->get_pc(cpu);
    uint64_t data[TARGET_INSN_START_WORDS];

    if (!retaddr || !cpu_unwind_state_data(cpu, retaddr, data)) {
        return pc;
    }
    return tcg_cflags_has(cpu, CF_PCREL) ? (pc & TARGET_PAGE_MASK) | data[0] : data[0];
}

/* An instruction is atomic if it has a LOCK prefix or is XCHG.  Behind an escape, it is neither. */
bool recorder_is_atomic(CPUState *cpu, vaddr pc)
{
    static const uint8_t prefixes[] = {
        0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf2, 0xf3
    };
    bool is_64_bit = cpu_env(cpu)->hflags & HF_CS64_MASK;
    uint8_t code[16] = { };

    cpu_memory_rw_debug(cpu, pc, code, sizeof(code) - 1, false);    /* zeros behind mapped pages */
    for (const uint8_t *c = code; *c; c++) {
        if (*c == 0xf0 || (*c & 0xfe) == 0x86) {
            return true;
        }
        if (!memchr(prefixes, *c, sizeof(prefixes)) && !(is_64_bit && (*c & 0xf0) == 0x40)) {
            break;
        }
    }
    return false;
}

/* --- modes ----------------------------------------------------------------------------- */

bool recorder_in_user_mode(CPUState *cpu)
{
    return (cpu_env(cpu)->hflags & HF_CPL_MASK) == 3;
}

bool recorder_is_kernel_only(int mmu_idx)
{
    return mmu_idx < MMU_PHYS_IDX && !is_mmu_index_user(mmu_idx);
}

bool recorder_is_user_address(vaddr address)
{
    return !(address >> 63);
}

/* Return where the table page of the root @cr3 is, or NULL if that is not in RAM. */
static const uint64_t *root_of(CPUX86State *env, uint64_t cr3)
{
    void *host;
    int flags = probe_access_full_mmu(env, cr3 & PG_ADDRESS_MASK, 0, MMU_DATA_LOAD, MMU_PHYS_IDX,
                                      &host, NULL);

    return flags & TLB_INVALID_MASK ? NULL : host;
}

/*
 * Read the entries of the new root that the kernel's translations would come from: then they are
 * noted as tables, and coherent.  The old root's have not changed since they were walked, for other
 * vCPUs bring this one to a boundary before they change a word of a table.  Replay may have walked
 * fewer entries, so if one differs, that is a flush at the boundary, which is logged.
 */
bool recorder_new_root(CPUX86State *env, uint64_t cr3, uintptr_t retaddr)
{
    CPUState *cpu = env_cpu(env);
    const uint64_t *old_root, *new_root;
    bool differs = false;

    if (!recorder_active() || !(env->hflags & HF_LMA_MASK) || !(env->cr[0] & CR0_PG_MASK) ||
        env->cr[4] & CR4_LA57_MASK) {
        return false;
    }
    if (((cr3 ^ env->cr[3]) & PG_ADDRESS_MASK) == 0) {
        env->cr[3] = cr3;       /* Linux flushes by that, but translations are coherent */
        return true;
    }
    recorder_walk_for(cpu, retaddr);
    old_root = root_of(env, env->cr[3]);
    new_root = root_of(env, cr3);
    if (!old_root || !new_root) {
        return false;
    }
    for (unsigned slot = 0; slot < 256; slot++) {
        if (cpu->recorder->translations.kernel_slots[slot / 64] >> slot % 64 & 1) {
            unsigned i = 256 + slot;

            recorder_walk(cpu, &new_root[i], (int64_t)((uint64_t)i << 55) >> 16, RECORDER_SLOT,
                          true);
            differs |= new_root[i] != old_root[i];
        }
    }
    env->cr[3] = cr3;
    recorder_table_base(cpu, true);
    recorder_drop_user_mode(cpu, 1 << MMU_USER64_IDX | 1 << MMU_USER32_IDX);
    if (differs) {
        cpu->recorder->translations.flush_due = true;
        recorder_kick(cpu);
    }
    return true;
}

/* All translations are those of the present CR3: a write to CR3 drops the others. */
bool recorder_may_be_stale(CPUState *cpu, int mmu_idx, vaddr address)
{
    return false;
}

/* As x86_mmu_index_pl() computes it from registers. */
int recorder_block_mmu_idx(const TranslationBlock *tb)
{
    int wide = tb->flags & HF_CS64_MASK ? 0 : 1;

    if ((tb->flags & HF_CPL_MASK) == 3) {
        return MMU_USER64_IDX + wide;
    }
    return (tb->flags & HF_SMAP_MASK && !(tb->flags & AC_MASK) ? MMU_KSMAP64_IDX
                                                               : MMU_KNOSMAP64_IDX) + wide;
}

const char *recorder_walk_untraced(CPUState *cpu, vaddr address, int mmu_idx, MMUAccessType access,
                                   CPUTLBEntryFull *found)
{
    *found = (CPUTLBEntryFull) { };
    return x86_walk_untraced(cpu_env(cpu), address, mmu_idx, access, found) ? NULL : "a fault";
}

void recorder_widen_store(CPUState *cpu, uint64_t *offset, unsigned *size)
{
}

/* --- several stores --------------------------------------------------------------------- */

/* Probe for stores to @size bytes within a page.  Return false if there is no RAM to write to. */
static bool probe_stores(CPUX86State *env, vaddr address, unsigned size, int mmu_idx,
                         uintptr_t retaddr, RecorderRange *range)
{
    int flags, error_code = env->error_code;    /* a probe that fails changes it */
    void *host;

    flags = probe_access_flags(env, address, size, MMU_DATA_STORE, mmu_idx, true, &host, retaddr);
    env->error_code = error_code;
    *range = (RecorderRange) { host, size };
    return !(flags & TLB_INVALID_MASK) && host;
}

/*
 * Probe in the order of the stores, and not behind one that faults: a probe sets flags of the page.
 */
void recorder_prepare(CPUX86State *env, vaddr address, unsigned size, bool downwards, int mmu_idx,
                      uintptr_t retaddr)
{
    CPUState *cpu = env_cpu(env);
    unsigned low = MIN(size, -(address | TARGET_PAGE_MASK));
    vaddr at[2] = { address, address + low };
    unsigned sizes[2] = { low, size - low };
    RecorderRange ranges[2];
    unsigned n = 0;

    if (!recorder_recording() || cpu->recorder->alone) {
        return;
    }
    for (unsigned i = 0; i < 2; i++) {
        unsigned part = downwards ? 1 - i : i;

        if (!sizes[part]) {
            continue;
        }
        if (!probe_stores(env, at[part], sizes[part], mmu_idx, retaddr, &ranges[n])) {
            break;
        }
        n++;
    }
    recorder_prepare_stores(cpu, ranges, n, true, retaddr);
}

void HELPER(recorder_prepare)(CPUX86State *env, target_ulong address, uint32_t size,
                              uint32_t mmu_idx)
{
    recorder_prepare(env, address, size, false, mmu_idx, GETPC());
}

/* Run the instruction exclusively if it is about to read a device: it writes memory then. */
void HELPER(recorder_no_device)(CPUX86State *env, target_ulong address, uint32_t size,
                                uint32_t mmu_idx)
{
    int flags, error_code = env->error_code;
    void *host;

    flags = probe_access_flags(env, address, MIN(size, -(address | TARGET_PAGE_MASK)),
                               MMU_DATA_LOAD, mmu_idx, true, &host, GETPC());
    env->error_code = error_code;
    if (!(flags & TLB_INVALID_MASK) && flags & TLB_MMIO) {
        cpu_loop_exit_atomic(env_cpu(env), GETPC());
    }
}

/* --- interrupts --------------------------------------------------------------------------- */

bool recorder_delivers_unlocked(void)
{
    return true;        /* do_interrupt_all() touches memory and registers, and no device */
}

void recorder_deliver(CPUState *cpu, int vector, int kind)
{
    CPUX86State *env = cpu_env(cpu);

    switch (kind) {
    case RECORDER_X86_NMI:
        env->hflags2 |= HF2_NMI_MASK;
        do_interrupt_x86_hardirq(env, EXCP02_NMI, 1);
        break;
    case RECORDER_X86_MCE:
        do_interrupt_x86_hardirq(env, EXCP12_MCHK, 0);
        break;
    case RECORDER_X86_INIT:
        bql_lock();
        do_cpu_init(env_archcpu(env));
        bql_unlock();
        recorder_forget_past(cpu);
        cpu->halted = 0;        /* the next event is the wake-up */
        break;
    case RECORDER_X86_SIPI:
        cpu_x86_load_seg_cache_sipi(env_archcpu(env), vector);
        break;
    default:
        do_interrupt_x86_hardirq(env, vector, 1);
        break;
    }
}

void recorder_get_pending(CPUState *cpu, uint64_t words[RECORDER_PENDING_WORDS])
{
    const CPUX86State *env = cpu_env(cpu);

    words[0] = (uint32_t)env->error_code;
    words[1] = env->exception_is_int;
    words[2] = env->exception_next_eip;
    words[3] = (uint32_t)env->old_exception;
}

void recorder_set_pending(CPUState *cpu, const uint64_t words[RECORDER_PENDING_WORDS])
{
    CPUX86State *env = cpu_env(cpu);

    env->error_code = words[0];
    env->exception_is_int = words[1];
    env->exception_next_eip = words[2];
    env->old_exception = (int32_t)words[3];
}

/* A halted vCPU that traps each instruction traps HLT when it goes on: x86_cpu_exec_halt(). */
void recorder_woken(CPUState *cpu)
{
    x86_complete_hlt(cpu);
}

void recorder_turn_on(CPUState *cpu, uint64_t entry, uint64_t context, int level)
{
    g_assert_not_reached();     /* only firmware of Arm does that */
}

/* --- the A20 gate -------------------------------------------------------------------------- */

unsigned recorder_a20(CPUState *cpu)
{
    return cpu_env(cpu)->a20_mask >> 20 & 1;
}

/*
 * Do what x86_cpu_set_a20() does, but for the interrupt request that ends the block, at which no
 * replay looks, and which needs the BQL.  The block ends here: recording has logged a DROP for the
 * flush.
 */
void recorder_set_a20(CPUState *cpu, unsigned on)
{
    cpu_env(cpu)->a20_mask = ~(1 << 20) | on << 20;
    tlb_flush(cpu);
}

void recorder_cannot_do(CPUState *cpu, const char *what, uintptr_t retaddr)
{
    if (recorder_recording()) {
        recorder_fail("%s", what);
        cpu_restore_state(cpu, retaddr);
        cpu_loop_exit_noexc(cpu);       /* to a boundary, where the vCPU waits for the end */
    }
}

/* --- the CPU model ---------------------------------------------------------------------------- */

char *recorder_cpu_objection(CPUState *cpu)
{
    CPUX86State *env = cpu_env(cpu);

    if (!(env->features[FEAT_8000_0001_EDX] & CPUID_EXT2_LM)) {
        return g_strdup("a 32-bit CPU model");
    }
    if (env->hflags & HF_SVME_MASK) {
        return g_strdup("nested virtualisation (SVM) in use");
    }
    if (env->hflags & HF_SMM_MASK) {
        return g_strdup("a vCPU in system management mode");
    }
    return NULL;
}

/* Append the features in which @env and @usual differ, as -cpu takes them. */
static void describe_features(GString *text, const CPUX86State *env, const CPUX86State *usual)
{
    for (FeatureWord word = 0; word < FEATURE_WORDS; word++) {
        uint64_t differs = env->features[word] ^ usual->features[word];

        for (unsigned bit = 0; bit < 64; bit++) {
            const char *name = feature_word_info[word].feat_names[bit];

            if (name && differs >> bit & 1) {
                g_string_append_printf(text, ",%s=%s", name,
                                       env->features[word] >> bit & 1 ? "on" : "off");
            }
        }
    }
}

/*
 * Append the properties that the user gave.  QEMU sets them for all CPUs of the type, also for a
 * new one, so no comparison with that could find them.
 */
static void describe_options(GString *text, Object *cpu)
{
    ObjectPropertyIterator iterator;
    ObjectProperty *property;

    object_property_iter_init(&iterator, cpu);
    while ((property = object_property_iter_next(&iterator))) {
        const GlobalProperty *given = qdev_find_global_prop(cpu, property->name);

        if (given) {
            g_auto(GStrv) parts = g_strsplit(given->value, ",", -1);
            g_autofree char *value = g_strjoinv(",,", parts);

            g_string_append_printf(text, ",%s=%s", property->name, value);
        }
    }
}

static void describe_number(GString *text, CPUState *cpu, const char *name)
{
    g_string_append_printf(text, ",%s=%" PRIu64, name,
                           object_property_get_uint(OBJECT(cpu), name, &error_abort));
}

/*
 * Name what the user gave, all features that differ from those of a new CPU, and the numbers that
 * features imply: then CPUID tells the same, whatever this QEMU would have chosen.
 */
char *recorder_cpu_description(CPUState *cpu)
{
    static const char *const numbers[] = {
        "level", "xlevel", "xlevel2", "phys-bits", "family", "model", "stepping",
    };
    const char *type = object_get_typename(OBJECT(cpu));
    g_autofree char *name = cpu_model_from_type(type);
    GString *text = g_string_new(name);
    Object *fresh = object_new(type);

    describe_options(text, OBJECT(cpu));
    describe_features(text, cpu_env(cpu), &X86_CPU(fresh)->env);
    object_unref(fresh);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        describe_number(text, cpu, numbers[i]);
    }
    return g_string_free(text, false);
}
