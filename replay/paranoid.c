/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See paranoid.h.  `reprise replay --paranoid`.
 *
 * The invariant that is checked, for each vCPU at a boundary, after all events at its position are
 * applied:
 *
 *   - A translation in the vCPU's TLB (all mmu indices, victim TLB included) has the physical page
 *     and the attributes that a page walk finds now, and permits no access that the walk does not.
 *     It may permit less: then the access walks.  The access flag is set in memory, and for a
 *     writable translation the dirty state, too; otherwise an access could skip the walk that must
 *     set them (FEAT_HAFDBS).
 *   - A store to a page from which the vCPU has read page tables takes the slow path.  Otherwise
 *     the store would not drop the translations that were made from the page.
 *   - A TB in the vCPU's jump cache, which is found without a walk, lies in the physical pages that
 *     a walk finds now, and was made from the bytes that are there now.
 *
 * Exception: translations for user mode belong to the tables with which user mode ran last, which
 * need not be those of TTBR0 (see recorder_table_base()).  They are compared with those tables.
 *
 * A check does not change what is replayed.  The walk is a debugger's: it sets no flag, fills no
 * TLB, and is not recorded as one of the vCPU's (recorder_walk()).  Nothing is logged.  The check
 * waits for no step of another vCPU.
 *
 * Other vCPUs run meanwhile.  Why they do not disturb a check:
 *
 * Translations.  A table word does not change while this vCPU has a translation that was made from
 * it.  The recorded writer came after the boundary at which this vCPU dropped the translation.  So
 * in replay the writer waits until this vCPU has published that position.  It is the position of a
 * DROP, or of a step that drops the translation itself.  A vCPU that waits for an arc publishes its
 * position before it applies the DROPs there; therefore no check is made before they are applied.
 * By induction from the table base, a fresh walk reads the words that the translation was made
 * from, and they do not change during the walk.  A word that does change is an error to be found.
 *
 * Code.  A TB that this vCPU no longer uses may stay in its jump cache until the writer of the code
 * invalidates the TB.  A vCPU does so before its store, DMA after its write.  So a TB whose bytes
 * differ may be about to become invalid, and the check waits a while for that.
 */
#include "qemu/osdep.h"
#include "accel/tcg/tb-jmp-cache.h"
#include "exec/cpu-all.h"
#include "exec/exec-all.h"
#include "exec/page-protection.h"
#include "exec/tb-flush.h"
#include "exec/tlb-common.h"
#include "exec/translation-block.h"
#include "hw/core/cpu.h"
#include "qemu/lockable.h"

#include "hw/recorder/access.h"
#include "hw/recorder/memory-map.h"
#include "hw/recorder/target.h"
#include "hw/recorder/vcpu.h"
#include "recording/position.h"
#include "replay/paranoid.h"
#include "replay/player-internal.h"

#define PAGE 4096u
#define PAGE_OF(address) ((address) & -(uint64_t)PAGE)

/* How long a check waits for a TB whose bytes differ to become invalid. */
#define PATIENCE_MS 1000

/* For tests: an environment variable that injects a fault, so that a check must fail. */
#define FAULT_VARIABLE "REPRISE_PARANOID_FAULT"

/* The guest's bytes that a TB was made from. */
typedef struct CodeCopy {
    unsigned size;
    uint8_t bytes[];
} CodeCopy;

bool recorder_paranoid;

static struct {
    uint64_t interval;
    const char *fault;          /* the value of FAULT_VARIABLE, or NULL */
    QemuMutex lock;             /* of @copies */
    GHashTable *copies;         /* TranslationBlock -> CodeCopy */
    ParanoidCounts counts;      /* atomic */
} paranoid;

/* Return the guest-physical address of main memory's @offset, or all ones. */
static uint64_t physical(uint64_t offset)
{
    uint64_t address;

    return memory_map_address(offset, &address) ? address : UINT64_MAX;
}

/* --- translations -------------------------------------------------------------- */

/* Return the accesses that @entry permits: PAGE_READ, PAGE_WRITE, PAGE_EXEC. */
static int allowed(const CPUTLBEntry *entry)
{
    int prot = 0;

    for (int access = MMU_DATA_LOAD; access <= MMU_INST_FETCH; access++) {
        uintptr_t address = qatomic_read(&entry->addr_idx[access]);

        /* An empty entry has this bit.  Another entry with this bit is refilled at each access. */
        if (!(address & TLB_INVALID_MASK)) {
            prot |= 1 << access;
        }
    }
    return prot;
}

/* Return the translation @full, which permits @prot, in words.  The caller frees the text. */
static char *describe(const CPUTLBEntryFull *full, int prot)
{
    return g_strdup_printf("physical page 0x%" PRIx64 " %c%c%c of 2^%u bytes, memory type 0x%x, "
                           "shareability %u, space %u%s%s%s", (uint64_t)PAGE_OF(full->phys_addr),
                           prot & PAGE_READ ? 'r' : '-', prot & PAGE_WRITE ? 'w' : '-',
                           prot & PAGE_EXEC ? 'x' : '-', full->lg_page_size,
                           full->extra.arm.pte_attrs, full->extra.arm.shareability,
                           full->attrs.space, full->attrs.user ? ", user" : "",
                           full->extra.arm.guarded ? ", guarded" : "",
                           full->tlb_fill_flags ? ", aligned only" : "");
}

/* Return true if @seen, which permits @prot, equals @fresh, or permits less. */
static bool is_same(const CPUTLBEntryFull *seen, int prot, const CPUTLBEntryFull *fresh)
{
    return PAGE_OF(seen->phys_addr) == PAGE_OF(fresh->phys_addr) &&
           (prot & ~fresh->prot) == 0 &&
           seen->lg_page_size == fresh->lg_page_size &&
           seen->tlb_fill_flags == fresh->tlb_fill_flags &&
           seen->attrs.space == fresh->attrs.space &&
           seen->attrs.secure == fresh->attrs.secure &&
           seen->attrs.user == fresh->attrs.user &&
           seen->extra.arm.pte_attrs == fresh->extra.arm.pte_attrs &&
           seen->extra.arm.shareability == fresh->extra.arm.shareability &&
           seen->extra.arm.guarded == fresh->extra.arm.guarded;
}

/* Return true if @entry's host address is that of the physical page, where that is main memory. */
static bool leads_there(const CPUTLBEntry *entry, const CPUTLBEntryFull *full, vaddr page)
{
    uint64_t offset;

    return !memory_map_offset(PAGE_OF(full->phys_addr), &offset) ||
           (uint8_t *)(entry->addend + page) == recorder_ram.host + offset;
}

/* Return true if stores through @entry take the slow path, or go to no page of tables. */
static bool shows_stores(CPUState *cpu, const CPUTLBEntry *entry, const CPUTLBEntryFull *full)
{
    uintptr_t address = qatomic_read(&entry->addr_write);
    uint64_t offset;

    return address & (TLB_INVALID_MASK | TLB_NOTDIRTY) ||
           !memory_map_offset(PAGE_OF(full->phys_addr), &offset) ||
           !recorder_is_table_slow(cpu, recorder_ram.start + offset);
}

static void report_translation(CPUState *cpu, int mmu_idx, vaddr page, const char *expected,
                               const CPUTLBEntryFull *full, int prot)
{
    g_autofree char *seen = describe(full, prot);

    player_diverged(cpu, recorder_position(cpu), "the translation of 0x%" VADDR_PRIx
                    " (mmu index %d) is not coherent: expected %s, seen %s",
                    page, mmu_idx, expected, seen);
}

/*
 * Return what a walk finds instead of @full, in words, which the caller frees; NULL: the same.
 * While the guest's MMU is off, the memory type depends on the kind of access.  So @full is correct
 * if it equals the walk for one of the accesses that @prot permits.
 */
static char *find_difference(CPUState *cpu, int mmu_idx, vaddr page,
                             const CPUTLBEntryFull *full, int prot)
{
    char *difference = NULL;

    for (int access = MMU_DATA_LOAD; access <= MMU_INST_FETCH; access++) {
        CPUTLBEntryFull fresh;
        const char *fault;

        if (!(prot & 1 << access)) {
            continue;
        }
        fault = recorder_walk_untraced(cpu, page, mmu_idx, access, &fresh);
        if (!fault && is_same(full, prot, &fresh)) {
            g_free(difference);
            return NULL;
        }
        if (!difference) {
            difference = fault ? g_strdup(fault) : describe(&fresh, fresh.prot);
        }
    }
    return difference;
}

/*
 * Compare a translation with memory, and report a divergence.  Return false if there is nothing to
 * compare: @entry permits no access, or its tables are not known (recorder_may_be_stale()).
 */
static bool check_translation(CPUState *cpu, int mmu_idx, const CPUTLBEntry *entry,
                              const CPUTLBEntryFull *full)
{
    g_autofree char *difference = NULL;
    int prot = allowed(entry);
    vaddr page;

    if (!prot) {
        return false;
    }
    page = PAGE_OF((uint64_t)qatomic_read(&entry->addr_idx[ctz32(prot)]));
    if (recorder_may_be_stale(cpu, mmu_idx, page)) {
        return false;
    }
    difference = find_difference(cpu, mmu_idx, page, full, prot);
    if (difference) {
        report_translation(cpu, mmu_idx, page, difference, full, prot);
    } else if (!leads_there(entry, full, page)) {
        report_translation(cpu, mmu_idx, page, "that this page is accessed", full, prot);
    } else if (!shows_stores(cpu, entry, full)) {
        report_translation(cpu, mmu_idx, page, "stores to this table to be seen", full, prot);
    }
    return true;
}

/* Compare all translations of @mmu_idx.  Return how many were compared. */
static uint64_t check_tlb(CPUState *cpu, int mmu_idx)
{
    CPUTLBDesc *desc = &cpu->neg.tlb.d[mmu_idx];
    const CPUTLBDescFast *fast = &cpu->neg.tlb.f[mmu_idx];
    size_t n_entries = (fast->mask >> CPU_TLB_ENTRY_BITS) + 1;
    uint64_t n = 0;

    for (size_t i = 0; i < n_entries && !cpu->recorder->finished; i++) {
        n += check_translation(cpu, mmu_idx, &fast->table[i], &desc->fulltlb[i]);
    }
    for (size_t i = 0; i < CPU_VTLB_SIZE && !cpu->recorder->finished; i++) {
        n += check_translation(cpu, mmu_idx, &desc->vtable[i], &desc->vfulltlb[i]);
    }
    return n;
}

/* --- blocks of code ------------------------------------------------------------ */

/* Return where byte @i of the code of @tb lies in main memory; is_in_main_memory() holds. */
static const uint8_t *byte_of_code(const TranslationBlock *tb, unsigned i)
{
    unsigned in_first_page = PAGE - tb_page_addr0(tb) % PAGE;
    ram_addr_t address = i < in_first_page ? tb_page_addr0(tb) + i
                                           : tb_page_addr1(tb) + (i - in_first_page);

    return recorder_ram.host + (address - recorder_ram.start);
}

static bool is_in_main_memory(const TranslationBlock *tb)
{
    return tb_page_addr0(tb) - recorder_ram.start < recorder_ram.size &&
           (tb_page_addr1(tb) == -1 || tb_page_addr1(tb) - recorder_ram.start < recorder_ram.size);
}

/*
 * Copy the bytes that @tb was made from.  Called by the vCPU thread that made @tb, with its pages
 * locked, before any vCPU can find @tb.  The bytes are still those that the translator has read: no
 * stream changes code while a vCPU may run it.  An old copy is replaced: an earlier TB, which was
 * discarded, may have had the same address.
 */
void recorder_block_made_slow(const TranslationBlock *tb)
{
    CodeCopy *copy;

    if (!is_in_main_memory(tb)) {
        return;
    }
    copy = g_malloc(sizeof(*copy) + tb->size);
    copy->size = tb->size;
    for (unsigned i = 0; i < tb->size; i++) {
        copy->bytes[i] = *byte_of_code(tb, i);
    }
    QEMU_LOCK_GUARD(&paranoid.lock);
    g_hash_table_replace(paranoid.copies, (gpointer)tb, copy);
}

/*
 * Return the copy of @tb's bytes, or NULL.  The copy stays valid while this vCPU runs: the address
 * of a TB in a jump cache is reused only after tb_flush(), which stops all vCPUs.
 */
static CodeCopy *find_copy(const TranslationBlock *tb)
{
    QEMU_LOCK_GUARD(&paranoid.lock);
    return g_hash_table_lookup(paranoid.copies, tb);
}

static bool is_valid(const TranslationBlock *tb)
{
    return !(tb_cflags(tb) & CF_INVALID);
}

/* Return true if a writer invalidates @tb within PATIENCE_MS. */
static bool becomes_invalid(const TranslationBlock *tb)
{
    for (unsigned ms = 0; is_valid(tb) && ms < PATIENCE_MS; ms++) {
        g_usleep(1000);
    }
    return !is_valid(tb);
}

/* Report a divergence if @tb, which stays valid, was made from other bytes than are there now. */
static void check_bytes(CPUState *cpu, vaddr pc, const TranslationBlock *tb, const CodeCopy *copy)
{
    for (unsigned i = 0; i < copy->size; i++) {
        const uint8_t *byte = byte_of_code(tb, i);
        uint8_t now = qatomic_read(byte);

        if (now != copy->bytes[i]) {
            if (!becomes_invalid(tb)) {
                player_diverged(cpu, recorder_position(cpu), "the block of code at 0x%" VADDR_PRIx
                                " is not coherent: its byte %u, at physical address 0x%" PRIx64
                                ": expected 0x%02x, seen 0x%02x", pc, i,
                                physical(byte - recorder_ram.host), now, copy->bytes[i]);
            }
            return;
        }
    }
}

/* The last walk.  TBs of one page are neighbours in the jump cache, and share a walk. */
typedef struct WalkedPage {
    vaddr page;
    int mmu_idx;                /* -1: no walk yet */
    const char *fault;          /* or NULL */
    ram_addr_t address;         /* what the walk has found */
} WalkedPage;

/* Walk for an instruction fetch from @page, unless @walked is that walk already. */
static void walk_code(CPUState *cpu, WalkedPage *walked, vaddr page, int mmu_idx)
{
    CPUTLBEntryFull fresh;
    uint64_t offset;

    if (walked->page == page && walked->mmu_idx == mmu_idx) {
        return;
    }
    walked->page = page;
    walked->mmu_idx = mmu_idx;
    walked->fault = recorder_walk_untraced(cpu, page, mmu_idx, MMU_INST_FETCH, &fresh);
    walked->address = !walked->fault && memory_map_offset(PAGE_OF(fresh.phys_addr), &offset) ?
                      recorder_ram.start + offset : RAM_ADDR_INVALID;
}

/*
 * Report a divergence if @page, the first or second one of the TB at @pc, is no longer mapped to
 * @address, as it was when the TB was made.
 */
static void check_mapping(CPUState *cpu, WalkedPage *walked, vaddr page, ram_addr_t address,
                          vaddr pc, int mmu_idx)
{
    g_autofree char *expected = NULL;

    walk_code(cpu, walked, page, mmu_idx);
    if (!walked->fault && walked->address == PAGE_OF(address)) {
        return;
    }
    expected = walked->fault ? g_strdup(walked->fault)
                             : g_strdup_printf("physical page 0x%" PRIx64,
                                               physical(walked->address - recorder_ram.start));
    player_diverged(cpu, recorder_position(cpu), "the block of code at 0x%" VADDR_PRIx
                    " (mmu index %d) is not coherent: for 0x%" VADDR_PRIx
                    " expected %s, seen physical page 0x%" PRIx64, pc, mmu_idx, page, expected,
                    physical(PAGE_OF(address) - recorder_ram.start));
}

/* Compare @tb with memory, and report a divergence.  Return false if it cannot be compared. */
static bool check_block(CPUState *cpu, vaddr pc, const TranslationBlock *tb, WalkedPage *walked)
{
    int mmu_idx = recorder_block_mmu_idx(tb);
    const CodeCopy *copy = find_copy(tb);

    /* Only code in main memory is compared; other TBs have no copy. */
    if (!copy || !is_in_main_memory(tb) || recorder_may_be_stale(cpu, mmu_idx, pc)) {
        return false;
    }
    check_mapping(cpu, walked, PAGE_OF(pc), tb_page_addr0(tb), pc, mmu_idx);
    if (tb_page_addr1(tb) != -1) {
        check_mapping(cpu, walked, PAGE_OF(pc) + PAGE, tb_page_addr1(tb), pc, mmu_idx);
    }
    check_bytes(cpu, pc, tb, copy);
    return true;
}

/* Compare all TBs in @cpu's jump cache.  Return how many were compared. */
static uint64_t check_blocks(CPUState *cpu)
{
    CPUJumpCache *cache = cpu->tb_jmp_cache;
    WalkedPage walked = { .mmu_idx = -1 };
    uint64_t n = 0;

    for (unsigned i = 0; i < TB_JMP_CACHE_SIZE && !cpu->recorder->finished; i++) {
        const TranslationBlock *tb = qatomic_read(&cache->array[i].tb);

        if (tb && is_valid(tb)) {
            n += check_block(cpu, cache->array[i].pc, tb, &walked);
        }
    }
    return n;
}

/* --- faults, for tests --------------------------------------------------------- */

static bool has_fault(const char *name)
{
    return g_strcmp0(paranoid.fault, name) == 0;
}

bool paranoid_ignores_drops(void)
{
    return unlikely(recorder_paranoid) && has_fault("drops");
}

/* Make all translations of @mmu_idx wrong. */
static void spoil_translations(CPUState *cpu, int mmu_idx)
{
    const CPUTLBDescFast *fast = &cpu->neg.tlb.f[mmu_idx];

    for (size_t i = 0; i <= fast->mask >> CPU_TLB_ENTRY_BITS; i++) {
        cpu->neg.tlb.d[mmu_idx].fulltlb[i].phys_addr ^= allowed(&fast->table[i]) ? PAGE : 0;
    }
}

/* Make the copy of one TB's bytes wrong. */
static void spoil_a_block(CPUState *cpu)
{
    for (unsigned i = 0; i < TB_JMP_CACHE_SIZE; i++) {
        const TranslationBlock *tb = qatomic_read(&cpu->tb_jmp_cache->array[i].tb);
        CodeCopy *copy = tb ? find_copy(tb) : NULL;

        if (copy) {
            copy->bytes[copy->size - 1] ^= 1;
            return;
        }
    }
}

/* --- checks -------------------------------------------------------------------- */

void paranoid_check_slow(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;
    Position now = recorder_position(cpu);
    uint64_t n = 0;

    if (now < v->replay->check_due) {
        return;
    }
    v->replay->check_due = now + paranoid.interval;
    for (unsigned dirty = cpu->neg.tlb.c.dirty; dirty; dirty &= dirty - 1) {
        if (has_fault("translation")) {
            spoil_translations(cpu, ctz32(dirty));
        }
        n += check_tlb(cpu, ctz32(dirty));
    }
    if (has_fault("block")) {
        spoil_a_block(cpu);
    }
    qatomic_add(&paranoid.counts.translations, n);
    qatomic_add(&paranoid.counts.blocks, check_blocks(cpu));
    qatomic_inc(&paranoid.counts.checks);
}

/* --- start and end ------------------------------------------------------------- */

void paranoid_start(uint64_t interval)
{
    static bool once;

    if (!once) {
        once = true;
        qemu_mutex_init(&paranoid.lock);
    }
    paranoid.interval = interval;
    paranoid.fault = g_getenv(FAULT_VARIABLE);
    paranoid.copies = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    paranoid.counts = (ParanoidCounts) { 0 };
    recorder_paranoid = true;
    tb_flush(first_cpu);        /* TBs of an earlier replay have no copies */
}

bool paranoid_end(ParanoidCounts *counts)
{
    bool was_on = recorder_paranoid;

    recorder_paranoid = false;
    g_clear_pointer(&paranoid.copies, g_hash_table_unref);
    *counts = paranoid.counts;
    return was_on;
}
