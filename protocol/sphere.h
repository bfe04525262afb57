/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sphere: the processors, the lines of memory that each may read or write, and the coherence
 * protocol by which lines pass from one processor to another.  It knows nothing of QEMU.
 *
 * A processor is a vCPU or DMA, which is the last.  A SAFE processor lets others take its lines;
 * a RUNNING processor does not.  A requester that needs a line of a RUNNING holder puts a request
 * into the holder's inbox, goes to a boundary between two of its own steps and waits there, SAFE.
 * The holder serves its inbox at its own next boundary.  A waiting processor is always SAFE, so
 * its lines can be taken.  Hence no cycle of waiters can form.
 *
 * The protocol keeps these invariants; comments refer to them by number.  The numbers are those of
 * docs/design/overview.md, whose 5 is that of copies.c, and whose 6 is of inputs.
 *
 * 1. A processor loses permission only at safepoints: while SAFE, or by its own act at a boundary.
 *    (In user mode it also loses lines that user mode cannot reach: sphere_enter_user().  A line
 *    that it offers at a boundary may be taken later on: offers.c.)
 * 2. An access needs permission: a reader must be a sharer or the owner, a writer the owner.  A
 *    line with an owner has no sharers.
 * 3. When permission passes from j to i, the requesting step of i is ordered after j, by an
 *    arc or by arcs that imply one.  The arc's source lies after every access by j to the line.
 * 4. No processor waits in mid-step.  A step that must wait is abandoned; if an arc came in, the
 *    abandoned try counts as a step.  Otherwise a taker, which is ordered after the published
 *    position, would not be ordered after the source of that arc.  (A requester may linger in
 *    mid-step for chaos.linger_us, but not while a request presses it: sphere_is_pressed().)
 * 7. No lock of the sphere is held while a thread waits for a line, logs or jumps.
 *
 * By 1 and 2 a handshake separates conflicting accesses, so the recorded execution is
 * sequentially consistent.
 *
 * Two positions of a processor matter.  A processor *publishes* one when it becomes SAFE: all steps
 * before that position have ended, and every arc that leaves the processor until its next
 * safepoint starts there.  Its *floor* is the position of its latest boundary: no step from there
 * on has been published, so replay may wait there for all that the processor got until its next
 * boundary.  An arc from j to i leads from j's published position to i's floor.  The source was
 * reached before the line passed; the steps from the target on are published afterwards.  So arcs
 * follow the order in which lines pass: they have no cycle, and replay cannot deadlock.  No
 * position in the middle of a translation block need be known.
 *
 * Lock order: a page, then a processor; at most one of each.
 */
#ifndef PROTOCOL_SPHERE_H
#define PROTOCOL_SPHERE_H

#include <glib.h>

#include "protocol/chaos.h"
#include "recording/orders.h"
#include "recording/position.h"

/* The most vCPUs that can be recorded; the format of recordings allows more. */
#define SPHERE_MAX_VCPUS 16
G_STATIC_ASSERT(SPHERE_MAX_VCPUS <= RECORDER_MAX_VCPUS);
#define SPHERE_MAX_PROCESSORS (SPHERE_MAX_VCPUS + 1)

#define SPHERE_LINE_SHIFT 6
#define SPHERE_PAGE_SHIFT 12
#define SPHERE_PAGE_LINES (1u << (SPHERE_PAGE_SHIFT - SPHERE_LINE_SHIFT))

/* A processor's L1 has a byte for each line.  Generated code tests these bits. */
#define L1_READ 1
#define L1_WRITE 2
/* These are not tested. */
#define L1_ASIDE 4              /* write bit put aside: lease.c, offers.c */
#define L1_OFFERED 8            /* read bit put aside, and others may take the line: offers.c */
#define L1_WANTED 0xf0          /* how much others want the line: policy.c */

/* Table words whose translations a processor must drop before its next step. */
#define SPHERE_MAX_DROPS CHAOS_MOST_DROPS

typedef struct Sphere Sphere;
typedef struct Processor Processor;
typedef struct SpherePage SpherePage;
typedef struct OrderRecorder OrderRecorder;
typedef struct KarmaClosed KarmaClosed;
typedef struct RerunClosed RerunClosed;

typedef enum SphereAccess {
    SPHERE_READ,
    SPHERE_WRITE,
} SphereAccess;

typedef enum SphereAnswer {
    SPHERE_GRANTED,             /* go on; log what sphere_arcs() emits */
    SPHERE_ASKED,               /* not yet: go to a boundary, then sphere_await() */
} SphereAnswer;

/*
 * What orders one processor after another: X(origin, name).  The sphere tells the recorder of order
 * a *pair* each time, and the recorder logs an arc unless other arcs imply the pair.
 */
#define ORDER_ORIGINS(X) \
    X(TAKEN, "taken lines")             /* from a holder that was SAFE, or that served */ \
    X(USER_MODE, "user mode")           /* lines taken from a holder that ran on, in user mode */ \
    X(OFFERED, "offered lines")         /* from a holder that ran on */ \
    X(LAST_WRITER, "last writers")      /* of lines that the writer no longer holds */ \
    X(TRANSLATIONS, "translations")     /* former table users, which dropped them unasked */ \
    X(PASSED, "passed reservations")    /* what a reserver that was passed had been told */

typedef enum OrderOrigin {
#define X(origin, name) ORDER_##origin,
    ORDER_ORIGINS(X)
#undef X
    ORDER_N_ORIGINS
} OrderOrigin;

/* Statistics of one processor. */
typedef struct SphereCounts {
    uint64_t misses;            /* requests: accesses that missed in the L1 */
    uint64_t local;             /* of these: granted with no other processor involved */
    uint64_t taken;             /* takings: from holders that were SAFE, served, or in user mode */
    uint64_t unasked;           /* of these: from holders that ran on, in user mode */
    uint64_t asked;             /* misses that had to wait for a holder or a reserver */
    uint64_t lingered;          /* of these: granted in mid-step */
    uint64_t pages_moved;       /* requests widened to a page, or to all that its holder has */
    uint64_t migratory;         /* reads that were granted ownership */
    uint64_t unwritten;         /* lines taken from owners that had only read them */
    uint64_t leases;            /* requests that gave the holder a lease */
    uint64_t leases_ended;      /* as the holder: leases ended early, for want of stores */
    uint64_t offered;           /* lines offered, before any request for them */
    uint64_t offers_taken;      /* misses of lines that another processor offered */
    uint64_t in_vain;           /* misses of lines that it had offered, and took back */
    uint64_t gave_way;          /* times the host core was yielded */
    uint64_t drops;             /* times a table user was made to drop translations */
    uint64_t code_left;         /* times a code user left a page, because of a store */
    uint64_t abandoned;         /* steps; counted by the caller */
    uint64_t exclusive;         /* steps run exclusively; counted by the caller */
    uint64_t episodes;          /* logged, of Karma */
    uint64_t edges;             /* that lead to them */
    uint64_t stamped;           /* episodes logged, of Rerun */
    uint64_t wait_us[20];       /* waits from 2^(i - 1) up to 2^i us; the last: longer ones, too */
    uint64_t waited_us;
    uint64_t pairs[ORDER_N_ORIGINS];    /* told to the recorder of order, by origin */
    uint64_t arcs[ORDER_N_ORIGINS];     /* of these: logged */
} SphereCounts;

typedef struct SphereOps {
    /*
     * Make a RUNNING processor reach a boundary soon.  @user is that of sphere_set_user().  Any
     * thread.  Locks of the sphere may be held: must neither block nor call the sphere.
     */
    void (*kick)(void *user);
    /*
     * Merge no later arc into those that the processor has emitted so far: others may come after
     * positions that it has reached now (recording/held-waits.h).  Called in the processor's own
     * thread, perhaps with its lock held.  NULL: arcs are not merged.
     */
    void (*published)(void *user);
    /*
     * Log an episode that has ended, of a processor with this @log (sphere_set_log()).  Called by
     * the thread that calls a function of the sphere which logs episodes, without locks.  NULL: no
     * such order is recorded.
     */
    void (*karma_episode)(void *log, const KarmaClosed *closed);
    void (*rerun_episode)(void *log, const RerunClosed *closed);
} SphereOps;

/*
 * Create a sphere over @size bytes at @memory, on a host with @n_cores.  The order of steps is
 * recorded in each of @orders.
 */
Sphere *sphere_new(unsigned n_vcpus, unsigned n_cores, const void *memory, uint64_t size,
                   const SphereOps *ops, const Orders *orders);
void sphere_free(Sphere *sphere);
/* Return about how many bytes the L1s and the directory take now.  Any thread. */
uint64_t sphere_memory(const Sphere *sphere);

unsigned sphere_n_vcpus(const Sphere *sphere);
Processor *sphere_vcpu(Sphere *sphere, unsigned index);
Processor *sphere_dma(Sphere *sphere);

Sphere *sphere_of(const Processor *processor);

/* Set what the SphereOps are given.  NULL, as at first: they are not called for the processor. */
void sphere_set_user(Processor *processor, void *user);
/* Return the L1, a byte for each line, for the processor's own thread; NULL for DMA. */
uint8_t *sphere_l1(const Processor *processor);

/* Return the statistics.  The processor's own thread adds to them; other threads may read. */
SphereCounts *sphere_counts(Processor *processor);
/* Return in words what the processor waits for, to be freed; NULL: nothing.  Any thread. */
char *sphere_describe_wait(const Processor *processor);

/* --- running and safe: the processor's own thread ---------------------------- */

/*
 * Return true if a step has ended, at or before @position, since the latest arc came in.  If not,
 * the processor must not publish @position (invariant 4): first end a step.
 */
bool sphere_is_settled(const Processor *processor, Position position);

/*
 * Publish @position, become SAFE and serve the inbox.  All steps before @position must have ended,
 * and sphere_is_settled() must hold there.
 */
void sphere_safe(Processor *processor, Position position);
/*
 * As sphere_safe(); then sleep until another processor invalidates a line of this processor, or
 * for @us microseconds.  For a guest that waits for another vCPU to write a line that it has read.
 * Returns SAFE.
 */
void sphere_doze(Processor *processor, Position position, unsigned us);
/* Become RUNNING, with the published position as the floor. */
void sphere_run(Processor *processor);
/*
 * Order the next step of @processor, which is the caller's, after the steps of @other up to
 * @position, which @other has published.  sphere_arcs() then has the arc.
 */
void sphere_come_after(Processor *processor, Processor *other, Position position);

/*
 * Enter user mode, at a boundary; @position as for sphere_safe().  A page is closed as long as
 * user mode cannot reach it.  From now on others take lines of closed pages from this processor
 * as if it were SAFE, though it runs.  The takers are ordered after @position: the processor has
 * not accessed these lines since.
 */
void sphere_enter_user(Processor *processor, Position position);
/* Leave user mode: called before the processor accesses a closed page. */
void sphere_leave_user(Processor *processor);
bool sphere_in_user(const Processor *processor);
/*
 * Open the page at @offset, for good.  Called before user mode of any processor can reach the
 * page.  Any thread.
 */
void sphere_open_page(Sphere *sphere, uint64_t offset);
/* Return true if the page at @offset is open.  Any thread. */
bool sphere_is_open(Sphere *sphere, uint64_t offset);

/*
 * End the leases on lines that the processor, their holder, no longer writes.  Return the position
 * at which to call this again, if leases may be left, or SPHERE_NO_LEASE.  At a boundary, RUNNING.
 */
#define SPHERE_NO_LEASE UINT64_MAX
Position sphere_look_at_leases(Processor *processor, Position position);
/* Return true if the inbox has a request whose requester does not wait for a lease to end. */
bool sphere_is_pressed(const Processor *processor);
/*
 * Serve the requests of which sphere_is_pressed() tells, as if the processor were SAFE for a
 * moment.  At a boundary, RUNNING; @position as for sphere_safe().
 */
void sphere_serve(Processor *processor, Position position);
/*
 * Offer lines that others nearly always want: they may take them from now on, though the processor
 * runs.  At a boundary, RUNNING.  @position becomes the floor.  Does nothing if sphere_is_settled()
 * does not hold there.
 */
void sphere_offer(Processor *processor, Position position);
/* Return true if sphere_offer() has lines to look at. */
bool sphere_has_offers(const Processor *processor);

/*
 * Return true if the processor should yield its host core now: core-yield.c.  At a boundary,
 * RUNNING.
 */
bool sphere_gives_way(Processor *processor, Position position);
/* Yield the host core, SAFE meanwhile.  At a boundary, RUNNING; @position as for sphere_safe(). */
void sphere_yield_core(Processor *processor, Position position);

/*
 * Set the floor to @position.  No step from @position on has been published, and no step before
 * needs what is requested from now on.
 */
void sphere_boundary(Processor *processor, Position position);
/* The position of its latest boundary, to which arcs lead. */
Position sphere_floor(const Processor *processor);

/*
 * Set whether the processor is exclusive: no other vCPU runs, and it cannot wait.  All requests of
 * an exclusive processor pass reservations and are granted before sphere_acquire() returns.
 */
void sphere_set_exclusive(Processor *processor, bool exclusive);
bool sphere_is_exclusive(const Processor *processor);

/* --- lines: the processor's own thread, running ------------------------------- */

/*
 * Take a line back that the processor has offered, if it still has it and may then have @access to
 * it.  Then the access needs no request, and no arcs, as if the line had not been offered.
 */
bool sphere_take_back(Processor *processor, uint64_t offset, unsigned size, SphereAccess access);
/*
 * Request @access to @size bytes at @offset, all in one page.  SPHERE_GRANTED: sphere_arcs() has
 * the arcs to log before the access.  SPHERE_ASKED: call sphere_linger(), or end the step
 * without any further access and call sphere_await() at the boundary.
 */
SphereAnswer sphere_acquire(Processor *processor, uint64_t offset, unsigned size,
                            SphereAccess access);

/*
 * Become a table user of the page at @offset, before a translation made from that line is kept; or
 * a code user, before code from that page runs.  Translations and code are copies that are not in
 * the L1.  From then on no processor is granted write bits of the page, so every store to a line
 * that this processor has read comes to sphere_acquire(), which makes the other users drop their
 * copies.  Returns as sphere_acquire() does.
 */
SphereAnswer sphere_enter_table(Processor *processor, uint64_t offset);
SphereAnswer sphere_enter_code(Processor *processor, uint64_t offset);
/*
 * Start a new epoch: the processor has dropped all its translations.  All uses of them lie before
 * @position, which becomes the floor.
 */
void sphere_left_tables(Processor *processor, Position position);

/*
 * Wait up to chaos.linger_us for the request to be granted, in mid-step and so not SAFE.  Return
 * true if granted, as if the holders had been SAFE when they were asked.  Gives up at once if
 * sphere_is_pressed(), or if the request gives a lease, so no cycle of waiters forms.
 */
bool sphere_linger(Processor *processor);

/* Return true if the request has been granted since SPHERE_ASKED was returned. */
bool sphere_is_granted(Processor *processor);
/*
 * Wait for the request to be granted; the processor then runs, with @position as its floor.  If
 * the request is not granted yet, publish @position, as sphere_safe() does, and wait SAFE.
 */
void sphere_await(Processor *processor, Position position);

/* Log an arc of FDR: the next step of @to comes after @source steps of @from. */
typedef void OrderEmit(Processor *to, unsigned from, Position source, void *opaque);

/*
 * Call @emit for each arc into the next step that no other implies, and forget the sources.  Logs
 * episodes that have ended.
 */
void sphere_arcs(Processor *processor, OrderEmit *emit, void *opaque);
/* Return true if sphere_arcs() may have an arc to emit. */
bool sphere_has_arcs(const Processor *processor);

/* --- episodes, of orders other than FDR's ------------------------------------- */

/* Return true if some recorder of order makes episodes.  Otherwise the rest does nothing. */
bool sphere_has_episodes(const Sphere *sphere);
/* Set what the SphereOps that log episodes are given. */
void sphere_set_log(Processor *processor, void *log);
/* Return where an episode of the processor reaches its largest size.  Its own thread. */
Position sphere_episode_limit(const Processor *processor);

/*
 * Each of these ends episodes at @position, a boundary at which replay can stop, for which
 * sphere_safe() could be called.  The floor must not lie before @position when the processor next
 * gets a line: sphere_boundary(), sphere_run() or sphere_await() comes first.
 *
 * All but sphere_end_episodes() log what has ended, so the caller must be allowed to log.  One
 * thread at a time may log the episodes of a processor: LogStream.rest_lock sees to that.
 */
/* End those that reach their largest size @room steps later.  The processor's own thread. */
void sphere_limit_episodes(Processor *processor, Position position, Position room);
/* End all, because the processor will rest.  The processor's own thread. */
void sphere_end_episodes(Processor *processor, Position position);
/*
 * End all, and log all that can be logged, so that little is lost if the process is killed.  The
 * processor's own thread; or any thread while the processor rests, SAFE, at @position.
 */
void sphere_flush_episodes(Processor *processor, Position position);
/*
 * End all, and log all: for a barrier, or for the end.  All processors rest, each at its @position,
 * and are cut before any goes on.  Any thread.
 */
void sphere_cut_episodes(Processor *processor, Position position);
/* Log what has ended. */
void sphere_log_episodes(Processor *processor);

/* --- translations and code to drop: the processor's own thread ------------------ */

/*
 * Return how many table @words there are whose translations the caller must drop before the next
 * step; more than SPHERE_MAX_DROPS: drop all.  Set @code to whether the caller must forget all
 * code that it has looked up.
 */
unsigned sphere_take_drops(Processor *processor, uint64_t words[SPHERE_MAX_DROPS],
                           bool *code);

/* Return true if sphere_take_drops() has anything.  Any thread. */
bool sphere_has_drops(const Processor *processor);

#endif
