/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See schedule.h.
 *
 * Memory order.  Counts, of steps and of wake-ups, are written with release and read with acquire,
 * so a waiter sees all that the stream did before, and so does a waiter for that waiter: arcs that
 * were left out as implied stay valid.  A waiter announces the wanted count before it reads the
 * count for the last time, and a publisher reads the wanted counts after it has published (full
 * barriers).  A turn is passed on with release, too.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* sched_setaffinity() */
#endif
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "protocol/schedule.h"

/* How long a waiter spins before it sleeps: with a host core of its own, or a shared one. */
#define SPIN_US 200
#define SPIN_SHARED_US 10
/* How late a sleeper may notice that it was interrupted, or that a core is gone. */
#define NAP_US 2000
/* No thread is pinned for so long after a core was found to be gone. */
#define UNPINNED_US 100000

typedef struct Stream {
    Position reached;           /* atomic */
    unsigned waiter;            /* whose wait its thread has: atomic, written before @wants */
    unsigned waits_for;         /* the stream; likewise */
    uint64_t wants;             /* the count; atomic; 0: it does not wait */
    int n_waiting;              /* waiters for this stream; atomic */
    int asleep;                 /* atomic, written under the lock */
    bool has_turn;              /* atomic, written under the lock */
    GCond woken;                /* the wait is over, or it has a turn */

    /* Under the lock. */
    bool ended;
    uint64_t since;             /* @n_given when it got its latest turn */
    pid_t thread;               /* 0: its thread has not come yet */
    clockid_t cpu_clock;        /* of its thread */
    int core;                   /* host core of its turn */
    int pinned;                 /* host core of its thread, or -1 */
} Stream;

struct Schedule {
    const ScheduleOps *ops;
    WakeUps *wakes;             /* NULL: streams wait for positions */
    unsigned n_streams;
    unsigned n_vcpus;           /* vCPUs that take turns; 0: none do */
    bool fixed;                 /* one turn, in a fixed order; else one for each core */
    cpu_set_t cores;            /* host cores that the process may use */
    GMutex lock;
    /* Under the lock. */
    uint64_t n_given;           /* turns given so far */
    int64_t pin_after;          /* no thread is pinned before this time */
    unsigned n_free;
    int free_core[CPU_SETSIZE]; /* cores of turns that no vCPU could use */
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

void schedule_follow_wake_ups(Schedule *schedule, WakeUps *wakes)
{
    schedule->wakes = wakes;
}

/* Let the thread run on any core again. */
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

bool schedule_is_over(Schedule *schedule, const ScheduleWait *wait)
{
    uint64_t count = schedule->wakes ? wake_ups_count(schedule->wakes, wait->waiter, wait->stream)
                                     : schedule_reached(schedule, wait->stream);

    return count >= wait->count;
}

/*
 * Return the wait of @stream's thread; its count is 0 if there is none.  It may be of parts of two
 * waits, of which the first has just ended: then that thread looks again by itself.
 */
static ScheduleWait wait_of(const Stream *stream)
{
    uint64_t wants = __atomic_load_n(&stream->wants, __ATOMIC_ACQUIRE);

    return (ScheduleWait) {
        .waiter = __atomic_load_n(&stream->waiter, __ATOMIC_RELAXED),
        .stream = __atomic_load_n(&stream->waits_for, __ATOMIC_RELAXED),
        .count = wants,
    };
}

static bool anybody_waits(Schedule *schedule, unsigned stream)
{
    return __atomic_load_n(&schedule->stream[stream].n_waiting, __ATOMIC_RELAXED) != 0;
}

/* --- turns ------------------------------------------------------------------- */

bool schedule_has_turn(Schedule *schedule, unsigned vcpu)
{
    return !schedule->n_vcpus ||
           __atomic_load_n(&schedule->stream[vcpu].has_turn, __ATOMIC_ACQUIRE);
}

/* Return true if @vcpu has no turn, but could use one.  Called with the lock held. */
static bool lacks_turn(Schedule *schedule, unsigned vcpu)
{
    Stream *stream = &schedule->stream[vcpu];
    ScheduleWait wait = wait_of(stream);

    return vcpu < schedule->n_vcpus && !schedule_has_turn(schedule, vcpu) && !stream->ended &&
           schedule_is_over(schedule, &wait);
}

/*
 * Give @to a turn on @core, and pin its thread there.  Unpinned, the thread would often wait for
 * the core on which it ran last or was woken, longer than until the next vCPU must wait, while the
 * core of the vCPU that passed the turn is idle.  But see free_from_core().  Called with the lock
 * held.
 */
static void give_turn(Schedule *schedule, unsigned to, int core)
{
    Stream *stream = &schedule->stream[to];

    stream->since = schedule->n_given++;
    stream->core = core;
    if (!schedule->fixed && stream->thread && stream->pinned != core &&
        g_get_monotonic_time() >= schedule->pin_after) {
        cpu_set_t one;

        CPU_ZERO(&one);
        CPU_SET(core, &one);
        sched_setaffinity(stream->thread, sizeof(one), &one);
        stream->pinned = core;
    }
    __atomic_store_n(&stream->has_turn, true, __ATOMIC_RELEASE);
}

/* Give @vcpu a turn that no vCPU could use so far; return false if there is none, or no need. */
static bool take_free_turn(Schedule *schedule, unsigned vcpu)
{
    if (!schedule->n_free || !lacks_turn(schedule, vcpu)) {
        return false;
    }
    give_turn(schedule, vcpu, schedule->free_core[--schedule->n_free]);
    return true;
}

/*
 * Return the vCPU that gets a turn if @to is waited for; -1: none.  Prefer @to; then a vCPU that
 * others wait for; then the vCPU whose latest turn was given first.  Called with the lock held.
 */
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

/* Pass the turn of @from on, if it has any; @to is waited for.  Called with the lock held. */
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

/* Note the stream's thread when it comes for the first time.  Called with the lock held. */
static void come(Schedule *schedule, Stream *stream)
{
    if (!stream->thread) {
        stream->thread = gettid();
        pthread_getcpuclockid(pthread_self(), &stream->cpu_clock);
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

/* Pass the turn to a vCPU that has not ended: each can go on, or waits for a vCPU that can. */
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

/* Wake @waiter, whose wait is over; without a turn for it, leave that to the next pass_turn(). */
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
    if (schedule->wakes) {
        wake_ups_send(schedule->wakes, stream, position);
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!anybody_waits(schedule, stream)) {
        return;
    }
    for (unsigned i = 0; i < schedule->n_streams; i++) {
        ScheduleWait wait = wait_of(&schedule->stream[i]);

        if (wait.count && wait.stream == stream && schedule_is_over(schedule, &wait) &&
            __atomic_load_n(&schedule->stream[i].asleep, __ATOMIC_RELAXED)) {
            wake(schedule, i);
        }
    }
}

/* Miss no waiter for long: a waiter that comes meanwhile kicks the stream, which calls again. */
Position schedule_wanted(Schedule *schedule, unsigned stream)
{
    Position first = UINT64_MAX;
    uint32_t waiters = 0;

    for (unsigned i = 0; anybody_waits(schedule, stream) && i < schedule->n_streams; i++) {
        ScheduleWait wait = wait_of(&schedule->stream[i]);

        if (wait.stream == stream && !schedule_is_over(schedule, &wait)) {
            first = MIN(first, wait.count);
            waiters |= UINT32_C(1) << wait.waiter;
        }
    }
    return schedule->wakes ? wake_ups_next(schedule->wakes, stream, waiters) : first;
}

/* Tell all that @vcpu's thread has @wait. */
static void want(Schedule *schedule, unsigned vcpu, const ScheduleWait *wait)
{
    Stream *self = &schedule->stream[vcpu];

    __atomic_store_n(&self->waiter, wait->waiter, __ATOMIC_RELAXED);
    __atomic_store_n(&self->waits_for, wait->stream, __ATOMIC_RELAXED);
    __atomic_store_n(&self->wants, wait->count, __ATOMIC_RELEASE);
    __atomic_fetch_add(&schedule->stream[wait->stream].n_waiting, 1, __ATOMIC_SEQ_CST);
}

/* Tell all that @vcpu's thread no longer has @wait. */
static void want_no_more(Schedule *schedule, unsigned vcpu, const ScheduleWait *wait)
{
    __atomic_store_n(&schedule->stream[vcpu].wants, 0, __ATOMIC_RELEASE);
    __atomic_fetch_add(&schedule->stream[wait->stream].n_waiting, -1, __ATOMIC_SEQ_CST);
}

/* Return the CPU time that @stream's thread has used; 0: it has not come, or has ended. */
static int64_t used_us(const Stream *stream)
{
    struct timespec used;

    if (!stream->thread || stream->ended || clock_gettime(stream->cpu_clock, &used) != 0) {
        return 0;
    }
    return used.tv_sec * INT64_C(1000000) + used.tv_nsec / 1000;
}

/*
 * Let @stream's thread run on any core if, pinned, it has hardly run during a nap, in which it had
 * used @used before: another process has its core.  All turns do without pins for a while then,
 * since the next turn on that core would fare no better.  Called with the lock held.
 */
static void free_from_core(Schedule *schedule, Stream *stream, int64_t used)
{
    if (stream->has_turn && stream->pinned >= 0 && used_us(stream) - used < NAP_US / 4) {
        unpin(schedule, stream);
        schedule->pin_after = g_get_monotonic_time() + UNPINNED_US;
    }
}

/* Sleep until @wait is over, @vcpu is woken otherwise, or NAP_US have passed. */
static void sleep_until(Schedule *schedule, unsigned vcpu, const ScheduleWait *wait)
{
    Stream *self = &schedule->stream[vcpu], *source = &schedule->stream[wait->stream];
    int64_t used;

    g_mutex_lock(&schedule->lock);
    __atomic_store_n(&self->asleep, true, __ATOMIC_SEQ_CST);
    if (!schedule_is_over(schedule, wait)) {
        pass_turn(schedule, vcpu, wait->stream);
        used = used_us(source);
        if (!g_cond_wait_until(&self->woken, &schedule->lock, g_get_monotonic_time() + NAP_US)) {
            free_from_core(schedule, source, used);
        }
    }
    __atomic_store_n(&self->asleep, false, __ATOMIC_RELAXED);
    g_mutex_unlock(&schedule->lock);
}

/* Return true if a waiter for @stream that has spun for @us should sleep and pass its turn on. */
static bool is_better_asleep(Schedule *schedule, unsigned stream, int64_t us)
{
    if (!schedule->n_vcpus) {
        return us > SPIN_US;
    }
    return us > SPIN_SHARED_US || !schedule_has_turn(schedule, stream);
}

bool schedule_wait(Schedule *schedule, unsigned vcpu, const ScheduleWait *wait)
{
    int64_t since;

    while (schedule->fixed && !schedule_is_over(schedule, wait)) {
        g_mutex_lock(&schedule->lock);
        pass_turn(schedule, vcpu, wait->stream);
        g_mutex_unlock(&schedule->lock);
        if (!schedule_turn(schedule, vcpu)) {
            return false;
        }
    }
    if (schedule_is_over(schedule, wait)) {
        return true;
    }
    want(schedule, vcpu, wait);
    schedule->ops->kick(wait->stream);
    since = g_get_monotonic_time();
    while (!schedule_is_over(schedule, wait) && !schedule->ops->interrupted(vcpu)) {
        if (is_better_asleep(schedule, wait->stream, g_get_monotonic_time() - since)) {
            sleep_until(schedule, vcpu, wait);
        }
    }
    want_no_more(schedule, vcpu, wait);
    return schedule_is_over(schedule, wait) && schedule_turn(schedule, vcpu);
}

void schedule_idle(Schedule *schedule, unsigned waiter)
{
    if (!schedule->ops->interrupted(waiter)) {
        g_usleep(NAP_US);
    }
}
