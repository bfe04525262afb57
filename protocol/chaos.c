/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Parameters that a seed decides: see chaos.h.
 *
 * Each parameter has a stream of random numbers of its own, so that a new parameter changes no
 * other.  How many parameters get unusual values is drawn first: few, so that a single cause can be
 * seen, or most.
 */
#include <glib.h>
#include <inttypes.h>
#include <stddef.h>

#include "protocol/chaos.h"

Chaos chaos = {
#define X(parameter, usual, lowest, highest) .parameter = (usual),
    CHAOS_PARAMETERS(X)
#undef X
};

typedef struct Parameter {
    const char *name;
    size_t offset;
    unsigned usual, lowest, highest;
} Parameter;

static const Parameter parameters[] = {
#define X(parameter, usual, lowest, highest) \
    { #parameter, offsetof(Chaos, parameter), (usual), (lowest), (highest) },
    CHAOS_PARAMETERS(X)
#undef X
};

/* How many of eight parameters get unusual values. */
static const unsigned shares[] = { 1, 2, 4, 6 };

/* The number of a stream that belongs to no vCPU. */
#define STREAM_SHARE 1000

/* --- random numbers ---------------------------------------------------------- */

/* splitmix64 (Steele, Lea, Flood 2014). */
uint64_t chaos_random(uint64_t *stream)
{
    uint64_t z = *stream += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t chaos_stream(const Chaos *drawn, unsigned number)
{
    uint64_t seed = drawn->seed;

    return chaos_random(&seed) ^ (UINT64_C(0xd6e8feb86659fd93) * (number + 1));
}

unsigned chaos_up_to(uint64_t *stream, unsigned most)
{
    unsigned bits = most ? 32 - __builtin_clz(most) : 1;
    uint64_t scale = UINT64_C(1) << chaos_random(stream) % (bits + 1);

    return 1 + chaos_random(stream) % MAX(MIN(scale, most), 1);
}

/* --- parameters ---------------------------------------------------------------- */

static unsigned *value_of(Chaos *drawn, const Parameter *parameter)
{
    return (unsigned *)((char *)drawn + parameter->offset);
}

static unsigned draw(const Chaos *drawn, const Parameter *parameter, unsigned share)
{
    uint64_t stream = chaos_stream(drawn, g_str_hash(parameter->name));
    unsigned span = parameter->highest - parameter->lowest;

    if (!drawn->seed || chaos_random(&stream) % 8 >= share) {
        return parameter->usual;
    }
    return parameter->lowest + chaos_up_to(&stream, span + 1) - 1;
}

void chaos_draw(Chaos *drawn, uint64_t seed)
{
    uint64_t stream;
    unsigned share;

    drawn->seed = seed;
    stream = chaos_stream(drawn, STREAM_SHARE);
    share = shares[chaos_random(&stream) % G_N_ELEMENTS(shares)];
    for (size_t i = 0; i < G_N_ELEMENTS(parameters); i++) {
        *value_of(drawn, &parameters[i]) = draw(drawn, &parameters[i], share);
    }
}

char *chaos_text(const Chaos *drawn)
{
    GString *text = g_string_new(NULL);

    g_string_printf(text, "seed %" PRIu64, drawn->seed);
    for (size_t i = 0; i < G_N_ELEMENTS(parameters); i++) {
        unsigned value = *value_of((Chaos *)drawn, &parameters[i]);

        if (value != parameters[i].usual) {
            g_string_append_printf(text, ", %s %u", parameters[i].name, value);
        }
    }
    return g_string_free(text, FALSE);
}
