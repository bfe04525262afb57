/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sphere (hw/recorder/sphere.c) for spin: what the models share.  What the code
 * does under one lock is atomic here.  Everything else may be interleaved.
 *
 * Instead of positions there is knowledge: for each processor, how many steps of each
 * other one a replay is sure to have made before.  knows[] is that of the step that p
 * is about to make, with all arcs into it; did[] is that of the last one that ended, which is
 * what a taker gets, since an arc leaves from there.  Numbers stay small because
 * programs do.
 *
 * -DBREAK_... switches a rule off; test_model.py expects spin to notice each.
 */
#define BIT(p) (1 << (p))
#define NONE 255

byte holders[LINES];            /* a bit for each processor */
bool owned[LINES];
byte reserved[LINES];           /* for whom, + 1 */

bool running[N];
byte inbox[N];
byte wants[N] = NONE;           /* the line that its request waits for */
bool wants_write[N];
bool granted[N];
bool exclusive[N];

/* Of one atomic sequence. */
hidden byte q_, r_;
hidden byte way_, behind_, next_, line_;
bool ok_;

#ifdef CLOCKS
byte position[N];
bool ordered[N];                /* an arc leads into the present step */
byte knows[N * N], did[N * N], pending[N * N];
bool pends[N];
byte writer_knew[LINES * N];    /* when it gave way */
/* What really happened, for checking. */
byte written[LINES * N];        /* one more than the last step that wrote it */
byte was_read[LINES * N];

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

/* An abandoned step that got something is a step (holes.md 4). */
inline settle(p) {
#ifdef BREAK_NOP
    skip
#else
    if
    :: ordered[p] -> end_step(p)
    :: else
    fi
#endif
}

/* What a replay does in any order that the arcs allow must be what was done. */
inline check_access(p, line, write) {
    q_ = 0;
    do
    :: q_ < N ->
        assert(q_ == p || knows[p * N + q_] >= written[line * N + q_]);
        assert(q_ == p || !(write) || knows[p * N + q_] >= was_read[line * N + q_]);
        q_++
    :: else -> break
    od;
    q_ = 0;
    if
    :: write -> written[line * N + p] = position[p] + 1
    :: else -> was_read[line * N + p] = position[p] + 1
    fi
}
#else
#define learn(p, array, at) skip
#define arcs(p) skip
#define end_step(p) skip
#define settle(p) skip
#define check_access(p, line, write) skip
#endif

/* p takes the line from q, which is safe. */
inline take(p, q, line, write) {
#ifndef BREAK_TAKE_ARC
    learn(p, did, q);
#endif
#ifdef CLOCKS
    if
    :: owned[line] ->
        r_ = 0;
        do
        :: r_ < N -> writer_knew[line * N + r_] = did[q * N + r_]; r_++
        :: else -> break
        od;
        r_ = 0
    :: else
    fi;
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
    :: reserved[line] && reserved[line] != p + 1 && !exclusive[p] ->
        inbox[reserved[line] - 1] = inbox[reserved[line] - 1] | BIT(p);
        ok_ = false
    :: else ->
        way_ = (write || owned[line] -> holders[line] & ~BIT(p) : 0);
        q_ = 0;
        do
        :: q_ < N ->
            if
            :: (way_ & BIT(q_)) &&
#ifdef BREAK_TAKE_RUNNING
               true
#else
               !running[q_]
#endif
               -> take(p, q_, line, write)
            :: (way_ & BIT(q_)) && running[q_] ->
                inbox[q_] = inbox[q_] | BIT(p);
                ok_ = false
            :: else
            fi;
            q_++
        :: else -> break
        od;
        q_ = 0;
        if
        :: reserved[line] && reserved[line] != p + 1 ->
            learn(p, pending, reserved[line] - 1)
        :: else
        fi;
        if
        :: !ok_ ->
#ifndef BREAK_RESERVE
            reserved[line] = p + 1
#endif
        :: else ->
            reserved[line] = 0;
#ifndef BREAK_WRITER_ARC
            learn(p, writer_knew, line);
#endif
            owned[line] = write || (owned[line] && (holders[line] & BIT(p)));
            holders[line] = holders[line] | BIT(p)
        fi
    fi;
    way_ = 0
}

inline grant_request(p) {
    request(p, wants[p], wants_write[p]);
    if
    :: ok_ ->
        wants[p] = NONE;
#ifndef BREAK_RUN_AT_GRANT
        running[p] = true;
#endif
        granted[p] = true
    :: else
    fi
}

inline serve(p) {
    atomic {
        if
        :: wants[p] != NONE ->
            line_ = wants[p];
            grant_request(p);
#ifndef BREAK_NEXT_RESERVES
            if
            :: ok_ ->
                /* Before any newcomer. */
                behind_ = 1;
                do
                :: behind_ < N ->
                    next_ = (p + behind_) % N;
                    if
                    :: wants[next_] == line_ -> grant_request(next_)
                    :: else
                    fi;
                    behind_++
                :: else -> break
                od;
                behind_ = 0;
                next_ = 0;
                line_ = 0
            :: else
            fi;
#endif
            ok_ = false
        :: else
        fi
    }
}

/* @box and @i are the caller's: others come between. */
inline serve_inbox(p) {
    atomic { box = inbox[p]; inbox[p] = 0 };
#ifndef BREAK_SERVE
    do
    :: box -> atomic {
            i = 1;
            do
            :: box & BIT((p + i) % N) -> break
            :: else -> i++
            od;
            box = box & ~BIT((p + i) % N);
            serve((p + i) % N)
        }
    :: else -> break
    od;
#endif
    i = 0
}

inline sphere_safe(p) {
#ifdef CLOCKS
    assert(!pends[p]);
#endif
    running[p] = false;
    serve_inbox(p)
}

inline sphere_run(p) {
    running[p] = true
}

/* sphere_acquire(), unless the L1 has it. */
inline acquire(p, line, write) {
    atomic {
        asked = false;
        if
        :: (holders[line] & BIT(p)) && (!(write) || owned[line])
        :: else ->
            granted[p] = false;
#ifndef BREAK_WANT_FIRST
            wants[p] = line;
            wants_write[p] = write;
#endif
            request(p, line, write);
            if
            :: ok_ -> wants[p] = NONE; ok_ = false; arcs(p)
            :: else -> asked = true
            fi
        fi
    };
#ifdef BREAK_WANT_FIRST
    if
    :: asked -> atomic { wants[p] = line; wants_write[p] = write }
    :: else
    fi
#endif
}

inline sphere_await(p) {
    if
    :: !granted[p] -> settle(p)
    :: else
    fi;
    if
    :: atomic { !granted[p] -> running[p] = false };
        serve_inbox(p);
        granted[p];
#ifdef BREAK_RUN_AT_GRANT
        running[p] = true
#endif
    :: atomic { granted[p] -> skip }
    fi;
    arcs(p)
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
