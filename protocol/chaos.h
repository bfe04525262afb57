/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rare paths made common.
 *
 * How long a lease is, how often a step is abandoned before it runs exclusively, when translations
 * are dropped: nothing of that may matter for what is recorded to be right.  But with the values
 * that are good for speed some paths are hardly ever taken.  So all these values are parameters.
 * They have their usual values, unless a test gives a seed: then each parameter is drawn from it,
 * and is the usual one or something else, often as small as it can be.  A seed always draws the
 * same parameters; how the vCPUs run past each other is another matter.
 *
 * This knows nothing of QEMU.  The parameters are set while nothing is recorded or replayed, and
 * every thread may read them after that.
 */
#ifndef PROTOCOL_CHAOS_H
#define PROTOCOL_CHAOS_H

#include <stdbool.h>
#include <stdint.h>

/* tests/model has its own usual values. */
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

/* What Line, Processor and RecorderVcpu have room for. */
#define CHAOS_MOST_PROOFS 3
#define CHAOS_MOST_TRUSTED 15
#define CHAOS_MOST_DROPS 16
#define CHAOS_MOST_LOW_PAGES 8
/* What icount_decr.u16.low has room for. */
#define CHAOS_MOST_GRANTED 0xffff

/*
 * X(parameter, usual value, lowest, highest): a value that is drawn lies between these two.
 * "One in" N means that a random number decides each time; 0: never.
 */
#define CHAOS_PARAMETERS(X) \
    /* How often an instruction may be abandoned before it runs exclusively (access.c). */ \
    X(most_tries, 4, 0, 3) \
    /* Steps that a floor may lie back before the holder looks where exactly it is. */ \
    X(old_floor, 1000, 0, 100) \
    /* \
     * Leases (policy.c).  If lines of a page are asked for more often than lease_moves in a time \
     * window, the holder that was granted one keeps it for lease_us, as long as it writes it. \
     */ \
    X(lease_moves, LEASE_MOVES, 0, 60) \
    X(lease_us, LEASE_US, 1, 4000) \
    /* Steps after which a holder looks again whether it goes on to write (lease.c). */ \
    X(look_again, SPHERE_LOOK_AGAIN, 1, 200) \
    /* How long a requester waits in mid-step, as long as nobody waits for it (sphere.c). */ \
    X(linger_us, 4, 0, 100) \
    /* A line that nobody wants is given back all the same, one in (sphere.c). */ \
    X(lend, 0, 1, 30) \
    /* A page in one piece moves as one, unless it was asked for that often (policy.c). */ \
    X(calm_moves, 2, 0, 60) \
    /* Misses of a processor on lines of another until the page moves; later on, twice that. */ \
    X(streak, 4, 1, 60) \
    /* Lines on either side of what is asked for that may come along. */ \
    X(neighbours, 2, 0, 63) \
    /* After so many stores to a migratory line that were seen, so many are not (directory.c). */ \
    X(proofs, PROOFS, 1, CHAOS_MOST_PROOFS) \
    X(trusted, TRUSTED, 0, CHAOS_MOST_TRUSTED) \
    /* \
     * Stores of its own after which a processor stops running code from a page (copies.c): memory \
     * where a program was becomes data, but a little data may lie beside code.  At least one: the \
     * processor must forget the code before it leaves the page. \
     */ \
    X(own_stores, COPIES_OWN_STORES, 1, 4) \
    /* Translations that others may ask a processor to drop before it drops all. */ \
    X(most_drops, CHAOS_MOST_DROPS, 0, 3) \
    /* How often a processor gives way, and looks whether it should, in steps (core-yield.c). */ \
    X(core_yield_us, CORE_YIELD_US, 0, 100) \
    X(core_yield_steps, CORE_YIELD_STEPS, 0, 200) \
    /* User pages with privileged translations that a vCPU keeps in mind (translations.c). */ \
    X(low_pages, CHAOS_MOST_LOW_PAGES, 1, 4) \
    /* The most steps between two boundaries; if not as usual, random each time (vcpu.c). */ \
    X(most_granted, CHAOS_MOST_GRANTED, 200, 10000) \
    /* At boundaries (chaos-vcpu.c): all translations are dropped, which is logged, one in */ \
    X(drop_all, 0, 40, 2000) \
    /* Silently, as a small TLB would do it: one translation, all of an MMU index, one in */ \
    X(evict, 0, 1, 100) \
    X(evict_all, 0, 40, 2000) \
    /* Other vCPUs are brought to a boundary, one in; where they kick others, so not too often. */ \
    X(kick, 0, 4, 100) \
    /* The vCPU sleeps for up to nap_us, there or when it was granted a line, one in */ \
    X(nap, 0, 20, 2000) \
    X(nap_us, 50, 1, 1000)

typedef struct Chaos {
    uint64_t seed;              /* 0: off */
#define X(parameter, usual, lowest, highest) unsigned parameter;
    CHAOS_PARAMETERS(X)
#undef X
} Chaos;

/* The parameters in force. */
extern Chaos chaos;

/* Draw all parameters from @seed; 0: the usual values. */
void chaos_draw(Chaos *drawn, uint64_t seed);
/* The seed and the parameters that have other values than usual, as one line; to be freed. */
char *chaos_text(const Chaos *drawn);

/* A stream of random numbers, for one thread: where that with this number begins. */
uint64_t chaos_stream(const Chaos *drawn, unsigned number);
uint64_t chaos_random(uint64_t *stream);

static inline bool chaos_one_in(uint64_t *stream, unsigned n)
{
    return n && chaos_random(stream) % n == 0;
}

/* From 1 to @most, with small numbers as often as large ones. */
unsigned chaos_up_to(uint64_t *stream, unsigned most);

#endif
