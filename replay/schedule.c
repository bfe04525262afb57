/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See schedule.h.  Memory order: a position is published with release and read
 * with acquire, so all that a stream did before is seen by who waited for it, and
 * by who waited for that one: arcs that were left out as implied stay valid.
 * A waiter says what it wants before it looks at the position for the last time,
 * and a publisher looks at what is wanted after it has published (full barriers).
 * A turn is passed on with release as well.
 */
#include <sched.h>

#include "replay/schedule.h"

/*
 * How long to spin before one sleeps.  It takes long to wake up again, and mostly others
 * wait for that one, too.  There may be more vCPUs than host cores, and who is waited for may have
 * none; so the spinner offers its own all the time.
 */
#define SPIN_US 200
/* How long a sleeper may overlook that it was interrupted. */
#define NAP_US 2000

typedef struct Stream {
    Position reached;           /* atomic */
    unsigned waits_for;         /* atomic; what it @wants of it was written after this */
    Position wants;             /* atomic; 0: nothing */
    bool ended;                 /* under the lock */
    int n_waiting;              /* for it; atomic */
    int asleep;                 /* atomic, written under the lock */
    GCond woken;                /* it waits no longer, or it is its turn */
} Stream;

struct Schedule {
    const ScheduleOps *ops;
    unsigned n_streams;
    unsigned n_turns;           /* vCPUs that take turns; 0: they do not */
    unsigned turn;              /* atomic: whose */
    GMutex lock;
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
    }
    return schedule;
}

void schedule_free(Schedule *schedule)
{
    if (schedule) {
        g_mutex_clear(&schedule->lock);
        for (unsigned i = 0; i < schedule->n_streams; i++) {
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

static void wake(Schedule *schedule, Stream *waiter)
{
    g_mutex_lock(&schedule->lock);
    g_cond_signal(&waiter->woken);
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
            wake(schedule, waiter);
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

static bool reached(Schedule *schedule, unsigned stream, Position position)
{
    return schedule_reached(schedule, stream) >= position;
}

/* --- turns ------------------------------------------------------------------- */

void schedule_take_turns(Schedule *schedule, unsigned n_vcpus)
{
    schedule->n_turns = n_vcpus;
}

bool schedule_has_turn(Schedule *schedule, unsigned vcpu)
{
    return !schedule->n_turns || __atomic_load_n(&schedule->turn, __ATOMIC_ACQUIRE) == vcpu;
}

static void pass_turn(Schedule *schedule, unsigned to)
{
    if (schedule->n_turns) {
        g_mutex_lock(&schedule->lock);
        __atomic_store_n(&schedule->turn, to, __ATOMIC_RELEASE);
        g_cond_signal(&schedule->stream[to].woken);
        g_mutex_unlock(&schedule->lock);
    }
}

bool schedule_turn(Schedule *schedule, unsigned vcpu)
{
    while (!schedule_has_turn(schedule, vcpu) && !schedule->ops->interrupted(vcpu)) {
        g_mutex_lock(&schedule->lock);
        if (!schedule_has_turn(schedule, vcpu)) {
            g_cond_wait_until(&schedule->stream[vcpu].woken, &schedule->lock,
                              g_get_monotonic_time() + NAP_US);
        }
        g_mutex_unlock(&schedule->lock);
    }
    return schedule_has_turn(schedule, vcpu);
}

/* The others can all go on, or wait for one that can. */
void schedule_end(Schedule *schedule, unsigned vcpu)
{
    unsigned next = 0;

    g_mutex_lock(&schedule->lock);
    schedule->stream[vcpu].ended = true;
    while (next < schedule->n_turns && schedule->stream[next].ended) {
        next++;
    }
    g_mutex_unlock(&schedule->lock);
    if (schedule_has_turn(schedule, vcpu) && next < schedule->n_turns) {
        pass_turn(schedule, next);
    }
}

/* Until it has reached that, is woken for another reason, or a moment has passed. */
static void sleep_until(Schedule *schedule, unsigned waiter, unsigned stream, Position position)
{
    Stream *self = &schedule->stream[waiter];

    g_mutex_lock(&schedule->lock);
    __atomic_store_n(&self->asleep, true, __ATOMIC_SEQ_CST);
    if (!reached(schedule, stream, position)) {
        g_cond_wait_until(&self->woken, &schedule->lock, g_get_monotonic_time() + NAP_US);
    }
    __atomic_store_n(&self->asleep, false, __ATOMIC_RELAXED);
    g_mutex_unlock(&schedule->lock);
}

bool schedule_wait(Schedule *schedule, unsigned waiter, unsigned stream, Position position)
{
    int64_t since;

    while (schedule->n_turns && !reached(schedule, stream, position)) {
        pass_turn(schedule, stream);
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
        if (g_get_monotonic_time() - since > SPIN_US) {
            sleep_until(schedule, waiter, stream, position);
        } else {
            sched_yield();
        }
    }
    want(schedule, waiter, stream, 0);
    return reached(schedule, stream, position);
}

void schedule_idle(Schedule *schedule, unsigned waiter)
{
    if (!schedule->ops->interrupted(waiter)) {
        g_usleep(NAP_US);
    }
}
