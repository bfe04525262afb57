// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Memory that no two threads share.
 *
 * Exercises: accesses that should cost next to nothing.  Whole pages are
 * granted to the vCPU that touches them first, and stay there.  The recorder
 * sees only the inline permission check, first-touch faults, block copies and
 * block zeroing (rep stos, DC ZVA), and threads that the guest's scheduler
 * moves.  Much coherence traffic here is a defect.
 *
 * Self-check: the sum of a region is computed again without memory; a chain
 * of pointers through all lines of the region must visit each once and end
 * where it began; copies must compare equal and cleared memory must be zero.
 * The digest depends on the numbers of threads and rounds alone.
 *
 * A thread keeps its region for all rounds.  faults.c is the same program with
 * a new region for each round.
 */
#ifndef PROGRAM
#define PROGRAM "private"
#define NEW_REGION_EACH_ROUND 0
#endif

#include "guest.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#define REGION_SIZE (4u << 20)
#define REGION_WORDS (REGION_SIZE / sizeof(uint64_t))
#define REGION_LINKS (REGION_SIZE / GUEST_LINE)

typedef struct Link {
    _Alignas(GUEST_LINE) struct Link *next;
    uint64_t number;
} Link;

typedef struct Digest {
    _Alignas(GUEST_LINE) uint64_t value;
} Digest;

static Digest digests[GUEST_MAX_THREADS];

static inline uint64_t next_word(uint64_t x)
{
    return x * 0xd1342543de82ef95 + 1;
}

static uint64_t fill_and_sum(uint64_t *words, uint64_t seed)
{
    uint64_t x = seed, expected = 0, sum = 0;

    for (size_t i = 0; i < REGION_WORDS; i++) {
        x = next_word(x);
        words[i] = x;
        expected += x;
    }
    /* Keeps the compiler from using the values that it has just stored. */
    __asm__ volatile("" : : "r"(words) : "memory");
    for (size_t i = 0; i < REGION_WORDS; i++) {
        sum += words[i];
    }
    check(sum == expected, "sum of a region is %" PRIx64 " instead of %"
          PRIx64, sum, expected);
    return sum;
}

static void copy_and_clear(uint64_t *words)
{
    size_t half = REGION_SIZE / 2;
    char *low = (char *)words, *high = low + half;

    memcpy(high, low, half);
    check(memcmp(low, high, half) == 0, "a copy differs");
    memset(low, 0, half);
    __asm__ volatile("" : : "r"(words) : "memory");
    for (size_t i = 0; i < REGION_WORDS / 2; i++) {
        check(words[i] == 0, "word %zu is not cleared", i);
    }
}

/*
 * The successor of i is a * i + c modulo a power of two.  With a = 1 mod 4 and
 * c odd that is a single cycle through all links, in no obvious order.
 */
static uint64_t chase(Link *links, uint64_t seed)
{
    size_t a = (seed << 2 | 1) % REGION_LINKS, c = (seed >> 32) | 1;
    uint64_t sum = 0, order = seed;
    Link *link = links;
    size_t visits = 0;

    for (size_t i = 0; i < REGION_LINKS; i++) {
        links[i].next = &links[(a * i + c) % REGION_LINKS];
        links[i].number = i;
    }
    do {
        sum += link->number;
        order = next_word(order ^ link->number);
        link = link->next;
        visits++;
    } while (link != links && visits <= REGION_LINKS);
    check(visits == REGION_LINKS, "chain of length %zu", visits);
    check(sum == (uint64_t)REGION_LINKS * (REGION_LINKS - 1) / 2,
          "chain missed a link");
    return order;
}

static void work(unsigned id)
{
    uint64_t digest = id;
    void *region = guest_map(REGION_SIZE, MAP_PRIVATE);

    for (unsigned long i = 0; i < guest.rounds; i++) {
        uint64_t seed = guest_mix((uint64_t)id << 32 | i);

        if (NEW_REGION_EACH_ROUND && i > 0) {
            check(munmap(region, REGION_SIZE) == 0, "munmap: %m");
            region = guest_map(REGION_SIZE, MAP_PRIVATE);
        }
        digest = guest_mix(digest ^ fill_and_sum(region, seed));
        copy_and_clear(region);
        digest = guest_mix(digest ^ chase(region, seed));
    }
    check(munmap(region, REGION_SIZE) == 0, "munmap: %m");
    digests[id].value = digest;
}

int main(int argc, char **argv)
{
    uint64_t digest = 0;

    guest_init(PROGRAM, 8, argc, argv);
    guest_parallel(guest.threads, work);
    for (unsigned i = 0; i < guest.threads; i++) {
        digest = guest_mix(digest ^ digests[i].value);
    }
    guest_result("digest=%016" PRIx64, digest);
    return 0;
}
