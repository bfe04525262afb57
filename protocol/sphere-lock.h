/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A lock for short critical sections, waits on a futex word, and clocks.
 *
 * The lock spins for a moment, then sleeps: with more vCPUs than host cores its holder may be
 * preempted, and a spinning waiter could keep the holder from its core.  To take it is sequentially
 * consistent: sphere_leave_user() looks whether it is held.
 *
 * This header is also the seam for the tester: tests/protocol/model/fiber-lock.h replaces it, so
 * that a seed decides which fiber goes on at each lock and wait.
 */
#ifndef PROTOCOL_SPHERE_LOCK_H
#define PROTOCOL_SPHERE_LOCK_H

#include <glib.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPHERE_LOCK_SPINS 200

/* Return a time for measuring short spans.  Cheap: read at every miss, and by spinning waiters. */
static inline int64_t sphere_now_us(void)
{
#if defined(__aarch64__)
    uint64_t now, per_second;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
    __asm__("mrs %0, cntfrq_el0" : "=r"(per_second));
    return now / MAX(per_second / 1000000, 1);     /* some firmware leaves cntfrq_el0 at 0 */
#else
    return g_get_monotonic_time();
#endif
}

/* Return the CPU time that all threads of this process have used, on all cores. */
static inline int64_t sphere_cpu_us(void)
{
    struct timespec used;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec * 1000000 + used.tv_nsec / 1000;
}

static inline void sphere_relax(void)
{
#if defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#elif defined(__x86_64__)
    __asm__ volatile("pause" ::: "memory");
#endif
}

/* Yield the host core: for waits that end soon, but not before other threads have run. */
static inline void sphere_yield(void)
{
    sched_yield();
}

/* Sleep while @word is @value.  May return early. */
static inline void sphere_sleep_while(int *word, int value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

/* Sleep while @word is @value, for @us microseconds at most. */
static inline void sphere_nap_while(int *word, int value, unsigned us)
{
    struct timespec most = { us / 1000000, us % 1000000 * 1000 };

    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &most, NULL, 0);
}

static inline void sphere_wake_one(int *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Called between two atomic operations of one thread.  The tester lets other fibers run here. */
static inline void sphere_seam(void)
{
}

/* Take @lock if it is free.  Its values: 0 free, 1 held, 2 held and a waiter may sleep. */
static inline bool sphere_lock_try(int *lock)
{
    int free = 0;

    return __atomic_compare_exchange_n(lock, &free, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

static inline void sphere_lock(int *lock)
{
    for (int i = 0; i < SPHERE_LOCK_SPINS; i++) {
        if (sphere_lock_try(lock)) {
            return;
        }
        sphere_relax();
    }
    while (__atomic_exchange_n(lock, 2, __ATOMIC_SEQ_CST) != 0) {
        sphere_sleep_while(lock, 2);
    }
}

static inline void sphere_unlock(int *lock)
{
    if (__atomic_exchange_n(lock, 0, __ATOMIC_RELEASE) == 2) {
        sphere_wake_one(lock);
    }
}

#endif
