/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See event-coding.h.  WAITs are the most frequent events, and their bytes are what recording the
 * order of steps costs.  So their head byte also tells the stream, and that the position is that of
 * the event before.
 */
#include "recording/event-coding.h"

#include <string.h>

#include "recording/log-format.h"

/* Heads below this are kinds. */
#define HEAD_WAIT       32      /* a WAIT on stream 0; the next head: on stream 1 ... */
#define HEAD_WAIT_HERE  64      /* the same, at the position of the event before */
#define HEAD_STREAMS    32      /* streams that such heads can name */
#define HEADS           (HEAD_WAIT_HERE + HEAD_STREAMS)

G_STATIC_ASSERT(LOG_EVENT_KINDS <= HEAD_WAIT);
G_STATIC_ASSERT(HEADS <= LOG_VARINT_MORE);

/* The address of a DROP that means all translations. */
#define DROP_ALL        UINT64_MAX
#define PAGE_BITS       12

void event_coder_start_block(EventCoder *coder)
{
    memset(coder->waited, 0, sizeof(coder->waited));
    coder->dropped = 0;
}

/* --- writing ----------------------------------------------------------------- */

/* Append the part that says what and where; return true if that includes the stream of a WAIT. */
static bool put_head(EventCoder *coder, LogBuffer *log, const LogEvent *event)
{
    uint64_t steps = event->position - coder->position;
    bool names_stream = event->kind == LOG_EVENT_WAIT && event->value[0] < HEAD_STREAMS;

    if (!names_stream) {
        log_put_u64(log, event->kind);
        log_put_u64(log, steps);
    } else if (steps > 0) {
        log_put_u64(log, HEAD_WAIT + event->value[0]);
        log_put_u64(log, steps);
    } else {
        log_put_u64(log, HEAD_WAIT_HERE + event->value[0]);
    }
    coder->position = event->position;
    return names_stream;
}

/* Within a block, waits on one stream grow: code how much more than one they grow. */
static void put_waited(EventCoder *coder, LogBuffer *log, uint64_t stream, uint64_t steps)
{
    g_assert(stream < G_N_ELEMENTS(coder->waited));
    log_put_u64(log, steps - coder->waited[stream] - 1);
    coder->waited[stream] = steps;
}

/*
 * Pages that are dropped lie near each other.  0 stands for all.  Otherwise code the signed
 * difference of page numbers, with a bit that tells whether the offset in the page follows.
 */
static void put_dropped(EventCoder *coder, LogBuffer *log, uint64_t address)
{
    int64_t pages = (int64_t)(address - coder->dropped) >> PAGE_BITS;
    uint64_t offset = (address - coder->dropped) & ((1u << PAGE_BITS) - 1);
    uint64_t zigzag = ((uint64_t)pages << 1) ^ (uint64_t)(pages >> 63);

    if (address == DROP_ALL) {
        log_put_u64(log, 0);
        return;
    }
    log_put_u64(log, 1 + (zigzag << 1 | (offset > 0)));
    if (offset > 0) {
        log_put_u64(log, offset);
    }
    coder->dropped = address;
}

void event_put(EventCoder *coder, LogBuffer *log, const LogEvent *event)
{
    const LogEventInfo *info = &log_event_table()[event->kind];

    g_assert(event->position >= coder->position);
    if (!put_head(coder, log, event) && event->kind == LOG_EVENT_WAIT) {
        log_put_u64(log, event->value[0]);
    }
    if (event->kind == LOG_EVENT_WAIT) {
        put_waited(coder, log, event->value[0], event->value[1]);
    } else if (event->kind == LOG_EVENT_DROP) {
        put_dropped(coder, log, event->value[0]);
    } else {
        for (unsigned i = 0; i < info->n_values; i++) {
            log_put_u64(log, event->value[i]);
        }
    }
    if (info->has_bytes) {
        log_put_u64(log, event->n_bytes);
        log_put_bytes(log, event->bytes, event->n_bytes);
    }
}

/* --- reading ----------------------------------------------------------------- */

/* Read what put_head() wrote, and the stream of a WAIT.  Return what is wrong, or NULL. */
static char *get_head(EventCoder *coder, LogCursor *cursor, LogEvent *event)
{
    uint64_t head = log_get_u64(cursor);
    bool here = head >= HEAD_WAIT_HERE && head < HEADS;
    uint64_t steps = here ? 0 : log_get_u64(cursor);
    bool names_stream = head >= HEAD_WAIT && head < HEADS;

    if (cursor->error) {
        return g_strdup(cursor->error);
    }
    if (!names_stream && head >= LOG_EVENT_KINDS) {
        return g_strdup_printf("unknown kind of event %" G_GUINT64_FORMAT, head);
    }
    if (steps > UINT64_MAX - coder->position) {
        return g_strdup("the position is larger than 64 bits");
    }
    *event = (LogEvent) {
        .kind = names_stream ? LOG_EVENT_WAIT : head,
        .position = coder->position + steps,
    };
    if (names_stream) {
        event->value[0] = head - (here ? HEAD_WAIT_HERE : HEAD_WAIT);
    } else if (event->kind == LOG_EVENT_WAIT) {
        event->value[0] = log_get_u64(cursor);
    }
    /* An event has exactly one coding. */
    if ((names_stream && !here && steps == 0) ||
        (!names_stream && event->kind == LOG_EVENT_WAIT && event->value[0] < HEAD_STREAMS &&
         !cursor->error)) {
        return g_strdup("a wait is longer than need be");
    }
    return NULL;
}

static uint64_t get_dropped(EventCoder *coder, LogCursor *cursor)
{
    uint64_t coded = log_get_u64(cursor);
    uint64_t zigzag = (coded - 1) >> 1;
    int64_t pages = (zigzag >> 1) ^ -(zigzag & 1);
    uint64_t offset;

    if (coded == 0) {
        return DROP_ALL;
    }
    offset = (coded - 1) & 1 ? log_get_u64(cursor) : 0;
    if (!cursor->error && ((coded - 1) & 1) != (offset > 0)) {
        cursor->error = "an address is longer than need be";
    } else if (!cursor->error && (offset >> PAGE_BITS || zigzag >> (64 - PAGE_BITS))) {
        cursor->error = "an address is larger than 64 bits";
    }
    coder->dropped += ((uint64_t)pages << PAGE_BITS) + offset;
    if (!cursor->error && coder->dropped == DROP_ALL) {
        cursor->error = "an address is longer than need be";
    }
    return coder->dropped;
}

/* Read the fields after the head.  Return what is wrong, or NULL. */
static const char *get_fields(EventCoder *coder, LogCursor *cursor, unsigned n_vcpus,
                              LogEvent *event)
{
    const LogEventInfo *info = &log_event_table()[event->kind];

    if (event->kind == LOG_EVENT_WAIT) {
        uint64_t *waited;

        if (event->value[0] > n_vcpus) {
            return "a wait for a stream that no vCPU has";
        }
        waited = &coder->waited[event->value[0]];
        *waited += log_get_u64(cursor) + 1;
        event->value[1] = *waited;
    } else if (event->kind == LOG_EVENT_DROP) {
        event->value[0] = get_dropped(coder, cursor);
    } else {
        for (unsigned i = 0; i < info->n_values; i++) {
            event->value[i] = log_get_u64(cursor);
        }
    }
    if (info->has_bytes) {
        uint64_t n = log_get_u64(cursor);

        if (n > LOG_EVENT_MAX_BYTES) {
            return "an event has too many bytes";
        }
        event->bytes = log_get_bytes(cursor, n);
        event->n_bytes = n;
    }
    return cursor->error;
}

char *event_get(EventCoder *coder, LogCursor *cursor, LogSubstream substream, unsigned n_vcpus,
                LogEvent *event)
{
    char *wrong = get_head(coder, cursor, event);

    if (wrong) {
        return wrong;
    }
    if (log_event_table()[event->kind].substream != substream) {
        return g_strdup_printf("%s events do not belong in this log", log_event_name(event->kind));
    }
    wrong = g_strdup(get_fields(coder, cursor, n_vcpus, event));
    if (!wrong) {
        coder->position = event->position;
    }
    return wrong;
}
