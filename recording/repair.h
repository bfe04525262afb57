/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Cuts a recording that is damaged, or was never finished, to what can be replayed.
 *
 * repair_plan() changes nothing.  repair_do() executes the plan, and keeps what it cuts
 * off in a directory of the recording.  An interrupted repair can be repeated.
 */
#ifndef RECORDING_REPAIR_H
#define RECORDING_REPAIR_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "recording/manifest.h"
#include "recording/position.h"

/* The directory, in that of the recording, for parts that were cut off. */
#define REPAIR_CUT_OFF "cut-off"

/* A file that is to be truncated. */
typedef struct RepairFile {
    char *name;
    uint64_t size;
    uint64_t kept;              /* bytes that stay; 0: the file is removed */
    char *why;
} RepairFile;

typedef struct RepairPlan {
    bool needed;
    bool epochs_alone;          /* nothing but epochs is cut: the recording stays as it is */
    GPtrArray *files;           /* of RepairFile */
    unsigned n_checkpoints;     /* how many are kept, the first ones */
    char *checkpoint_fault;     /* why the next one is not kept; or NULL */
    char *reason;               /* for the manifest */
    Point *cut;                 /* the recording can be replayed up to here */
    uint64_t *log_bytes;        /* kept of each log; stream * LOG_SUBSTREAMS + substream */
} RepairPlan;

/* Return a plan, to be freed by the caller; NULL and @error if repair is not possible. */
RepairPlan *repair_plan(const char *directory, const Manifest *manifest, GError **error);
void repair_plan_free(RepairPlan *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RepairPlan, repair_plan_free)

/* Execute @plan.  Updates @manifest as well, and saves it. */
bool repair_do(const char *directory, Manifest *manifest, const RepairPlan *plan,
               GError **error);

#define REPAIR_ERROR repair_error_quark()
GQuark repair_error_quark(void);

typedef enum RepairError {
    REPAIR_ERROR_HOPELESS,      /* nothing is left to be replayed */
    REPAIR_ERROR_BUSY,          /* a recorder is writing to it */
} RepairError;

#endif
