/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See event-coding.h.  WAITs are the most frequent events, and their bytes are what recording the
 * order of steps costs.  So their head byte also tells the stream, or else low bits of the integers
 * that follow, which are shorter then.  DROPs come next, mostly of one page after the other: their
 * head byte tells that.  Likewise, the head byte of EPISODEs tells most sets of streams, and that
 * of STAMPED most times.  Heads are those of one log, so those of different logs may be the same.
 */
#include "recording/event-coding.h"

#include <string.h>

#include "recording/log-format.h"

/* Heads below these are kinds.  In the order log: */
#define HEAD_WAIT       32      /* a WAIT on stream 0; the next head: on stream 1 ... */
#define HEAD_WAIT_HERE  64      /* the same, at the position of the event before */
#define HEAD_STREAMS    32      /* streams that such heads can name */
#define HEAD_DROP_NEXT  96      /* a DROP of the next page; plus low bits of the position */
#define NEXT_POSITION_BITS  5
#define HEAD_WAIT_AGAIN 128     /* a WAIT on the same stream as the one before, at another place; */
#define AGAIN_POSITION_BITS 4   /* plus low bits of the position, */
#define AGAIN_STEPS_BITS    3   /* plus those of the steps, further left */

/* In the rerun log: */
#define HEAD_STAMPED    32      /* a STAMPED with the least time; the next head: one more ... */
#define STAMPED_LATER   31      /* the last such head: how much later than this, follows */

/* In the karma log: */
#define HEAD_EPISODE    64      /* an EPISODE; plus 8 times the code of PRED, plus that of SUCC */
/* Codes of sets: 0 is the empty set, 1 to EVENT_CODER_RECENT one stream, by its rank. */
#define SET_FOLLOWS     (EVENT_CODER_RECENT + 1)
#define SET_CODES       (SET_FOLLOWS + 1)

G_STATIC_ASSERT(LOG_EVENT_KINDS <= HEAD_WAIT);
G_STATIC_ASSERT(HEAD_DROP_NEXT + (1 << NEXT_POSITION_BITS) == HEAD_WAIT_AGAIN);
G_STATIC_ASSERT(HEAD_WAIT_AGAIN + (1 << (AGAIN_POSITION_BITS + AGAIN_STEPS_BITS)) == 256);
G_STATIC_ASSERT(LOG_EVENT_KINDS <= HEAD_STAMPED);
G_STATIC_ASSERT(HEAD_STAMPED + STAMPED_LATER < 256);
G_STATIC_ASSERT(LOG_EVENT_KINDS <= HEAD_EPISODE);
G_STATIC_ASSERT(HEAD_EPISODE + SET_CODES * SET_CODES <= 256);

/* The address of a DROP that means all translations. */
#define DROP_ALL        UINT64_MAX
#define PAGE_BITS       12
#define PAGE_SIZE       (UINT64_C(1) << PAGE_BITS)

void event_coder_start_block(EventCoder *coder)
{
    memset(coder->waited, 0, sizeof(coder->waited));
    coder->waited_for = coder->stream == 0;
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

static uint64_t low_bits(uint64_t value, unsigned n)
{
    return value & ((UINT64_C(1) << n) - 1);
}

/* Within a block, waits on one stream grow: code how much more than one they grow. */
static void put_wait(EventCoder *coder, LogBuffer *log, const LogEvent *event)
{
    uint64_t stream = event->value[0];
    uint64_t later = event->position - coder->position;
    uint64_t more;

    g_assert(stream < G_N_ELEMENTS(coder->waited));
    more = event->value[1] - coder->waited[stream] - 1;
    if (later == 0 && stream < HEAD_STREAMS) {
        log_put_byte(log, HEAD_WAIT_HERE + stream);
    } else if (later > 0 && stream == coder->waited_for) {
        log_put_byte(log, HEAD_WAIT_AGAIN + low_bits(later, AGAIN_POSITION_BITS) +
                          (low_bits(more, AGAIN_STEPS_BITS) << AGAIN_POSITION_BITS));
        log_put_u64(log, later >> AGAIN_POSITION_BITS);
        more >>= AGAIN_STEPS_BITS;
    } else if (stream < HEAD_STREAMS) {
        log_put_byte(log, HEAD_WAIT + stream);
        log_put_u64(log, later);
    } else {
        log_put_byte(log, LOG_EVENT_WAIT);
        log_put_u64(log, later);
        log_put_u64(log, stream);
    }
    log_put_u64(log, more);
    coder->waited[stream] = event->value[1];
    coder->waited_for = stream;
}

/*
 * Pages that are dropped lie near each other, mostly behind each other.  0 stands for all.
 * Otherwise code the signed difference of page numbers, with a bit that tells whether the offset in
 * the page follows.
 */
static void put_drop(EventCoder *coder, LogBuffer *log, const LogEvent *event)
{
    uint64_t address = event->value[0];
    uint64_t later = event->position - coder->position;
    int64_t pages = (int64_t)(address - coder->dropped) >> PAGE_BITS;
    uint64_t offset = (address - coder->dropped) & (PAGE_SIZE - 1);
    uint64_t zigzag = ((uint64_t)pages << 1) ^ (uint64_t)(pages >> 63);

    if (address != DROP_ALL && address == coder->dropped + PAGE_SIZE) {
        log_put_byte(log, HEAD_DROP_NEXT + low_bits(later, NEXT_POSITION_BITS));
        log_put_u64(log, later >> NEXT_POSITION_BITS);
        coder->dropped = address;
        return;
    }
    log_put_byte(log, LOG_EVENT_DROP);
    log_put_u64(log, later);
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
        log_put_byte(log, LOG_EVENT_EPISODE);
    } else {
        log_put_byte(log, HEAD_EPISODE + SET_CODES * pred_code + succ_code);
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
}

/* Times of a stream grow, mostly by little. */
static void put_stamped(EventCoder *coder, LogBuffer *log, const LogEvent *event)
{
    uint64_t later = event->value[0] - coder->next_time;

    g_assert(event->value[0] >= coder->next_time && event->value[0] < UINT64_MAX);
    log_put_byte(log, HEAD_STAMPED + MIN(later, STAMPED_LATER));
    log_put_u64(log, event->position - coder->position);
    if (later >= STAMPED_LATER) {
        log_put_u64(log, later - STAMPED_LATER);
    }
    coder->next_time = event->value[0] + 1;
}

static void put_other(EventCoder *coder, LogBuffer *log, const LogEvent *event)
{
    const LogEventInfo *info = &log_event_table()[event->kind];

    log_put_byte(log, event->kind);
    log_put_u64(log, event->position - coder->position);
    for (unsigned i = 0; i < info->n_values; i++) {
        log_put_u64(log, event->value[i]);
    }
    if (info->has_bytes) {
        log_put_u64(log, event->n_bytes);
        log_put_bytes(log, event->bytes, event->n_bytes);
    }
}

void event_put(EventCoder *coder, LogBuffer *log, const LogEvent *event)
{
    g_assert(event->position >= coder->position);
    switch (event->kind) {
    case LOG_EVENT_WAIT:
        put_wait(coder, log, event);
        break;
    case LOG_EVENT_DROP:
        put_drop(coder, log, event);
        break;
    case LOG_EVENT_EPISODE:
        put_episode(coder, log, event);
        break;
    case LOG_EVENT_STAMPED:
        put_stamped(coder, log, event);
        break;
    default:
        put_other(coder, log, event);
        break;
    }
    coder->position = event->position;
}

/* --- reading ----------------------------------------------------------------- */

/* Read an integer of which @low are the low @bits. */
static uint64_t get_above(LogCursor *cursor, unsigned bits, uint64_t low)
{
    uint64_t high = log_get_u64(cursor);

    if (!cursor->error && high > UINT64_MAX >> bits) {
        cursor->error = "an integer is larger than 64 bits";
    }
    return high << bits | low;
}

/* Read the position; @low are its low @bits, of the difference to the event before. */
static void get_position(EventCoder *coder, LogCursor *cursor, unsigned bits, uint64_t low,
                         LogEvent *event)
{
    uint64_t later = get_above(cursor, bits, low);

    if (!cursor->error && later > UINT64_MAX - coder->position) {
        cursor->error = "the position is larger than 64 bits";
    }
    event->position = coder->position + later;
}

/* Read a WAIT.  An event has exactly one coding.  Return what is wrong, or NULL. */
static const char *get_wait(EventCoder *coder, LogCursor *cursor, unsigned head, unsigned n_vcpus,
                            LogEvent *event)
{
    bool again = head >= HEAD_WAIT_AGAIN;
    bool here = !again && head >= HEAD_WAIT_HERE;
    bool is_long = head == LOG_EVENT_WAIT;
    unsigned low = head - HEAD_WAIT_AGAIN;
    uint64_t stream;
    bool moved;

    if (here) {
        event->position = coder->position;
    } else if (again) {
        get_position(coder, cursor, AGAIN_POSITION_BITS, low_bits(low, AGAIN_POSITION_BITS), event);
    } else {
        get_position(coder, cursor, 0, 0, event);
    }
    stream = again ? coder->waited_for :
             is_long ? log_get_u64(cursor) : head - (here ? HEAD_WAIT_HERE : HEAD_WAIT);
    if (cursor->error) {
        return cursor->error;
    }
    if (stream > n_vcpus) {
        return "a wait for a stream that no vCPU has";
    }
    moved = event->position > coder->position;
    if (again != (moved && stream == coder->waited_for) ||
        here != (!moved && stream < HEAD_STREAMS) || (is_long && stream < HEAD_STREAMS)) {
        return "a wait is longer than need be";
    }
    coder->waited[stream] += 1 + (again ? get_above(cursor, AGAIN_STEPS_BITS,
                                                    low >> AGAIN_POSITION_BITS)
                                        : log_get_u64(cursor));
    coder->waited_for = stream;
    event->value[0] = stream;
    event->value[1] = coder->waited[stream];
    return cursor->error;
}

/* Read the address of a DROP whose head does not tell it. */
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
    if (!cursor->error && (((coded - 1) & 1) != (offset > 0) || (pages == 1 && offset == 0))) {
        cursor->error = "an address is longer than need be";
    } else if (!cursor->error && (offset >> PAGE_BITS || zigzag >> (64 - PAGE_BITS))) {
        cursor->error = "an address is larger than 64 bits";
    }
    coder->dropped += ((uint64_t)pages << PAGE_BITS) + offset;
    return coder->dropped;
}

/* Read a DROP.  Return what is wrong, or NULL. */
static const char *get_drop(EventCoder *coder, LogCursor *cursor, unsigned head, LogEvent *event)
{
    bool next = head >= HEAD_DROP_NEXT;

    get_position(coder, cursor, next ? NEXT_POSITION_BITS : 0, next ? head - HEAD_DROP_NEXT : 0,
                 event);
    if (next) {
        coder->dropped += PAGE_SIZE;
    }
    event->value[0] = next ? coder->dropped : get_dropped(coder, cursor);
    if (!cursor->error && coder->dropped == DROP_ALL) {
        cursor->error = "an address is longer than need be";
    }
    return cursor->error;
}

/* Read an event whose head tells its kind alone.  Return what is wrong, or NULL. */
static const char *get_other(EventCoder *coder, LogCursor *cursor, LogEvent *event)
{
    const LogEventInfo *info = &log_event_table()[event->kind];

    get_position(coder, cursor, 0, 0, event);
    for (unsigned i = 0; i < info->n_values; i++) {
        event->value[i] = log_get_u64(cursor);
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

/* Read an EPISODE; the codes of its sets are in @head.  Return what is wrong, or NULL. */
static const char *get_episode(EventCoder *coder, LogCursor *cursor, unsigned head,
                               unsigned n_vcpus, LogEvent *event)
{
    bool is_short = head >= HEAD_EPISODE;
    unsigned codes = head - HEAD_EPISODE;
    uint64_t *pred = &event->value[0], *succ = &event->value[1];

    get_position(coder, cursor, 0, 0, event);
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

/* Read a STAMPED, whose time @head tells in part.  Return what is wrong, or NULL. */
static const char *get_stamped(EventCoder *coder, LogCursor *cursor, unsigned head,
                               LogEvent *event)
{
    uint64_t later, more;

    if (head == LOG_EVENT_STAMPED) {
        return "a time is longer than need be";
    }
    get_position(coder, cursor, 0, 0, event);
    later = head - HEAD_STAMPED;
    more = later == STAMPED_LATER ? log_get_u64(cursor) : 0;
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

/* Return the kind that @head tells in log @substream; LOG_EVENT_KINDS: none. */
static LogEventKind kind_of_head(LogSubstream substream, unsigned head)
{
    if (head < LOG_EVENT_KINDS) {
        return head;
    }
    switch (substream) {
    case LOG_ORDER:
        return head < HEAD_WAIT ? LOG_EVENT_KINDS :
               head >= HEAD_DROP_NEXT && head < HEAD_WAIT_AGAIN ? LOG_EVENT_DROP : LOG_EVENT_WAIT;
    case LOG_KARMA:
        return head >= HEAD_EPISODE && head < HEAD_EPISODE + SET_CODES * SET_CODES ?
               LOG_EVENT_EPISODE : LOG_EVENT_KINDS;
    case LOG_RERUN:
        return head >= HEAD_STAMPED && head <= HEAD_STAMPED + STAMPED_LATER ?
               LOG_EVENT_STAMPED : LOG_EVENT_KINDS;
    default:
        return LOG_EVENT_KINDS;
    }
}

/* Read the fields of an event whose kind is known.  Return what is wrong, or NULL. */
static const char *get_fields(EventCoder *coder, LogCursor *cursor, unsigned head,
                              unsigned n_vcpus, LogEvent *event)
{
    switch (event->kind) {
    case LOG_EVENT_WAIT:
        return get_wait(coder, cursor, head, n_vcpus, event);
    case LOG_EVENT_DROP:
        return get_drop(coder, cursor, head, event);
    case LOG_EVENT_EPISODE:
        return get_episode(coder, cursor, head, n_vcpus, event);
    case LOG_EVENT_STAMPED:
        return get_stamped(coder, cursor, head, event);
    default:
        return get_other(coder, cursor, event);
    }
}

char *event_get(EventCoder *coder, LogCursor *cursor, LogSubstream substream, unsigned n_vcpus,
                LogEvent *event)
{
    unsigned head = log_get_byte(cursor);
    const char *wrong;

    if (cursor->error) {
        return g_strdup(cursor->error);
    }
    *event = (LogEvent) { .kind = kind_of_head(substream, head) };
    if (event->kind == LOG_EVENT_KINDS) {
        return g_strdup_printf("unknown kind of event %u", head);
    }
    if (log_event_table()[event->kind].substream != substream) {
        return g_strdup_printf("%s events do not belong in this log", log_event_name(event->kind));
    }
    wrong = get_fields(coder, cursor, head, n_vcpus, event);
    if (!wrong) {
        coder->position = event->position;
    }
    return g_strdup(wrong);
}
