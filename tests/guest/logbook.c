// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Threads write a book together.  With an option, some writes lack the lock.
 *
 * Usage:  logbook [unlocked] [-t THREADS] [-n ROUNDS] [THREADS [ROUNDS]]
 *
 * Exercises: a contended mutex, and an array that is written under that mutex.
 * With the word `unlocked` the program has the bug of docs/example.md: urgent
 * entries are written without the lock.  Sooner or later a thread that holds
 * the lock finds another thread's name in its entry, and panics the kernel,
 * since a crash is easier to examine than wrong data.  Entries that are written
 * without the lock are not checked, so the thread that finds the fault is never
 * the thread that caused it.
 *
 * Self-check: each writer's name is still in its entry when that is complete,
 * and the book has as many entries as were written.
 */
#define _GNU_SOURCE
#include "guest.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ENTRIES 64
#define WORDS 7                 /* an entry fills a line */
#define URGENT_EVERY 4          /* one entry in so many is urgent */

/* Practically for ever: on a busy host, vCPUs seldom run at the same time. */
#define UNTIL_IT_PANICS 1000000000

/* Keeps the compiler from inlining the function, so that it is in backtraces. */
#define FRAME __attribute__((noipa))

typedef struct Entry {
    _Alignas(GUEST_LINE) unsigned author;
    uint64_t text[WORDS];
} Entry;

static struct {
    pthread_mutex_t lock;
    _Alignas(GUEST_LINE) unsigned long written;     /* the next is at % ENTRIES */
    Entry entries[ENTRIES];
} logbook = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool without_lock;

static void lock_logbook(void)
{
    check(pthread_mutex_lock(&logbook.lock) == 0, "pthread_mutex_lock");
}

static void unlock_logbook(void)
{
    check(pthread_mutex_unlock(&logbook.lock) == 0, "pthread_mutex_unlock");
}

/* Called with the lock held, but for the bug. */
static FRAME Entry *add_entry(unsigned author)
{
    Entry *entry = &logbook.entries[logbook.written % ENTRIES];

    entry->author = author;
    for (unsigned i = 0; i < WORDS; i++) {
        entry->text[i] = guest_mix(entry->text[i] + i);
    }
    logbook.written++;
    return entry;
}

static FRAME void __attribute__((noreturn))
entry_is_broken(Entry *entry, unsigned author)
{
    int fd;

    dprintf(STDERR_FILENO, "logbook: entry %zu is of thread %u, but says %u\n",
            (size_t)(entry - logbook.entries), author, entry->author);
    fd = open("/proc/sysrq-trigger", O_WRONLY);
    check(fd >= 0 && write(fd, "c", 1) == 1, "cannot panic: %m");
    die("the kernel does not panic");
}

static FRAME void write_entry(unsigned author)
{
    Entry *entry;

    lock_logbook();
    entry = add_entry(author);
    if (entry->author != author) {
        entry_is_broken(entry, author);
    }
    unlock_logbook();
}

/* The bug: with `unlocked`, it writes without the lock. */
static FRAME void write_urgent_entry(unsigned author)
{
    if (without_lock) {
        add_entry(author);
        return;
    }
    lock_logbook();
    add_entry(author);
    unlock_logbook();
}

/* Pin the thread, so that a debugger, which sees vCPUs, always finds it on the same vCPU. */
static void stay_on_cpu(unsigned cpu)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    check(sched_setaffinity(0, sizeof(one), &one) == 0, "sched_setaffinity: %m");
}

static void write_entries(unsigned id)
{
    stay_on_cpu(id % sysconf(_SC_NPROCESSORS_ONLN));
    for (unsigned long i = 1; i <= guest.rounds; i++) {
        if (i % URGENT_EVERY == 0) {
            write_urgent_entry(id);
        } else {
            write_entry(id);
        }
    }
}

int main(int argc, char **argv)
{
    without_lock = argc > 1 && strcmp(argv[1], "unlocked") == 0;
    guest_init("logbook", without_lock ? UNTIL_IT_PANICS : 200000,
               argc - without_lock, argv + without_lock);
    guest_parallel(guest.threads, write_entries);
    check(without_lock || logbook.written == guest.threads * guest.rounds,
          "%lu entries instead of %lu", logbook.written, guest.threads * guest.rounds);
    guest_result("entries=%lu", logbook.written);
    return 0;
}
