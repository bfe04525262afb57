/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The transitions of a line, as one table.  Blockers are the holders that must lose permission:
 *
 *   state    request   from      blockers                      next state
 *   FREE     read      any       -                             SHARED
 *   FREE     write     any       -                             OWNED
 *   SHARED   read      any       -                             SHARED
 *   SHARED   write     any       other sharers: invalidated    OWNED
 *   OWNED    read      owner     -                             OWNED
 *   OWNED    read      another   owner: downgraded             SHARED
 *   OWNED    write     owner     -                             OWNED
 *   OWNED    write     another   owner: invalidated            OWNED
 *
 * This is MESI with E and M as one state, OWNED: the stores of an owner hit, so they are not seen.
 *
 * A line that processors read and then write, one after another, is migratory: a read request is
 * then answered with ownership.  The new owner gets no write bit at first.  So its first store
 * misses and is seen, and a line that is not written any more becomes shared again.  Each such
 * store costs a miss; after chaos.proofs of them in a row, the next chaos.trusted reads get the
 * write bit at once.  This changes speed, never correctness.
 *
 * When an owner that may have written is invalidated or downgraded, the directory keeps it as the
 * last writer, with its position: a later requester must be ordered after the last writer
 * (invariant 3).  Sharers need not be kept: a writer invalidates them, is ordered after them, and
 * becomes the last writer.
 */
#include "protocol/chaos.h"
#include "protocol/directory.h"

typedef enum Way {
    STAY,
    OWNER_READS,                /* the owner is downgraded to a sharer */
    OTHERS_LEAVE,
} Way;

typedef struct Transition {
    Way others;
    LineState next;
    LineState next_of_owner;    /* if the owner itself requests */
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
    bool migrates = line->migratory && line->state != LINE_SHARED &&
                    !(line->holders & LINE_BIT(by));

    return migrates ? SPHERE_WRITE : access;
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
        /* An upgrade by a sharer, after another processor's write. */
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

/* Forget the last writers: the owner is ordered after them all, and later holders after it. */
size_t page_join(SpherePage *page)
{
    page->whole = (Line) { .state = LINE_OWNED, .holders = page->lines[0].holders };
    g_free(page->lines);
    page->lines = NULL;
    return SPHERE_PAGE_LINES * sizeof(Line);
}
