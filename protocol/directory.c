/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The transitions of a line, as one table:
 *
 *   state    asked for   by       who gives way, how        next state
 *   FREE     read        anyone   -                         SHARED
 *   FREE     write       anyone   -                         OWNED
 *   SHARED   read        anyone   -                         SHARED
 *   SHARED   write       anyone   other holders leave       OWNED
 *   OWNED    read        owner    -                         OWNED
 *   OWNED    read        another  owner becomes a reader    SHARED
 *   OWNED    write       owner    -                         OWNED
 *   OWNED    write       another  owner leaves              OWNED
 *
 * That is MESI; E and M are one, since an owner's store goes unseen.  A line that
 * is read and then written, by one processor after the other, is migratory: a
 * read is then answered as a write.  Its new owner gets no write bit yet; so
 * its first store is seen, and a line that nobody writes any more is shared again.  A few
 * times in a row that is taken for granted, since each such store is a miss.
 *
 * The last writer is kept when an owner gives way, with its position: whoever
 * reads later must come after it.  Readers need not be kept: they give way to a
 * writer, which comes after them, and is the last writer then.
 */
#include "protocol/chaos.h"
#include "protocol/directory.h"

typedef enum Way {
    STAY,
    OWNER_READS,                /* the owner becomes a reader */
    OTHERS_LEAVE,
} Way;

typedef struct Transition {
    Way others;
    LineState next;
    LineState next_of_owner;    /* if the owner itself asks */
} Transition;

static const Transition transitions[LINE_STATES][2] = {
    [LINE_FREE] = {
        [SPHERE_READ] = { STAY, LINE_SHARED, LINE_SHARED },
        [SPHERE_WRITE] = { STAY, LINE_OWNED, LINE_OWNED },
    },
    [LINE_SHARED] = {
        [SPHERE_READ] = { STAY, LINE_SHARED, LINE_SHARED },
        [SPHERE_WRITE] = { OTHERS_LEAVE, LINE_OWNED, LINE_OWNED },
    },
    [LINE_OWNED] = {
        [SPHERE_READ] = { OWNER_READS, LINE_SHARED, LINE_OWNED },
        [SPHERE_WRITE] = { OTHERS_LEAVE, LINE_OWNED, LINE_OWNED },
    },
};

SphereAccess line_effective(const Line *line, unsigned by, SphereAccess access)
{
    return line->migratory && line->state != LINE_SHARED && !(line->holders & LINE_BIT(by)) ?
        SPHERE_WRITE : access;
}

uint32_t line_blockers(const Line *line, unsigned by, SphereAccess access)
{
    return transitions[line->state][access].others == STAY ? 0 : line->holders & ~LINE_BIT(by);
}

uint8_t line_revoke(Line *line, unsigned from, Position position, SphereAccess access)
{
    g_assert(line->holders & LINE_BIT(from));
    if (line->state == LINE_OWNED) {
        if (line->unwritten) {
            line->migratory = false;
            line->proofs = 0;
        } else {
            line->written = position;
            line->writer = from + 1;
        }
        line->unwritten = false;
        line->state = LINE_SHARED;
    }
    if (access == SPHERE_READ) {
        return L1_READ;
    }
    line->holders &= ~LINE_BIT(from);
    if (!line->holders) {
        line->state = LINE_FREE;
    }
    return 0;
}

uint8_t line_grant(Line *line, unsigned to, SphereAccess asked, SphereAccess access)
{
    bool held = line->holders & LINE_BIT(to);
    const Transition *t = &transitions[line->state][access];

    g_assert(line_blockers(line, to, access) == 0);
    if (asked != access) {
        line->unwritten = !line->trusted;
        line->trusted -= !line->unwritten;
    } else if (access == SPHERE_WRITE) {
        if (line->unwritten && ++line->proofs == chaos.proofs) {
            line->proofs = 0;
            line->trusted = chaos.trusted;
        }
        /* Read, then written, and another wrote it before. */
        if (held && line->state == LINE_SHARED && line->writer && line->writer != to + 1) {
            line->migratory = true;
        }
        line->unwritten = false;
    }
    line->state = held && line->state == LINE_OWNED ? t->next_of_owner : t->next;
    line->holders |= LINE_BIT(to);
    line->reserved = 0;
    return line->state == LINE_OWNED && !line->unwritten ? L1_READ | L1_WRITE : L1_READ;
}

size_t page_split(SpherePage *page)
{
    g_assert(!page->lines);
    page->lines = g_new(Line, SPHERE_PAGE_LINES);
    for (unsigned i = 0; i < SPHERE_PAGE_LINES; i++) {
        page->lines[i] = page->whole;
    }
    return SPHERE_PAGE_LINES * sizeof(Line);
}

bool lines_are_of(SpherePage *page, uint64_t mask, unsigned index)
{
    unsigned i;

    FOREACH_LINE(i, page_distinct(page, mask)) {
        const Line *line = page_line(page, i);

        if (line->state != LINE_OWNED || line->holders != LINE_BIT(index)) {
            return false;
        }
    }
    return true;
}

bool page_is_of(const SpherePage *page, unsigned index)
{
    for (unsigned i = 0; i < SPHERE_PAGE_LINES; i++) {
        const Line *line = &page->lines[i];

        if (line->state != LINE_OWNED || line->holders != LINE_BIT(index) || line->reserved) {
            return false;
        }
    }
    return true;
}

/* The last writers are forgotten: its owner comes after them all, and others after it. */
size_t page_join(SpherePage *page)
{
    page->whole = (Line) { .state = LINE_OWNED, .holders = page->lines[0].holders };
    g_free(page->lines);
    page->lines = NULL;
    return SPHERE_PAGE_LINES * sizeof(Line);
}
