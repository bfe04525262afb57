/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Keeps translations and code coherent with the memory that they are copies of, recording and
 * replaying.  When they are made and dropped depends on the sizes of caches, on the clock and on
 * chance.  If they are coherent, their timing cannot matter, and the log need not contain it.
 *
 * Translations.  A page from which a walk has read is a table page until the vCPU drops all its
 * translations.  Stores to table pages take the slow path.  After the vCPU has dropped its
 * translations so does the first store, since most pages soon are table pages again.  A store that
 * may change a word which was not zero (absence is never cached) drops what was made from the word.
 * If the word is known to translate one page, that is the translation of this page, before the
 * store.  Otherwise it is all translations, between this step and the next; then the store is the
 * last instruction of its TB.  Tables that the guest frees were unlinked from another table before,
 * so they do not stay table pages for long.
 *
 * Flags.  A walk may set the access flag or the dirty state of a page (FEAT_HAFDBS).  A translation
 * exists only of a word that has them set already.  So the first access of its kind always walks,
 * whatever is in the TLB, and replay sets the flag in the same instruction.  This is not enough for
 * instruction fetches: recording may look up the next TB and then deliver an interrupt first.  So
 * flags that fetches set are events of the log.  With several vCPUs all flags are events, and each
 * is a step of its own: an instruction may be abandoned after its walk, and another vCPU see the
 * flag (access.c).
 *
 * Code.  QEMU invalidates TBs whose code is written, but the TB that writes runs on to its end.
 * Replay cuts TBs at other places.  So a store to the page that is being executed, or to a table
 * word that translates it, is the last instruction of its TB.
 *
 * Concurrency.  Each vCPU has its own translations and its own notes of their tables, which belong
 * to its thread.  Stores of other processors arrive as drops: from the sphere while recording
 * (access.c), from the log while replaying.
 *
 * History.  Which tables a vCPU has walked depends on its past.  A replay that begins at a
 * checkpoint has walked fewer tables.  So has a replay whose recording looked up a TB and then took
 * an interrupt.  Hence replay cannot tell by itself which tables were in use, nor that there were
 * too many.  The invariant is: replay never has a translation that recording's notes do not cover.
 * Recording forgets its notes, and leaves the sphere's sets of holders, in two cases only.  In the
 * first, an instruction flushes everything by what it does, and so it does in replay.  In the
 * second, the vCPU flushes everything at a boundary, and logs a DROP of all there.
 */
#include "qemu/osdep.h"
#include "qemu/bitmap.h"
#include "accel/tcg/internal-common.h"
#include "accel/tcg/tb-jmp-cache.h"
#include "exec/cpu-common.h"
#include "exec/cputlb.h"
#include "exec/exec-all.h"
#include "exec/ram_addr.h"
#include "exec/translation-block.h"
#include "hw/boards.h"
#include "hw/core/cpu.h"
#include "tcg/tcg.h"

#include "base/large-table.h"
#include "hw/recorder/access.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/session.h"
#include "hw/recorder/target.h"
#include "hw/recorder/translations.h"
#include "hw/recorder/vcpu.h"
#include "protocol/chaos.h"
#include "protocol/sphere.h"
#include "recording/log-writer.h"

#define PAGE 4096u

/* A table page: its first word translates @first, the next one @first + @span. */
typedef struct Table {
    vaddr first;
    uint64_t span;              /* 0: not a table page */
} Table;

/* The page was used for several addresses, or in an unknown way. */
#define SPAN_UNKNOWN UINT64_MAX

/* Notes on the tables from which the vCPU's translations were made. */
typedef struct RecorderTranslations {
    GArray *pages;              /* numbers of the pages with a span */
    Table *table;               /* one entry for each page of main RAM */
    /*
     * A bit for each page whose stores take the slow path: a table page, or recently one.  Every
     * TLB miss reads it, so it is small.
     */
    unsigned long *watched;
    /* A bit for each entry of the jump cache that may be a block at a user address. */
    DECLARE_BITMAP(user_blocks, TB_JMP_CACHE_SIZE);
} RecorderTranslations;

RecorderRam recorder_ram;

void recorder_translations_start(void)
{
    MemoryRegion *ram = MACHINE(qdev_get_machine())->ram;

    recorder_ram.host = memory_region_get_ram_ptr(ram);
    recorder_ram.start = memory_region_get_ram_addr(ram);
    recorder_ram.size = memory_region_size(ram);
}

static size_t table_size(void)
{
    return recorder_ram.size / PAGE * sizeof(Table);
}

RecorderTranslations *recorder_translations_new(void)
{
    RecorderTranslations *tables = g_new(RecorderTranslations, 1);

    tables->pages = g_array_new(false, false, sizeof(uint32_t));
    tables->table = large_table_new(table_size());
    tables->watched = bitmap_new(recorder_ram.size / PAGE);
    bitmap_fill(tables->user_blocks, TB_JMP_CACHE_SIZE);
    return tables;
}

void recorder_translations_free(RecorderTranslations *tables)
{
    if (tables) {
        large_table_free(tables->table, table_size());
        g_array_unref(tables->pages);
        g_free(tables->watched);
        g_free(tables);
    }
}

/* Note that the kernel accesses the user page @page: TTBR0 decides what it finds there. */
static void note_low_page(RecorderVcpu *v, vaddr page)
{
    if (v->translations.n_low_pages && v->translations.n_low_pages <= chaos.low_pages &&
        v->translations.low_page[v->translations.n_low_pages - 1] == page) {
        return;                 /* a walk calls this once for each level */
    }
    if (v->translations.n_low_pages < chaos.low_pages) {
        v->translations.low_page[v->translations.n_low_pages] = page;
    }
    v->translations.n_low_pages++;
}

void recorder_walk_slow(CPUState *cpu, const void *host, vaddr address, uint64_t span,
                        bool privileged)
{
    RecorderTranslations *tables = cpu->recorder->translations.made;
    uint64_t offset;
    uint32_t page;
    vaddr first;
    Table *table;

    if (privileged && recorder_is_user_address(address)) {
        note_low_page(cpu->recorder, address & -(vaddr)PAGE);
    }
    if (!recorder_ram_offset(host, &offset)) {
        recorder_fail("the guest keeps page tables outside of its main memory");
        return;
    }
    if (span == RECORDER_SLOT && !recorder_is_user_address(address)) {
        unsigned slot = address / RECORDER_SLOT % 256;

        cpu->recorder->translations.kernel_slots[slot / 64] |= UINT64_C(1) << slot % 64;
    }
    page = offset / PAGE;
    first = span == SPAN_UNKNOWN ? 0 : (address & -span) - offset % PAGE / 8 * span;
    table = &tables->table[page];
    if (recorder_recording()) {
        recorder_table_access(cpu, offset, table->span != 0);
    }
    if (table->span == 0) {
        table->first = first;
        table->span = span;
        g_array_append_val(tables->pages, page);
        if (!test_and_set_bit(page, tables->watched)) {
            tlb_reset_dirty(cpu, (uintptr_t)recorder_ram.host + page * (uintptr_t)PAGE, PAGE);
        }
    } else if (table->first != first || table->span != span) {
        table->span = SPAN_UNKNOWN;
    }
}

bool recorder_is_table_slow(CPUState *cpu, ram_addr_t address)
{
    ram_addr_t offset = address - recorder_ram.start;

    return offset < recorder_ram.size &&
           test_bit(offset / PAGE, cpu->recorder->translations.made->watched);
}

/*
 * Forget the notes, since all translations are gone.  If an instruction flushed them by what it
 * does, it does so in replay as well.  If recorder_drop_translations() did, it has logged a DROP.
 * If a work item of another thread did, replay must be told: the flush is made again, and logged,
 * at the next boundary.
 */
void recorder_flushed_slow(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;
    RecorderTranslations *tables = v->translations.made;

    for (unsigned i = 0; i < tables->pages->len; i++) {
        tables->table[g_array_index(tables->pages, uint32_t, i)].span = 0;
    }
    g_array_set_size(tables->pages, 0);
    v->translations.n_low_pages = 0;
    memset(v->translations.kernel_slots, 0, sizeof(v->translations.kernel_slots));
    if (!recorder_recording()) {
        return;
    }
    if (!v->record.running) {
        v->translations.flush_due = true;
    } else if (cpu->neg.can_do_io && !v->alone) {
        sphere_left_tables(v->record.processor, recorder_position(cpu));
    }
}

void recorder_drop(CPUState *cpu, vaddr page)
{
    RecorderVcpu *v = cpu->recorder;

    v->translations.dropped = true;
    if (page == RECORDER_ALL) {
        tlb_flush(cpu);
        return;
    }
    v->translations.drops_one_page = true;
    tlb_flush_page(cpu, page);
    v->translations.drops_one_page = false;
}

void recorder_cached_block_slow(CPUState *cpu, unsigned i, vaddr pc)
{
    if (recorder_is_user_address(pc)) {
        set_bit(i, cpu->recorder->translations.made->user_blocks);
    }
}

/*
 * The jump cache finds TBs by address, so QEMU would clear all of it.  Here the kernel's addresses
 * stay.  Linux drops user mode with each switch to another process, which mostly has used a few
 * blocks only.
 */
void recorder_drop_user_mode(CPUState *cpu, unsigned mmu_idx_map)
{
    TranslatingVcpu *t = &cpu->recorder->translations;
    unsigned long *blocks = t->made->user_blocks;
    CPUJumpCache *cache = cpu->tb_jmp_cache;

    t->drops_user_mode = true;
    tlb_flush_by_mmuidx(cpu, mmu_idx_map);
    t->drops_user_mode = false;
    for (size_t i = find_first_bit(blocks, TB_JMP_CACHE_SIZE); i < TB_JMP_CACHE_SIZE;
         i = find_next_bit(blocks, TB_JMP_CACHE_SIZE, i + 1)) {
        if (recorder_is_user_address(cache->array[i].pc)) {
            qatomic_set(&cache->array[i].tb, NULL);
        }
    }
    bitmap_zero(blocks, TB_JMP_CACHE_SIZE);
}

vaddr recorder_table_word_page(CPUState *cpu, uint64_t offset)
{
    const Table *table = &cpu->recorder->translations.made->table[offset / PAGE];

    if (table->span == 0) {
        return RECORDER_NONE;
    }
    return table->span == PAGE ? table->first + offset % PAGE / 8 * PAGE : RECORDER_ALL;
}

void recorder_translations_written(CPUState *cpu, uint64_t offset, uint64_t size)
{
    TranslatingVcpu *t = &cpu->recorder->translations;

    for (uint64_t page = offset / PAGE; page <= (offset + size - 1) / PAGE; page++) {
        t->flush_due |= t->made->table[page].span != 0;
    }
}

void recorder_drop_translations(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    if (v->translations.flush_due) {
        v->translations.flush_due = false;
        if (recorder_recording()) {
            log_event(v->log, LOG_EVENT_DROP, recorder_position(cpu), RECORDER_ALL);
        }
        recorder_count(v, RECORDER_COUNT_FLUSHES);
        recorder_drop(cpu, RECORDER_ALL);
    }
}

bool recorder_has_dropped_slow(CPUState *cpu)
{
    bool dropped = cpu->recorder->translations.dropped;

    cpu->recorder->translations.dropped = false;
    return dropped;
}

void recorder_be_last_in_tb(CPUState *cpu, uintptr_t retaddr)
{
    if (!cpu->neg.can_do_io) {
        g_assert(retaddr);
        cpu_restore_state(cpu, retaddr);
        recorder_run_again(cpu);
    }
    /* The next TB must not be entered before the boundary. */
    recorder_kick(cpu);
}

/*
 * Drop the translation of @page: the word that it was made from, which is not zero, is about to
 * change.  No other entry leaves the TLB, and none is moved: the caller of recorder_store() still
 * uses one.
 */
static void drop_page(CPUState *cpu, vaddr page, uintptr_t retaddr)
{
    if (((cpu->cc->get_pc(cpu) ^ page) & -(vaddr)PAGE) == 0) {
        recorder_be_last_in_tb(cpu, retaddr);
    }
    recorder_drop(cpu, page);
}

/* Drop what was made from the words of @table that a store of @size bytes at @address changes. */
static void change_table(CPUState *cpu, const Table *table, ram_addr_t address,
                         unsigned size, uintptr_t retaddr)
{
    uint64_t offset = address - recorder_ram.start;

    for (uint64_t at = QEMU_ALIGN_DOWN(offset, 8); at < offset + size; at += 8) {
        if (*(uint64_t *)(recorder_ram.host + at) == 0) {
            continue;
        }
        if (table->span == PAGE) {
            drop_page(cpu, table->first + at % PAGE / 8 * PAGE, retaddr);
        } else {
            recorder_be_last_in_tb(cpu, retaddr);
            cpu->recorder->translations.flush_due = true;
        }
    }
}

/*
 * Return true if @address lies in the page of the running TB.  The dirty flag is tested first: most
 * pages that are stored to contain no code, and the lookup of the TB takes long.
 */
static bool in_page_being_executed(ram_addr_t address, uintptr_t retaddr)
{
    bool may_be = retaddr && !cpu_physical_memory_get_dirty_flag(address, DIRTY_MEMORY_CODE);
    TranslationBlock *tb = may_be ? tcg_tb_lookup(retaddr) : NULL;

    return tb && ((tb_page_addr0(tb) ^ address) & -(ram_addr_t)PAGE) == 0;
}

void recorder_store_slow(CPUState *cpu, ram_addr_t address, unsigned size,
                         uintptr_t retaddr)
{
    if (recorder_is_table_slow(cpu, address)) {
        RecorderTranslations *tables = cpu->recorder->translations.made;
        uint64_t page = (address - recorder_ram.start) / PAGE;

        if (tables->table[page].span) {
            change_table(cpu, &tables->table[page], address, size, retaddr);
        } else {
            clear_bit(page, tables->watched);
        }
    }
    if (!cpu->neg.can_do_io && in_page_being_executed(address, retaddr)) {
        recorder_be_last_in_tb(cpu, retaddr);
    }
}

/*
 * Drop translations of user addresses, and keep the kernel's, if TTBR0 changes.  A translation
 * depends on table words and on the table base, but not on the ASID, so it does not matter whether
 * that changes too.  Linux changes TTBR0 when it switches to another process and, on a CPU without
 * PAN, at every entry into the kernel.  Privileged translations of user addresses are dropped now.
 * Those for user mode stay until user mode would use them with another TTBR0
 * (HELPER(recorder_user_access)), since the old TTBR0 mostly comes back.
 */
void recorder_table_base_slow(CPUState *cpu, bool user)
{
    RecorderVcpu *v = cpu->recorder;

    if (!user) {
        tlb_flush(cpu);
        return;
    }
    if (v->translations.n_low_pages > chaos.low_pages) {
        /* Replay may have walked fewer pages.  Nothing is looked up before the boundary. */
        v->translations.flush_due = true;
        recorder_kick(cpu);
        return;
    }
    for (unsigned i = 0; i < v->translations.n_low_pages; i++) {
        recorder_drop(cpu, v->translations.low_page[i]);
    }
    v->translations.n_low_pages = 0;
}

bool recorder_drops_one_page(CPUState *cpu)
{
    return cpu->recorder && cpu->recorder->translations.drops_one_page;
}

bool recorder_keeps_blocks(CPUState *cpu)
{
    return cpu->recorder && cpu->recorder->translations.drops_user_mode;
}
