/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A vCPU's translations, and the table pages of main RAM that they were made from.
 */
#ifndef RECORDER_TRANSLATIONS_H
#define RECORDER_TRANSLATIONS_H

#include "hw/core/cpu.h"

/* The addresses that an entry of the root of four levels of tables translates. */
#define RECORDER_SLOT (UINT64_C(1) << 39)

/* Instead of a page's address: no page, or every page. */
#define RECORDER_NONE ((vaddr)1)
#define RECORDER_ALL ((vaddr)-1)

/* Find main RAM (recorder_ram).  Main thread. */
void recorder_translations_start(void);
/*
 * Return the notes of a vCPU without translations, to be freed with recorder_translations_free().
 */
struct RecorderTranslations *recorder_translations_new(void);
void recorder_translations_free(struct RecorderTranslations *tables);
/* Drop all translations if that is due.  At a boundary, in the vCPU's thread. */
void recorder_drop_translations(CPUState *cpu);
/*
 * Note that DMA writes @size bytes at @offset of main RAM.  @cpu is alone, and SAFE.  Called with
 * the lock of the DMA stream held.
 */
void recorder_translations_written(CPUState *cpu, uint64_t offset, uint64_t size);
/*
 * Ensure that the running instruction is the last of its TB, and that a boundary follows.  Does not
 * return if it is not the last: it runs again, alone in its TB.
 */
void recorder_be_last_in_tb(CPUState *cpu, uintptr_t retaddr);
/* Drop the translation of @page, or all (RECORDER_ALL).  In the vCPU's thread. */
void recorder_drop(CPUState *cpu, vaddr page);
/* Drop the translations of user mode, which are those of @mmu_idx_map.  In the vCPU's thread. */
void recorder_drop_user_mode(CPUState *cpu, unsigned mmu_idx_map);
/*
 * Return the page whose translation was made from the word at @offset of main RAM.  RECORDER_NONE:
 * nothing was made from its page.  RECORDER_ALL: more than a single page, or unknown.
 */
vaddr recorder_table_word_page(CPUState *cpu, uint64_t offset);

#endif
