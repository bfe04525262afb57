/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A model for spin of lines that pass between vCPUs, and DMA with -DDMA.  Each instruction accesses
 * one line or two.  A vCPU may wait for the big lock, be stopped for exclusive execution, or want
 * exclusive execution.  With -DUSER, a vCPU may be in user mode, which reaches no line at first.
 * With -DMAP, a vCPU may change the memory map, on which all steps depend.  A delivery, on x86, is
 * an instruction of two lines here: it is abandoned, made again and made exclusively like one.
 *
 * With -DCLOCKS programs are short, and the arcs are checked.  Without -DCLOCKS programs go on for
 * ever, and spin looks for a request that is never granted.
 */
#ifndef LINES
#define LINES 2
#endif
#ifndef N
#define N 3
#endif
#ifndef INSNS
#define INSNS 2
#endif
/* Instructions of vCPUs but the first, and of DMA. */
#ifndef OTHERS
#define OTHERS INSNS
#endif
#define MOST(p) (p == 0 -> INSNS : OTHERS)
#ifndef FEW_TRIES
#define FEW_TRIES 2
#endif

#ifdef DMA
#define VCPUS (N - 1)
#else
#define VCPUS N
#endif

#define STOPPED 1
#define ASKED 2
#define DEVICE 3
#define SERVES (why == ASKED)

#ifdef MAP
#define PLACES (LINES + 1)      /* the last one is the map, which is in no line */
#endif
#include "sphere.pml"

/* What a processor does while nothing can be taken from it is atomic. */
inline sphere_safe(p) {
    atomic {
        settle(p);
        if
        :: why == ASKED -> not_in_hand(p)
        :: else -> stop_running(p)
        fi
    };
    serve_inbox(p)
}

#ifdef MAP
bool follows[N];                /* the map has changed since the vCPU last ran */
byte map_knew[N];               /* did[] of the vCPU that made the latest change */

/* recorder_follow_map() */
inline follow_map(p) {
    if
    :: follows[p] ->
        if
        :: !BROKEN(MAP_BEFORE_ALL) -> learn(p, map_knew, 0)
        :: else
        fi;
        arcs(p);
        follows[p] = false
    :: else
    fi
}
#else
#define follow_map(p) skip
#endif

inline sphere_run(p) {
    atomic { running[p] = true; follow_map(p) }
}

inline sphere_await(p) {
    if
    :: BROKEN(WANT_FIRST) -> wants[p] = last
    :: else
    fi;
    if
    :: atomic { !granted[p] -> settle(p); stop_running(p) };
        serve_inbox(p)
    :: granted[p]
    fi;
    await_grant(p)
}

bool executing[N];
byte stopper;                   /* the vCPU that wants or has exclusive execution, + 1; 0: none */
bool big_lock;

inline exec_start(p) {
    atomic { !stopper -> executing[p] = true }
}

/* A vCPU that waits for a line counts as executing, since it runs when it is granted. */
inline start_exclusive(p) {
    atomic { !stopper -> stopper = p + 1 };
    i = 0;
    do
    :: i < VCPUS -> !executing[i] || (BROKEN(EXCLUSIVE) && wants[i] != NONE); i++
    :: else -> break
    od;
    i = 0
}

/* Try an instruction; it is abandoned if @asked. */
inline try(p) {
    last = a;
    do
    :: atomic {
            write = (last == a -> wa : wb);
            acquire(p, last, write);
            if
            :: !asked && two && last != b -> last = b
            :: else -> break
            fi
        }
    od
}

inline commit(p) {
    atomic {
        access(p, a, wa);
        if
        :: two -> access(p, b, wb)
        :: else
        fi;
#ifdef MAP
        d_step { check_access(p, LINES, false) };
#endif
        end_step(p);
        tries = 0
    }
}

inline step_exclusively(p) {
    sphere_safe(p);
    executing[p] = false;
    start_exclusive(p);
    sphere_run(p);
    exclusive[p] = true;
    /* Only DMA may still hold a line, for a moment. */
    asked = true;
    do
    :: asked ->
        atomic { try(p); if :: asked -> wants[p] = NONE; assert(VCPUS < N) :: else fi }
    :: !asked -> break
    od;
    commit(p);
    exclusive[p] = false;
    sphere_safe(p);
    atomic { stopper = 0; executing[p] = true };
    sphere_run(p)
}

#ifdef MAP
/* recorder_log_map_exclusively(): others are SAFE, so did[] is what they have published. */
inline change_map(p) {
    sphere_safe(p);
    executing[p] = false;
    start_exclusive(p);
    sphere_run(p);
    atomic {
        do
        :: i < VCPUS ->
            if
            :: i != p ->
                assert(!running[i]);
                if
                :: !BROKEN(MAP_AFTER_ALL) -> learn(p, did, i)
                :: else
                fi;
                follows[i] = true
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0;
        arcs(p);
        d_step { check_access(p, LINES, true) };
        end_step(p);
        do
        :: i < N -> map_knew[i] = did[p * N + i]; i++
        :: else -> break
        od;
        i = 0
    };
    sphere_safe(p);
    atomic { stopper = 0; executing[p] = true };
    sphere_run(p)
}
#endif

#ifdef OFFERS
/* sphere_offer(): when all steps of p have ended. */
inline sphere_offer(p, line) {
    atomic {
        if
        :: holders[line] & BIT(p) -> offer(p, line)
        :: else
        fi
    }
}
#endif

#ifdef USER
/* sphere_enter_user(), between two steps. */
inline enter_user(p) {
    atomic {
        in_user[p] = true;
        q_ = 0;
        do
        :: q_ < N -> left_kernel[p * N + q_] = did[p * N + q_]; q_++
        :: else -> break
        od;
        q_ = 0
    }
}

/*
 * Before an access: an exception leaves user mode, or a translation by the kernel opens the line.
 */
inline reach(p, line) {
    if
    :: in_user[p] && !open[line] && !BROKEN(LEAVE_USER) -> in_user[p] = false
    :: in_user[p] && !open[line] -> open[line] = !BROKEN(LEAVE_USER)
    :: else
    fi
}
#endif

proctype Vcpu(byte p) {
    byte i, box, a, b, tries, n, last, why;
    bool wa, wb, two, asked, write;

    exec_start(p);
    sphere_run(p);
    do
#ifdef CLOCKS
    :: n == MOST(p) -> break
    :: n < MOST(p) ->
        n++;
#else
    ::
#endif
        /* The boundary. */
        if
        :: atomic { stopper -> why = STOPPED }
        :: atomic { !stopper && inbox[p] -> why = ASKED }
        :: !stopper && !inbox[p]
#ifdef BIG_LOCK
        :: atomic { !stopper && !inbox[p] -> why = DEVICE }
#endif
        fi;
        if
        :: why ->
            sphere_safe(p);
            if
            :: why == STOPPED -> executing[p] = false; exec_start(p)
            :: why == DEVICE -> atomic { !big_lock -> big_lock = true }; big_lock = false
            :: why == ASKED
            fi;
            atomic { sphere_run(p); why = 0 }
        :: !why
        fi;
#ifdef MAP
        if
        :: change_map(p)
        :: true
        fi;
#endif
#ifdef OFFERS
        if
        :: sphere_offer(p, 0)
        :: true
        fi;
#endif
#ifdef USER
        if
        :: !in_user[p] && !ordered[p] -> enter_user(p)
        :: true
        fi;
#endif
        /* Few kinds of instructions: each multiplies the states. */
        atomic {
            if
            :: a = 0; wa = true; two = false
            :: a = 0; wa = false; two = false
#if LINES > 1
            :: a = 0; wa = true; b = 1; wb = true; two = true
            :: a = 1; wa = true; b = 0; wb = true; two = true
            :: a = 1; wa = false; b = 0; wb = true; two = true
#endif
            fi
        };
#ifdef USER
        reach(p, a);
        if
        :: two -> reach(p, b)
        :: else
        fi;
#endif
        do
        :: try(p);
            if
            :: !asked -> commit(p); break
            :: else ->
                sphere_await(p);
                tries++;
                if
                :: tries == FEW_TRIES -> step_exclusively(p); break
                :: else
                fi
            fi
        od
    od;
    sphere_safe(p);
    executing[p] = false
}

#ifdef DMA
proctype Devices(byte p) {
    byte i, box, a, n, last, why;
    bool asked;

    do
#ifdef CLOCKS
    :: n == MOST(p) -> break
    :: n < MOST(p) ->
        n++;
#else
    ::
#endif
        atomic { !big_lock -> big_lock = true };
        sphere_run(p);
        atomic { acquire(p, a, true) };
        if
        :: asked -> sphere_await(p)
        :: else
        fi;
        access(p, a, true);
        end_step(p);
        sphere_safe(p);
        big_lock = false
    od
}
#endif

init {
    byte k;

    atomic {
        READ_BROKEN;
        do
        :: k < VCPUS -> run Vcpu(k); k++
        :: else -> break
        od;
#ifdef DMA
        run Devices(N - 1)
#endif
    }
}

#ifndef CLOCKS
ltl granted_at_last { [] ((wants[0] != NONE) -> <> (wants[0] == NONE)) }
#endif
