/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The writing end of a log stream: a growing array of bytes.  No locks: a stream
 * has one writer at a time.  recording/log-cursor.h is the reading end.
 */
#ifndef RECORDING_LOG_BUFFER_H
#define RECORDING_LOG_BUFFER_H

#include <glib.h>
#include <stdint.h>

typedef struct LogBuffer {
    uint8_t *data;
    size_t used;
    size_t allocated;
} LogBuffer;

LogBuffer *log_buffer_new(void);
void log_buffer_free(LogBuffer *log);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LogBuffer, log_buffer_free)

void log_put_byte(LogBuffer *log, uint8_t byte);
void log_put_u64(LogBuffer *log, uint64_t value);
void log_put_s64(LogBuffer *log, int64_t value);
void log_put_bytes(LogBuffer *log, const void *bytes, size_t n);

#endif
