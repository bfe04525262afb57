// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Threads write a book together; one way to write lacks the lock, if asked for.
 *
 * Usage:  logbook [unlocked] [-t THREADS] [-n ROUNDS] [THREADS [ROUNDS]]
 *
 * Exercises: a mutex that everybody wants, and an array that is written under
 * it.  With the word `unlocked` it has the bug of docs/example.md: urgent
 * entries are written without the lock.  Sooner or later somebody who has it
 * finds another one's name in his entry, and panics the kernel, as one does who
 * rather has a crash to look at than data that is wrong.  What is written
 * without the lock is not checked, so the one who finds out is never the one
 * who did it.
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
#define URGENT_EVERY 4          /* of so many entries, one is */

/* As good as for ever: on a busy host, vCPUs seldom run at the same time. */
#define UNTIL_IT_PANICS 1000000000

/* Seen as such in a backtrace, whatever the compiler thinks of it. */
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

/* The caller has the lock. */
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

/* The bug: whoever wrote this could not wait. */
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

/* So that a debugger, which sees vCPUs, sees a thread always on the same one. */
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
