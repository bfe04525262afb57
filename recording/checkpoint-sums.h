/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checksums of the files of a checkpoint that have none themselves: QEMU writes
 * registers and devices, and would load some damaged ones without a word.
 * docs/log-format.md, "Checkpoints", describes the file.  And what is done with all files of one.
 */
#ifndef RECORDING_CHECKPOINT_SUMS_H
#define RECORDING_CHECKPOINT_SUMS_H

#include <glib.h>
#include <stdbool.h>

#define CHECKPOINT_CPUS     "cpus"
#define CHECKPOINT_DEVICES  "devices"
#define CHECKPOINT_SUMS     "sums"

/* Removes a checkpoint with all its files, as far as they are there. */
void checkpoint_remove(const char *directory);

/* Waits until its files are on disk, and their names; RAM and place sync themselves. */
bool checkpoint_sync(const char *directory, GError **error);

/* Sums of the files @names of @directory, which end with NULL; the file must not be there yet. */
bool checkpoint_sums_save(const char *directory, const char *const *names, GError **error);

/*
 * Are all files as they were?  Registers must be among them, and devices, if there are any.
 * Errors as in base/summed-text.h.
 */
bool checkpoint_sums_check(const char *directory, GError **error);

#endif
