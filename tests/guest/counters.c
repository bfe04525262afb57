// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Performance counters, by perf_event_open().
 *
 * Exercises, if the CPU has a performance monitor: its registers, which the
 * kernel writes at each switch of threads; counters that are shared by turns;
 * interrupts when a counter overflows.  Without one, the kernel counts time
 * instead, with the same system calls.
 *
 * Each thread counts its own work with several counters at once, and is sampled
 * meanwhile.
 *
 * Self-check: in each round something is counted, and there are samples, each
 * with an address.
 */
#define _GNU_SOURCE
#include "guest.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* More than a CPU has, so that the kernel must let them take turns. */
#define COUNTERS 8

/* A page of state and one of samples: those that do not fit are lost. */
#define PAGE 4096
#define RING_SIZE (2 * PAGE)

#define PERIOD 100000           /* cycles, or nanoseconds */

static bool hardware;
static atomic_ulong samples;
static _Atomic uint64_t digest;

static int open_event(uint64_t period)
{
    struct perf_event_attr attr = {
        .size = sizeof(attr),
        .type = hardware ? PERF_TYPE_HARDWARE : PERF_TYPE_SOFTWARE,
        .config = hardware ? PERF_COUNT_HW_CPU_CYCLES : PERF_COUNT_SW_TASK_CLOCK,
        .sample_period = period,
        .sample_type = period ? PERF_SAMPLE_IP : 0,
        .exclude_kernel = 1,
        .read_format = PERF_FORMAT_TOTAL_TIME_RUNNING,
    };

    return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static int must_open(uint64_t period)
{
    int fd = open_event(period);

    check(fd >= 0, "perf_event_open: %s", strerror(errno));
    return fd;
}

/* Return what was counted; 0 if the counter never had its turn. */
static uint64_t count_of(int fd)
{
    uint64_t count[2];

    check(read(fd, count, sizeof(count)) == sizeof(count), "a counter cannot be read");
    return count[1] ? count[0] : 0;
}

static uint64_t do_work(uint64_t seed)
{
    for (int i = 0; i < 100000; i++) {
        seed = guest_mix(seed);
    }
    return seed;
}

/* Return how many samples there are, and check each. */
static unsigned long check_samples(const char *ring)
{
    const struct perf_event_mmap_page *state = (const void *)ring;
    uint64_t end = atomic_load((const _Atomic uint64_t *)&state->data_head);
    const struct perf_event_header *event;
    unsigned long n = 0;

    check(end <= PAGE, "samples beyond their page");
    for (uint64_t at = 0; at < end; at += event->size) {
        event = (const void *)(ring + PAGE + at);
        check(event->size >= sizeof(*event), "a sample of no size");
        if (event->type == PERF_RECORD_SAMPLE) {
            uint64_t address = *(const uint64_t *)(event + 1);

            check(address > 0, "a sample without an address");
            atomic_fetch_add(&digest, guest_mix(address));
            n++;
        }
    }
    return n;
}

static void round_of(uint64_t seed)
{
    int counters[COUNTERS], sampler = must_open(PERIOD);
    char *ring = mmap(NULL, RING_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, sampler, 0);
    uint64_t before, took, most = 0;

    check(ring != MAP_FAILED, "mmap: %s", strerror(errno));
    for (int i = 0; i < COUNTERS; i++) {
        counters[i] = must_open(0);
    }
    before = guest_now_ns();
    do {
        seed = do_work(seed);
        took = guest_now_ns() - before;
        most = 0;
        for (int i = 0; i < COUNTERS; i++) {
            uint64_t count = count_of(counters[i]);

            atomic_fetch_add(&digest, guest_mix(count));
            most = count > most ? count : most;
        }
    } while ((most == 0 || check_samples(ring) == 0) && took < GUEST_PATIENCE_NS);
    check(most > 0, "nothing was counted");
    check(ioctl(sampler, PERF_EVENT_IOC_DISABLE, 0) == 0, "ioctl: %s", strerror(errno));
    atomic_fetch_add(&samples, check_samples(ring));
    munmap(ring, RING_SIZE);
    close(sampler);
    for (int i = 0; i < COUNTERS; i++) {
        close(counters[i]);
    }
}

static void work(unsigned id)
{
    for (unsigned long i = 0; i < guest.rounds; i++) {
        round_of(id + i * GUEST_MAX_THREADS);
    }
}

int main(int argc, char **argv)
{
    int fd;

    guest_init("counters", 10, argc, argv);
    hardware = true;
    fd = open_event(0);
    hardware = fd >= 0;
    if (hardware) {
        close(fd);
    }
    guest_parallel(guest.threads, work);
    check(samples >= guest.threads * guest.rounds, "only %lu samples", (unsigned long)samples);
    guest_result("counts=%s samples=%lu digest=%016llx", hardware ? "cycles" : "time",
                 (unsigned long)samples, (unsigned long long)digest);
    return 0;
}
