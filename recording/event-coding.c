/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See event-coding.h.  WAITs are the most frequent events, and their bytes are what recording the
 * order of steps costs.  So their head byte also tells the stream, and that the position is that of
 * the event before.  The same holds for EPISODEs, whose head byte tells most sets of streams, and
 * for STAMPED, whose head byte tells most times.  Heads are those of one log, so those of different
 * logs may be the same.
 */
#include "recording/event-coding.h"

#include <string.h>

#include "recording/log-format.h"

/* Heads below these are kinds.  In the order log: */
#define HEAD_WAIT       32      /* a WAIT on stream 0; the next head: on stream 1 ... */
#define HEAD_WAIT_HERE  64      /* the same, at the position of the event before */
#define HEAD_STREAMS    32      /* streams that such heads can name */
#define HEADS           (HEAD_WAIT_HERE + HEAD_STREAMS)

/* In the rerun log: */
#define HEAD_STAMPED    32      /* a STAMPED with the least time; the next head: one more ... */
#define STAMPED_LATER   31      /* the last such head: how much later than this, follows */

/* In the karma log: */
#define HEAD_EPISODE    64      /* an EPISODE; plus 8 times the code of PRED, plus that of SUCC */
/* Codes of sets: 0 is the empty set, 1 to EVENT_CODER_RECENT one stream, by its rank. */
#define SET_FOLLOWS     (EVENT_CODER_RECENT + 1)
#define SET_CODES       (SET_FOLLOWS + 1)

G_STATIC_ASSERT(LOG_EVENT_KINDS <= HEAD_WAIT);
G_STATIC_ASSERT(HEADS <= LOG_VARINT_MORE);
G_STATIC_ASSERT(LOG_EVENT_KINDS <= HEAD_STAMPED);
G_STATIC_ASSERT(HEAD_STAMPED + STAMPED_LATER < LOG_VARINT_MORE);
G_STATIC_ASSERT(LOG_EVENT_KINDS <= HEAD_EPISODE);
G_STATIC_ASSERT(HEAD_EPISODE + SET_CODES * SET_CODES <= LOG_VARINT_MORE);

/* The address of a DROP that means all translations. */
#define DROP_ALL        UINT64_MAX
#define PAGE_BITS       12

void event_coder_start_block(EventCoder *coder)
{
    memset(coder->waited, 0, sizeof(coder->waited));
    coder->dropped = 0;
    coder->next_time = 0;
    for (unsigned i = 0; i < EVENT_CODER_RECENT; i++) {
        coder->recent[i] = i + (i >= coder->stream);
    }
}

/* --- sets of streams --------------------------------------------------------- */

/* Return the stream of a set that has exactly one, or -1. */
static int only_stream(uint64_t set)
{
    return set && !(set & (set - 1)) ? __builtin_ctzll(set) : -1;
}

static unsigned set_code(const EventCoder *coder, uint64_t set)
{
    int stream = only_stream(set);

    if (set == 0) {
        return 0;
    }
    for (unsigned i = 0; stream >= 0 && i < EVENT_CODER_RECENT; i++) {
        if (coder->recent[i] == stream) {
            return i + 1;
        }
    }
    return SET_FOLLOWS;
}

/* Move the stream of a set that has exactly one to the front. */
static void note_set(EventCoder *coder, uint64_t set)
{
    int stream = only_stream(set);
    unsigned rank = 0;

    if (stream < 0) {
        return;
    }
    while (rank < EVENT_CODER_RECENT - 1 && coder->recent[rank] != stream) {
        rank++;
    }
    memmove(coder->recent + 1, coder->recent, rank * sizeof(coder->recent[0]));
    coder->recent[0] = stream;
}

/* Return the streams that an EPISODE of this log can name, in a recording with @n_vcpus. */
static uint64_t other_streams(const EventCoder *coder, unsigned n_vcpus)
{
    unsigned n = MIN(n_vcpus + 1, LOG_EPISODE_STREAMS);
    uint64_t all = (UINT64_C(1) << n) - 1;

    return coder->stream < n ? all & ~(UINT64_C(1) << coder->stream) : all;
}

/*
 * Return true if @again is what an EPISODE says in bytes: for each further edge the stream of @pred
 * from which it comes, in ascending order.
 */
static bool is_again(uint64_t pred, const uint8_t *again, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (again[i] >= LOG_EPISODE_STREAMS || !(pred >> again[i] & 1) ||
            (i > 0 && again[i] < again[i - 1])) {
            return false;
        }
    }
    return true;
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

/*
 * An EPISODE with streams that count again is rare: it is coded as other kinds are.  In all others
 * the head tells the sets.
 */
static void put_episode(EventCoder *coder, LogBuffer *log, const LogEvent *event)
{
    uint64_t pred = event->value[0], succ = event->value[1];
    unsigned pred_code = set_code(coder, pred), succ_code;

    g_assert(!((pred | succ) & ~other_streams(coder, RECORDER_MAX_VCPUS)));
    g_assert(is_again(pred, event->bytes, event->n_bytes));
    note_set(coder, pred);
    succ_code = set_code(coder, succ);
    note_set(coder, succ);
    if (event->n_bytes > 0) {
        log_put_u64(log, LOG_EVENT_EPISODE);
    } else {
        log_put_u64(log, HEAD_EPISODE + SET_CODES * pred_code + succ_code);
    }
    log_put_u64(log, event->position - coder->position);
    if (event->n_bytes > 0 || pred_code == SET_FOLLOWS) {
        log_put_u64(log, pred);
    }
    if (event->n_bytes > 0 || succ_code == SET_FOLLOWS) {
        log_put_u64(log, succ);
    }
    if (event->n_bytes > 0) {
        log_put_u64(log, event->n_bytes);
        log_put_bytes(log, event->bytes, event->n_bytes);
    }
    coder->position = event->position;
}

/* Times of a stream grow, mostly by little. */
static void put_stamped(EventCoder *coder, LogBuffer *log, const LogEvent *event)
{
    uint64_t later = event->value[0] - coder->next_time;

    g_assert(event->value[0] >= coder->next_time && event->value[0] < UINT64_MAX);
    log_put_u64(log, HEAD_STAMPED + MIN(later, STAMPED_LATER));
    log_put_u64(log, event->position - coder->position);
    if (later >= STAMPED_LATER) {
        log_put_u64(log, later - STAMPED_LATER);
    }
    coder->position = event->position;
    coder->next_time = event->value[0] + 1;
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
    if (event->kind == LOG_EVENT_EPISODE) {
        put_episode(coder, log, event);
        return;
    }
    if (event->kind == LOG_EVENT_STAMPED) {
        put_stamped(coder, log, event);
        return;
    }
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

static char *unknown_kind(uint64_t head)
{
    return g_strdup_printf("unknown kind of event %" G_GUINT64_FORMAT, head);
}

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
        return unknown_kind(head);
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

/* Read a set whose code is @code. */
static uint64_t get_set(const EventCoder *coder, LogCursor *cursor, unsigned code)
{
    uint64_t set;

    if (code != SET_FOLLOWS) {
        return code == 0 ? 0 : UINT64_C(1) << coder->recent[code - 1];
    }
    set = log_get_u64(cursor);
    if (!cursor->error && set_code(coder, set) != SET_FOLLOWS) {
        cursor->error = "a set is longer than need be";
    }
    return set;
}

/* Read the sets of an EPISODE, whose codes are in @head. */
static const char *get_sets(EventCoder *coder, LogCursor *cursor, uint64_t head,
                            unsigned n_vcpus, LogEvent *event)
{
    bool is_short = head >= HEAD_EPISODE;
    unsigned codes = head - HEAD_EPISODE;
    uint64_t *pred = &event->value[0], *succ = &event->value[1];

    *pred = is_short ? get_set(coder, cursor, codes / SET_CODES) : log_get_u64(cursor);
    note_set(coder, *pred);
    *succ = is_short ? get_set(coder, cursor, codes % SET_CODES) : log_get_u64(cursor);
    note_set(coder, *succ);
    if (cursor->error) {
        return cursor->error;
    }
    if ((*pred | *succ) & ~other_streams(coder, n_vcpus)) {
        return "an episode with a stream that it cannot have";
    }
    if (!is_short) {
        uint64_t n = log_get_u64(cursor);

        if (n > LOG_EVENT_MAX_BYTES) {
            return "an event has too many bytes";
        }
        event->bytes = log_get_bytes(cursor, n);
        event->n_bytes = n;
        if (cursor->error) {
            return cursor->error;
        }
        if (n == 0) {
            return "an episode is longer than need be";
        }
        if (!is_again(*pred, event->bytes, n)) {
            return "an episode counts a stream again that it does not have";
        }
    }
    return NULL;
}

/* Read the time of a STAMPED, which @head tells in part. */
static const char *get_stamped(EventCoder *coder, LogCursor *cursor, uint64_t head,
                               LogEvent *event)
{
    uint64_t later = head - HEAD_STAMPED;
    uint64_t more = later == STAMPED_LATER ? log_get_u64(cursor) : 0;

    if (cursor->error) {
        return cursor->error;
    }
    later += more;
    if (later < more || later >= UINT64_MAX - coder->next_time) {
        return "a time is larger than 64 bits";
    }
    event->value[0] = coder->next_time + later;
    coder->next_time = event->value[0] + 1;
    return NULL;
}

/* Return the kind of an event of the karma log or of the rerun log; LOG_EVENT_KINDS: none. */
static LogEventKind kind_of_head(LogSubstream substream, uint64_t head)
{
    if (substream == LOG_KARMA && head >= HEAD_EPISODE) {
        return head < HEAD_EPISODE + SET_CODES * SET_CODES ? LOG_EVENT_EPISODE : LOG_EVENT_KINDS;
    }
    if (substream == LOG_RERUN && head >= HEAD_STAMPED) {
        return head <= HEAD_STAMPED + STAMPED_LATER ? LOG_EVENT_STAMPED : LOG_EVENT_KINDS;
    }
    return MIN(head, LOG_EVENT_KINDS);
}

/* Read an event of the karma log or of the rerun log.  Return what is wrong, or NULL. */
static char *get_episode_event(EventCoder *coder, LogCursor *cursor, LogSubstream substream,
                               unsigned n_vcpus, LogEvent *event)
{
    uint64_t head = log_get_u64(cursor);
    uint64_t steps = log_get_u64(cursor);
    const char *wrong = NULL;

    if (cursor->error) {
        return g_strdup(cursor->error);
    }
    *event = (LogEvent) { .kind = kind_of_head(substream, head),
                          .position = coder->position + steps };
    if (event->kind == LOG_EVENT_KINDS) {
        return unknown_kind(head);
    }
    if (log_event_table()[event->kind].substream != substream) {
        return g_strdup_printf("%s events do not belong in this log", log_event_name(event->kind));
    }
    if (steps > UINT64_MAX - coder->position) {
        return g_strdup("the position is larger than 64 bits");
    }
    if (head == LOG_EVENT_STAMPED) {
        wrong = "a time is longer than need be";
    } else if (event->kind == LOG_EVENT_STAMPED) {
        wrong = get_stamped(coder, cursor, head, event);
    } else if (event->kind == LOG_EVENT_EPISODE) {
        wrong = get_sets(coder, cursor, head, n_vcpus, event);
    }
    if (!wrong) {
        coder->position = event->position;
    }
    return g_strdup(wrong);
}

char *event_get(EventCoder *coder, LogCursor *cursor, LogSubstream substream, unsigned n_vcpus,
                LogEvent *event)
{
    char *wrong;

    if (substream == LOG_KARMA || substream == LOG_RERUN) {
        return get_episode_event(coder, cursor, substream, n_vcpus, event);
    }
    wrong = get_head(coder, cursor, event);

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
