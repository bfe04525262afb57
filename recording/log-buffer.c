/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The writing end of a log stream; see docs/log-format.md, "Integers".
 */
#include <string.h>

#include "recording/log-buffer.h"
#include "recording/log-format.h"

LogBuffer *log_buffer_new(void)
{
    return g_new0(LogBuffer, 1);
}

void log_buffer_free(LogBuffer *log)
{
    if (log) {
        g_free(log->data);
        g_free(log);
    }
}

static uint8_t *reserve(LogBuffer *log, size_t n)
{
    if (log->allocated - log->used < n) {
        log->allocated = MAX(log->used + n, MAX(2 * log->allocated, 4096));
        log->data = g_realloc(log->data, log->allocated);
    }
    return log->data + log->used;
}

void log_put_byte(LogBuffer *log, uint8_t byte)
{
    *reserve(log, 1) = byte;
    log->used++;
}

void log_put_u64(LogBuffer *log, uint64_t value)
{
    uint8_t *p = reserve(log, LOG_VARINT_MAX_BYTES);

    while (value >= LOG_VARINT_MORE) {
        *p++ = value | LOG_VARINT_MORE;
        value >>= LOG_VARINT_BITS;
    }
    *p++ = value;
    log->used = p - log->data;
}

void log_put_s64(LogBuffer *log, int64_t value)
{
    uint64_t sign = value < 0 ? UINT64_MAX : 0;

    log_put_u64(log, ((uint64_t)value << 1) ^ sign);
}

void log_put_bytes(LogBuffer *log, const void *bytes, size_t n)
{
    if (n > 0) {
        memcpy(reserve(log, n), bytes, n);
        log->used += n;
    }
}
