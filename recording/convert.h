/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Makes a recording of the same execution with other orders.  One order of the source is followed,
 * from wait to wait, and becomes episodes of Karma and Rerun.  What is not an order is copied.
 *
 * Waits that the followed order left out, since others imply them, are not seen.  So there are
 * fewer edges than a live recorder would make.
 */
#ifndef RECORDING_CONVERT_H
#define RECORDING_CONVERT_H

#include <glib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "recording/manifest.h"

/* What a caller may want while it lasts; each may be NULL. */
typedef struct ConvertHooks {
    volatile sig_atomic_t *stop;                /* a signal handler sets it to end early */
    void (*progress)(uint64_t done, uint64_t all);      /* steps; @all is 0 if unknown */
} ConvertHooks;

/*
 * Convert the recording in @directory to a new one, @to, with these orders.  @manifest->follow is
 * the order that is followed.  A recording that is not complete is converted up to where a replay
 * would come.
 *
 * @to does not exist, or is an empty directory.  Files of checkpoints are linked if possible.  On
 * failure return false and @error, and nothing is left behind.
 */
bool convert_recording(const char *directory, const Manifest *manifest, const char *to,
                       const Orders *orders, const ConvertHooks *hooks, GError **error);

#define CONVERT_ERROR convert_error_quark()
GQuark convert_error_quark(void);

/* Files that cannot be read or written are a G_FILE_ERROR. */
typedef enum ConvertError {
    CONVERT_ERROR_REFUSED,      /* such a recording cannot be converted */
    CONVERT_ERROR_STOPPED,
} ConvertError;

#endif
