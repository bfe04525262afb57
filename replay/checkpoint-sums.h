/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checksums of the files of a checkpoint that have none themselves: QEMU writes
 * registers and devices, and would load some damaged ones without a word.
 * docs/log-format.md, "Checkpoints", describes the file.
 */
#ifndef REPLAY_CHECKPOINT_SUMS_H
#define REPLAY_CHECKPOINT_SUMS_H

#include <glib.h>
#include <stdbool.h>

#define CHECKPOINT_CPUS     "cpus"
#define CHECKPOINT_DEVICES  "devices"
#define CHECKPOINT_SUMS     "sums"

/* Sums of the files @names of @directory, which end with NULL; the file must not be there yet. */
bool checkpoint_sums_save(const char *directory, const char *const *names, GError **error);

/*
 * Are all files as they were?  Registers and devices must be among them.  A file that
 * cannot be read is a G_FILE_ERROR.
 */
bool checkpoint_sums_check(const char *directory, GError **error);

#define CHECKPOINT_SUMS_ERROR checkpoint_sums_error_quark()
GQuark checkpoint_sums_error_quark(void);

typedef enum CheckpointSumsError {
    CHECKPOINT_SUMS_ERROR_DAMAGED,
} CheckpointSumsError;

#endif
