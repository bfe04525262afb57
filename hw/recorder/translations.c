/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Translations and code are copies of memory, and when they are made or dropped
 * depends on the sizes of caches, on the clock and on chance.  So they are kept
 * coherent, recording and replaying, and their timing cannot matter.
 *
 * Translations.  Every page from which a walk has read is a table page until
 * the vCPU drops all its translations.  Stores to table pages stay on the slow
 * path, and so does the first one after that, since most pages soon are tables again.
 * A store that may change a word which was not zero (absence is never cached)
 * drops what was made from that word: one page's translation before the store,
 * if the word is known to translate one page; else all, between this step and
 * the next, and then the store is the last instruction of its TB.  Tables that
 * are freed were unhooked from another table, so they do not stay table pages for long.
 *
 * Flags.  A walk may set the access flag or the dirty state of a page
 * (FEAT_HAFDBS).  A translation exists only of a word that has them set already,
 * so the first access of its kind always walks, whatever the TLB is like, and
 * replay sets the flag in the same instruction.  Only for instruction fetches that is
 * not enough: recording may look the next TB up and then find an interrupt to be
 * delivered first.  So those are events.  With several vCPUs, all of them
 * are, and a step each: the instruction may be abandoned after its walk, and another
 * vCPU see the flag (access.c).
 *
 * Code.  QEMU drops TBs whose code is written to, but the TB that does it runs
 * on to its end.  Replay cuts TBs at other places, so a store to the page that
 * is being executed, or to its translation, is the last instruction of its TB.
 *
 * Each vCPU has its own translations and knows its own tables; what is here
 * belongs to its thread.  Stores of others come to it as drops: recording,
 * through the sphere (access.c), replaying, from the log.
 *
 * Which pages a vCPU has walked depends on its history.  A replay that begins at a checkpoint has
 * walked fewer, and so has one whose recording looked a block up and then took an interrupt.  So
 * replay can tell by itself neither which tables were in use, nor that too many were.  Hence the
 * invariant: replay never holds a translation of which recording's notes do not know.  Recording
 * forgets its notes, and leaves the sphere's sets of holders, in two cases only.  Either an
 * instruction flushes everything by what it does, and does so in replay as well; or the vCPU
 * flushes everything at a boundary, and logs a DROP of all there.
 */
#include "qemu/osdep.h"
#include "qemu/bitmap.h"
#include "accel/tcg/internal-common.h"
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
#include "hw/recorder/translations.h"
#include "hw/recorder/vcpu.h"
#include "protocol/chaos.h"
#include "protocol/sphere.h"
#include "recording/log-writer.h"

#define PAGE 4096u

/* A page of tables: its first word translates @first, the next @first + @span. */
typedef struct Table {
    vaddr first;
    uint64_t span;              /* 0: not a table page */
} Table;

/* Of a page that was used for several addresses, or in a way that we don't know. */
#define SPAN_UNKNOWN UINT64_MAX

/* What a vCPU knows of the tables that its translations were made from. */
typedef struct RecorderTranslations {
    GArray *pages;              /* which of these are in use */
    Table *table;               /* one for each page of main RAM */
    /*
     * A bit for each page of which no store goes unseen, also for a while after it was a table.
     * Every TLB miss looks there, so it is small.
     */
    unsigned long *watched;
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

/* The kernel itself touches user memory: TTBR0 decides what it finds there. */
static void note_low_page(RecorderVcpu *v, vaddr page)
{
    if (v->translations.n_low_pages && v->translations.n_low_pages <= chaos.low_pages &&
        v->translations.low_page[v->translations.n_low_pages - 1] == page) {
        return;                 /* one call for each level of a walk */
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

    if (privileged && !extract64(address, 55, 1)) {
        note_low_page(cpu->recorder, address & -(vaddr)PAGE);
    }
    if (!recorder_ram_offset(host, &offset)) {
        recorder_fail("the guest keeps page tables outside of its main memory");
        return;
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

/* Must its stores be seen? */
bool recorder_is_table_slow(CPUState *cpu, ram_addr_t address)
{
    ram_addr_t offset = address - recorder_ram.start;

    return offset < recorder_ram.size &&
           test_bit(offset / PAGE, cpu->recorder->translations.made->watched);
}

/*
 * All translations are gone.  If an instruction did that by what it is, it does so in replay as
 * well; if recorder_drop_translations() did, that has told replay; if another thread's work did,
 * it must.
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

vaddr recorder_table_word_page(CPUState *cpu, uint64_t offset)
{
    const Table *table = &cpu->recorder->translations.made->table[offset / PAGE];

    if (table->span == 0) {
        return RECORDER_NONE;
    }
    return table->span == PAGE ? table->first + offset % PAGE / 8 * PAGE : RECORDER_ALL;
}

/* DMA writes main RAM, past a vCPU that is alone, and safe. */
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
    /* Do not chain to the next TB: go to the boundary first. */
    recorder_kick(cpu);
}

/*
 * A word that is not zero and translates one page is about to change.  Nothing
 * else leaves the TLB, and it is not moved: our caller still looks at it.
 */
static void drop_page(CPUState *cpu, vaddr page, uintptr_t retaddr)
{
    if (((cpu->cc->get_pc(cpu) ^ page) & -(vaddr)PAGE) == 0) {
        recorder_be_last_in_tb(cpu, retaddr);
    }
    recorder_drop(cpu, page);
}

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

/* Most pages that are stored to have no code at all, and looking for the block takes long. */
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
 * A translation depends on the words of tables and on where they begin, but not on an ASID: so
 * when TTBR0 changes, with the ASID or without, what was found at user addresses goes, and the
 * kernel's translations stay.  Linux does that when it switches to another process, and, on
 * a CPU without PAN, also at every entry.  What user mode may use stays until it would be used
 * with another TTBR0 (recorder_user_access), since the old one mostly comes back; privileged
 * translations go now.
 */
void recorder_table_base_slow(CPUState *cpu, bool user)
{
    RecorderVcpu *v = cpu->recorder;

    if (!user) {
        tlb_flush(cpu);
        return;
    }
    if (v->translations.n_low_pages > chaos.low_pages) {
        /* Replay may have walked fewer.  Nothing is looked up before the boundary. */
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
