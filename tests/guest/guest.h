/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What all guest test programs share.
 *
 * Every NAME.c in this directory except guest.c is one program: images/build
 * compiles it together with guest.c, statically, for each guest architecture.
 * A program needs nothing but /proc and a writable /tmp.
 *
 * Usage of every program:  NAME [-t THREADS] [-n ROUNDS] [THREADS [ROUNDS]]
 *
 * A program prints one line on stdout when its self-check has passed:
 *
 *   NAME: key=value ... threads=T rounds=N elapsed=S.mmms
 *
 * Exit status: 0 self-check passed, 1 failed (stderr says what), 2 usage.
 */
#ifndef TESTS_GUEST_H
#define TESTS_GUEST_H

#include <stdint.h>
#include <sys/types.h>

/* The coherence unit of the recorder; data kept apart is aligned to it. */
#define GUEST_LINE 64

/* racey keeps a thread's number in one byte of each value that it stores. */
#define GUEST_MAX_THREADS 255

/* How long a program waits for an expected event before it fails. */
#define GUEST_PATIENCE_NS (60 * 1000000000ull)

typedef struct Guest {
    const char *name;
    unsigned threads;
    unsigned long rounds;
    uint64_t started_ns;
} Guest;

/* Set by guest_init(), constant afterwards. */
extern Guest guest;

/* Parse the command line (exit on --help and on errors) and start the clock. */
void guest_init(const char *name, unsigned long default_rounds,
                int argc, char **argv);

/* Return CLOCK_MONOTONIC in nanoseconds. */
uint64_t guest_now_ns(void);

/* Print the reason on stderr and exit with status 1, without any cleanup. */
void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

#define check(cond, ...)      \
    do {                      \
        if (!(cond)) {        \
            die(__VA_ARGS__); \
        }                     \
    } while (0)

/* Print the result line in a single write; fmt holds the program's own keys. */
void guest_result(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * Run work(0) ... work(count - 1) on a thread each and join them all.  The
 * threads begin on different CPUs as far as possible, and none begins before
 * all are running.
 */
void guest_parallel(unsigned count, void (*work)(unsigned id));

/* Scramble 64 bits, one to one, for patterns, seeds and digests. */
uint64_t guest_mix(uint64_t x);

/* Wait for a child, which must exit by itself and with this status. */
void guest_reap(pid_t pid, int status, const char *what);

/* Map anonymous memory, to be unmapped by the caller; flags is MAP_PRIVATE or MAP_SHARED. */
void *guest_map(size_t size, int flags);

#endif
