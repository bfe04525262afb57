/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The directory: per line, who holds it and who wrote it last; per page, whether
 * it is held as a whole, and who keeps copies of it.
 *
 * Everything here is called with the page's lock held.
 */
#ifndef PROTOCOL_DIRECTORY_H
#define PROTOCOL_DIRECTORY_H

#include "protocol/sphere.h"

/* Nobody, some may read, one may write. */
typedef enum LineState {
    LINE_FREE,
    LINE_SHARED,
    LINE_OWNED,
    LINE_STATES
} LineState;

typedef struct Line {
    Position written;           /* when its last writer left it */
    uint32_t holders;           /* a bit for each processor */
    uint32_t since;             /* when it was granted, in us */
    uint8_t state;              /* LineState */
    uint8_t writer;             /* who left it at @written: index + 1; 0: nobody */
    uint8_t reserved;           /* for whom: index + 1; 0: nobody */
    uint8_t wanted;             /* grows when it is asked for, shrinks when nobody else came */
    bool migratory : 1;         /* who reads it, writes it */
    bool unwritten : 1;         /* owned at a read, and no store seen since */
    unsigned proofs : 2;        /* how often in a row a store was seen then */
    unsigned trusted : 4;       /* so often it is taken for granted */
} Line;

/* What a processor had to do with T of a page. */
typedef struct TableUse {
    uint32_t epoch;             /* its own when it entered; 0: it has left, and that is known */
    Position left;              /* all uses before it left lie before; 0: there were none */
} TableUse;

struct SpherePage {
    int lock;
    bool protected;             /* copies may exist: no write bits */
    bool open;                  /* user mode may reach it, for good; also read without the lock */
    uint8_t asker, holder;      /* of the latest misses: index + 1 */
    uint8_t streak;             /* how many in a row were like that */
    uint16_t asked;             /* how often, of who ran, in the present time window */
    uint16_t window;
    bool moved;                 /* as a whole, before */
    uint8_t own_stores;         /* of who runs code from here */
    uint32_t code;              /* who runs code from here (I) */
    TableUse *tables;           /* T, of each processor; NULL: of nobody yet */
    Line whole;                 /* all lines, as long as there are none */
    Line *lines;
};

/* Which processors must give way before @by may have @access to @line? */
uint32_t line_blockers(const Line *line, unsigned by, SphereAccess access);
/* @from is safe at @position and gives way; returns what is left of its L1 byte. */
uint8_t line_revoke(Line *line, unsigned from, Position position, SphereAccess access);
/*
 * Nobody is in the way; returns the L1 byte, but for protection of the page.
 * @access is what it gets, be it more than it @asked for.
 */
uint8_t line_grant(Line *line, unsigned to, SphereAccess asked, SphereAccess access);
/* What @by may get: a migratory line is owned at the read. */
SphereAccess line_effective(const Line *line, unsigned by, SphereAccess access);

/* A page that is held as a whole, as 64 lines; returns how many bytes that takes. */
size_t page_split(SpherePage *page);
/* Does one processor own all lines of @mask? */
bool lines_are_of(SpherePage *page, uint64_t mask, unsigned index);
/* Does one processor own all lines of this page, and nobody wants any? */
bool page_is_of(const SpherePage *page, unsigned index);
/* Then it is held as a whole again; returns how many bytes that frees. */
size_t page_join(SpherePage *page);

#define LINE_BIT(index) (UINT32_C(1) << (index))
#define ALL_LINES UINT64_MAX

#define FOREACH_LINE(i, mask) \
    for (uint64_t rest_ = (mask); rest_ && ((i) = __builtin_ctzll(rest_), true); rest_ &= rest_ - 1)

static inline Line *page_line(SpherePage *page, unsigned i)
{
    return page->lines ? &page->lines[i] : &page->whole;
}

/* All lines that @mask stands for: a page in one piece has one. */
static inline uint64_t page_distinct(const SpherePage *page, uint64_t mask)
{
    return page->lines ? mask : 1;
}

#endif
