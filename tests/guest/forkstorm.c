// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Processes and address spaces that come and go on all CPUs.
 *
 * Exercises: changes of page tables from which other vCPUs hold translations
 * (T pages): fork write-protects entries of a process whose other threads are
 * running; copy-on-write and mprotect change live entries; munmap, madvise,
 * mremap and exit drop entries, with TLB shootdowns by IPI or broadcast; page
 * faults fill empty entries.  Also freed pages that come back as tables or as
 * code (I pages) of another process; exec.
 *
 * Each thread starts one child per round: a fork that works on the memory it
 * inherited, a fork that executes this program again with EXEC_OPTION, or a
 * posix_spawn of the same.  Meanwhile the thread itself overwrites what the
 * child inherited.
 *
 * Self-check: every child's exit status; the contents of all pages, seen by
 * parent and child, which must not see each other's stores; what the child
 * left in shared memory.
 */
#define _GNU_SOURCE
#include "guest.h"

#include <errno.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Undocumented option: run as a child of the storm, with the given seed. */
#define EXEC_OPTION "--executed"
#define SELF "/proc/self/exe"

#define PAGES 32
#define QUARTER (PAGES / 4)

static size_t page_size;
static atomic_ulong raised;

/* Write one word in each line, since each line of a page may be copied wrongly. */
static void paint(char *mem, unsigned page, unsigned count, uint64_t seed)
{
    for (size_t at = page * page_size; at < (page + count) * page_size;
         at += GUEST_LINE) {
        *(volatile uint64_t *)(mem + at) = seed + at;
    }
}

static void check_paint(char *mem, unsigned page, unsigned count,
                        uint64_t seed, const char *what)
{
    for (size_t at = page * page_size; at < (page + count) * page_size;
         at += GUEST_LINE) {
        uint64_t seen = *(volatile uint64_t *)(mem + at);

        check(seen == seed + at, "%s: %" PRIx64 " instead of %" PRIx64
              " at offset %zx", what, seen, seed + at, at);
    }
}

/* Return an exit status other than 0, 1 and 2, which have a meaning. */
static int status_of(uint64_t seed)
{
    return 16 + seed % 200;
}

/* The child is alone in its address space, so no other thread can fill the hole. */
static void __attribute__((noreturn))
forked_child(char *mem, uint64_t *shared, uint64_t seed)
{
    unsigned char present[PAGES];

    check_paint(mem, 0, PAGES, seed, "memory inherited by a child");
    paint(mem, 0, 2 * QUARTER, ~seed);
    check_paint(mem, 0, 2 * QUARTER, ~seed, "child's own stores");
    check_paint(mem, 2 * QUARTER, 2 * QUARTER, seed, "child's untouched pages");
    check(munmap(mem + QUARTER * page_size, page_size) == 0, "munmap: %m");
    check(mincore(mem + QUARTER * page_size, page_size, present) == -1 &&
          errno == ENOMEM, "an unmapped page is still there");
    paint((char *)shared, 0, 1, ~seed);
    _exit(status_of(seed));
}

static int executed_child(const char *text)
{
    uint64_t seed = strtoull(text, NULL, 16);
    char *mem = guest_map(PAGES * page_size, MAP_PRIVATE);

    paint(mem, 0, PAGES, seed);
    check_paint(mem, 0, PAGES, seed, "memory of an executed child");
    return status_of(seed);
}

static pid_t raise_child(unsigned kind, char *mem, uint64_t *shared,
                         uint64_t seed)
{
    char text[20];
    char *argv[] = { (char *)guest.name, (char *)EXEC_OPTION, text, NULL };
    pid_t pid;

    snprintf(text, sizeof(text), "%" PRIx64, seed);
    if (kind == 2) {
        check(posix_spawn(&pid, SELF, NULL, NULL, argv, environ) == 0,
              "cannot spawn " SELF);
        return pid;
    }
    pid = fork();
    check(pid >= 0, "fork: %m");
    if (pid == 0) {
        if (kind == 0) {
            forked_child(mem, shared, seed);
        }
        execv(SELF, argv);
        die("exec of " SELF ": %m");
    }
    return pid;
}

/* Change live page-table entries in every way, while other threads run. */
static void reshape(char *mem, uint64_t seed)
{
    size_t size = PAGES * page_size;
    char *middle = mem + QUARTER * page_size;

    check(mprotect(mem, size, PROT_READ) == 0, "mprotect: %m");
    check_paint(mem, 0, PAGES, seed, "read-only memory");
    check(mprotect(mem, size, PROT_READ | PROT_WRITE) == 0, "mprotect: %m");
    check(madvise(middle, QUARTER * page_size, MADV_DONTNEED) == 0,
          "madvise: %m");
    for (size_t at = 0; at < QUARTER * page_size; at += GUEST_LINE) {
        check(middle[at] == 0, "a dropped page is not empty");
    }
    paint(mem, QUARTER, QUARTER, seed);
    mem = mremap(mem, size, 2 * size, MREMAP_MAYMOVE);
    check(mem != MAP_FAILED, "mremap: %m");
    check_paint(mem, 0, PAGES, seed, "moved memory");
    check(munmap(mem, 2 * size) == 0, "munmap: %m");
}

static void storm(unsigned id)
{
    for (unsigned long i = 0; i < guest.rounds; i++) {
        uint64_t seed = guest_mix((uint64_t)id << 32 | i);
        char *mem = guest_map(PAGES * page_size, MAP_PRIVATE);
        uint64_t *shared = guest_map(page_size, MAP_SHARED);
        unsigned kind = (id + i) % 3;
        pid_t pid;

        paint(mem, 0, PAGES, seed);
        pid = raise_child(kind, mem, shared, seed);
        paint(mem, 0, PAGES, seed + 1);
        guest_reap(pid, status_of(seed), "child");
        if (kind == 0) {
            check_paint((char *)shared, 0, 1, ~seed, "shared memory");
        }
        check_paint(mem, 0, PAGES, seed + 1, "memory of a parent");
        reshape(mem, seed + 1);
        check(munmap(shared, page_size) == 0, "munmap: %m");
        atomic_fetch_add(&raised, 1);
    }
}

int main(int argc, char **argv)
{
    page_size = sysconf(_SC_PAGESIZE);
    if (argc == 3 && strcmp(argv[1], EXEC_OPTION) == 0) {
        guest.name = "forkstorm (executed)";
        return executed_child(argv[2]);
    }
    guest_init("forkstorm", 40, argc, argv);
    guest_parallel(guest.threads, storm);
    check(atomic_load(&raised) == guest.threads * guest.rounds,
          "%lu children raised", atomic_load(&raised));
    guest_result("children=%lu", atomic_load(&raised));
    return 0;
}
