/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Small text files of a recording whose last line is a checksum of all bytes before
 * it: "crc32c=89abcdef".  A reader trusts nothing: the file may be damaged or
 * hostile, or not a regular file.  No state: any thread.
 */
#ifndef BASE_SUMMED_TEXT_H
#define BASE_SUMMED_TEXT_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Append the checksum line to @text, and write @text to the file @path, which must not exist.
 * With @sync, the contents are on disk on return.
 */
bool summed_text_create(const char *path, GString *text, bool sync, GError **error);

/*
 * Return the text without its checksum line, to be freed by the caller.  It ends with a newline.
 * Return NULL and @error if the last line is not the right checksum, the file has more than @most
 * bytes, or one of the bytes is 0.
 */
GString *summed_text_read(const char *path, size_t most, GError **error);

typedef enum SummedTextSum {
    SUMMED_TEXT_WITHOUT,        /* the last line is no checksum */
    SUMMED_TEXT_RIGHT,
    SUMMED_TEXT_WRONG,
} SummedTextSum;

/*
 * Return the text as summed_text_read() does, but also if its checksum is missing or wrong, which
 * @sum says then, and whatever its bytes are.
 */
GString *summed_text_read_any(const char *path, size_t most, SummedTextSum *sum, GError **error);

/* Append the checksum line to @text, which ends with a newline. */
void summed_text_add_sum(GString *text);

/*
 * Open a regular file for reading.  Return its descriptor, to be closed by the caller; or -1 and
 * @error.  Does not block on a FIFO that has no writer.
 */
int summed_text_open(const char *path, GError **error);

/* A file that cannot be opened, read or written is a G_FILE_ERROR instead. */
#define SUMMED_TEXT_ERROR summed_text_error_quark()
GQuark summed_text_error_quark(void);

typedef enum SummedTextError {
    SUMMED_TEXT_ERROR_DAMAGED,
} SummedTextError;

/*
 * Set @error and return false.  summed_text_fail() sets a G_FILE_ERROR with the reason in errno;
 * @verb is such as "read".
 */
bool summed_text_fail(GError **error, const char *verb, const char *path);
bool summed_text_damaged(GError **error, const char *path, const char *what);

#endif
