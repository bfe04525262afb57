/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Actors as fibers of one thread.  A switch may happen at each actor_pause().  The sphere is
 * compiled with fiber-lock.h, and pauses at each lock.
 *
 * A fiber starts by setcontext(), and is switched by _longjmp(): swapcontext() makes a system call
 * each time, which took half of the tester's time.
 */
#include <glib.h>
#include <setjmp.h>
#include <ucontext.h>

#include "tests/protocol/model/actors.h"
#include "tests/protocol/model/random.h"

#define STACK_SIZE (64 * 1024)
/*
 * The most calls of actor_wait() without progress.  The random choice of fibers is fair, so a fiber
 * that can go on does so within this number.
 */
#define PATIENCE 200000

typedef struct Fiber {
    ucontext_t context;         /* of its start */
    bool started;
    jmp_buf place;              /* once it has started */
    char *stack;
    void *opaque;
    bool done;
} Fiber;

static struct {
    Fiber fiber[ACTORS_MAX];
    unsigned n, left, current;
    jmp_buf main;
    Actor *actor;
    uint64_t random;
    unsigned laziness;          /* one pause in so many is a switch */
    unsigned idle;              /* calls of actor_wait() since the last progress */
} all;

static void fiber_main(void)
{
    all.actor(all.fiber[all.current].opaque);
    all.fiber[all.current].done = true;
    all.left--;
    actor_wait();
}

/* Go on with the current fiber.  Does not return. */
static void go_on(void)
{
    Fiber *fiber = &all.fiber[all.current];

    if (fiber->started) {
        _longjmp(fiber->place, 1);
    }
    fiber->started = true;
    setcontext(&fiber->context);
}

static void switch_away(void)
{
    Fiber *from = &all.fiber[all.current];

    if (!all.left || all.idle > PATIENCE) {
        _longjmp(all.main, 1);
    }
    do {
        all.current = random_below(&all.random, all.n);
    } while (all.fiber[all.current].done);
    if (from != &all.fiber[all.current] && !_setjmp(from->place)) {
        go_on();
    }
}

void actor_pause(void)
{
    if (random_below(&all.random, all.laziness) == 0) {
        switch_away();
    }
}

void actor_wait(void)
{
    all.idle++;
    switch_away();
}

void actor_progress(void)
{
    all.idle = 0;
}

bool actors_run(unsigned n, Actor *actor, void *opaque[], uint64_t seed, void (*dump)(void))
{
    static const unsigned laziness[] = { 2, 4, 8, 32 };

    all.n = all.left = n;
    all.actor = actor;
    all.random = seed;
    all.laziness = laziness[random_below(&all.random, G_N_ELEMENTS(laziness))];
    all.idle = 0;
    for (unsigned i = 0; i < n; i++) {
        Fiber *fiber = &all.fiber[i];

        if (!fiber->stack) {
            fiber->stack = g_malloc(STACK_SIZE);
        }
        fiber->opaque = opaque[i];
        fiber->done = fiber->started = false;
        getcontext(&fiber->context);
        fiber->context.uc_stack.ss_sp = fiber->stack;
        fiber->context.uc_stack.ss_size = STACK_SIZE;
        fiber->context.uc_link = NULL;
        makecontext(&fiber->context, fiber_main, 0);
    }
    all.current = random_below(&all.random, n);
    if (!_setjmp(all.main)) {
        go_on();
    }
    if (all.left) {
        dump();
        return false;
    }
    return true;
}
