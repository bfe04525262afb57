/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A recording as one file, to be sent to somebody, and back.
 *
 * What is there already is never touched; what was begun is removed when it fails, or when
 * *@stop becomes true (it may be set by a signal handler).
 */
#ifndef RECORDING_PACK_H
#define RECORDING_PACK_H

#include <glib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* @bytes: how many the file has. */
bool pack_recording(const char *directory, const char *path, volatile sig_atomic_t *stop,
                    uint64_t *bytes, GError **error);
/* @directory is new.  The file may come from anybody. */
bool unpack_recording(const char *path, const char *directory, volatile sig_atomic_t *stop,
                      GError **error);

#define PACK_ERROR pack_error_quark()
GQuark pack_error_quark(void);

/* Files that cannot be read or written are a G_FILE_ERROR. */
typedef enum PackError {
    PACK_ERROR_REFUSED,         /* something in the directory cannot be packed */
    PACK_ERROR_DAMAGED,         /* or no packed recording at all */
    PACK_ERROR_STOPPED,
} PackError;

#endif
