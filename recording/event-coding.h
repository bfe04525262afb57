/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The coding of events in a block of a log, for the writer and for the reader.  docs/log-format.md,
 * "Events", describes the bytes.
 */
#ifndef RECORDING_EVENT_CODING_H
#define RECORDING_EVENT_CODING_H

#include "recording/log-buffer.h"
#include "recording/log-cursor.h"
#include "recording/log-events.h"
#include "recording/position.h"

typedef struct LogEvent {
    LogEventKind kind;
    Position position;
    uint64_t value[LOG_EVENT_MAX_FIELDS];
    const uint8_t *bytes;       /* as read: valid until the next event is read */
    size_t n_bytes;
} LogEvent;

/* How many streams the head of an EPISODE can name by a rank. */
#define EVENT_CODER_RECENT 6

/* What the coding of the next event depends on.  A block can be decoded by itself. */
typedef struct EventCoder {
    Position position;          /* of the event before, or where the block starts */
    uint64_t waited[RECORDER_MAX_VCPUS + 1];    /* steps of the block's last WAIT per stream */
    unsigned waited_for;        /* stream of the block's last WAIT, or the first other stream */
    uint64_t dropped;           /* address of the block's last DROP of one page */
    unsigned stream;            /* whose log this is; constant */
    uint8_t recent[EVENT_CODER_RECENT]; /* other streams, first the one that was named last */
    uint64_t next_time;         /* the least time of the block's next STAMPED */
} EventCoder;

/* Start a block.  The position and the stream stay as they are. */
void event_coder_start_block(EventCoder *coder);

/*
 * Append @event, which is not before the event before.  The times of STAMPED events grow.  An
 * EPISODE names other streams, below LOG_EPISODE_STREAMS.
 */
void event_put(EventCoder *coder, LogBuffer *log, const LogEvent *event);

/*
 * Read the next event of log @substream in a recording with @n_vcpus.  Return NULL, or what is
 * wrong with it, to be freed by the caller.
 */
char *event_get(EventCoder *coder, LogCursor *cursor, LogSubstream substream, unsigned n_vcpus,
                LogEvent *event);

#endif
