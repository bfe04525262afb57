/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where in a recording a checkpoint lies: what replay must know, beside memory and registers, to
 * begin there.  docs/log-format.md, "Place", describes the file.
 */
#ifndef RECORDER_PLACE_H
#define RECORDER_PLACE_H

#include "base/summed-text.h"
#include "recording/log-writer.h"
#include "recording/position.h"
#include "recording/registers.h"

#define PLACE_FILE "place"

typedef struct Place {
    unsigned n_vcpus;
    Point *point;
    uint64_t dma_steps;
    uint64_t *stores;           /* of each vCPU: digest of its device stores */
    Registers *logged;          /* of each: those that were logged last */
    LogPlaces *logs;
} Place;

Place *place_new(unsigned n_vcpus);
void place_free(Place *place);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Place, place_free)

/* Writes the file @path, which is new, and syncs it: the checkpoint is valid then. */
bool place_save(const Place *place, const char *path, GError **error);
/* Trusts nothing in it; errors as in summed-text.h. */
Place *place_load(const char *path, unsigned n_vcpus, GError **error);

/*
 * Of the checkpoint @name of a recording.  The first one may have none: it lies at the start, and
 * *@place is NULL; unless that was dropped.
 */
bool place_find(const char *recording, const char *name, bool is_first, unsigned n_vcpus,
                Place **place, GError **error);

#endif
