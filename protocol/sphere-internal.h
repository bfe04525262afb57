/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of the sphere share: the structs behind sphere.h.
 *
 * Each field says which lock or thread it belongs to.  "Its own thread" is the thread that runs the
 * vCPU, or for DMA the thread that writes, of which there is one at a time.
 */
#ifndef PROTOCOL_SPHERE_INTERNAL_H
#define PROTOCOL_SPHERE_INTERNAL_H

#include "protocol/core-yield.h"
#include "protocol/directory.h"
#include "protocol/rules.h"
#include "protocol/sphere.h"

/* Lines that a processor remembers, to offer them. */
#define SPHERE_MAX_SOON 256
#define SPHERE_MAX_ALONG 256

struct Processor {
    Sphere *sphere;
    unsigned index;
    uint8_t *l1;                /* a byte for each line; NULL for DMA */

    /* Its own thread. */
    Position floor;
    Position ordered;           /* no earlier position may be published: invariant 4 */
    struct {
        Position at;            /* where it last looked at leases: lease.c */
        unsigned pause;         /* steps until it looks again */
    } look;
    bool in_user;               /* it reaches open pages only; atomic, see user-mode.c */
    Position left_kernel;       /* where it entered user mode; others read it in user mode only */
    unsigned vain_spins;        /* for grants, less those that were not in vain: policy.c */
    bool exclusive;             /* no other vCPU runs, and it cannot wait */
    struct {
        Position looked;        /* where it last considered yielding its host core: core-yield.c */
        CoreYield yield;
    } way;
    uint64_t random;            /* its stream of random numbers: chaos.h */
    SphereCounts counts;
    void *user;

    /* Under the lock. */
    int lock;
    bool running;
    Position published;         /* while RUNNING, only its own thread reads and writes it */
    int dozing;                 /* futex, atomic: 1 while it sleeps until it loses a line */
    uint32_t inbox;             /* a bit for each requester; atomic, cleared without the lock */
    unsigned n_drops;           /* more than chaos.most_drops: drop all translations */
    uint64_t drop[SPHERE_MAX_DROPS];        /* offsets of table words in memory */
    bool drop_code;             /* forget all code that was looked up */

    /*
     * It is a table user of a page as long as its entry in the page's tables[] has this epoch.
     * Written by its own thread, read by any.
     */
    uint32_t epoch;
    Position epoch_began;       /* where it had dropped all translations of the epoch before */

    /* Its only request.  Under the lock of the request's page. */
    struct {
        int granted;            /* SphereGrant: a futex, atomic; given under both locks */
        SpherePage *page;       /* NULL: it waits for nothing; atomic */
        uint64_t lines;         /* of the page, a bit for each */
        SphereAccess access;
        unsigned word, last_word;   /* range of the access, in words of the page */
        bool table, code;       /* it is to become a table user or code user */
        bool in_hand;           /* the words were in hand when it was made: below */
        int64_t lease_us;       /* how long the holder may keep the lines: lease.c */
        int patient;            /* 1 while the lease is in force; atomic, hence no bool */
        uint32_t lease_from;    /* holders to kick when the lease ends; atomic */
        uint32_t dropped;       /* table users that have dropped translations for this request */
        bool waited;            /* it was not granted at once */
        bool passed;            /* it has taken lines from other processors */
    } request;

    /*
     * In hand: the words that the processor was last granted to write.  It owns their lines from
     * the grant until it becomes SAFE, serves others, gives a line back or enters user mode, and
     * each of these clears this (copies_let_go()).  So no other processor has made copies of the
     * words since the grant.  A store to some of them in a protected page has no write bit and
     * makes a request, which is granted at once: the store need not ask table users again, nor
     * wait behind processors that have reserved the lines meanwhile, since those wait for this
     * processor.  Hence an instruction with several stores is never abandoned between two of them:
     * a probe or the first store requests all words, and each later store finds its own in hand.
     * Written by its own thread, or by a granter, under the lock, while the request waits.
     */
    struct {
        SpherePage *page;
        unsigned word, last_word;
    } in_hand;

    /* Numbers of lines to offer (offers.c), if it still holds them then.  Its own thread. */
    unsigned n_soon;
    uint64_t soon[SPHERE_MAX_SOON];     /* at the next boundary */
    unsigned n_along;           /* how many came since it served; the latest ones are left */
    uint64_t along[SPHERE_MAX_ALONG];   /* when it serves a request */
    /* Where it last offered lines; atomic.  Written by its own thread, or under the lock, SAFE. */
    Position offered;

    /*
     * Sources of its next step: what it was told since it last emitted.  Under the request's page
     * lock, or its own thread.  A requester that passes it, and so gets what was taken for it, is
     * ordered after each of these, too.
     */
    struct {
        uint32_t sources;       /* processors, a bit for each; the rest is valid for these only */
        Position source[SPHERE_MAX_PROCESSORS];     /* the largest one of each */
        OrderOrigin origin[SPHERE_MAX_PROCESSORS];  /* of @source */
    } told;
    void *order[RACE_ORDERS];   /* state of each OrderRecorder */
    Position episode_limit;     /* sphere_episode_limit(); atomic, written under the lock */
    void *log;                  /* for SphereOps */
};

/* States of a request. */
typedef enum SphereGrant {
    GRANT_AWAITED,
    GRANT_GIVEN,
    GRANT_SLEPT_FOR,            /* awaited, and the granter must wake the requester */
} SphereGrant;

struct Sphere {
    unsigned n_processors;      /* DMA is the last */
    const uint8_t *memory;
    uint64_t size;              /* in bytes */
    SpherePage *pages;
    const SphereOps *ops;
    const OrderRecorder *recorder[RACE_ORDERS];    /* NULL: does not record */
    bool has_episodes;          /* some recorder has */
    unsigned n_cores;           /* of the host */
    int n_asleep;               /* processors that sleep for a grant, not for a lease; atomic */
    uint64_t lines_bytes;       /* taken by split pages; atomic */
    Processor processor[SPHERE_MAX_PROCESSORS];
};

/* Iterate over the processors whose bits @mask has. */
#define FOREACH_PROCESSOR(p, sphere, mask) \
    for (uint32_t left_ = (mask); left_; left_ &= left_ - 1) \
        for (Processor *p = &(sphere)->processor[__builtin_ctz(left_)]; p; p = NULL)

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

/*
 * Tell that others may come after positions of @processor that they could not come after before.
 * Called before or after it sets such a position, but before its next step.
 */
static inline void sphere_published(Processor *processor)
{
    if (processor->user && processor->sphere->ops->published && SPHERE_RULE(HELD_BACK)) {
        processor->sphere->ops->published(processor->user);
    }
}

/* Return @processor's L1 bytes of @page: a vCPU, not DMA. */
static inline uint8_t *sphere_l1_of(const Processor *processor, const SpherePage *page)
{
    return processor->l1 + (sphere_page_offset(processor->sphere, page) >> SPHERE_LINE_SHIFT);
}

/*
 * Set @processor's L1 byte of @line, or of all lines if @page is not split.  Without write
 * bits if @page is protected.  Called with page->lock held, by the processor's own thread or while
 * the processor waits or cannot reach the page.
 */
void sphere_set_l1(Processor *processor, const SpherePage *page, unsigned line, uint8_t byte);

#endif
