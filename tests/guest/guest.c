// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What all guest test programs share; see guest.h.
 */
#define _GNU_SOURCE
#include "guest.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define USAGE "usage: %s [-t THREADS] [-n ROUNDS] [THREADS [ROUNDS]]\n"

/* Polls of the start barrier before the thread yields the CPU. */
#define BARRIER_SPINS 256

typedef struct Member {
    _Alignas(GUEST_LINE) atomic_bool ready;
    pthread_t thread;
} Member;

Guest guest;

static Member crew[GUEST_MAX_THREADS];
static unsigned crew_size;
static void (*crew_work)(unsigned id);

static void __attribute__((noreturn)) usage_error(void)
{
    dprintf(STDERR_FILENO, USAGE, guest.name);
    exit(2);
}

static unsigned long parse_count(const char *text, unsigned long max)
{
    char *end;
    unsigned long value;

    errno = 0;
    value = strtoul(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || errno || !value ||
        value > max) {
        usage_error();
    }
    return value;
}

void guest_init(const char *name, unsigned long default_rounds,
                int argc, char **argv)
{
    static const struct option longs[] = {
        { "help", no_argument, NULL, 'h' },
        { 0 }
    };
    const unsigned long max_rounds = 1000000000ul;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int opt;

    guest.name = name;
    guest.rounds = default_rounds;
    guest.threads = online < 1 ? 1 :
                    online > GUEST_MAX_THREADS ? GUEST_MAX_THREADS : online;
    opterr = 0;
    while ((opt = getopt_long(argc, argv, "t:n:", longs, NULL)) != -1) {
        switch (opt) {
        case 't':
            guest.threads = parse_count(optarg, GUEST_MAX_THREADS);
            break;
        case 'n':
            guest.rounds = parse_count(optarg, max_rounds);
            break;
        case 'h':
            printf(USAGE, name);
            exit(0);
        default:
            usage_error();
        }
    }
    if (optind < argc) {
        guest.threads = parse_count(argv[optind++], GUEST_MAX_THREADS);
    }
    if (optind < argc) {
        guest.rounds = parse_count(argv[optind++], max_rounds);
    }
    if (optind < argc) {
        usage_error();
    }
    guest.started_ns = guest_now_ns();
}

uint64_t guest_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* _exit, because the caller may be a forked child or a thread among many. */
void die(const char *fmt, ...)
{
    char why[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    dprintf(STDERR_FILENO, "%s: %s\n", guest.name, why);
    _exit(1);
}

void guest_result(const char *fmt, ...)
{
    uint64_t ms = (guest_now_ns() - guest.started_ns) / 1000000;
    char keys[128], line[256];
    int length;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(keys, sizeof(keys), fmt, ap);
    va_end(ap);
    length = snprintf(line, sizeof(line),
                      "%s: %s threads=%u rounds=%lu elapsed=%u.%03us\n",
                      guest.name, keys, guest.threads, guest.rounds,
                      (unsigned)(ms / 1000), (unsigned)(ms % 1000));
    check(write(STDOUT_FILENO, line, length) == length, "stdout: %m");
}

/*
 * Move the thread to the CPU number id, modulo and among those that the
 * process may use.  From there the scheduler may move the thread on.
 */
static void begin_on_cpu(unsigned id)
{
    cpu_set_t allowed, one;
    unsigned skip;
    int cpu = -1;

    check(sched_getaffinity(0, sizeof(allowed), &allowed) == 0,
          "sched_getaffinity: %m");
    skip = id % CPU_COUNT(&allowed);
    do {
        cpu++;
    } while (!CPU_ISSET(cpu, &allowed) || skip--);
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    check(sched_setaffinity(0, sizeof(one), &one) == 0 &&
          sched_setaffinity(0, sizeof(allowed), &allowed) == 0,
          "sched_setaffinity: %m");
}

/*
 * Wait for all threads, by spinning.  Threads woken from a futex would start
 * one after the other, and on a slow guest the first could be done before the
 * last begins.
 */
static void start_barrier(unsigned id)
{
    unsigned spins = 0;

    atomic_store_explicit(&crew[id].ready, true, memory_order_release);
    for (unsigned i = 0; i < crew_size; i++) {
        while (!atomic_load_explicit(&crew[i].ready, memory_order_acquire)) {
            if (++spins % BARRIER_SPINS == 0) {
                sched_yield();
            }
        }
    }
}

static void *crew_member(void *opaque)
{
    unsigned id = (Member *)opaque - crew;

    begin_on_cpu(id);
    start_barrier(id);
    crew_work(id);
    return NULL;
}

void guest_parallel(unsigned count, void (*work)(unsigned id))
{
    check(count <= GUEST_MAX_THREADS, "%u threads are too many", count);
    crew_size = count;
    crew_work = work;
    for (unsigned i = 0; i < count; i++) {
        atomic_store(&crew[i].ready, false);
    }
    for (unsigned i = 0; i < count; i++) {
        check(pthread_create(&crew[i].thread, NULL, crew_member,
                             &crew[i]) == 0, "cannot start thread %u", i);
    }
    for (unsigned i = 0; i < count; i++) {
        check(pthread_join(crew[i].thread, NULL) == 0,
              "cannot join thread %u", i);
    }
}

/* Each of the steps can be undone, so different inputs stay different. */
uint64_t guest_mix(uint64_t x)
{
    x = (x ^ x >> 32) * 0xda942042e4dd58b5;
    x = (x ^ x >> 29) * 0xda942042e4dd58b5;
    return x ^ x >> 32;
}

void guest_reap(pid_t pid, int status, const char *what)
{
    int seen;

    while (waitpid(pid, &seen, 0) != pid) {
        check(errno == EINTR, "waitpid for %s: %m", what);
    }
    check(!WIFSIGNALED(seen), "%s was killed by signal %d", what,
          WTERMSIG(seen));
    check(WEXITSTATUS(seen) == status, "%s exited with %d instead of %d",
          what, WEXITSTATUS(seen), status);
}

void *guest_map(size_t size, int flags)
{
    void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE,
                     flags | MAP_ANONYMOUS, -1, 0);

    check(mem != MAP_FAILED, "mmap of %zu bytes: %m", size);
    return mem;
}
