/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without an operating system that compares REP MOVS and REP STOS with single loads and
 * stores: all sizes of elements, unaligned, overlapping, through two addresses of a page, upwards
 * and downwards, with and without other vCPUs that take the lines meanwhile.
 */
#include "others.h"

#define ROOM        (5 * PAGE)          /* of a case; it leaves the margins alone */
#define MARGIN      256
#define REAL        (PLAY + 32 * PAGE)
#define ALIAS       (PLAY + 64 * PAGE)  /* the same memory */
#define MODEL       (PLAY + 96 * PAGE)
#define N_CASES     150

typedef struct Case {
    uint64_t to, from;                  /* from the start of the room */
    uint64_t n, size;
    bool moves, down, alias, narrow;    /* @narrow: with 32-bit addresses */
    uint64_t value;
} Case;

static uint64_t state;

static uint64_t draw(uint64_t below)
{
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (state >> 33) % below;
}

static uint64_t load(uint64_t at, unsigned size)
{
    switch (size) {
    case 1:
        return *(volatile uint8_t *)at;
    case 2:
        return *(volatile uint16_t *)at;
    case 4:
        return *(volatile uint32_t *)at;
    default:
        return *(volatile uint64_t *)at;
    }
}

static void store(uint64_t at, unsigned size, uint64_t value)
{
    switch (size) {
    case 1:
        *(volatile uint8_t *)at = value;
        break;
    case 2:
        *(volatile uint16_t *)at = value;
        break;
    case 4:
        *(volatile uint32_t *)at = value;
        break;
    default:
        *(volatile uint64_t *)at = value;
    }
}

static Case draw_case(void)
{
    Case c = { .size = 1u << draw(4), .moves = draw(3), .down = !draw(8), .alias = draw(2),
               .narrow = !draw(4), .value = state };
    uint64_t most = (ROOM - 2 * MARGIN) / c.size;
    uint64_t places;

    c.n = draw(4) ? draw(most) : draw(40);
    places = ROOM - 2 * MARGIN - c.n * c.size + 1;
    c.to = MARGIN + draw(places);
    c.from = MARGIN + draw(places);
    if (!draw(4)) {                     /* overlap by next to all */
        c.from = c.to + draw(2 * MARGIN) - MARGIN;
    }
    if (c.down && c.n) {
        c.to += (c.n - 1) * c.size;
        c.from += (c.n - 1) * c.size;
    }
    return c;
}

static void do_singly(const Case *c)
{
    uint64_t to = MODEL + c->to, from = MODEL + c->from;

    for (uint64_t i = 0; i < c->n; i++) {
        store(to, c->size, c->moves ? load(from, c->size) : c->value);
        to += c->down ? -c->size : c->size;
        from += c->down ? -c->size : c->size;
    }
}

#define REPEAT(what) \
    asm volatile(what : "+D"(*to), "+S"(*from), "+c"(*n) : "a"(c->value) : "memory", "cc")
#define ONE_SIZE(suffix, bytes)                             \
    case bytes:                                             \
        if (c->narrow) {                                    \
            if (c->moves) {                                 \
                REPEAT("addr32 rep movs" suffix);           \
            } else {                                        \
                REPEAT("addr32 rep stos" suffix);           \
            }                                               \
        } else if (c->moves) {                              \
            REPEAT("rep movs" suffix);                      \
        } else {                                            \
            REPEAT("rep stos" suffix);                      \
        }                                                   \
        break

static void repeat(const Case *c, uint64_t *to, uint64_t *from, uint64_t *n)
{
    switch (c->size) {
    ONE_SIZE("b", 1);
    ONE_SIZE("w", 2);
    ONE_SIZE("l", 4);
    ONE_SIZE("q", 8);
    }
}

static bool do_repeated(const Case *c)
{
    uint64_t to = REAL + c->to, from = (c->alias ? ALIAS : REAL) + c->from, n = c->n;
    uint64_t moved = c->down ? -c->n * c->size : c->n * c->size;
    uint64_t to_end = to + moved, from_end = from + (c->moves ? moved : 0);

    if (c->down) {
        asm volatile("std");
    }
    repeat(c, &to, &from, &n);
    asm volatile("cld");
    return to == to_end && from == from_end && n == 0;
}

static bool is_equal(void)
{
    bool equal = true;

    for (uint64_t i = 0; i < ROOM; i += 8) {
        equal &= load(REAL + i, 8) == load(MODEL + i, 8);
    }
    return equal;
}

static bool run_cases(void)
{
    bool good = true;

    for (unsigned i = 0; i < N_CASES; i++) {
        Case c = draw_case();

        do_singly(&c);
        good &= do_repeated(&c);
        if (i % 16 == 0) {
            good &= is_equal();
        }
        digest = mix(digest, load(REAL + c.to / 8 * 8, 8));
    }
    return good && is_equal();
}

static void take_lines(unsigned other)
{
    for (uint64_t at = other * 64; at < ROOM; at += 7 * 64) {
        seen[other][0] = mix(seen[other][0], touch((void *)(REAL + at)));
    }
}

void __attribute__((used)) run(void)
{
    digest = 0;
    start_processor();
    map_play_by_pages();
    start_interrupts();
    others = N_OTHERS;
    start_others();
    state = rdtsc();
    for (unsigned page = 0; page < ROOM / PAGE; page++) {
        change(&level1[64 + page], (REAL + page * PAGE) | MAPPED);
    }
    for (uint64_t i = 0; i < ROOM; i += 8) {
        uint64_t value = draw(1ul << 31) << 32 | draw(1ul << 31);

        store(REAL + i, 8, value);
        store(MODEL + i, 8, value);
    }
    report("alone", run_cases());
    let_others(take_lines);
    report("disturbed", run_cases());
    stop_others();
    report("taken", true);
    digest = interrupts;
    report("interrupts", interrupts > 0);
    power_off();
}
