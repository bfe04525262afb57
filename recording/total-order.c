/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See total-order.h.  The vCPU that is furthest behind has the next turn.  If it must wait for a
 * step that was not made yet, the stream that makes this step goes first.  So goals form a stack.
 * No stream is on the stack twice: otherwise the waits would form a cycle.
 */
#include "recording/total-order.h"

#include <string.h>

#include "recording/checkpoint-position.h"
#include "recording/cut.h"
#include "recording/epochs.h"
#include "recording/order-reader.h"

/* How many steps the busiest vCPU makes in one turn. */
#define PACE 20000

typedef struct Stream {
    LogEvent wait;              /* the next WAIT, if has_wait */
    bool has_wait;
    bool log_ended;
    Position known;             /* the steps that the log, as far as it was read, tells of */
    Position reached;
    Position began, limit;      /* the stream's first and last position in this interval */
} Stream;

/* What an interval ends with. */
typedef enum IntervalEnd {
    ENDS_WITH_EPOCH,
    ENDS_WITH_CHECKPOINT,
    ENDS_WITH_RECORDING,
} IntervalEnd;

typedef struct Goal {
    unsigned stream;
    Position to;
} Goal;

struct TotalOrder {
    char *directory;
    OrderReader *reader;
    const Manifest *manifest;
    unsigned n_streams;         /* the last is DMA */
    unsigned checkpoint;        /* the last one that was passed */
    GArray *epochs;             /* of Position: of all streams at the end of each epoch; shared */
    unsigned epoch;             /* number in @epochs of the next one */
    IntervalEnd end;            /* of this interval */
    uint64_t moment;
    uint64_t n_turns;           /* in this interval, of each vCPU */
    Position *cut;              /* of a recording that is not complete; or NULL */
    unsigned n_goals;
    Goal *goal;                 /* a stack; no stream has two */
    TotalOrderWait *on_wait;    /* or NULL */
    TotalOrderMeet *on_epoch;   /* or NULL */
    void *opaque;
    Stream stream[];
};

G_DEFINE_QUARK(total-order-error-quark, total_order_error)

/* --- the logs -------------------------------------------------------------------- */

/* Read on to the next WAIT of @stream, or to the end of its log. */
static bool read_on(TotalOrder *order, Stream *stream, GError **error)
{
    while (!stream->has_wait && !stream->log_ended) {
        switch (order_reader_next(order->reader, stream - order->stream, &stream->wait, error)) {
        case LOG_READER_EVENT:
            stream->known = MAX(stream->known, stream->wait.position +
                                               log_event_is_step(stream->wait.kind));
            stream->has_wait = stream->wait.kind == LOG_EVENT_WAIT;
            break;
        case LOG_READER_END:
            stream->log_ended = true;
            break;
        case LOG_READER_BAD:
            return false;
        }
    }
    return true;
}

static const char *path_of(const TotalOrder *order, const Stream *stream)
{
    return log_reader_path(order_reader_log(order->reader, stream - order->stream));
}

/* Return how far @stream can go without waiting.  Only the log of DMA tells of every step. */
static Position free_until(const TotalOrder *order, const Stream *stream)
{
    bool is_dma = stream == &order->stream[order->n_streams - 1];
    Position until = stream->has_wait ? stream->wait.position :
                     is_dma ? stream->known : stream->limit;

    return MAX(MIN(until, stream->limit), stream->reached);
}

/* --- intervals, from one checkpoint or epoch to the next ------------------------------ */

static bool find_place(const TotalOrder *order, unsigned checkpoint, CheckpointPosition **place,
                       GError **error)
{
    return checkpoint_position_find(order->directory,
                                    order->manifest->checkpoints->pdata[checkpoint],
                                    checkpoint == 0, order->manifest->n_vcpus, place, error);
}

static Position place_of(const CheckpointPosition *place, unsigned stream)
{
    return !place ? 0 : stream < place->n_vcpus ? place->point->at[stream] : place->dma_steps;
}

/* Return where @stream ends; CUT_NONE if the recording does not tell. */
static Position end_of(const TotalOrder *order, unsigned stream)
{
    Position end = stream < order->manifest->n_vcpus && order->manifest->end ?
                   order->manifest->end->at[stream] : CUT_NONE;

    return order->cut ? MIN(order->cut[stream], end) : end;
}

/* Keep the ends of the epochs that are within the recording. */
static bool read_epochs(TotalOrder *order, GError **error)
{
    unsigned n_vcpus = order->manifest->n_vcpus;
    g_autoptr(EpochReader) reader = NULL;

    order->epochs = g_array_new(false, false, sizeof(Position));
    if (!epochs_exist(order->directory)) {
        return true;
    }
    reader = epoch_reader_open(order->directory, n_vcpus, error);
    while (reader) {
        g_autoptr(Epoch) epoch = NULL;
        EpochReaderResult result = epoch_reader_next(reader, &epoch, error);

        if (result != EPOCH_READER_EPOCH) {
            return result == EPOCH_READER_END;
        }
        for (unsigned i = 0; i < order->n_streams; i++) {
            if ((i < n_vcpus ? epoch->point->at[i] : epoch->dma_steps) > end_of(order, i)) {
                return true;
            }
        }
        g_array_append_vals(order->epochs, epoch->point->at, n_vcpus);
        g_array_append_val(order->epochs, epoch->dma_steps);
    }
    return false;
}

static uint64_t sum(const Position *position, unsigned n)
{
    uint64_t all = 0;

    for (unsigned i = 0; i < n; i++) {
        all += position[i];
    }
    return all;
}

/* Return the end of the first epoch that lies ahead, or NULL. */
static const Position *next_epoch(TotalOrder *order)
{
    for (; order->epoch < order->epochs->len / order->n_streams; order->epoch++) {
        const Position *end = &g_array_index(order->epochs, Position,
                                             order->epoch * order->n_streams);

        if (sum(end, order->n_streams) > order->moment) {
            return end;
        }
    }
    return NULL;
}

/* Set where each stream is at the end of the interval that begins now. */
static bool find_end(TotalOrder *order, Position *end, GError **error)
{
    unsigned n = order->n_streams;
    const Position *epoch = next_epoch(order);
    g_autoptr(CheckpointPosition) next = NULL;

    order->end = order->checkpoint + 1 < order->manifest->checkpoints->len ? ENDS_WITH_CHECKPOINT :
                 ENDS_WITH_RECORDING;
    if (order->end == ENDS_WITH_CHECKPOINT &&
        !find_place(order, order->checkpoint + 1, &next, error)) {
        return false;
    }
    for (unsigned i = 0; i < n; i++) {
        end[i] = next ? place_of(next, i) : end_of(order, i);
    }
    if (epoch && (!next || sum(epoch, n) < sum(end, n))) {
        order->end = ENDS_WITH_EPOCH;
        memcpy(end, epoch, n * sizeof(*end));
    }
    return true;
}

/* Begin an interval where all streams are now. */
static bool begin_interval(TotalOrder *order, GError **error)
{
    g_autofree Position *end = g_new(Position, order->n_streams);
    Position longest = 0;

    if (!find_end(order, end, error)) {
        return false;
    }
    for (unsigned i = 0; i < order->n_streams; i++) {
        Stream *stream = &order->stream[i];

        stream->began = stream->reached;
        stream->limit = MAX(end[i], stream->reached);
        if (i < order->manifest->n_vcpus) {
            longest = MAX(longest, stream->limit - stream->began);
        }
    }
    order->n_turns = longest / PACE + 1;
    return true;
}

/* Pass the end of an epoch.  Return false and @error if a log ends before. */
static bool pass_epoch(TotalOrder *order, GError **error)
{
    order->epoch++;
    for (unsigned i = 0; i < order->n_streams; i++) {
        const Stream *stream = &order->stream[i];

        if (stream->reached < stream->limit) {
            g_set_error(error, TOTAL_ORDER_ERROR, TOTAL_ORDER_ERROR_NONE,
                        "%s: ends at %" G_GUINT64_FORMAT ", but epoch %u has %" G_GUINT64_FORMAT,
                        path_of(order, stream), stream->reached, order->epoch, stream->limit);
            return false;
        }
    }
    if (order->on_epoch) {
        order->on_epoch(order->opaque);
    }
    return true;
}

/* All streams have met at the end of the interval.  Return false at the end, or with @error. */
static bool next_interval(TotalOrder *order, GError **error)
{
    switch (order->end) {
    case ENDS_WITH_RECORDING:
        return false;
    case ENDS_WITH_CHECKPOINT:
        order->checkpoint++;
        break;
    case ENDS_WITH_EPOCH:
        if (!pass_epoch(order, error)) {
            return false;
        }
        break;
    }
    return begin_interval(order, error);
}

/* --- choosing the next stream ------------------------------------------------------ */

/* Return true if @a has made a smaller part of its interval than @b. */
static bool is_behind(const Stream *a, const Stream *b)
{
    return (unsigned __int128)(a->reached - a->began) * (b->limit - b->began) <
           (unsigned __int128)(b->reached - b->began) * (a->limit - a->began);
}

static void set_goal(TotalOrder *order, unsigned stream, Position to)
{
    order->goal[order->n_goals++] = (Goal) { stream, to };
}

/*
 * Set the goal of the next turn.  DMA steps for which no vCPU waited come last.  Return false if
 * the interval has ended, or with @error.
 */
static bool choose(TotalOrder *order, GError **error)
{
    const Stream *first = NULL;
    Stream *dma = &order->stream[order->n_streams - 1];

    for (unsigned i = 0; i < order->n_streams - 1; i++) {
        const Stream *stream = &order->stream[i];

        if (stream->reached < stream->limit && (!first || is_behind(stream, first))) {
            first = stream;
        }
    }
    if (first) {
        Position turn = (first->limit - first->began) / order->n_turns + 1;

        set_goal(order, first - order->stream, MIN(first->reached + turn, first->limit));
        return true;
    }
    if (!read_on(order, dma, error) || (!dma->has_wait && dma->known <= dma->reached) ||
        dma->reached >= dma->limit) {
        return false;
    }
    set_goal(order, order->n_streams - 1, dma->limit);
    return true;
}

/*
 * Perform the next WAIT of @stream, which has the last goal.  If the awaited step was not made yet,
 * its stream gets a goal of its own.
 */
static bool wait_for(TotalOrder *order, Stream *stream, GError **error)
{
    unsigned source = stream->wait.value[0];
    Position steps = stream->wait.value[1];

    if (source >= order->n_streams || steps > order->stream[source].limit) {
        g_set_error(error, TOTAL_ORDER_ERROR, TOTAL_ORDER_ERROR_NONE,
                    "%s: a wait at %" G_GUINT64_FORMAT " is for a step that does not come first",
                    path_of(order, stream), stream->wait.position);
        return false;
    }
    if (order->stream[source].reached >= steps) {
        if (order->on_wait) {
            order->on_wait(stream - order->stream, stream->wait.position, source, steps,
                           order->opaque);
        }
        stream->has_wait = false;
        return true;
    }
    for (unsigned i = 0; i < order->n_goals; i++) {
        if (order->goal[i].stream == source) {
            g_set_error(error, TOTAL_ORDER_ERROR, TOTAL_ORDER_ERROR_NONE,
                        "%s: waits in a circle at %" G_GUINT64_FORMAT,
                        path_of(order, stream), stream->wait.position);
            return false;
        }
    }
    set_goal(order, source, steps);
    return true;
}

bool total_order_next(TotalOrder *order, uint64_t most, Run *run, GError **error)
{
    GError *failure = NULL;

    while (most > 0) {
        const Goal *goal;
        Stream *stream;
        Position until;

        if (order->n_goals == 0) {
            if (!choose(order, &failure) &&
                (failure || !next_interval(order, &failure))) {
                break;
            }
            continue;
        }
        goal = &order->goal[order->n_goals - 1];
        stream = &order->stream[goal->stream];
        if (!read_on(order, stream, &failure)) {
            break;
        }
        until = MIN(free_until(order, stream), goal->to);
        if (stream->reached < until) {
            *run = (Run) { goal->stream, stream->reached,
                           stream->reached + MIN(until - stream->reached, most) };
            order->moment += run->to - run->from;
            stream->reached = run->to;
            return true;
        }
        if (stream->reached >= goal->to ||
            (!stream->has_wait && goal->stream == order->n_streams - 1 && order->n_goals == 1)) {
            order->n_goals--;           /* reached, or the log of DMA has ended */
        } else if (!stream->has_wait) {
            g_set_error(&failure, TOTAL_ORDER_ERROR, TOTAL_ORDER_ERROR_NONE,
                        "%s: ends before step %" G_GUINT64_FORMAT ", which is waited for",
                        path_of(order, stream), goal->to);
            break;
        } else if (!wait_for(order, stream, &failure)) {
            break;
        }
    }
    if (failure) {
        g_propagate_error(error, failure);
    }
    return false;
}

/* --- the interface -------------------------------------------------------------------- */

static bool open_logs(TotalOrder *order, const CheckpointPosition *place, GError **error)
{
    order->reader = order_reader_open(order->directory, order->n_streams - 1,
                                      order->manifest->follow, place ? place->logs : NULL, error);
    for (unsigned i = 0; order->reader && i < order->n_streams; i++) {
        Stream *stream = &order->stream[i];

        stream->reached = stream->known = place_of(place, i);
        order->moment += stream->reached;
    }
    return order->reader;
}

TotalOrder *total_order_open(const char *directory, const Manifest *manifest, unsigned checkpoint,
                             GError **error)
{
    unsigned n_streams = manifest->n_vcpus + 1;
    g_autoptr(TotalOrder) order = g_malloc0(sizeof(*order) + n_streams * sizeof(Stream));
    g_autoptr(CheckpointPosition) place = NULL;

    order->directory = g_strdup(directory);
    order->manifest = manifest;
    order->n_streams = n_streams;
    order->checkpoint = checkpoint;
    order->goal = g_new(Goal, n_streams);
    if (checkpoint >= manifest->checkpoints->len) {
        g_set_error(error, TOTAL_ORDER_ERROR, TOTAL_ORDER_ERROR_OUTSIDE,
                    "%s has no checkpoint %u: reprise info lists them", directory, checkpoint);
        return NULL;
    }
    if (!manifest->complete) {
        order->cut = cut_find_ends(directory, manifest->n_vcpus, manifest->cut, error);
        if (!order->cut) {
            return NULL;
        }
    }
    if (!find_place(order, checkpoint, &place, error) || !open_logs(order, place, error) ||
        !read_epochs(order, error) || !begin_interval(order, error)) {
        return NULL;
    }
    return g_steal_pointer(&order);
}

unsigned total_order_checkpoint(const char *directory, const Manifest *manifest, uint64_t moment)
{
    for (unsigned i = manifest->checkpoints->len; i-- > 1; ) {
        g_autoptr(CheckpointPosition) place = NULL;
        uint64_t at = 0;

        if (checkpoint_position_find(directory, manifest->checkpoints->pdata[i], false,
                                     manifest->n_vcpus, &place, NULL)) {
            for (unsigned j = 0; j <= manifest->n_vcpus; j++) {
                at += place_of(place, j);
            }
            if (at <= moment) {
                return i;
            }
        }
    }
    return 0;
}

TotalOrder *total_order_open_at(const char *directory, const Manifest *manifest, uint64_t moment,
                                GError **error)
{
    unsigned checkpoint = total_order_checkpoint(directory, manifest, moment);
    g_autoptr(TotalOrder) order = total_order_open(directory, manifest, checkpoint, error);
    GError *failure = NULL;

    if (!order) {
        return NULL;
    }
    total_order_follow(order, moment, &failure);
    if (failure) {
        g_propagate_error(error, failure);
        return NULL;
    }
    if (order->moment != moment) {
        g_set_error(error, TOTAL_ORDER_ERROR, TOTAL_ORDER_ERROR_OUTSIDE,
                    "moment %" G_GUINT64_FORMAT " is outside of %s, which has %s%" G_GUINT64_FORMAT,
                    moment, directory, order->moment > moment ? "its first at " : "its last at ",
                    order->moment);
        return NULL;
    }
    return g_steal_pointer(&order);
}

TotalOrder *total_order_copy(const TotalOrder *order)
{
    TotalOrder *copy = g_memdup2(order, sizeof(*order) + order->n_streams * sizeof(Stream));

    copy->directory = g_strdup(order->directory);
    copy->cut = g_memdup2(order->cut, order->cut ? order->n_streams * sizeof(Position) : 0);
    copy->goal = g_memdup2(order->goal, order->n_streams * sizeof(Goal));
    copy->reader = order_reader_copy(order->reader);
    copy->epochs = g_array_ref(order->epochs);
    return copy;
}

size_t total_order_size(const TotalOrder *order)
{
    return sizeof(*order) + order->n_streams * sizeof(Stream) + order_reader_size(order->reader);
}

void total_order_on_wait(TotalOrder *order, TotalOrderWait *wait, void *opaque)
{
    order->on_wait = wait;
    order->opaque = opaque;
}

void total_order_on_epoch(TotalOrder *order, TotalOrderMeet *meet, void *opaque)
{
    order->on_epoch = meet;
    order->opaque = opaque;
}

bool total_order_follow(TotalOrder *order, uint64_t moment, GError **error)
{
    GError *failure = NULL;
    Run run;

    while (order->moment < moment &&
           total_order_next(order, moment - order->moment, &run, &failure)) {
    }
    if (failure) {
        g_propagate_error(error, failure);
    }
    return !failure && order->moment == moment;
}

bool total_order_find(TotalOrder *order, unsigned stream, Position position, uint64_t *moment,
                      GError **error)
{
    GError *failure = NULL;
    Run run;

    while (total_order_next(order, UINT64_MAX, &run, &failure)) {
        if (run.stream == stream && run.from <= position && position < run.to) {
            *moment = order->moment - (run.to - position);
            return true;
        }
    }
    if (failure) {
        g_propagate_error(error, failure);
    }
    return false;
}

void total_order_free(TotalOrder *order)
{
    if (order) {
        order_reader_free(order->reader);
        g_clear_pointer(&order->epochs, g_array_unref);
        g_free(order->directory);
        g_free(order->cut);
        g_free(order->goal);
        g_free(order);
    }
}

uint64_t total_order_moment(const TotalOrder *order)
{
    return order->moment;
}

Position total_order_reached(const TotalOrder *order, unsigned stream)
{
    return order->stream[stream].reached;
}
