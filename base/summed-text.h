/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Small text files of a recording whose last line is a checksum of all before it:
 * "crc32c=89abcdef".  What is read may be damaged, hostile, or no file at all.
 */
#ifndef BASE_SUMMED_TEXT_H
#define BASE_SUMMED_TEXT_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

/* Adds the last line, and makes the file @path, which is new.  @sync: it is on disk then. */
bool summed_text_create(const char *path, GString *text, bool sync, GError **error);

/* All but the last line, which was right; at most @most bytes, none of them 0. */
GString *summed_text_read(const char *path, size_t most, GError **error);

/* For readers: a file that can be read, and not a pipe that nobody writes to; or -1. */
int summed_text_open(const char *path, GError **error);

/* What cannot be opened, read or written is a G_FILE_ERROR. */
#define SUMMED_TEXT_ERROR summed_text_error_quark()
GQuark summed_text_error_quark(void);

typedef enum SummedTextError {
    SUMMED_TEXT_ERROR_DAMAGED,
} SummedTextError;

/* Set such an error; false.  @verb: "read"; errno says why it cannot be done. */
bool summed_text_fail(GError **error, const char *verb, const char *path);
bool summed_text_damaged(GError **error, const char *path, const char *what);

#endif
