/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A small random generator (splitmix64) whose state is one word. */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

static inline uint64_t random_mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static inline uint64_t random_next(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return random_mix(*state);
}

static inline unsigned random_below(uint64_t *state, unsigned n)
{
    return (random_next(state) >> 32) * n >> 32;
}

static inline bool random_one_in(uint64_t *state, unsigned n)
{
    return random_below(state, n) == 0;
}

#endif
