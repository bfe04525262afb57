/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A model for spin of copies (protocol/copies.c) of words in one line of a page: translations (T),
 * or code with -DCODE (I).  A processor uses its copy of the first word as long as it has one.
 * Else it reads the word and makes a copy, unless the word is zero.  The second word is data beside
 * the first.
 *
 * A copy that is used must equal the word in memory.  As with all accesses, a store must come after
 * all uses of the word's old value; that is checked with -DCLOCKS.  Without -DCLOCKS programs go on
 * for ever, and spin looks for a store that is never made.
 *
 * With -DASIDE, a processor may put its write bit aside and take it back (protocol/lease.c).  And
 * the page may become unprotected whenever no processor has copies, as by a store to another line.
 *
 * With -DOFFERS, a holder of the line may offer it (protocol/offers.c).
 *
 * The first USERS processors use and flush copies, in STEPS steps.  Processors from WRITERS on
 * store; those that do not use copies make STORES stores.
 */
#ifndef N
#define N 2
#endif
#ifndef USERS
#define USERS N
#endif
#ifndef WRITERS
#define WRITERS 0
#endif
#ifndef STEPS
#define STEPS 3
#endif
#ifndef STORES
#define STORES STEPS
#endif
#define LINES 1
#define WORDS 2
#define PLACES WORDS
#define COPIES

byte version[WORDS];            /* 0: the word is zero */
byte latest[WORDS];
byte copy[N];                   /* the version of the first word that p has a copy of; 0: none */
bool enters[N];                 /* the request of p is for making copies */
bool in_copies[N];              /* p may have copies: it is in T, or in I */
bool must_drop[N];
bool protected;                 /* the page has no write bits */
bool write_bit[N];
bool aside[N];                  /* p put its write bit aside, so its next store misses */
byte word[N];                   /* the word that the request of p wants to store to */
byte in_hand[N];                /* the word that p was last granted to store to, + 1 */
byte dropped[N];                /* processors that have dropped copies for the request of p */
bool storing[N];
#ifdef CLOCKS
byte left[N * N];               /* did[] of p when it left T; left[p * N + p] is 0 before that */
#endif

#define MAY(p, line, write) (write -> write_bit[p] : in_copies[p] || !enters[p])
#define MAY_TAKE_BACK(p, line, write) (write -> aside[p] : MAY(p, line, false))
#define PROTECTED protected
/* The store was granted before, and is made now: copies_is_in_hand(). */
#define IN_HAND(p, write) \
    ((write) && in_hand[p] == word[p] + 1 && !BROKEN(IN_HAND_PASSES) && !BROKEN(IN_HAND))

#include "sphere.pml"

#ifdef CODE
#define CHANGES(p) true
#else
#define CHANGES(p) version[word[p]]
#endif

inline not_in_hand(p) {
    in_hand[p] = (BROKEN(IN_HAND_ENDS) -> in_hand[p] : 0)
}

/* copies_holders(), copies_drop(): ok_ becomes false unless all other holders have dropped. */
inline drop_copies(p) {
    q_ = 0;
    do
    :: q_ < N ->
        if
        :: q_ == p || !in_copies[q_] || !CHANGES(p) || (dropped[p] & BIT(q_))
        :: q_ != p && in_hand[p] == word[p] + 1 && !BROKEN(IN_HAND)
        :: else ->
            if
            :: running[q_] ->
                inbox[q_] = inbox[q_] | BIT(p);
                ok_ = false
            :: else ->
                if
                :: !BROKEN(DROP_ARC) -> learn(p, did, q_)
                :: else
                fi;
                must_drop[q_] = !BROKEN(DROP);
#ifdef CODE
                in_copies[q_] = false
#else
                dropped[p] = dropped[p] | BIT(q_)
#endif
            fi
        fi;
        q_++
    :: else -> break
    od;
    q_ = 0
}

/* order_after_left() */
#ifdef CLOCKS
inline order_after_left(p) {
    q_ = 0;
    do
    :: q_ < N ->
        if
        :: q_ != p && left[q_ * N + q_] -> learn(p, left, q_)
        :: else
        fi;
        q_++
    :: else -> break
    od;
    q_ = 0
}
#else
#define order_after_left(p) skip
#endif

/* copies_granted(), copies_keep_in_hand(), copies_protect(); L1 bits. */
inline copies_granted(p, line, write) {
    if
    :: write ->
        in_hand[p] = word[p] + 1;
        protected = false;
        q_ = 0;
        do
        :: q_ < N -> protected = protected || in_copies[q_]; q_++
        :: else -> break
        od;
        q_ = 0;
        if
        :: ((!protected && !BROKEN(LEFT_UNSEEN)) || CHANGES(p)) && !BROKEN(LEFT) ->
            order_after_left(p)
        :: else
        fi
    :: else
    fi;
    write_bit[p] = owned[line] && (!protected || BROKEN(WRITE_BITS));
    aside[p] = false;
    if
    :: !write && enters[p] ->
        protected = true;
        in_copies[p] = true;
        write_bit[p] = write_bit[p] && BROKEN(PROTECT)
    :: else
    fi
}

inline take_drops(p) {
    if
    :: must_drop[p] ->
        must_drop[p] = false;
        copy[p] = (BROKEN(TAKE_DROPS) -> copy[p] : 0)
    :: else
    fi
}

inline new_version(w) {
#ifdef CLOCKS
    if
    :: version[w] = 0
    :: latest[w]++; version[w] = latest[w]
    fi
#else
    if
    :: version[w] = 0
    :: version[w] = (version[w] == 1 -> 2 : 1)
    fi
#endif
}

/* sphere_left_tables() */
inline flush(p) {
    copy[p] = 0;
    end_step(p);
    in_copies[p] = false;
#ifdef CLOCKS
    r_ = 0;
    do
    :: r_ < N -> left[p * N + r_] = did[p * N + r_]; r_++
    :: else -> break
    od;
    r_ = 0
#endif
}

#ifdef ASIDE
/* lease_goes_on(): it is not enough that p owns the line. */
inline take_back(p) {
    if
    :: !protected &&
       (aside[p] || (BROKEN(TAKE_BACK) && owned[0] && holders[0] == BIT(p))) ->
        aside[p] = false;
        write_bit[p] = true
    :: else
    fi
}

inline nobody_has_copies() {
    q_ = 0;
    ok_ = true;
    do
    :: q_ < N -> ok_ = ok_ && !in_copies[q_]; q_++
    :: else -> break
    od;
    q_ = 0
}
#endif

#ifdef OFFERS
/* sphere_offer(), between two steps: p goes on running, with nothing in hand. */
inline sphere_offer(p) {
    offer(p, 0);
    aside[p] = write_bit[p];
    write_bit[p] = false;
    in_hand[p] = (BROKEN(OFFER_ENDS) -> in_hand[p] : 0)
}
#ifdef CODE
#define MAY_OFFER(p) (!in_copies[p])
#else
#define MAY_OFFER(p) true
#endif
#define CAN_OFFER(p) \
    ((holders[0] & BIT(p)) && !OFFERED(p, 0) && !aside[p] && MAY_OFFER(p) && IS_SETTLED(p))
#ifdef CLOCKS
#define IS_SETTLED(p) (!ordered[p])
#else
#define IS_SETTLED(p) true
#endif
#endif

#define USE 1
#define STORE 2
#define FLUSH 3

inline choose(p) {
    if
    :: p < USERS -> op = USE
    :: p >= WRITERS -> op = STORE; w = 0
    :: p >= WRITERS -> op = STORE; w = 1
#ifndef CODE
    :: p < USERS && in_copies[p] -> op = FLUSH
#endif
    fi
}

/* Only a store on the slow path, without a write bit, drops p's own copy. */
inline try(p) {
    enters[p] = op == USE;
    word[p] = w;
    storing[p] = op == STORE;
#ifdef ASIDE
    if
    :: op == STORE -> take_back(p)
    :: else
    fi;
#endif
    if
    :: op == FLUSH || (op == USE && copy[p]) || (op == STORE && write_bit[p]) -> asked = false
    :: else ->
        acquire(p, 0, (op == STORE));
        if
        :: !asked && (op == USE || w == 0) -> copy[p] = (op == USE -> version[0] : 0)
        :: else
        fi
    fi;
    if
    :: !asked ->
        if
        :: op == USE ->
            assert(copy[p] == version[0]);
            check_access(p, 0, false);
            end_step(p)
        :: op == STORE ->
            check_access(p, w, true);
            new_version(w);
            end_step(p)
        :: op == FLUSH -> flush(p)
        fi;
        op = 0;
        w = 0;
        dropped[p] = 0;
        enters[p] = false;
        word[p] = 0;
        storing[p] = false
    :: else
    fi
}

#ifdef CLOCKS
#define MORE (n < (p < USERS -> STEPS : STORES))
#define COUNT n++
#else
#define MORE true
#define COUNT skip
#endif

/* Each step is atomic, since nothing is taken from a running processor.  @op is 0 between steps. */
proctype Vcpu(byte p) {
    byte i, box, n, w, op;
    bool asked;

    running[p] = true;
    do
    :: atomic { (op && !asked) || (!op && !inbox[p] && MORE) ->
            if
            :: !op -> COUNT; choose(p)
            :: else
            fi;
            try(p)
        }
#ifdef ASIDE
    :: atomic { !op && write_bit[p] -> write_bit[p] = false; aside[p] = true }
    :: atomic { !op && protected ->
            nobody_has_copies();
            protected = !ok_;
            ok_ = false
        }
#endif
#ifdef OFFERS
    :: atomic { !op && CAN_OFFER(p) -> sphere_offer(p) }
#endif
    :: atomic { asked && granted[p] -> await_grant(p); take_drops(p) }
    :: atomic { (!op && (inbox[p] || !MORE)) || (asked && !granted[p]) ->
            settle(p);
            stop_running(p)
        };
        serve_inbox(p);
        if
        :: atomic { asked && granted[p] -> await_grant(p); take_drops(p) }
        :: atomic { !asked && MORE -> running[p] = true; take_drops(p) }
        :: !asked && !MORE -> break
        fi
    od
}

init {
    byte k;

    atomic {
        READ_BROKEN;
        version[0] = 1;
        latest[0] = 1;
        do
        :: k < N -> run Vcpu(k); k++
        :: else -> break
        od
    }
}

#ifndef CLOCKS
ltl stored_at_last { [] (storing[N - 1] -> <> !storing[N - 1]) }
#endif
