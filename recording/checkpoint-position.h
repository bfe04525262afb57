/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The position of a checkpoint in a recording: what replay must know, besides memory and registers,
 * to begin there.  docs/log-format.md, "Checkpoint position", describes the file.
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
    uint64_t *stores;           /* per vCPU: digest of its device stores */
    Registers *logged;          /* per vCPU: the registers that were logged last */
    LogPlaces *logs;
} CheckpointPosition;

CheckpointPosition *checkpoint_position_new(unsigned n_vcpus);
void checkpoint_position_free(CheckpointPosition *place);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CheckpointPosition, checkpoint_position_free)

/*
 * Write the file @path, which must not exist, and sync it.  The manifest names the checkpoint only
 * afterwards.
 */
bool checkpoint_position_save(const CheckpointPosition *place, const char *path, GError **error);
/* Read such a file, and trust nothing in it.  Return NULL and an error as in summed-text.h. */
CheckpointPosition *checkpoint_position_load(const char *path, unsigned n_vcpus, GError **error);

/*
 * Get the position of the checkpoint @name of @recording, to be freed by the caller.  The first
 * checkpoint lies at the start of the recording and has no such file: then return true, and *@place
 * is NULL.  It has one if the start was dropped.
 */
bool checkpoint_position_find(const char *recording, const char *name, bool is_first,
                              unsigned n_vcpus, CheckpointPosition **place, GError **error);
/*
 * Return the position of the first checkpoint that the manifest of @recording names, to be freed by
 * the caller.  Return NULL if it has no such file, or if the manifest or the file is bad.
 */
CheckpointPosition *checkpoint_position_first(const char *recording, unsigned n_vcpus);

#endif
