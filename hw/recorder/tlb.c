/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Enlarges TLBs as they fill up, and evicts entries for tests.
 *
 * QEMU enlarges a TLB that was nearly full only when the TLB is flushed.  Here that hardly ever
 * happens: neither a TLBI for all vCPUs nor a new ASID flushes anything, since translations are
 * coherent (translations.c).  So a TLB is enlarged as soon as it is nearly full, and keeps its
 * entries.
 *
 * The size of a TLB decides how often page tables are walked, and nothing that the guest could see.
 * So it may differ in replay.
 *
 * A guest that is neither recorded nor replayed keeps QEMU's policy, unless the accelerator has
 * x-tlb-grow=on.  Then its TLBs grow in the same way, but are flushed as ever: comparisons need a
 * guest that differs from a recorded one in nothing but the recording.
 *
 * All functions run in the vCPU's thread, except those of the property.
 */
#include "qemu/osdep.h"
#include "accel/tcg/internal-common.h"
#include "exec/tb-flush.h"
#include "exec/target_page.h"
#include "exec/tlb-common.h"
#include "hw/core/cpu.h"

#include "hw/recorder/recorder.h"
#include "hw/recorder/tlb.h"
#include "hw/recorder/vcpu.h"
#include "protocol/chaos.h"

/* Entries in use that make QEMU enlarge a TLB at a flush.  QEMU's counter is an upper bound. */
#define FULL_PERCENT 70
/* Entries in use, by an exact count, that make the TLB larger here. */
#define REALLY_FULL_PERCENT 50
/* A flush clears all entries, so a TLB does not grow beyond this. */
#define MOST_ENTRIES (1u << 14)

static bool is_empty(const CPUTLBEntry *entry)
{
    return entry->addr_read == -1 && entry->addr_write == -1 && entry->addr_code == -1;
}

static vaddr page_number(const CPUTLBEntry *entry)
{
    uint64_t address = entry->addr_read != -1 ? entry->addr_read :
                       entry->addr_write != -1 ? entry->addr_write : entry->addr_code;

    return address >> TARGET_PAGE_BITS;
}

/*
 * Return true if the TLB should grow.  QEMU counts an entry again when it is filled again for the
 * same page, so the entries are counted here.  That is rare: unless the TLB grows, many entries
 * must be filled before the next count, since one percentage is well above the other.
 */
static bool is_nearly_full(CPUTLBDesc *desc, const CPUTLBDescFast *fast, size_t n_entries)
{
    if (desc->n_used_entries <= n_entries * FULL_PERCENT / 100) {
        return false;
    }
    desc->n_used_entries = 0;
    for (size_t i = 0; i < n_entries; i++) {
        desc->n_used_entries += !is_empty(&fast->table[i]);
    }
    return desc->n_used_entries > n_entries * REALLY_FULL_PERCENT / 100;
}

/*
 * Move all entries to tables of twice the size.  The index of an entry is the low bits of its page
 * number.  With one more bit no two entries collide.
 */
static void move_entries(const CPUTLBEntry *from, const CPUTLBEntryFull *from_full,
                         CPUTLBEntry *to, CPUTLBEntryFull *to_full, size_t n_entries)
{
    memset(to, -1, 2 * n_entries * sizeof(*to));
    for (size_t i = 0; i < n_entries; i++) {
        if (!is_empty(&from[i])) {
            size_t place = i | (page_number(&from[i]) & n_entries);

            to[place] = from[i];
            to_full[place] = from_full[i];
        }
    }
}

void recorder_grow_tlb_slow(CPUState *cpu, int mmu_idx)
{
    CPUTLBDesc *desc = &cpu->neg.tlb.d[mmu_idx];
    CPUTLBDescFast *fast = &cpu->neg.tlb.f[mmu_idx];
    size_t n_entries = (fast->mask >> CPU_TLB_ENTRY_BITS) + 1;
    CPUTLBEntry *table = fast->table;
    CPUTLBEntryFull *full = desc->fulltlb;

    if (fixed_tlb_bits || n_entries >= MOST_ENTRIES || !is_nearly_full(desc, fast, n_entries)) {
        return;
    }
    /* Other threads search for entries of a page, and set TLB_NOTDIRTY in them. */
    qemu_spin_lock(&cpu->neg.tlb.c.lock);
    fast->table = g_new(CPUTLBEntry, 2 * n_entries);
    desc->fulltlb = g_new(CPUTLBEntryFull, 2 * n_entries);
    fast->mask = (2 * n_entries - 1) << CPU_TLB_ENTRY_BITS;
    move_entries(table, full, fast->table, desc->fulltlb, n_entries);
    qemu_spin_unlock(&cpu->neg.tlb.c.lock);
    g_free(table);
    g_free(full);
    if (recorder_active()) {
        recorder_count(cpu->recorder, RECORDER_COUNT_TLBS_GROWN);
    }
}

/* --- the property ----------------------------------------------------------------- */

bool recorder_grows_tlbs;

static bool get_tlb_grow(Object *accel, Error **errp)
{
    return recorder_grows_tlbs;
}

static void set_tlb_grow(Object *accel, bool value, Error **errp)
{
    recorder_grows_tlbs = value;
}

void recorder_add_tlb_property(ObjectClass *accel)
{
    object_class_property_add_bool(accel, "x-tlb-grow", get_tlb_grow, set_tlb_grow);
    object_class_property_set_description(accel, "x-tlb-grow",
        "Enlarge TLBs as soon as they are nearly full, as while recording");
}

/* --- evictions ------------------------------------------------------------------- */

/* Return a random MMU index that has translations, or 0 if none has. */
static unsigned any_in_use(CPUState *cpu)
{
    unsigned first = chaos_random(&cpu->recorder->random) % NB_MMU_MODES;

    for (unsigned i = 0; i < NB_MMU_MODES; i++) {
        if (cpu->neg.tlb.c.dirty >> (first + i) % NB_MMU_MODES & 1) {
            return (first + i) % NB_MMU_MODES;
        }
    }
    return 0;
}

/* Evict the entry at @at, or the next one that is in use. */
static void evict_one(CPUTLBDescFast *fast, size_t n_entries, size_t at)
{
    for (size_t i = 0; i < n_entries; i++) {
        CPUTLBEntry *entry = &fast->table[(at + i) % n_entries];

        if (!is_empty(entry)) {
            memset(entry, -1, sizeof(*entry));
            return;
        }
    }
}

/*
 * Keep the notes of translations.c: they say which translations the vCPU may have.  Clear the
 * victim TLB as well, since the evicted entry could be found there.
 */
void recorder_evict(CPUState *cpu, bool all)
{
    unsigned mmu_idx = any_in_use(cpu);
    CPUTLBDesc *desc = &cpu->neg.tlb.d[mmu_idx];
    CPUTLBDescFast *fast = &cpu->neg.tlb.f[mmu_idx];
    size_t n_entries = (fast->mask >> CPU_TLB_ENTRY_BITS) + 1;

    /* Other threads search for entries of a page, and set TLB_NOTDIRTY in them. */
    qemu_spin_lock(&cpu->neg.tlb.c.lock);
    memset(desc->vtable, -1, sizeof(desc->vtable));
    if (all) {
        memset(fast->table, -1, n_entries * sizeof(*fast->table));
    } else {
        evict_one(fast, n_entries, chaos_random(&cpu->recorder->random) % n_entries);
    }
    qemu_spin_unlock(&cpu->neg.tlb.c.lock);
    if (all) {
        tcg_flush_jmp_cache(cpu);
    }
}
