/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See wake-ups.h.
 */
#include <string.h>

#include "protocol/wake-ups.h"

typedef struct WakeUp {
    Position position;
    uint32_t successors;
} WakeUp;

/* What a stream has announced, and not sent.  It belongs to the stream's thread. */
typedef struct Announced {
    unsigned first, n;
    WakeUp ring[WAKE_UPS_AHEAD];
} Announced;

struct WakeUps {
    unsigned n_streams;
    Announced *of;
    /* Of the stream that is woken, by the stream that wakes; atomic, written by the latter. */
    uint64_t count[];
};

static size_t size_of(unsigned n_streams)
{
    return sizeof(WakeUps) + n_streams * n_streams * sizeof(uint64_t);
}

WakeUps *wake_ups_new(unsigned n_streams)
{
    WakeUps *wakes = g_malloc0(size_of(n_streams));

    g_assert(n_streams <= WAKE_UPS_STREAMS);
    wakes->n_streams = n_streams;
    wakes->of = g_new0(Announced, n_streams);
    return wakes;
}

void wake_ups_free(WakeUps *wakes)
{
    if (wakes) {
        g_free(wakes->of);
        g_free(wakes);
    }
}

void wake_ups_set(WakeUps *wakes, const WakeUps *from)
{
    unsigned n = wakes->n_streams;

    g_assert(from->n_streams == n);
    memcpy(wakes->of, from->of, n * sizeof(Announced));
    memcpy(wakes->count, from->count, n * n * sizeof(uint64_t));
}

WakeUps *wake_ups_copy(const WakeUps *wakes)
{
    WakeUps *copy = wake_ups_new(wakes->n_streams);

    wake_ups_set(copy, wakes);
    return copy;
}

size_t wake_ups_size(const WakeUps *wakes)
{
    return size_of(wakes->n_streams) + wakes->n_streams * sizeof(Announced);
}

static const WakeUp *announced(const Announced *of, unsigned i)
{
    return &of->ring[(of->first + i) % WAKE_UPS_AHEAD];
}

bool wake_ups_announce(WakeUps *wakes, unsigned stream, Position position, uint32_t successors)
{
    Announced *of = &wakes->of[stream];

    if (of->n == WAKE_UPS_AHEAD) {
        return false;
    }
    of->ring[(of->first + of->n++) % WAKE_UPS_AHEAD] = (WakeUp) { position, successors };
    return true;
}

static void wake(WakeUps *wakes, unsigned stream, uint32_t successors)
{
    for (unsigned i = 0; successors; i++, successors >>= 1) {
        uint64_t *count = &wakes->count[i * wakes->n_streams + stream];

        if (successors & 1) {
            __atomic_store_n(count, *count + 1, __ATOMIC_RELEASE);
        }
    }
}

void wake_ups_send(WakeUps *wakes, unsigned stream, Position position)
{
    Announced *of = &wakes->of[stream];

    while (of->n > 0 && announced(of, 0)->position <= position) {
        wake(wakes, stream, announced(of, 0)->successors);
        of->first = (of->first + 1) % WAKE_UPS_AHEAD;
        of->n--;
    }
}

Position wake_ups_next(const WakeUps *wakes, unsigned stream, uint32_t successors)
{
    const Announced *of = &wakes->of[stream];

    for (unsigned i = 0; i < of->n; i++) {
        if (announced(of, i)->successors & successors) {
            return announced(of, i)->position;
        }
    }
    return UINT64_MAX;
}

uint64_t wake_ups_count(const WakeUps *wakes, unsigned stream, unsigned by)
{
    return __atomic_load_n(&wakes->count[stream * wakes->n_streams + by], __ATOMIC_ACQUIRE);
}
