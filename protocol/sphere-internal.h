/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of the sphere share: sphere.c, copies.c, recorders of order.
 */
#ifndef PROTOCOL_SPHERE_INTERNAL_H
#define PROTOCOL_SPHERE_INTERNAL_H

#include "protocol/core-yield.h"
#include "protocol/directory.h"
#include "protocol/sphere.h"

/* tests/model breaks one rule at a time, to see whether its tester notices. */
#ifndef SPHERE_RULE
#define SPHERE_RULE(name) true
#endif

struct Processor {
    Sphere *sphere;
    unsigned index;
    uint8_t *l1;                /* a byte for each line; NULL for DMA */

    /* Its own thread's. */
    Position floor;
    Position ordered;           /* it must not be safe before this position */
    Position looked;            /* whether it goes on to write what others wait for */
    bool exclusive;             /* nobody else runs, and it cannot wait */
    struct {
        Position looked;        /* whether it should */
        Offer offer;
    } way;
    uint64_t random;            /* a stream of it, see chaos.h */
    SphereCounts counts;
    void *user;

    /* Under the lock. */
    int lock;
    bool running;
    Position published;
    bool in_user;               /* in user mode, so it reaches open pages only, */
    Position left_kernel;       /* since this position */
    int dozing;                 /* futex: asleep until it loses a line */
    uint32_t inbox;             /* whose requests it must serve when it is safe */
    unsigned n_drops;           /* more than fit: drop all translations */
    uint64_t drop[SPHERE_MAX_DROPS];        /* offset of a word in memory */
    bool drop_code;             /* forget which code was looked up */

    /*
     * T: a page of tables belongs to it as long as the page's
     * epoch for it is this one.  Written by its thread.
     */
    uint32_t epoch;
    Position epoch_began;       /* when it dropped all translations */

    /* Its one request; under the lock of the request's page. */
    struct {
        int granted;            /* SphereGrant, a futex; also under the processor's lock */
        SpherePage *page;       /* NULL: it does not wait */
        uint64_t lines;         /* a bit for each */
        SphereAccess access;
        unsigned word, last_word;   /* what is accessed, in words of the page */
        bool table, code;       /* copies that it is going to make */
        bool in_hand;           /* these words were granted before, see below */
        int64_t lease_us;       /* for so long it lets the holder go on */
        int patient;            /* a lease lasts; atomic, so no bool beside others */
        uint32_t lease_from;    /* who must hear when it ends; atomic */
        uint32_t dropped;       /* who has dropped translations for it already */
    } request;

    /*
     * Words that it was granted to write.  It owns their lines from then until it is safe, serves
     * others, gives a line back, or enters user mode, and each of these ends it
     * (copies_let_go()).  So nobody has new copies of the words; a store to some of them,
     * which has no write bit, is granted at once: it need not ask holders of copies again, nor
     * wait for those that reserve the lines by now, since they wait for it.  That is what keeps an
     * instruction with several stores in one piece: one request for all of them, by a
     * probe or by the first store, comes before those that each store makes.
     * Its own thread's, and under its lock.
     */
    struct {
        SpherePage *page;
        unsigned word, last_word;
    } in_hand;

    /* Lines that others want all the time, got since the latest boundary: its own thread's. */
    unsigned n_lent;
    struct {
        SpherePage *page;
        unsigned line;
    } lent[SPHERE_MAX_LENT];

    /* What its next step comes after: under the request's page, or its own. */
    bool has_new_sources;                  /* something that was not emitted yet */
    void *order;                /* the recorder's */
};

/* Whether a request is granted. */
typedef enum SphereGrant {
    GRANT_AWAITED,
    GRANT_GIVEN,
    GRANT_SLEPT_FOR,            /* who grants it must wake the asker */
} SphereGrant;

struct Sphere {
    unsigned n_processors;      /* with DMA, the last */
    const uint8_t *memory;
    uint64_t size;              /* in bytes */
    SpherePage *pages;
    const SphereOps *ops;
    const OrderRecorder *recorder;
    unsigned n_cores;           /* of the host */
    int n_asleep;               /* processors that sleep for lines; atomic */
    uint64_t lines_bytes;       /* taken by split pages; atomic */
    Processor processor[SPHERE_MAX_PROCESSORS];
};

static inline uint64_t sphere_page_offset(const Sphere *sphere, const SpherePage *page)
{
    return (uint64_t)(page - sphere->pages) << SPHERE_PAGE_SHIFT;
}

static inline SpherePage *sphere_page_at(Sphere *sphere, uint64_t offset)
{
    g_assert(offset < sphere->size);
    return &sphere->pages[offset >> SPHERE_PAGE_SHIFT];
}

static inline void sphere_kick(Processor *processor)
{
    if (processor->user) {
        processor->sphere->ops->kick(processor->user);
    }
}

/* Its L1 bytes of this page. */
static inline uint8_t *sphere_l1_of(const Processor *processor, const SpherePage *page)
{
    return processor->l1 + (sphere_page_offset(processor->sphere, page) >> SPHERE_LINE_SHIFT);
}

/* The page is locked.  A page with copies has no write bits. */
void sphere_set_l1(Processor *processor, const SpherePage *page, unsigned line, uint8_t byte);

#endif
