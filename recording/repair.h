/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Cuts a recording that is damaged, or was never finished, to what can be replayed.
 *
 * First a plan, which changes nothing; then it is done, and what is cut off is kept
 * beside the recording.  When it is interrupted, it can be done again.
 */
#ifndef RECORDING_REPAIR_H
#define RECORDING_REPAIR_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "recording/manifest.h"
#include "recording/position.h"

/* A directory in that of the recording. */
#define REPAIR_CUT_OFF "cut-off"

/* A file that is to be cut. */
typedef struct RepairFile {
    char *name;
    uint64_t size;
    uint64_t kept;              /* bytes */
    char *why;
} RepairFile;

typedef struct RepairPlan {
    bool needed;
    GPtrArray *files;           /* of RepairFile */
    unsigned n_checkpoints;     /* that are kept */
    char *checkpoint_fault;     /* of the first that is not; or NULL */
    char *reason;               /* for the manifest */
    Point *cut;                 /* it can be replayed up to here */
} RepairPlan;

/* NULL and @error if it cannot be repaired. */
RepairPlan *repair_plan(const char *directory, const Manifest *manifest, GError **error);
void repair_plan_free(RepairPlan *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RepairPlan, repair_plan_free)

/* Changes @manifest, too. */
bool repair_do(const char *directory, Manifest *manifest, const RepairPlan *plan,
               GError **error);

#define REPAIR_ERROR repair_error_quark()
GQuark repair_error_quark(void);

typedef enum RepairError {
    REPAIR_ERROR_HOPELESS,      /* nothing is left to be replayed */
    REPAIR_ERROR_BUSY,          /* it is being recorded */
} RepairError;

#endif
