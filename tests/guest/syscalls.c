// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * System calls that wait, read clocks, and share files.
 *
 * Exercises: clock reads and timer interrupts as inputs; idle vCPUs that sleep
 * and wake; futexes; system calls interrupted and restarted; the page cache,
 * written by system calls and through shared mappings (dirty tracking by page
 * table entries).  signals.c has more about signals and timers.
 *
 * Every thread does all exercises in each round, while an interval timer
 * interrupts it.  Threads keep in step only as far as they wait for each other.
 *
 * Self-check: awaited events arrive, and as often as they should; no clock runs
 * backwards, not even between CPUs; no thread wakes too early; files hold what
 * was written.  After a failure the directory in /tmp stays.
 */
#define _GNU_SOURCE
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define ALARM_US 2000
#define NAP_NS 200000

/* On a disk, a sync in each round would take most of the time. */
#define ROUNDS_PER_SYNC 16

#define FILE_SIZE 8192
#define FILE_HALF (FILE_SIZE / 2)

typedef struct Worker {
    _Alignas(GUEST_LINE) int eventfd;
    uint64_t events;
} Worker;

static Worker workers[GUEST_MAX_THREADS];
static char directory[] = "/tmp/syscalls.XXXXXX";
static atomic_uint baton;
static atomic_ulong alarms;
static _Atomic uint64_t latest_ns;

static long futex(atomic_uint *word, int op, unsigned value,
                  const struct timespec *timeout)
{
    return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, timeout);
}

/* Pass the baton on: the thread that the baton names increments it. */
static void exercise_futex(unsigned id)
{
    static const struct timespec moment = { .tv_nsec = 1 };
    atomic_uint own = 1;
    unsigned seen;

    while ((seen = atomic_load(&baton)) % guest.threads != id) {
        check(futex(&baton, FUTEX_WAIT, seen, NULL) == 0 || errno == EAGAIN ||
              errno == EINTR, "futex wait: %m");
    }
    atomic_store(&baton, seen + 1);
    check(futex(&baton, FUTEX_WAKE, INT_MAX, NULL) >= 0, "futex wake: %m");

    check(futex(&own, FUTEX_WAIT, 2, NULL) == -1 && errno == EAGAIN,
          "futex waited although the word had another value");
    do {
        check(futex(&own, FUTEX_WAIT, 1, &moment) == -1,
              "futex woke, but nobody woke it");
    } while (errno == EINTR);
    check(errno == ETIMEDOUT, "futex did not time out: %m");
}

/* This thread reads its clock after the other thread's, so it must not be behind. */
static void exercise_clock(void)
{
    uint64_t before = atomic_load(&latest_ns), now = guest_now_ns();
    uint64_t wake = now + NAP_NS;
    struct timespec until = {
        .tv_sec = wake / 1000000000,
        .tv_nsec = wake % 1000000000,
    };
    int err;

    check(now >= before, "the clock of a CPU is %llu ns behind another's",
          (unsigned long long)(before - now));
    do {
        err = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        check(!err || err == EINTR, "clock_nanosleep: %s", strerror(err));
    } while (err);
    now = guest_now_ns();
    check(now >= wake, "woke %llu ns early", (unsigned long long)(wake - now));
    atomic_store(&latest_ns, now);
}

static void exercise_mapping(int fd, char *data)
{
    char *map = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
                     fd, 0);
    char back[FILE_SIZE];

    check(map != MAP_FAILED, "mmap of a file: %m");
    check(memcmp(map, data, FILE_SIZE) == 0, "a mapping differs from its file");
    memset(map + FILE_HALF, '!', FILE_HALF);
    memset(data + FILE_HALF, '!', FILE_HALF);
    check(pread(fd, back, FILE_SIZE, 0) == FILE_SIZE &&
          memcmp(back, data, FILE_SIZE) == 0,
          "a file differs from its mapping");
    check(munmap(map, FILE_SIZE) == 0, "munmap: %m");
}

static void exercise_file(unsigned id, unsigned long round)
{
    char path[64], renamed[64], data[FILE_SIZE];
    int fd;

    snprintf(path, sizeof(path), "%s/%u", directory, id);
    snprintf(renamed, sizeof(renamed), "%s/%u.renamed", directory, id);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    check(fd >= 0, "open %s: %m", path);
    memset(data, 'a' + (id + round) % 26, sizeof(data));
    check(write(fd, data, sizeof(data)) == sizeof(data), "write: %m");
    exercise_mapping(fd, data);
    check(round % ROUNDS_PER_SYNC || fsync(fd) == 0, "fsync: %m");
    check(rename(path, renamed) == 0, "rename: %m");
    check(access(path, F_OK) == -1 && errno == ENOENT,
          "a renamed file still has its old name");
    check(close(fd) == 0 && unlink(renamed) == 0, "unlink: %m");
}

static void receive_events(Worker *self)
{
    struct pollfd own = { .fd = self->eventfd, .events = POLLIN };
    int ready = poll(&own, 1, GUEST_PATIENCE_NS / 1000000);
    uint64_t events;

    if (ready == -1 && errno == EINTR) {
        return;
    }
    check(ready == 1, "an event was lost");
    check(read(self->eventfd, &events, sizeof(events)) == sizeof(events),
          "read of an eventfd: %m");
    self->events += events;
}

/* Send an event to the next thread, then wait for this round's event. */
static void exercise_events(unsigned id, unsigned long round)
{
    uint64_t one = 1;

    check(write(workers[(id + 1) % guest.threads].eventfd, &one,
                sizeof(one)) == sizeof(one), "write of an eventfd: %m");
    while (workers[id].events <= round) {
        receive_events(&workers[id]);
    }
}

/* After all threads have ended: no event too many was received or is pending. */
static void check_events(unsigned id)
{
    struct pollfd own = { .fd = workers[id].eventfd, .events = POLLIN };

    check(poll(&own, 1, 0) == 0, "thread %u has events left over", id);
    check(workers[id].events == guest.rounds, "thread %u got %llu events", id,
          (unsigned long long)workers[id].events);
}

static void on_alarm(int sig)
{
    (void)sig;
    atomic_fetch_add(&alarms, 1);
}

/* Without SA_RESTART, so that every call may be interrupted. */
static void set_alarm(unsigned period_us)
{
    struct itimerval every = { { 0, period_us }, { 0, period_us } };
    struct sigaction action = { .sa_handler = on_alarm };

    check(sigaction(SIGALRM, &action, NULL) == 0, "sigaction: %m");
    check(setitimer(ITIMER_REAL, &every, NULL) == 0, "setitimer: %m");
}

/*
 * Block or unblock alarms.  The main thread blocks them, since it only waits,
 * and would get all of them.
 */
static void take_alarms(int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(how, &set, NULL);
}

static void work(unsigned id)
{
    take_alarms(SIG_UNBLOCK);
    for (unsigned long i = 0; i < guest.rounds; i++) {
        exercise_futex(id);
        exercise_clock();
        exercise_file(id, i);
        exercise_events(id, i);
    }
}

int main(int argc, char **argv)
{
    guest_init("syscalls", 200, argc, argv);
    check(mkdtemp(directory), "mkdtemp %s: %m", directory);
    for (unsigned i = 0; i < guest.threads; i++) {
        workers[i].eventfd = eventfd(0, EFD_CLOEXEC);
        check(workers[i].eventfd >= 0, "eventfd: %m");
    }
    take_alarms(SIG_BLOCK);
    set_alarm(ALARM_US);
    guest_parallel(guest.threads, work);
    set_alarm(0);
    for (unsigned i = 0; i < guest.threads; i++) {
        check_events(i);
    }
    check(atomic_load(&baton) == (unsigned)(guest.threads * guest.rounds),
          "the baton moved %u times", atomic_load(&baton));
    check(rmdir(directory) == 0, "rmdir %s: %m", directory);
    guest_result("handovers=%u alarms=%lu", atomic_load(&baton),
                 atomic_load(&alarms));
    return 0;
}
