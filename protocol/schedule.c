/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See schedule.h.  Memory order: a position is published with release and read
 * with acquire, so all that a stream did before is seen by who waited for it, and
 * by who waited for that one: arcs that were left out as implied stay valid.
 * A waiter says what it wants before it looks at the position for the last time,
 * and a publisher looks at what is wanted after it has published (full barriers).
 * A turn is passed on with release as well.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* sched_setaffinity() */
#endif
#include <sched.h>
#include <unistd.h>

#include "protocol/schedule.h"

/* How long to spin before one sleeps: if each has a host core, or another could use this one. */
#define SPIN_US 200
#define SPIN_SHARED_US 10
/* How long a sleeper may overlook that it was interrupted. */
#define NAP_US 2000

typedef struct Stream {
    Position reached;           /* atomic */
    unsigned waits_for;         /* atomic; what it @wants of it was written after this */
    Position wants;             /* atomic; 0: nothing */
    int n_waiting;              /* for it; atomic */
    int asleep;                 /* atomic, written under the lock */
    bool has_turn;              /* atomic, written under the lock */
    GCond woken;                /* it waits no longer, or it is its turn */

    /* Under the lock. */
    bool ended;
    uint64_t since;             /* how many turns had been given when it got its latest one */
    pid_t thread;               /* 0: it was not here yet */
    int core;                   /* of its turn */
    int pinned;                 /* that of its thread, or -1 */
} Stream;

struct Schedule {
    const ScheduleOps *ops;
    unsigned n_streams;
    unsigned n_vcpus;           /* that take turns; 0: they do not */
    bool fixed;                 /* one turn, in a fixed order; else a turn for each core */
    cpu_set_t cores;            /* of the host, which we may use */
    GMutex lock;
    /* Under the lock. */
    uint64_t n_given;           /* turns */
    unsigned n_free;
    int free_core[CPU_SETSIZE]; /* of turns that nobody could use */
    Stream stream[];
};

Schedule *schedule_new(unsigned n_streams, const ScheduleOps *ops)
{
    Schedule *schedule = g_malloc0(sizeof(*schedule) + n_streams * sizeof(Stream));

    schedule->ops = ops;
    schedule->n_streams = n_streams;
    g_mutex_init(&schedule->lock);
    for (unsigned i = 0; i < n_streams; i++) {
        g_cond_init(&schedule->stream[i].woken);
        schedule->stream[i].pinned = -1;
    }
    return schedule;
}

/* It may run on any core again. */
static void unpin(Schedule *schedule, Stream *stream)
{
    if (stream->pinned >= 0) {
        sched_setaffinity(stream->thread, sizeof(schedule->cores), &schedule->cores);
        stream->pinned = -1;
    }
}

void schedule_free(Schedule *schedule)
{
    if (schedule) {
        g_mutex_clear(&schedule->lock);
        for (unsigned i = 0; i < schedule->n_streams; i++) {
            unpin(schedule, &schedule->stream[i]);
            g_cond_clear(&schedule->stream[i].woken);
        }
        g_free(schedule);
    }
}

Position schedule_reached(Schedule *schedule, unsigned stream)
{
    return __atomic_load_n(&schedule->stream[stream].reached, __ATOMIC_ACQUIRE);
}

/* The position that @waiter wants @stream to reach; 0: none. */
static Position wanted_of(const Stream *waiter, unsigned stream)
{
    Position wants = __atomic_load_n(&waiter->wants, __ATOMIC_ACQUIRE);

    return __atomic_load_n(&waiter->waits_for, __ATOMIC_RELAXED) == stream ? wants : 0;
}

static bool anybody_waits(Schedule *schedule, unsigned stream)
{
    return __atomic_load_n(&schedule->stream[stream].n_waiting, __ATOMIC_RELAXED) != 0;
}

static bool reached(Schedule *schedule, unsigned stream, Position position)
{
    return schedule_reached(schedule, stream) >= position;
}

/* --- turns ------------------------------------------------------------------- */

bool schedule_has_turn(Schedule *schedule, unsigned vcpu)
{
    return !schedule->n_vcpus ||
           __atomic_load_n(&schedule->stream[vcpu].has_turn, __ATOMIC_ACQUIRE);
}

/* Has it no turn, but could use one?  Under the lock. */
static bool lacks_turn(Schedule *schedule, unsigned vcpu)
{
    Stream *stream = &schedule->stream[vcpu];
    Position wants = __atomic_load_n(&stream->wants, __ATOMIC_ACQUIRE);

    return vcpu < schedule->n_vcpus && !schedule_has_turn(schedule, vcpu) && !stream->ended &&
           reached(schedule, __atomic_load_n(&stream->waits_for, __ATOMIC_RELAXED), wants);
}

/*
 * The thread is pinned to the turn's core.  The host would let it wait for the one on which it
 * was last, or on which it was woken, for longer than it takes until somebody must wait again,
 * while the core of who gave it the turn is idle.
 */
static void give_turn(Schedule *schedule, unsigned to, int core)
{
    Stream *stream = &schedule->stream[to];

    stream->since = schedule->n_given++;
    stream->core = core;
    if (!schedule->fixed && stream->thread && stream->pinned != core) {
        cpu_set_t one;

        CPU_ZERO(&one);
        CPU_SET(core, &one);
        sched_setaffinity(stream->thread, sizeof(one), &one);
        stream->pinned = core;
    }
    __atomic_store_n(&stream->has_turn, true, __ATOMIC_RELEASE);
}

/* One that nobody could use so far. */
static bool take_free_turn(Schedule *schedule, unsigned vcpu)
{
    if (!schedule->n_free || !lacks_turn(schedule, vcpu)) {
        return false;
    }
    give_turn(schedule, vcpu, schedule->free_core[--schedule->n_free]);
    return true;
}

/* Whose turn is it if @to is waited for: rather one for whom others wait; who had none longest. */
static int whose_turn(Schedule *schedule, unsigned to)
{
    int best = -1;

    if (schedule->fixed || lacks_turn(schedule, to)) {
        return to;
    }
    for (unsigned i = 0; i < schedule->n_vcpus; i++) {
        if (lacks_turn(schedule, i) &&
            (best < 0 || anybody_waits(schedule, i) > anybody_waits(schedule, best) ||
             (anybody_waits(schedule, i) == anybody_waits(schedule, best) &&
              schedule->stream[i].since < schedule->stream[best].since))) {
            best = i;
        }
    }
    return best;
}

/* If it has one.  Under the lock. */
static void pass_turn(Schedule *schedule, unsigned from, unsigned to)
{
    Stream *stream = &schedule->stream[from];
    int next;

    if (!stream->has_turn) {
        return;
    }
    next = whose_turn(schedule, to);
    __atomic_store_n(&stream->has_turn, false, __ATOMIC_RELEASE);
    if (next < 0) {
        schedule->free_core[schedule->n_free++] = stream->core;
    } else {
        give_turn(schedule, next, stream->core);
        g_cond_signal(&schedule->stream[next].woken);
    }
}

void schedule_take_turns(Schedule *schedule, unsigned n_vcpus)
{
    schedule->n_vcpus = n_vcpus;
    schedule->fixed = true;
    give_turn(schedule, 0, 0);
}

void schedule_share_cores(Schedule *schedule, unsigned n_vcpus)
{
    unsigned given = 0;

    if (sched_getaffinity(0, sizeof(schedule->cores), &schedule->cores) != 0 ||
        (unsigned)CPU_COUNT(&schedule->cores) >= n_vcpus) {
        return;
    }
    schedule->n_vcpus = n_vcpus;
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &schedule->cores)) {
            give_turn(schedule, given++, core);
        }
    }
}

/* Its thread is here for the first time. */
static void come(Schedule *schedule, Stream *stream)
{
    if (!stream->thread) {
        stream->thread = gettid();
        if (stream->has_turn) {
            give_turn(schedule, stream - schedule->stream, stream->core);
        }
    }
}

bool schedule_turn(Schedule *schedule, unsigned vcpu)
{
    Stream *self = &schedule->stream[vcpu];

    if (!schedule->n_vcpus) {
        return true;
    }
    g_mutex_lock(&schedule->lock);
    come(schedule, self);
    while (!self->has_turn && !take_free_turn(schedule, vcpu) &&
           !schedule->ops->interrupted(vcpu)) {
        g_cond_wait_until(&self->woken, &schedule->lock, g_get_monotonic_time() + NAP_US);
    }
    g_mutex_unlock(&schedule->lock);
    return schedule_has_turn(schedule, vcpu);
}

/* The others can all go on, or wait for one that can. */
void schedule_end(Schedule *schedule, unsigned vcpu)
{
    unsigned next = 0;

    g_mutex_lock(&schedule->lock);
    schedule->stream[vcpu].ended = true;
    unpin(schedule, &schedule->stream[vcpu]);
    while (next < schedule->n_vcpus && schedule->stream[next].ended) {
        next++;
    }
    if (next < schedule->n_vcpus) {
        pass_turn(schedule, vcpu, next);
    }
    g_mutex_unlock(&schedule->lock);
}

/* --- positions --------------------------------------------------------------- */

/* @waiter, which waits no longer.  Without a turn to be had it goes on when it is given one. */
static void wake(Schedule *schedule, unsigned waiter)
{
    g_mutex_lock(&schedule->lock);
    if (schedule_has_turn(schedule, waiter) || take_free_turn(schedule, waiter)) {
        g_cond_signal(&schedule->stream[waiter].woken);
    }
    g_mutex_unlock(&schedule->lock);
}

void schedule_publish(Schedule *schedule, unsigned stream, Position position)
{
    __atomic_store_n(&schedule->stream[stream].reached, position, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!anybody_waits(schedule, stream)) {
        return;
    }
    for (unsigned i = 0; i < schedule->n_streams; i++) {
        Stream *waiter = &schedule->stream[i];
        Position wanted = wanted_of(waiter, stream);

        if (wanted && wanted <= position && __atomic_load_n(&waiter->asleep, __ATOMIC_RELAXED)) {
            wake(schedule, i);
        }
    }
}

/* Who comes to want something while this looks kicks the stream, which looks again. */
Position schedule_wanted(Schedule *schedule, unsigned stream)
{
    Position reached = schedule_reached(schedule, stream);
    Position first = UINT64_MAX;

    for (unsigned i = 0; anybody_waits(schedule, stream) && i < schedule->n_streams; i++) {
        Position wanted = wanted_of(&schedule->stream[i], stream);

        if (wanted > reached) {
            first = MIN(first, wanted);
        }
    }
    return first;
}

static void want(Schedule *schedule, unsigned waiter, unsigned stream, Position position)
{
    __atomic_store_n(&schedule->stream[waiter].waits_for, stream, __ATOMIC_RELAXED);
    __atomic_store_n(&schedule->stream[waiter].wants, position, __ATOMIC_RELEASE);
    __atomic_fetch_add(&schedule->stream[stream].n_waiting, position ? 1 : -1, __ATOMIC_SEQ_CST);
}

/* Until it has reached that, is woken for another reason, or a moment has passed. */
static void sleep_until(Schedule *schedule, unsigned waiter, unsigned stream, Position position)
{
    Stream *self = &schedule->stream[waiter];

    g_mutex_lock(&schedule->lock);
    __atomic_store_n(&self->asleep, true, __ATOMIC_SEQ_CST);
    if (!reached(schedule, stream, position)) {
        pass_turn(schedule, waiter, stream);
        g_cond_wait_until(&self->woken, &schedule->lock, g_get_monotonic_time() + NAP_US);
    }
    __atomic_store_n(&self->asleep, false, __ATOMIC_RELAXED);
    g_mutex_unlock(&schedule->lock);
}

/* Should @waiter, which has spun for @us, rather sleep, and leave its turn to another? */
static bool is_better_asleep(Schedule *schedule, unsigned stream, int64_t us)
{
    if (!schedule->n_vcpus) {
        return us > SPIN_US;
    }
    return us > SPIN_SHARED_US || !schedule_has_turn(schedule, stream);
}

bool schedule_wait(Schedule *schedule, unsigned waiter, unsigned stream, Position position)
{
    int64_t since;

    while (schedule->fixed && !reached(schedule, stream, position)) {
        g_mutex_lock(&schedule->lock);
        pass_turn(schedule, waiter, stream);
        g_mutex_unlock(&schedule->lock);
        if (!schedule_turn(schedule, waiter)) {
            return false;
        }
    }
    if (reached(schedule, stream, position)) {
        return true;
    }
    want(schedule, waiter, stream, position);
    schedule->ops->kick(stream);
    since = g_get_monotonic_time();
    while (!reached(schedule, stream, position) && !schedule->ops->interrupted(waiter)) {
        if (is_better_asleep(schedule, stream, g_get_monotonic_time() - since)) {
            sleep_until(schedule, waiter, stream, position);
        }
    }
    want(schedule, waiter, stream, 0);
    return reached(schedule, stream, position) && schedule_turn(schedule, waiter);
}

void schedule_idle(Schedule *schedule, unsigned waiter)
{
    if (!schedule->ops->interrupted(waiter)) {
        g_usleep(NAP_US);
    }
}
