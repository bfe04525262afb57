/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The reading end of a log stream.  A log may be cut off, damaged or hostile:
 * nothing is read beyond the end, and an integer has exactly one coding.
 *
 * After a failure all reads return 0 or NULL, so that a decoder may read a whole
 * record and test log_cursor_ok() once.
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
    const char *error;      /* the first failure, a static text; or NULL */
} LogCursor;

void log_cursor_init(LogCursor *cursor, const void *data, size_t size);

uint8_t log_get_byte(LogCursor *cursor);
uint64_t log_get_u64(LogCursor *cursor);
int64_t log_get_s64(LogCursor *cursor);
/* Return a pointer into the stream, or NULL if fewer than @n bytes are left. */
const uint8_t *log_get_bytes(LogCursor *cursor, size_t n);

static inline bool log_cursor_ok(const LogCursor *cursor)
{
    return !cursor->error;
}

static inline bool log_cursor_at_end(const LogCursor *cursor)
{
    return cursor->next == cursor->end;
}

/* Return the offset of the next item; after a failure, of the bad item. */
static inline size_t log_cursor_offset(const LogCursor *cursor)
{
    return cursor->next - cursor->start;
}

#endif
