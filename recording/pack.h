/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Packs a recording into one file, to be sent to another user or host, and unpacks it.
 *
 * Existing files are never changed.  On failure, and when *@stop becomes true (a signal
 * handler may set it), all that was created is removed.
 */
#ifndef RECORDING_PACK_H
#define RECORDING_PACK_H

#include <glib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* Pack the recording @directory into the new file @path.  *@bytes: the size of that file. */
bool pack_recording(const char *directory, const char *path, volatile sig_atomic_t *stop,
                    uint64_t *bytes, GError **error);
/* Unpack the file @path, which is not trusted, into @directory, which must not exist. */
bool unpack_recording(const char *path, const char *directory, volatile sig_atomic_t *stop,
                      GError **error);

#define PACK_ERROR pack_error_quark()
GQuark pack_error_quark(void);

/* Files that cannot be read or written are a G_FILE_ERROR. */
typedef enum PackError {
    PACK_ERROR_REFUSED,         /* something in the directory cannot be packed */
    PACK_ERROR_DAMAGED,         /* the file is damaged, or not a packed recording */
    PACK_ERROR_STOPPED,
} PackError;

#endif
