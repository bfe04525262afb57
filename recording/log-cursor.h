/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The reading end of a log stream.  A log may be cut off, damaged or hostile:
 * nothing is read beyond the end, and an integer has exactly one coding.
 *
 * A cursor that failed stays failed and gives zeros, so that a decoder may read
 * a whole record and test log_cursor_ok() once.
 */
#ifndef RECORDING_LOG_CURSOR_H
#define RECORDING_LOG_CURSOR_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct LogCursor {
    const uint8_t *start;
    const uint8_t *next;
    const uint8_t *end;
    const char *error;      /* NULL while all is well; then a static text */
} LogCursor;

void log_cursor_init(LogCursor *cursor, const void *data, size_t size);

uint64_t log_get_u64(LogCursor *cursor);
int64_t log_get_s64(LogCursor *cursor);
/* A pointer into the stream, or NULL if fewer than @n bytes are left. */
const uint8_t *log_get_bytes(LogCursor *cursor, size_t n);

static inline bool log_cursor_ok(const LogCursor *cursor)
{
    return !cursor->error;
}

static inline bool log_cursor_at_end(const LogCursor *cursor)
{
    return cursor->next == cursor->end;
}

/* Where the cursor stands; after a failure, where the bad item begins. */
static inline size_t log_cursor_offset(const LogCursor *cursor)
{
    return cursor->next - cursor->start;
}

#endif
