// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Races whose order decides the result.
 *
 * Exercises: lines that every vCPU reads and writes all the time, with
 * load-store, store-load and store-store races, true and false sharing.  There
 * are only plain loads and stores, so that no special instruction tells the
 * recorder of a race.  Two recordings give different signatures; a replay must
 * give the recorded signature.  The idea of such a test is that of FDR (ISCA
 * 2003, section 7) and of Hill and Xu's "racey", which Karma uses.
 *
 * Each thread has a hand, a 64-bit number.  In each round the thread mixes into
 * the hand what it reads from one cell of a small pool, and stores the result
 * in another cell.  The hand chooses both cells.  The mixing loses no bits: once
 * two runs differ in the result of one load, they differ for ever.
 *
 * Self-check: a stored value carries its writer twice, in its first and in
 * its last byte, so a load that returns a value that no thread stored (torn,
 * lost, made up) is noticed.  With a single thread there is no race, and a
 * second run must give the same signature.
 */
#include "guest.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>

#define POOL_LINES 8
#define POOL_CELLS (POOL_LINES * GUEST_LINE / sizeof(uint64_t))

typedef struct Hand {
    _Alignas(GUEST_LINE) uint64_t value;
    bool cheated;
} Hand;

/* Relaxed atomics are plain loads and stores on both architectures. */
static _Alignas(GUEST_LINE) _Atomic uint64_t pool[POOL_CELLS];
static Hand hands[GUEST_MAX_THREADS];

/* A multiplicative generator.  The shift lets high bits affect low bits. */
static inline uint64_t turn(uint64_t x)
{
    return (x ^ x >> 31) * 0xf1357aea2e62a9c5;
}

static inline uint64_t signed_by(unsigned id, uint64_t x)
{
    return (x & 0x00ffffffffffff00) | (uint64_t)(id ^ 0xff) << 56 | id;
}

static inline bool genuine(uint64_t x)
{
    return (x & 0xff) < guest.threads && (x >> 56 ^ (x & 0xff)) == 0xff;
}

static void hammer(unsigned id)
{
    uint64_t hand = guest_mix(id + 1);
    bool cheated = false;

    for (unsigned long i = 0; i < guest.rounds; i++) {
        uint64_t seen = atomic_load_explicit(&pool[(hand >> 40) % POOL_CELLS],
                                             memory_order_relaxed);

        cheated |= !genuine(seen);
        hand = turn(hand ^ seen);
        atomic_store_explicit(&pool[(hand >> 50) % POOL_CELLS],
                              signed_by(id, hand), memory_order_relaxed);
    }
    hands[id].value = hand;
    hands[id].cheated = cheated;
}

/* The first values count as stored by thread zero. */
static void fill_pool(void)
{
    for (unsigned i = 0; i < POOL_CELLS; i++) {
        atomic_init(&pool[i], signed_by(0, guest_mix(~(uint64_t)i)));
    }
}

static uint64_t signature(void)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < guest.threads; i++) {
        check(!hands[i].cheated, "thread %u loaded what nobody stored", i);
        sum = guest_mix(sum ^ hands[i].value);
    }
    for (unsigned i = 0; i < POOL_CELLS; i++) {
        sum = guest_mix(sum ^ atomic_load(&pool[i]));
    }
    return sum;
}

int main(int argc, char **argv)
{
    uint64_t result;

    guest_init("racey", 1000000, argc, argv);
    fill_pool();
    guest_parallel(guest.threads, hammer);
    result = signature();
    if (guest.threads == 1) {
        fill_pool();
        hammer(0);
        check(signature() == result, "one thread alone gave two signatures");
    }
    guest_result("signature=%016" PRIx64, result);
    return 0;
}
