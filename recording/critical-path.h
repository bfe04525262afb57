/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The critical path of a recording: the longest chain of steps of which each must come after the
 * one before it, in its own stream or by a wait.  However many cores a host has, a replay is not
 * shorter than that.
 */
#ifndef RECORDING_CRITICAL_PATH_H
#define RECORDING_CRITICAL_PATH_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "recording/manifest.h"

typedef struct CriticalPath {
    uint64_t steps;             /* of all streams together */
    uint64_t longest;           /* of these: in the longest chain */
} CriticalPath;

/*
 * Find the critical path of the recording in @directory, from its first checkpoint on.  Takes 16
 * bytes of memory for each wait that lengthens a chain.  Return false and @error if the logs have
 * no order.
 */
bool critical_path_find(const char *directory, const Manifest *manifest, CriticalPath *path,
                        GError **error);

#endif
