/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The reading end of a log stream; see docs/log-format.md, "Integers".
 */
#include "recording/log-cursor.h"
#include "recording/log-format.h"

void log_cursor_init(LogCursor *cursor, const void *data, size_t size)
{
    *cursor = (LogCursor) {
        .start = data,
        .next = data,
        .end = (const uint8_t *)data + size,
    };
}

static uint64_t fail(LogCursor *cursor, const char *error)
{
    cursor->error = error;
    return 0;
}

uint8_t log_get_byte(LogCursor *cursor)
{
    const uint8_t *byte = log_get_bytes(cursor, 1);

    return byte ? *byte : 0;
}

uint64_t log_get_u64(LogCursor *cursor)
{
    const uint8_t *p = cursor->next;
    uint64_t value = 0;

    if (cursor->error) {
        return 0;
    }
    for (unsigned shift = 0; ; shift += LOG_VARINT_BITS) {
        uint8_t byte;

        if (p == cursor->end) {
            return fail(cursor, "the stream ends inside an integer");
        }
        byte = *p++;
        /* The tenth byte holds the one bit that is left of 64. */
        if (shift == LOG_VARINT_BITS * (LOG_VARINT_MAX_BYTES - 1) && byte > 1) {
            return fail(cursor, "an integer is larger than 64 bits");
        }
        value |= (uint64_t)(byte & ~LOG_VARINT_MORE) << shift;
        if (!(byte & LOG_VARINT_MORE)) {
            if (byte == 0 && shift > 0) {
                return fail(cursor, "an integer has useless zeros");
            }
            cursor->next = p;
            return value;
        }
    }
}

int64_t log_get_s64(LogCursor *cursor)
{
    uint64_t value = log_get_u64(cursor);

    return (value >> 1) ^ -(value & 1);
}

const uint8_t *log_get_bytes(LogCursor *cursor, size_t n)
{
    const uint8_t *bytes = cursor->next;

    if (cursor->error) {
        return NULL;
    }
    if ((size_t)(cursor->end - cursor->next) < n) {
        cursor->error = "the stream ends inside a run of bytes";
        return NULL;
    }
    cursor->next += n;
    return bytes;
}
