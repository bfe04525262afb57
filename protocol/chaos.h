/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Parameters of the recorder, and random values for them, which make rare paths common.
 *
 * How long a lease is, how often a step is abandoned before it runs exclusively, when translations
 * are dropped: all this changes speed, never correctness.  But with values that are good for speed,
 * some paths are hardly ever taken.  So these values are parameters.  They have their usual values
 * unless a test gives a seed.  Then each parameter is drawn: it gets its usual value or another,
 * often as small as possible.  A seed always draws the same parameters, but does not decide how the
 * vCPUs interleave.
 *
 * This knows nothing of QEMU.  The parameters are set while nothing is recorded or replayed.  After
 * that, every thread may read them.
 */
#ifndef PROTOCOL_CHAOS_H
#define PROTOCOL_CHAOS_H

#include <stdbool.h>
#include <stdint.h>

/* Usual values; tests/protocol/model sets its own. */
#ifndef LEASE_MOVES
#define LEASE_MOVES 800
#define LEASE_US 1500
#endif
#ifndef SPHERE_LOOK_AGAIN
#define SPHERE_LOOK_AGAIN 5000
#endif
#ifndef PROOFS
#define PROOFS 3
#define TRUSTED 15
#endif
#ifndef COPIES_OWN_STORES
#define COPIES_OWN_STORES 16
#endif
#ifndef CORE_YIELD_US
#define CORE_YIELD_US 50
#define CORE_YIELD_STEPS 3000
#endif

#ifndef HOLD_WAITS
#define HOLD_WAITS 1000
#endif

/* Limits that fields of Line, Processor and RecorderVcpu impose. */
#define CHAOS_MOST_PROOFS 3
#define CHAOS_MOST_TRUSTED 15
#define CHAOS_MOST_DROPS 16
#define CHAOS_MOST_LOW_PAGES 8
/* Limit of icount_decr.u16.low. */
#define CHAOS_MOST_GRANTED 0xffff

/*
 * X(parameter, usual value, lowest, highest): a drawn value lies between the last two.  "One in":
 * the value N stands for a probability of 1/N, decided each time; 0: never.
 */
#define CHAOS_PARAMETERS(X) \
    /* How often an instruction may be abandoned before it runs exclusively (access.c). */ \
    X(most_tries, 4, 0, 3) \
    /* Steps by which a requester's floor may lag before the requester raises it (access.c). */ \
    X(old_floor, 1000, 0, 100) \
    /* Steps that may lie between two waits that are merged (recording/held-waits.h). */ \
    X(hold_waits, HOLD_WAITS, 0, 300) \
    /* \
     * Leases (policy.c).  If requests for lines of a page wait more often than lease_moves in a \
     * time window, a holder that was granted such a line keeps it for lease_us while it writes. \
     */ \
    X(lease_moves, LEASE_MOVES, 0, 60) \
    X(lease_us, LEASE_US, 1, 4000) \
    /* Twice as many steps later a holder looks whether it still writes leased lines (lease.c). */ \
    X(look_again, SPHERE_LOOK_AGAIN, 1, 200) \
    /* How long a requester lingers in mid-step while no processor waits for it (sphere.c). */ \
    X(linger_us, 4, 0, 100) \
    /* One in: offer a line at the next boundary though no processor wants it (offers.c). */ \
    X(offer, 0, 1, 30) \
    /* A page that is not split moves whole if requests waited for it less often (policy.c). */ \
    X(calm_moves, 2, 0, 60) \
    /* Misses in a row on one holder until all its lines of the page move; twice that later on. */ \
    X(streak, 4, 1, 60) \
    /* Migratory lines on either side of the requested ones that may come along (policy.c). */ \
    X(neighbours, 2, 0, 63) \
    /* After proofs stores seen in a row, trusted migratory reads get write bits (directory.c). */ \
    X(proofs, PROOFS, 1, CHAOS_MOST_PROOFS) \
    X(trusted, TRUSTED, 0, CHAOS_MOST_TRUSTED) \
    /* \
     * Stores of the only code user of a page until it leaves the page (copies.c): memory of an \
     * ended program becomes data, but a little data may lie beside code.  At least 1: the code \
     * user must forget its code before it leaves the page. \
     */ \
    X(own_stores, COPIES_OWN_STORES, 1, 4) \
    /* Table words whose translations a processor drops one by one; if more, it drops all. */ \
    X(most_drops, CHAOS_MOST_DROPS, 0, 3) \
    /* Time between two yields of a core, and steps between two considerations (core-yield.c). */ \
    X(core_yield_us, CORE_YIELD_US, 0, 100) \
    X(core_yield_steps, CORE_YIELD_STEPS, 0, 200) \
    /* User pages with privileged translations that a vCPU remembers (translations.c). */ \
    X(low_pages, CHAOS_MOST_LOW_PAGES, 1, 4) \
    /* The most steps between two boundaries; if not as usual, random each time (vcpu.c). */ \
    X(most_granted, CHAOS_MOST_GRANTED, 200, 10000) \
    /* At boundaries (chaos-vcpu.c), one in: drop all translations, which is logged. */ \
    X(drop_all, 0, 40, 2000) \
    /* One in: evict one translation, or all of an MMU index, unlogged, as a small TLB does. */ \
    X(evict, 0, 1, 100) \
    X(evict_all, 0, 40, 2000) \
    /* One in: kick other vCPUs to a boundary.  They may kick others there, so not too often. */ \
    X(kick, 0, 4, 100) \
    /* One in: the vCPU sleeps for up to nap_us, at a boundary or when it was granted a line. */ \
    X(nap, 0, 20, 2000) \
    X(nap_us, 50, 1, 1000)

typedef struct Chaos {
    uint64_t seed;              /* 0: usual values */
#define X(parameter, usual, lowest, highest) unsigned parameter;
    CHAOS_PARAMETERS(X)
#undef X
} Chaos;

/* The parameters in force. */
extern Chaos chaos;

/* Draw all parameters from @seed; 0: the usual values. */
void chaos_draw(Chaos *drawn, uint64_t seed);
/* Return the seed and the parameters with unusual values, as one line; to be freed. */
char *chaos_text(const Chaos *drawn);

/* Return the start of stream @number of random numbers; a stream serves one thread. */
uint64_t chaos_stream(const Chaos *drawn, unsigned number);
/* Return the next number of @stream. */
uint64_t chaos_random(uint64_t *stream);

/* Return true once in @n times, by chance; never if @n is 0. */
static inline bool chaos_one_in(uint64_t *stream, unsigned n)
{
    return n && chaos_random(stream) % n == 0;
}

/* Return a number from 1 to @most; small numbers are as likely as large ones. */
unsigned chaos_up_to(uint64_t *stream, unsigned most);

#endif
