// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Signals and timers that interrupt running code.
 *
 * Exercises: timer interrupts as inputs, and their exact position, since a
 * signal is delivered at the instruction that the interrupt hit; signals sent
 * to a thread on another vCPU (reschedule IPIs), which returns from its
 * interrupt into a handler; timers that belong to a thread and expire on the
 * vCPU that armed them.
 *
 * Self-check: queued signals arrive exactly as often as they were sent, an
 * ordinary one at least once; ticks carry their owner's value and do not come
 * early; a computation that handlers interrupt gives the same result twice.
 */
#define _GNU_SOURCE
#include "guest.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SIGQUEUED (SIGRTMIN)        /* to the process, with a value */
#define SIGPOKE   (SIGRTMIN + 1)    /* to the next thread */
#define SIGTICK   (SIGRTMIN + 2)    /* blocked, fetched with sigwaitinfo */

#define ALARM_US 1000
#define TICK_NS 300000
#define TICKS 3
#define COMPUTE_STEPS 20000

typedef struct Worker {
    _Alignas(GUEST_LINE) pthread_t thread;
    atomic_ulong pokes;
} Worker;

static Worker workers[GUEST_MAX_THREADS];
static __thread Worker *self;
static pthread_barrier_t gate;
static atomic_ulong alarms, kills, queued;

static void on_signal(int sig, siginfo_t *info, void *context)
{
    (void)context;
    if (sig == SIGALRM) {
        atomic_fetch_add(&alarms, 1);
    } else if (sig == SIGUSR1) {
        atomic_fetch_add(&kills, 1);
    } else if (sig == SIGQUEUED) {
        atomic_fetch_add(&queued, info->si_value.sival_int);
    } else {
        atomic_fetch_add(&self->pokes, 1);
    }
}

/* Return the signals that have a handler; only workers unblock them. */
static sigset_t handled_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGQUEUED);
    sigaddset(&set, SIGPOKE);
    return set;
}

/* The signal queue is finite.  When it is full, the sender yields to the receivers. */
static void exercise_sending(unsigned id)
{
    Worker *next = &workers[(id + 1) % guest.threads];
    union sigval one = { .sival_int = 1 };
    int err;

    check(kill(getpid(), SIGUSR1) == 0, "kill: %m");
    while (sigqueue(getpid(), SIGQUEUED, one) != 0) {
        check(errno == EAGAIN, "sigqueue: %m");
        sched_yield();
    }
    while ((err = pthread_kill(next->thread, SIGPOKE)) != 0) {
        check(err == EAGAIN, "pthread_kill: %s", strerror(err));
        sched_yield();
    }
}

static uint64_t compute(uint64_t x)
{
    for (unsigned i = 0; i < COMPUTE_STEPS; i++) {
        x = guest_mix(x + i);
    }
    return x;
}

static timer_t start_ticking(void)
{
    struct itimerspec every = { { 0, TICK_NS }, { 0, TICK_NS } };
    struct sigevent event = {
        .sigev_notify = SIGEV_THREAD_ID,
        .sigev_signo = SIGTICK,
        .sigev_value.sival_ptr = self,
    };
    timer_t timer;

    event._sigev_un._tid = syscall(SYS_gettid);
    check(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0,
          "timer_create: %m");
    check(timer_settime(timer, 0, &every, NULL) == 0, "timer_settime: %m");
    return timer;
}

static void exercise_timer(void)
{
    uint64_t start = guest_now_ns();
    timer_t timer = start_ticking();
    unsigned ticks = 0;
    siginfo_t info;
    sigset_t tick;

    sigemptyset(&tick);
    sigaddset(&tick, SIGTICK);
    while (ticks < TICKS) {
        if (sigwaitinfo(&tick, &info) != SIGTICK) {
            check(errno == EINTR, "sigwaitinfo: %m");
            continue;
        }
        check(info.si_value.sival_ptr == self, "a tick of another thread");
        ticks += 1 + info.si_overrun;
    }
    check(guest_now_ns() - start >= (uint64_t)ticks * TICK_NS,
          "%u ticks came early", ticks);
    check(timer_delete(timer) == 0, "timer_delete: %m");
    /*
     * Before Linux 6.13 a tick that was pending outlives its timer; the next
     * timer's count must not begin with it.
     */
    while (sigtimedwait(&tick, NULL, &(struct timespec) { 0 }) == SIGTICK) {
        continue;
    }
}

/* Wait until *count reaches want: a signal may arrive after its sender has returned. */
static void await_count(atomic_ulong *count, unsigned long want,
                        const char *what)
{
    uint64_t start = guest_now_ns();

    while (atomic_load(count) < want) {
        check(guest_now_ns() - start < GUEST_PATIENCE_NS,
              "%lu of %lu %s came", atomic_load(count), want, what);
        usleep(100);
    }
}

static void work(unsigned id)
{
    sigset_t handled = handled_signals();

    self = &workers[id];
    self->thread = pthread_self();
    pthread_sigmask(SIG_UNBLOCK, &handled, NULL);
    pthread_barrier_wait(&gate);
    for (unsigned long i = 0; i < guest.rounds; i++) {
        uint64_t result = compute(i);

        exercise_sending(id);
        check(compute(i) == result, "a signal changed a computation");
        exercise_timer();
    }
    /* No thread ends before all signals have arrived: it may be their target. */
    await_count(&self->pokes, guest.rounds, "signals to a thread");
    await_count(&queued, guest.threads * guest.rounds, "queued signals");
    await_count(&kills, 1, "ordinary signals");
    await_count(&alarms, 1, "alarms");
    pthread_barrier_wait(&gate);
}

static void install_handlers(void)
{
    struct sigaction action = { .sa_sigaction = on_signal };
    sigset_t blocked = handled_signals();

    action.sa_flags = SA_SIGINFO | SA_RESTART;
    for (int sig = 1; sig <= SIGRTMAX; sig++) {
        if (sigismember(&blocked, sig)) {
            check(sigaction(sig, &action, NULL) == 0, "sigaction: %m");
        }
    }
    sigaddset(&blocked, SIGTICK);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
}

int main(int argc, char **argv)
{
    struct itimerval every = { { 0, ALARM_US }, { 0, ALARM_US } };
    unsigned long pokes = 0, total;

    guest_init("signals", 40, argc, argv);
    total = guest.threads * guest.rounds;
    install_handlers();
    pthread_barrier_init(&gate, NULL, guest.threads);
    check(setitimer(ITIMER_REAL, &every, NULL) == 0, "setitimer: %m");
    guest_parallel(guest.threads, work);
    for (unsigned i = 0; i < guest.threads; i++) {
        pokes += atomic_load(&workers[i].pokes);
    }
    check(pokes == total && atomic_load(&queued) == total,
          "%lu and %lu signals came instead of %lu", pokes,
          atomic_load(&queued), total);
    guest_result("signals=%lu", pokes + total);
    return 0;
}
