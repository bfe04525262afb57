/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checksums of those files of a checkpoint that contain none: QEMU writes registers
 * and devices, and would load some damaged files without an error.
 * docs/log-format.md, "Checkpoints", describes the file.  Also the functions that
 * sync and remove all files of a checkpoint.
 */
#ifndef RECORDING_CHECKPOINT_SUMS_H
#define RECORDING_CHECKPOINT_SUMS_H

#include <glib.h>
#include <stdbool.h>

#define CHECKPOINT_CPUS     "cpus"
#define CHECKPOINT_DEVICES  "devices"
/* Of machines whose memory map changes: the map, and all ROMs in it. */
#define CHECKPOINT_MAP      "map"
#define CHECKPOINT_ROMS     "roms"
#define CHECKPOINT_SUMS     "sums"

/* Remove a checkpoint with all its files, as far as they exist. */
void checkpoint_remove(const char *directory);

/*
 * Sync the files of a checkpoint, and the directory with their names.  The RAM image and the
 * position were synced when they were written.
 */
bool checkpoint_sync(const char *directory, GError **error);

/*
 * Write the checksums of the files @names (ended by NULL) of @directory to its file of checksums,
 * which must not exist.
 */
bool checkpoint_sums_save(const char *directory, const char *const *names, GError **error);

/*
 * Return true if all files have their recorded checksums.  The registers must be among them, and
 * the devices, if that file exists.  Errors as in base/summed-text.h.
 */
bool checkpoint_sums_check(const char *directory, GError **error);

#endif
