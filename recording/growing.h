/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A view of a recording that is still being made: a directory that is a recording of its own, not
 * complete, up to the end of the last epoch.  So everything that reads recordings can read it while
 * the recorder goes on.
 *
 * Logs are copied, without copying bytes where the file system can share them; checkpoints are
 * symbolic links.  So a view is for the time in which the recording stays where it is.
 */
#ifndef RECORDING_GROWING_H
#define RECORDING_GROWING_H

#include <glib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct GrowingView {
    uint64_t epoch;             /* its number */
    uint64_t moment;            /* how many steps all streams have made there */
} GrowingView;

/*
 * Make a view of @directory in the directory @to, which is empty.  *@stop: stop (a signal handler
 * sets it).  Return false and @error on failure; then part of the view may be there.
 */
bool growing_view_make(const char *directory, const char *to, volatile sig_atomic_t *stop,
                       GrowingView *view, GError **error);
/* Remove the view @to with its directory, and nothing that its links lead to. */
void growing_view_remove(const char *to);

#define GROWING_ERROR growing_error_quark()
GQuark growing_error_quark(void);

typedef enum GrowingError {
    GROWING_ERROR_REFUSED,      /* there can be no view of this recording, or not yet */
    GROWING_ERROR_STOPPED,
} GrowingError;

#endif
