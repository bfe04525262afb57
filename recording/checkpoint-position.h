/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where in a recording a checkpoint lies: what replay must know, beside memory and registers, to
 * begin there.  docs/log-format.md, "CheckpointPosition", describes the file.
 */
#ifndef RECORDING_CHECKPOINT_POSITION_H
#define RECORDING_CHECKPOINT_POSITION_H

#include "base/summed-text.h"
#include "recording/log-writer.h"
#include "recording/position.h"
#include "recording/registers.h"

#define CHECKPOINT_POSITION_FILE "place"

typedef struct CheckpointPosition {
    unsigned n_vcpus;
    Point *point;
    uint64_t dma_steps;
    uint64_t *stores;           /* of each vCPU: digest of its device stores */
    Registers *logged;          /* of each: those that were logged last */
    LogPlaces *logs;
} CheckpointPosition;

CheckpointPosition *checkpoint_position_new(unsigned n_vcpus);
void checkpoint_position_free(CheckpointPosition *place);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CheckpointPosition, checkpoint_position_free)

/* Writes the file @path, which is new, and syncs it: the checkpoint is valid then. */
bool checkpoint_position_save(const CheckpointPosition *place, const char *path, GError **error);
/* Trusts nothing in it; errors as in summed-text.h. */
CheckpointPosition *checkpoint_position_load(const char *path, unsigned n_vcpus, GError **error);

/*
 * Of the checkpoint @name of a recording.  The first one may have none: it lies at the start, and
 * *@place is NULL; unless that was dropped.
 */
bool checkpoint_position_find(const char *recording, const char *name, bool is_first,
                              unsigned n_vcpus, CheckpointPosition **place, GError **error);

#endif
