/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The directory: of each line, its holders and its last writer; of each page, whether it is held as
 * a whole, and which processors keep copies of it.
 *
 * All functions are called with the page's lock held.
 */
#ifndef PROTOCOL_DIRECTORY_H
#define PROTOCOL_DIRECTORY_H

#include "protocol/sphere.h"

/* No holder; sharers, which may read; one owner, which may write. */
typedef enum LineState {
    LINE_FREE,
    LINE_SHARED,
    LINE_OWNED,
    LINE_STATES
} LineState;

typedef struct Line {
    Position written;           /* position at which the last writer lost ownership */
    uint32_t holders;           /* a bit for each processor */
    uint32_t since;             /* time of the latest grant, in us */
    uint8_t state;              /* LineState */
    uint8_t writer;             /* the last writer: index + 1; 0: none */
    uint8_t reserved;           /* the reserver: index + 1; 0: none */
    bool migratory : 1;         /* a reader is expected to write */
    bool unwritten : 1;         /* owned since a read, and no store seen yet */
    unsigned proofs : 2;        /* stores seen in a row after such a read */
    unsigned trusted : 4;       /* such reads that still get the write bit at once */
} Line;

/* A processor's use of a page as a table. */
typedef struct TableUse {
    uint32_t epoch;             /* the processor's when it entered; 0: never, or left and noted */
    Position left;              /* uses that ended, as far as noted, lie before this; 0: none */
} TableUse;

struct SpherePage {
    int lock;
    bool protected;             /* copies may exist, so no write bits are granted */
    bool open;                  /* user mode may reach it; never closed again; read without lock */
    uint8_t asker, holder;      /* of the latest miss with one blocker: index + 1 */
    uint8_t streak;             /* such misses in a row */
    uint16_t asked;             /* requests that had to wait, weighted, in time window @window */
    uint16_t window;
    bool moved;                 /* a streak made all lines of the holder move at once, before */
    uint8_t own_stores;         /* to the page by its only code user */
    uint32_t code;              /* code users, a bit for each processor */
    TableUse *tables;           /* of each processor; NULL: there was no table user yet */
    Line whole;                 /* stands for all lines while @lines is NULL */
    Line *lines;
};

/* Return the holders that must lose permission before @by may have @access to @line. */
uint32_t line_blockers(const Line *line, unsigned by, SphereAccess access);
/*
 * Downgrade @from to a sharer if @access is a read, else invalidate @from, which is at a safepoint
 * at @position.  Return what is left of @from's L1 byte.
 */
uint8_t line_revoke(Line *line, unsigned from, Position position, SphereAccess access);
/*
 * Grant @access to @to; there are no blockers.  @asked is what @to requested, which may be less.
 * Return the L1 byte, as if the page were not protected.
 */
uint8_t line_grant(Line *line, unsigned to, SphereAccess asked, SphereAccess access);
/* Return the access that @by is granted if it requests @access: ownership of a migratory line. */
SphereAccess line_effective(const Line *line, unsigned by, SphereAccess access);

/* Split a page that is held as a whole into 64 lines.  Return how many bytes that takes. */
size_t page_split(SpherePage *page);
/* Return true if processor @index owns all lines of @mask. */
bool lines_are_of(SpherePage *page, uint64_t mask, unsigned index);
/* Return true if processor @index owns all lines of a split page, and none is reserved. */
bool page_is_of(const SpherePage *page, unsigned index);
/* Join the lines of a page for which page_is_of() holds.  Return how many bytes that frees. */
size_t page_join(SpherePage *page);

#define LINE_BIT(index) (UINT32_C(1) << (index))
G_STATIC_ASSERT(SPHERE_MAX_PROCESSORS <= 32);
#define ALL_LINES UINT64_MAX

#define FOREACH_LINE(i, mask) \
    for (uint64_t rest_ = (mask); rest_ && ((i) = __builtin_ctzll(rest_), true); rest_ &= rest_ - 1)

static inline Line *page_line(SpherePage *page, unsigned i)
{
    return page->lines ? &page->lines[i] : &page->whole;
}

/* Return the Line structs that @mask stands for, as a mask: a page that is not split has one. */
static inline uint64_t page_distinct(const SpherePage *page, uint64_t mask)
{
    return page->lines ? mask : 1;
}

#endif
