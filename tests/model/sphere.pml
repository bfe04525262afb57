/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sphere (protocol/sphere.c) for spin: what the models share.  What the code
 * does under one lock is atomic here.  Everything else may be interleaved.
 *
 * Instead of positions there is knowledge: for each processor, how many steps of each
 * other one a replay is sure to have made before.  knows[] is that of the step that p
 * is about to make, with all arcs into it; did[] is that of the last one that ended, which is
 * what a taker gets, since an arc leaves from there.  Numbers stay small because
 * programs do.
 *
 * The environment's BROKEN switches the rule of that number off; test_model.py expects spin to
 * notice each.  It is read when a verifier runs, since compiling one takes longer than
 * running it.  For the same reason what is long has one caller for each process.
 */
#define RULE_NOP 1              /* an abandoned step that got something is a step */
#define RULE_TAKE_ARC 2         /* who takes a line comes after who held it */
#define RULE_WRITER_ARC 3       /* and after the last writer */
#define RULE_TAKE_RUNNING 4     /* nothing is taken from who runs */
#define RULE_SERVE 5            /* who becomes safe serves who asked */
#define RULE_RESERVE 6          /* the first asker reserves */
#define RULE_NEXT_RESERVES 7    /* on a grant, the next one does, before newcomers */
#define RULE_EXCLUSIVE 8        /* who waits for a line is not stopped */
#define RULE_DROP 9             /* stores make others drop copies */
#define RULE_DROP_ARC 10        /* and come after who dropped them */
#define RULE_TAKE_DROPS 11      /* which happens before the next step */
#define RULE_LEFT 12            /* stores come after who left by itself, too */
#define RULE_LEFT_UNSEEN 13     /* also if later ones may go unseen */
#define RULE_PROTECT 14         /* who makes copies loses its write bits */
#define RULE_WRITE_BITS 15      /* and gets no others */
#define RULE_IN_HAND 16         /* a store that was granted need not ask again */
#define RULE_IN_HAND_ENDS 17    /* until its processor was safe */

#define RULE_WANT_FIRST 18      /* a request is known before anybody is asked */
#define RULE_IN_HAND_PASSES 19  /* nor wait behind who reserves what it has */
#define RULE_READER_STAYS 20    /* only who has written a line gives it back unasked */
#define RULE_WAITER_KEEPS 21    /* who waits gives nothing that it was granted meanwhile */
#define RULE_USER_ARC 22        /* who takes from user mode comes after what the kernel did there */
#define RULE_OPEN 23            /* lines that user mode reaches are not taken from it */
#define RULE_LEAVE_USER 24      /* who needs others leaves user mode first */
#define RULE_TAKE_BACK 25       /* only a write bit that was put aside is taken back */
#define RULE_GIVEN_AWAY 26      /* what was given back is in hand no more */

byte broken;
#define BROKEN(rule) (broken == RULE_##rule)
/* The first thing that init does. */
#define READ_BROKEN c_code { \
    const char *number = getenv("BROKEN"); \
    now.broken = number ? atoi(number) : 0; \
}

#define BIT(p) (1 << (p))
#define NONE 255

/* What is accessed: lines, or words of them. */
#ifndef PLACES
#define PLACES LINES
#endif

byte holders[LINES];            /* a bit for each processor */
bool owned[LINES];
byte reserved[LINES];           /* for whom, + 1 */

/* What copies.pml adds: more must be asked for, and less. */
#ifndef COPIES
#define MAY(p, line, write) true
#define IN_HAND(p, write) false
#define not_in_hand(p) skip
#endif

/* Does who serves its inbox run? */
#ifndef SERVES
#define SERVES false
#endif

bool running[N];
#ifdef USER
bool in_user[N];
bool open[LINES];               /* user mode may reach it */
#define OUT_OF_REACH(q, line) (in_user[q] && (!open[line] || BROKEN(OPEN)))
#else
#define OUT_OF_REACH(q, line) false
#endif
byte inbox[N];
byte wants[N] = NONE;           /* the line that its request waits for */
bool wants_write[N];
bool granted[N];
bool exclusive[N];

/* Of one atomic sequence. */
hidden byte q_, r_;
hidden byte way_, behind_, next_, line_;
hidden byte server_;            /* who runs, and gives all the same, + 1 */
bool ok_;

#ifdef CLOCKS
byte position[N];
bool ordered[N];                /* an arc leads into the present step */
byte knows[N * N], did[N * N], pending[N * N];
bool pends[N];
#ifdef USER
byte left_kernel[N * N];        /* did[] when it entered user mode */
#else
#define left_kernel did
#endif
byte writer_knew[LINES * N];    /* when it gave way */
/* What really happened, for checking. */
byte written[PLACES * N];       /* one more than the last step that wrote it */
byte was_read[PLACES * N];

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

/* An abandoned step that got something is a step. */
inline settle(p) {
    if
    :: ordered[p] && !BROKEN(NOP) -> end_step(p)
    :: else
    fi
}

/* What a replay does in any order that the arcs allow must be what was done. */
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

/* q has the line no more, or cannot write it any more. */
inline remember_writer(q, line) {
#ifdef CLOCKS
    if
    :: owned[line] ->
        r_ = 0;
        do
        :: r_ < N ->
            writer_knew[line * N + r_] =
                (OUT_OF_REACH(q, line) -> left_kernel[q * N + r_] : did[q * N + r_]);
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

/* p takes the line from q, which is safe, or in user mode and cannot reach it. */
inline take(p, q, line, write) {
    if
    :: OUT_OF_REACH(q, line) && !BROKEN(USER_ARC) -> learn(p, left_kernel, q)
    :: !OUT_OF_REACH(q, line) && !BROKEN(TAKE_ARC) -> learn(p, did, q)
    :: else
    fi;
    remember_writer(q, line);
#ifdef COPIES
    write_bit[q] = false;
    aside[q] = false;
#endif
    owned[line] = false;
    if
    :: write -> holders[line] = holders[line] & ~BIT(q)
    :: else
    fi
}

/* grant_or_reserve(); under the page's lock.  ok_: granted. */
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
            :: (way_ & BIT(q_)) &&
               (!running[q_] || server_ == q_ + 1 || OUT_OF_REACH(q_, line) ||
                BROKEN(TAKE_RUNNING)) ->
                take(p, q_, line, write)
            :: (way_ & BIT(q_)) && running[q_] && server_ != q_ + 1 && !OUT_OF_REACH(q_, line) &&
               !BROKEN(TAKE_RUNNING) ->
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
#ifdef COPIES
            copies_granted(p, line, write)
#endif
        fi
    fi;
    way_ = 0
}

/* If it is granted, the next one that waits reserves before any newcomer. */
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
            /* It was not granted: nothing has changed for the others. */
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

/* sphere_safe(), and unless granted[p], sphere_await(): first this, atomic with the test, ... */
inline stop_running(p) {
#ifdef CLOCKS
    assert(asked || !pends[p]);
#endif
    not_in_hand(p);
    running[p] = false
}

/* ... then this.  @box and @i are the caller's: others come between.  sphere_serve() is this alone. */
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

/* sphere_acquire(), unless the L1 has it.  Atomic. */
inline acquire(p, line, write) {
    asked = false;
    if
    :: (holders[line] & BIT(p)) && (!(write) || owned[line]) && MAY(p, line, write)
    :: else ->
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

/* The access itself: it has what it needs, and nobody else has. */
inline access(p, line, write) {
    d_step {
        assert(holders[line] & BIT(p));
        assert(!(write) || (owned[line] && holders[line] == BIT(p)));
        assert(running[p]);
        check_access(p, line, write)
    }
}
