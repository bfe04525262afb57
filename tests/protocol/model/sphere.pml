/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The part of the sphere (protocol/sphere.c) that the models for spin share.  What the code does
 * under one lock is atomic here.  Everything else may be interleaved.
 *
 * Knowledge replaces positions: for a step of processor p, how many steps of each processor every
 * replay has made before it.  knows[] belongs to the step that p is about to make, and includes all
 * arcs into it.  did[] belongs to the last step of p that ended.  A taker learns did[], since an
 * arc leaves from there.  Numbers stay small because programs are short.
 *
 * The environment variable BROKEN switches off the rule of that number.  test_model.py expects spin
 * to notice each.  The variable is read when a verifier runs, since compiling a verifier takes
 * longer than running it.  For the same reason a long inline has one call in each process.
 */
#define RULE_NOP 1              /* an abandoned step that got a line is a step */
#define RULE_TAKE_ARC 2         /* the taker of a line comes after its holder */
#define RULE_WRITER_ARC 3       /* the taker of a line comes after its last writer */
#define RULE_TAKE_RUNNING 4     /* nothing is taken from a running processor */
#define RULE_SERVE 5            /* a processor that becomes safe serves its requesters */
#define RULE_RESERVE 6          /* the first requester reserves the line */
#define RULE_NEXT_RESERVES 7    /* on a grant, the next waiter reserves, before newcomers */
#define RULE_EXCLUSIVE 8        /* exclusive execution waits for a vCPU that waits for a line */
#define RULE_DROP 9             /* a store makes other processors drop copies */
#define RULE_DROP_ARC 10        /* the store comes after the steps that used these copies */
#define RULE_TAKE_DROPS 11      /* copies are dropped before the next step */
#define RULE_LEFT 12            /* a store comes after processors that left T by themselves */
#define RULE_LEFT_UNSEEN 13     /* also if only later, unseen stores change the copied word */
#define RULE_PROTECT 14         /* a processor that makes copies loses its write bits */
#define RULE_WRITE_BITS 15      /* a page with copies gets no write bits */
#define RULE_IN_HAND 16         /* a store that was granted need not ask again */
#define RULE_IN_HAND_ENDS 17    /* a granted store is in hand only until its processor is safe */

#define RULE_WANT_FIRST 18      /* a request is visible before any holder is asked */
#define RULE_IN_HAND_PASSES 19  /* a store that was granted does not wait for a reservation */
#define RULE_OFFER_ARC 20       /* the taker of an offered line comes after the offer */
#define RULE_WAITER_KEEPS 21    /* a waiter gives away nothing that it was granted meanwhile */
#define RULE_USER_ARC 22        /* a taker from user mode comes after what the holder did before */
#define RULE_OPEN 23            /* lines that user mode reaches are not taken from it */
#define RULE_LEAVE_USER 24      /* a processor leaves user mode before it accesses a closed line */
#define RULE_TAKE_BACK 25       /* only a write bit that was put aside is taken back */
#define RULE_OFFER_ENDS 26      /* a line that is offered is no longer in hand */
#define RULE_OFFER_RETURNS 27   /* a line is taken back with the permission it was offered with */
#define RULE_MAP_AFTER_ALL 28   /* a change of the memory map comes after all other vCPUs */
#define RULE_MAP_BEFORE_ALL 29  /* the other vCPUs come after it */

byte broken;
#define BROKEN(rule) (broken == RULE_##rule)
/* Must come first in init. */
#define READ_BROKEN c_code { \
    const char *number = getenv("BROKEN"); \
    now.broken = number ? atoi(number) : 0; \
}

#define BIT(p) (1 << (p))
#define NONE 255

/* Accesses are checked for each line, or for each word of the line in copies.pml. */
#ifndef PLACES
#define PLACES LINES
#endif

byte holders[LINES];            /* a bit for each processor */
bool owned[LINES];              /* the only holder may write the line */
byte reserved[LINES];           /* the processor that has reserved the line, + 1; 0: none */

/* copies.pml has its own: with copies, some accesses need more permissions, some fewer. */
#ifndef COPIES
#define MAY(p, line, write) true
#define PROTECTED false
#define MAY_TAKE_BACK(p, line, write) (!(write) || owned[line])
#define IN_HAND(p, write) false
#define not_in_hand(p) skip
#endif

/* True if the processor that serves its inbox is running. */
#ifndef SERVES
#define SERVES false
#endif

bool running[N];
#ifdef USER
bool in_user[N];
bool open[LINES];               /* user mode may reach the line */
#define OUT_OF_REACH(q, line) (in_user[q] && (!open[line] || BROKEN(OPEN)))
#else
#define OUT_OF_REACH(q, line) false
#endif
#ifdef OFFERS
byte offered[LINES];            /* processors that offer the line, a bit for each (offers.c) */
#define OFFERED(q, line) (offered[line] & BIT(q))
/* True if p takes the line from q without asking: take_offered(). */
#define OFFERED_TO(p, q, line) \
    (OFFERED(q, line) && !PROTECTED && (!reserved[line] || reserved[line] == p + 1))
#else
#define OFFERED(q, line) false
#define OFFERED_TO(p, q, line) false
#endif
#define CAN_TAKE(p, q, line) \
    (!running[q] || server_ == q + 1 || OUT_OF_REACH(q, line) || OFFERED_TO(p, q, line) || \
     BROKEN(TAKE_RUNNING))
byte inbox[N];
byte wants[N] = NONE;           /* the line that the request of p waits for */
bool wants_write[N];
bool granted[N];
bool exclusive[N];

/* Variables of one atomic sequence. */
hidden byte q_, r_;
hidden byte way_, behind_, next_, line_;
hidden byte server_;            /* a running processor that gives lines away, + 1; 0: none */
bool ok_;

#ifdef CLOCKS
byte position[N];
bool ordered[N];                /* an arc leads into the current step */
byte knows[N * N], did[N * N], pending[N * N];
bool pends[N];
#ifdef USER
byte left_kernel[N * N];        /* did[] of p when it entered user mode */
#else
#define left_kernel did
#endif
#ifdef OFFERS
byte offer_knew[N * N];         /* did[] of p when it last offered lines */
#else
#define offer_knew did
#endif
byte writer_knew[LINES * N];    /* did[] of the last writer when it lost the line */
/* What really happened, for checks. */
byte written[PLACES * N];       /* the last step that wrote the place, + 1; 0: none */
byte was_read[PLACES * N];      /* the last step that read the place, + 1; 0: none */

/* A macro, since spin passes no arrays. */
#define learn(p, array, at) \
    r_ = 0; \
    do \
    :: r_ < N -> \
        if \
        :: array[(at) * N + r_] > pending[p * N + r_] -> \
            pending[p * N + r_] = array[(at) * N + r_] \
        :: else \
        fi; \
        r_++ \
    :: else -> break \
    od; \
    r_ = 0; \
    pends[p] = true

/* sphere_arcs() */
inline arcs(p) {
    d_step {
        q_ = 0;
        do
        :: q_ < N ->
            if
            :: pending[p * N + q_] > knows[p * N + q_] ->
                knows[p * N + q_] = pending[p * N + q_];
                if
                :: q_ != p -> ordered[p] = true
                :: else
                fi
            :: else
            fi;
            pending[p * N + q_] = 0;
            q_++
        :: else -> break
        od;
        q_ = 0;
        pends[p] = false
    }
}

inline end_step(p) {
    d_step {
        position[p]++;
        knows[p * N + p] = position[p];
        ordered[p] = false;
        q_ = 0;
        do
        :: q_ < N -> did[p * N + q_] = knows[p * N + q_]; q_++
        :: else -> break
        od;
        q_ = 0
    }
}

/* Count an abandoned step that got a line as a step. */
inline settle(p) {
    if
    :: ordered[p] && !BROKEN(NOP) -> end_step(p)
    :: else
    fi
}

/* Check that arcs order this access after all accesses that conflict with it. */
inline check_access(p, place, write) {
    q_ = 0;
    do
    :: q_ < N ->
        assert(q_ == p || knows[p * N + q_] >= written[place * N + q_]);
        assert(q_ == p || !(write) || knows[p * N + q_] >= was_read[place * N + q_]);
        q_++
    :: else -> break
    od;
    q_ = 0;
    if
    :: write -> written[place * N + p] = position[p] + 1
    :: else -> was_read[place * N + p] = position[p] + 1
    fi
}
#else
#define learn(p, array, at) skip
#define arcs(p) skip
#define end_step(p) skip
#define settle(p) skip
#define check_access(p, place, write) skip
#endif

/* Called before q loses the line to p, or the right to write it. */
inline remember_writer(p, q, line) {
#ifdef CLOCKS
    if
    :: owned[line] ->
        r_ = 0;
        do
        :: r_ < N ->
            writer_knew[line * N + r_] =
                (OFFERED_TO(p, q, line) -> offer_knew[q * N + r_] :
                 (OUT_OF_REACH(q, line) -> left_kernel[q * N + r_] : did[q * N + r_]));
            r_++
        :: else -> break
        od;
        r_ = 0
    :: else
    fi
#else
    skip
#endif
}

#ifdef OFFERS
/* What q offers from now on is taken as if q had been safe here. */
inline offer(q, line) {
    offered[line] = offered[line] | BIT(q);
#ifdef CLOCKS
    r_ = 0;
    do
    :: r_ < N -> offer_knew[q * N + r_] = did[q * N + r_]; r_++
    :: else -> break
    od;
    r_ = 0
#endif
}
#endif

/*
 * Let p take the line from q, which offers it, is safe, or is in user mode and cannot reach the
 * line.
 */
inline take(p, q, line, write) {
    if
    :: OFFERED_TO(p, q, line) && !BROKEN(OFFER_ARC) -> learn(p, offer_knew, q)
    :: !OFFERED_TO(p, q, line) && OUT_OF_REACH(q, line) && !BROKEN(USER_ARC) ->
        learn(p, left_kernel, q)
    :: !OFFERED_TO(p, q, line) && !OUT_OF_REACH(q, line) && !BROKEN(TAKE_ARC) -> learn(p, did, q)
    :: else
    fi;
    remember_writer(p, q, line);
#ifdef COPIES
    write_bit[q] = false;
    aside[q] = false;
#endif
#ifdef OFFERS
    if
    :: write -> offered[line] = offered[line] & ~BIT(q)
    :: !write && !OFFERED_TO(p, q, line) && !OUT_OF_REACH(q, line) && !PROTECTED -> offer(q, line)
    :: !write && !OFFERED_TO(p, q, line) -> offered[line] = offered[line] & ~BIT(q)
    :: else
    fi;
#endif
    owned[line] = false;
    if
    :: write -> holders[line] = holders[line] & ~BIT(q)
    :: else
    fi
}

/* grant_or_reserve(), under the page's lock.  ok_ is true if the request is granted. */
inline request(p, line, write) {
    ok_ = true;
    if
    :: reserved[line] && reserved[line] != p + 1 && !exclusive[p] && !IN_HAND(p, write) ->
        inbox[reserved[line] - 1] = inbox[reserved[line] - 1] | BIT(p);
        ok_ = false
    :: else ->
        way_ = (write || owned[line] -> holders[line] & ~BIT(p) : 0);
        q_ = 0;
        do
        :: q_ < N ->
            if
            :: (way_ & BIT(q_)) && CAN_TAKE(p, q_, line) -> take(p, q_, line, write)
            :: (way_ & BIT(q_)) && !CAN_TAKE(p, q_, line) ->
                inbox[q_] = inbox[q_] | BIT(p);
                ok_ = false
            :: else
            fi;
            q_++
        :: else -> break
        od;
        q_ = 0;
#ifdef COPIES
        if
        :: ok_ && write -> drop_copies(p)
        :: else
        fi;
#endif
        if
        :: reserved[line] && reserved[line] != p + 1 && !IN_HAND(p, write) ->
            learn(p, pending, reserved[line] - 1)
        :: else
        fi;
        if
        :: !ok_ && !BROKEN(RESERVE) -> reserved[line] = p + 1
        :: !ok_ && BROKEN(RESERVE)
        :: else ->
            reserved[line] = (IN_HAND(p, write) -> reserved[line] : 0);
            if
            :: !BROKEN(WRITER_ARC) -> learn(p, writer_knew, line)
            :: else
            fi;
            owned[line] = write || (owned[line] && (holders[line] & BIT(p)));
            holders[line] = holders[line] | BIT(p);
#ifdef OFFERS
            offered[line] = offered[line] & ~BIT(p);
#endif
#ifdef COPIES
            copies_granted(p, line, write)
#endif
        fi
    fi;
    way_ = 0
}

/* Try to grant the request of p.  If that works, the next waiter reserves before any newcomer. */
inline serve(p) {
    line_ = wants[p];
    behind_ = 0;
    do
    :: line_ != NONE && behind_ < N ->
        next_ = (p + behind_) % N;
        if
        :: wants[next_] == line_ ->
            request(next_, line_, wants_write[next_]);
            if
            :: ok_ ->
                wants[next_] = NONE;
                running[next_] = true;
                granted[next_] = true
            :: else
            fi;
            /* If p was not granted, nothing has changed for the other waiters. */
            if
            :: behind_ == 0 && (!ok_ || BROKEN(NEXT_RESERVES)) -> behind_ = N
            :: else -> behind_++
            fi
        :: else -> behind_++
        fi
    :: else -> break
    od;
    behind_ = 0;
    next_ = 0;
    line_ = 0;
    ok_ = false
}

/* First part of sphere_safe(), and, atomic with the test of granted[p], of sphere_await(). */
inline stop_running(p) {
#ifdef CLOCKS
    assert(asked || !pends[p]);
#endif
    not_in_hand(p);
    running[p] = false
}

/*
 * Second part of both, and all of sphere_serve().  @box and @i are variables of the calling
 * process, since other processes may run in between.
 */
inline serve_inbox(p) {
    atomic { box = (BROKEN(SERVE) -> 0 : inbox[p]); inbox[p] = 0 };
    do
    :: atomic { box ->
            i = 1;
            do
            :: box & BIT((p + i) % N) -> break
            :: else -> i++
            od;
            box = box & ~BIT((p + i) % N);
            i = (p + i) % N;
            server_ = (SERVES || BROKEN(WAITER_KEEPS) -> p + 1 : 0);
            serve(i);
            server_ = 0;
            i = 0
        }
    :: !box -> break
    od
}

/* The test of the L1, and sphere_acquire() if that misses.  Called in an atomic sequence. */
inline acquire(p, line, write) {
    asked = false;
    if
    :: (holders[line] & BIT(p)) && !OFFERED(p, line) && (!(write) || owned[line]) &&
       MAY(p, line, write)
#ifdef OFFERS
    /* sphere_take_back() */
    :: OFFERED(p, line) && (MAY_TAKE_BACK(p, line, write) || BROKEN(OFFER_RETURNS)) ->
        offered[line] = offered[line] & ~BIT(p);
#ifdef COPIES
        write_bit[p] = aside[p];
        aside[p] = false
#endif
    :: !OFFERED(p, line) && !((holders[line] & BIT(p)) && (!(write) || owned[line]) &&
                              MAY(p, line, write)) ||
       OFFERED(p, line) && !(MAY_TAKE_BACK(p, line, write) || BROKEN(OFFER_RETURNS)) ->
#else
    :: else ->
#endif
        granted[p] = false;
        wants[p] = (BROKEN(WANT_FIRST) -> NONE : line);
        wants_write[p] = write;
        request(p, line, write);
        if
        :: ok_ -> wants[p] = NONE; ok_ = false; arcs(p)
        :: else -> asked = true
        fi
    fi
}

/* The rest of sphere_await(). */
inline await_grant(p) {
    atomic { granted[p] -> asked = false; arcs(p) }
}

/* Make the access: p has the permission, and for a write no other processor has the line. */
inline access(p, line, write) {
    d_step {
        assert(holders[line] & BIT(p));
        assert(!(write) || (owned[line] && holders[line] == BIT(p)));
        assert(running[p]);
        check_access(p, line, write)
    }
}
