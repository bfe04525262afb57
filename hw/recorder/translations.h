/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which translations a vCPU has, made from which pages of main RAM.
 */
#ifndef RECORDER_TRANSLATIONS_H
#define RECORDER_TRANSLATIONS_H

#include "hw/core/cpu.h"

/* For recorder_drop(): no page, or every page. */
#define RECORDER_NONE ((vaddr)1)
#define RECORDER_ALL ((vaddr)-1)

void recorder_translations_start(void);
struct RecorderTranslations *recorder_translations_new(void);
void recorder_translations_free(struct RecorderTranslations *tables);
/* Between two steps: drop them all, if that is due. */
void recorder_drop_translations(CPUState *cpu);
void recorder_translations_written(CPUState *cpu, uint64_t offset, uint64_t size);
/* Run this instruction again, alone in its TB, unless it is the last already. */
void recorder_be_last_in_tb(CPUState *cpu, uintptr_t retaddr);
/* The translation of one page, or all. */
void recorder_drop(CPUState *cpu, vaddr page);
/* Which page's translation was made from the word at @offset of RAM? */
vaddr recorder_table_word_page(CPUState *cpu, uint64_t offset);

#endif
