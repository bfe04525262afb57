// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Scalable vectors (SVE) in memory that threads share, word by word.
 *
 * Exercises: predicated, structure, gather and scatter accesses to lines and
 * pages of which each thread owns some words; the kernel saves and restores
 * the vectors of threads that it switches between.
 *
 * Self-check: a thread finds its own words as it left them.  The digest is of
 * all words that were loaded, so it depends on the order of the threads.
 * Without SVE there is nothing to do.
 */
#include "guest.h"

#include <inttypes.h>

#define WORDS 2048u             /* four pages */

static struct { _Alignas(GUEST_LINE) uint64_t value; } digests[GUEST_MAX_THREADS];

#ifdef __aarch64__
#include <sys/auxv.h>

static uint64_t shared[WORDS] __attribute__((aligned(4096)));

static unsigned words_of_vector(void)
{
    unsigned long words = 0;

    if (getauxval(AT_HWCAP) & HWCAP_SVE) {
        __asm__(".arch armv8.5-a+sve\n\tcntd %0" : "=r"(words));
    }
    return words;
}

/* p0 has all elements, p1 the thread's own of those from word @first on; z0 has @value. */
#define SELECT \
    ".arch armv8.5-a+sve\n\t"                                   \
    "ptrue p0.d\n\tindex z7.d, %[first], #1\n\t"                \
    "mov z5.d, z7.d\n\tdup z6.d, %[threads]\n\t"                \
    "udiv z5.d, p0/m, z5.d, z6.d\n\tmls z7.d, p0/m, z5.d, z6.d\n\t" \
    "dup z6.d, %[id]\n\tcmpeq p1.d, p0/z, z7.d, z6.d\n\tdup z0.d, %[value]\n\t"
#define CLOBBERED "memory", "p0", "p1", "z0", "z1", "z2", "z5", "z6", "z7"

/* Store to the thread's words, load all.  Return the sum of those; add words that differ. */
static uint64_t store_and_load(unsigned id, uint64_t first, uint64_t value, uint64_t *wrong)
{
    uint64_t sum, differ;

    __asm__ volatile(SELECT
                     "st1d {z0.d}, p1, [%[at]]\n\tld1d {z1.d}, p0/z, [%[at]]\n\t"
                     "cmpne p1.d, p1/z, z1.d, z0.d\n\tcntp %[differ], p0, p1.d\n\t"
                     "uaddv d1, p0, z1.d\n\tfmov %[sum], d1"
                     : [sum] "=r"(sum), [differ] "=&r"(differ)
                     : [at] "r"(&shared[first]), [first] "r"(first), [id] "r"((uint64_t)id),
                       [threads] "r"((uint64_t)guest.threads), [value] "r"(value)
                     : CLOBBERED, "cc");
    *wrong += differ;
    return sum;
}

/* The same with scatter and gather, of elements @stride words apart. */
static uint64_t scatter_and_gather(unsigned id, uint64_t first, uint64_t stride, uint64_t value,
                                   uint64_t *wrong)
{
    uint64_t sum, differ;

    __asm__ volatile(".arch armv8.5-a+sve\n\t"
                     "ptrue p0.d\n\tindex z7.d, %[first], %[stride]\n\tdup z0.d, %[value]\n\t"
                     "st1d {z0.d}, p0, [%[at], z7.d, lsl #3]\n\t"
                     "ld1d {z1.d}, p0/z, [%[at], z7.d, lsl #3]\n\t"
                     "cmpne p1.d, p0/z, z1.d, z0.d\n\tcntp %[differ], p0, p1.d\n\t"
                     "sub z7.d, z7.d, #1\n\tld1d {z2.d}, p0/z, [%[at], z7.d, lsl #3]\n\t"
                     "uaddv d2, p0, z2.d\n\tfmov %[sum], d2"
                     : [sum] "=r"(sum), [differ] "=&r"(differ)
                     : [at] "r"(shared), [first] "r"(first + id), [stride] "r"(stride),
                       [value] "r"(value)
                     : CLOBBERED, "cc");
    *wrong += differ;
    return sum;
}

#else
static unsigned words_of_vector(void)
{
    return 0;
}

static uint64_t store_and_load(unsigned id, uint64_t first, uint64_t value, uint64_t *wrong)
{
    (void)id, (void)first, (void)value, (void)wrong;
    return 0;
}

static uint64_t scatter_and_gather(unsigned id, uint64_t first, uint64_t stride, uint64_t value,
                                   uint64_t *wrong)
{
    (void)id, (void)first, (void)stride, (void)value, (void)wrong;
    return 0;
}
#endif

static void work(unsigned id)
{
    unsigned words = words_of_vector();
    uint64_t wrong = 0;

    for (unsigned long i = 0; words && i < guest.rounds; i++) {
        uint64_t random = guest_mix(i * GUEST_MAX_THREADS + id);
        uint64_t strides = (WORDS / guest.threads - 2) / words;
        uint64_t stride = (1 + (random >> 32) % strides) * guest.threads;

        digests[id].value += store_and_load(id, random % (WORDS - words), random, &wrong);
        digests[id].value ^= scatter_and_gather(id, guest.threads, stride, ~random, &wrong);
    }
    check(wrong == 0, "%" PRIu64 " words were altered", wrong);
}

int main(int argc, char **argv)
{
    uint64_t digest = 0;

    guest_init("vectors", 20000, argc, argv);
    guest_parallel(guest.threads, work);
    for (unsigned i = 0; i < guest.threads; i++) {
        digest = guest_mix(digest ^ digests[i].value);
    }
    guest_result("words=%u digest=%016" PRIx64, words_of_vector(), digest);
    return 0;
}
