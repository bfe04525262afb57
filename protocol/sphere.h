/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sphere: processors, the lines of memory that each may read or write right
 * now, and how a line passes from one to another.
 *
 * A processor is a vCPU, or DMA, which is the last.  It is SAFE, so that others
 * may take lines from it, or RUNNING, and then nobody touches what it holds (but
 * for what user mode cannot reach, see sphere_enter_user()).  A
 * processor that needs a line of one that runs asks for it, goes to a boundary
 * between two of its steps, and waits there, safe; the holder answers at its own
 * next boundary.  Since who waits is safe, nobody waits for ever.  (It may linger
 * for a moment before it goes, but not if it is asked for anything itself.)
 *
 * Two positions of a processor matter.  It *publishes* one when it becomes safe:
 * all its steps up to there have ended, and it is the source of every arc that
 * leaves it until it runs and is safe again.  Its *floor* is the position of its
 * latest boundary: nothing that it did behind that has been published, so it may
 * wait there for whatever it needs until the next boundary.  An arc from j to i
 * leads from j's published position to i's floor.  Arcs follow the moments at
 * which lines pass, so they have no cycle, and nobody need know a position in
 * the middle of a translation block.
 *
 * This knows nothing of QEMU.  Lock order: a page, then a processor; no
 * lock is held while anybody waits, logs or jumps.
 */
#ifndef PROTOCOL_SPHERE_H
#define PROTOCOL_SPHERE_H

#include <glib.h>

#include "protocol/chaos.h"
#include "protocol/core-yield.h"
#include "recording/position.h"

#define SPHERE_MAX_VCPUS 16
#define SPHERE_MAX_PROCESSORS (SPHERE_MAX_VCPUS + 1)

#define SPHERE_LINE_SHIFT 6
#define SPHERE_PAGE_SHIFT 12
#define SPHERE_PAGE_LINES (1u << (SPHERE_PAGE_SHIFT - SPHERE_LINE_SHIFT))

/* A processor's byte for a line: its L1.  Generated code tests these bits. */
#define L1_READ 1
#define L1_WRITE 2
#define L1_ASIDE 4              /* not tested by generated code: see lease.c */

/* Words of memory whose translations a processor must drop before it runs. */
#define SPHERE_MAX_DROPS CHAOS_MOST_DROPS
/* Lines that a processor remembers to give back. */
#define SPHERE_MAX_LENT 16

typedef struct Sphere Sphere;
typedef struct Processor Processor;
typedef struct SpherePage SpherePage;
typedef struct OrderRecorder OrderRecorder;

typedef enum SphereAccess {
    SPHERE_READ,
    SPHERE_WRITE,
} SphereAccess;

typedef enum SphereAnswer {
    SPHERE_GRANTED,             /* it is yours; log what sphere_arcs() says */
    SPHERE_ASKED,               /* go to a boundary, then sphere_await() */
} SphereAnswer;

/* How often, for people. */
typedef struct SphereCounts {
    uint64_t misses;            /* not in the L1 */
    uint64_t local;             /* of these: nobody was in the way */
    uint64_t taken;             /* from processors that were safe */
    uint64_t unasked;           /* of these: from who ran in user mode, and cannot reach them */
    uint64_t asked;             /* of processors that ran */
    uint64_t lingered;          /* of these: granted in mid-step */
    uint64_t pages_moved;       /* whole pages at once */
    uint64_t migratory;         /* writable at the read */
    uint64_t leases;            /* asked, and let the holder go on for a while */
    uint64_t leases_ended;      /* as the holder, since it did not write any more */
    uint64_t given_back;        /* lines, unasked */
    uint64_t gave_way;          /* let the host run others */
    uint64_t drops;             /* translations to drop, asked of others */
    uint64_t code_left;         /* pages of code that others wrote to */
    uint64_t abandoned;         /* steps; counted by our user */
    uint64_t exclusive;         /* steps; counted by our user */
    uint64_t wait_us[20];       /* waits of up to 2^i us */
    uint64_t waited_us;
} SphereCounts;

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

typedef struct SphereOps {
    /* Make a processor that runs come to a boundary soon.  Any thread. */
    void (*kick)(Processor *processor);
} SphereOps;

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

/* Who records the order of steps; see order.h. */
extern const OrderRecorder fdr_recorder;

/* On a host with @n_cores. */
Sphere *sphere_new(unsigned n_vcpus, unsigned n_cores, const void *memory, uint64_t size,
                   const SphereOps *ops, const OrderRecorder *recorder);
void sphere_free(Sphere *sphere);
/* Bytes that L1s and directory take by now, about. */
uint64_t sphere_memory(const Sphere *sphere);

static inline Processor *sphere_dma(Sphere *sphere)
{
    return &sphere->processor[sphere->n_processors - 1];
}

/* --- running and safe: the processor's own thread ---------------------------- */

/*
 * Serve whoever asked, and let others take what they need from now on.  All
 * steps before @position have ended, and at least one since the latest arc
 * came in, or the chain of arcs would break.
 */
void sphere_safe(Processor *processor, Position position);
/*
 * The same, for one that waits for another to write what it has read: then
 * it loses the line.  Sleeps until it loses one, or for @us microseconds.
 */
void sphere_doze(Processor *processor, Position position, unsigned us);
/* Nobody takes anything from now on. */
void sphere_run(Processor *processor);

/*
 * Pages that user mode cannot reach are closed.  In user mode a processor has nothing to do with
 * them: it is safe there, as far as they are concerned, though it runs, and others come after
 * what it did before it entered user mode.  At a boundary, @position as for sphere_safe().
 */
void sphere_enter_user(Processor *processor, Position position);
/* Before it does anything that user mode cannot do. */
void sphere_leave_user(Processor *processor);
/* User mode may reach this page from now on: before it does, of any processor.  Any thread. */
void sphere_open_page(Sphere *sphere, uint64_t offset);
bool sphere_is_open(Sphere *sphere, uint64_t offset);

/*
 * At a boundary, running: those that it has leases from wait no longer for what it does not write.
 * True if others still do: then this must be called again chaos.look_again steps later.
 */
bool sphere_look_at_leases(Processor *processor, Position position);
/* Is it asked for lines by somebody who does not wait for a lease to end? */
bool sphere_is_pressed(const Processor *processor);
/*
 * At a boundary, running, and @position as for sphere_safe(): serve whoever asked, as if it were
 * safe for a moment.
 */
void sphere_serve(Processor *processor, Position position);
/*
 * Likewise: let go of lines that it has written, and that others want all the time, before
 * they ask.
 */
void sphere_give_back(Processor *processor, Position position);

/*
 * At a boundary, running: should it let the host run others for a moment?  Does that, safe
 * meanwhile; @position as for sphere_safe().  See core-yield.c.
 */
bool sphere_gives_way(Processor *processor, Position position);
void sphere_yield_core(Processor *processor, Position position);

/* At a boundary, running: nothing behind it has been published. */
static inline void sphere_boundary(Processor *processor, Position position)
{
    processor->floor = position;
}

/* --- lines: the processor's own thread, running ------------------------------- */

/*
 * May @processor make this access to the lines of one page?  If it is granted,
 * sphere_arcs() has what must be logged.  If it was asked for, end the
 * step without any further access, and call sphere_await() at the boundary.
 */
SphereAnswer sphere_acquire(Processor *processor, uint64_t offset, unsigned size,
                            SphereAccess access);

/*
 * Copies that are not in the L1.  The processor is about to keep a
 * translation made from this line (T), or to run code from its page (I).  From then
 * on nobody gets write bits of that page, and every store to a line that it has read comes to
 * sphere_acquire(), which makes the other holders drop their copies.
 */
SphereAnswer sphere_enter_table(Processor *processor, uint64_t offset);
SphereAnswer sphere_enter_code(Processor *processor, uint64_t offset);
/* It has dropped all its translations; all uses lie before @position. */
void sphere_left_tables(Processor *processor, Position position);

/*
 * Wait a moment for what was asked for, in mid-step, so without being safe; but not when
 * somebody waits for this one.  If it is granted, it is as if the holders had been
 * safe when it was asked for: true.
 */
bool sphere_linger(Processor *processor);

/*
 * Wait for what was asked for, safe meanwhile; then the processor runs.  The
 * caller has published @position as for sphere_safe(), unless it was granted
 * already.
 */
bool sphere_is_granted(Processor *processor);
void sphere_await(Processor *processor, Position position);

/* An arc, to be logged: the next step of @to comes after @source steps of @from. */
typedef void OrderEmit(Processor *to, unsigned from, Position source, void *opaque);

/* Calls @emit for each arc that is not implied by others, and forgets them. */
void sphere_arcs(Processor *processor, OrderEmit *emit, void *opaque);

/*
 * What must be dropped before the next step; the caller does that.  Returns how
 * many of @words there are; more than SPHERE_MAX_DROPS: everything.
 */
unsigned sphere_take_drops(Processor *processor, uint64_t words[SPHERE_MAX_DROPS],
                           bool *code);

static inline bool sphere_has_drops(const Processor *processor)
{
    return __atomic_load_n(&processor->n_drops, __ATOMIC_RELAXED) ||
           __atomic_load_n(&processor->drop_code, __ATOMIC_RELAXED);
}

#endif
