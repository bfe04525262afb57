// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Two threads that wait for each other in user mode, without the kernel's help.
 *
 * Exercises: a line whose owner has written it, and then polls it until the
 * other thread has written it: the owner must give the line away at once,
 * however hot it is; lines that one thread writes and the other reads (the ends
 * of a queue); a batch of lines that goes the same way.
 *
 * There are two threads, whatever -t says.  With more threads than host cores,
 * each turn would wait for the host's scheduler.
 *
 * Self-check: both threads pass the token on in turn, and items leave the queue
 * unaltered and in order.
 */
#include "guest.h"

#include <sched.h>
#include <stdatomic.h>

#define PLAYERS 2

/* Polls before the thread yields the CPU: the guest may have only one. */
#define POLLS 4096

/* An item in the queue costs less than a turn. */
#define ITEMS_PER_ROUND 20
#define PLACES 256

static _Alignas(GUEST_LINE) atomic_ulong token;

static struct {
    _Alignas(GUEST_LINE) atomic_ulong put;
    _Alignas(GUEST_LINE) atomic_ulong got;
    _Alignas(GUEST_LINE) uint64_t place[PLACES];
} queue;

static void poll(unsigned *polls)
{
    if (++*polls % POLLS == 0) {
        sched_yield();
    }
}

static void pass_on(unsigned id)
{
    for (unsigned long i = 0; i < guest.rounds; i++) {
        unsigned long turn = i * PLAYERS + id, now;
        unsigned polls = 0;

        while ((now = atomic_load(&token)) != turn) {
            check(now < turn, "turn %lu was taken by another", turn);
            poll(&polls);
        }
        atomic_store(&token, turn + 1);
    }
}

static void put(unsigned long number)
{
    unsigned polls = 0;

    while (number - atomic_load(&queue.got) >= PLACES) {
        poll(&polls);
    }
    queue.place[number % PLACES] = guest_mix(number);
    atomic_store(&queue.put, number + 1);
}

static void get(unsigned long number)
{
    unsigned polls = 0;

    while (atomic_load(&queue.put) <= number) {
        poll(&polls);
    }
    check(queue.place[number % PLACES] == guest_mix(number), "item %lu was altered", number);
    atomic_store(&queue.got, number + 1);
}

static void trade(unsigned id)
{
    for (unsigned long i = 0; i < guest.rounds * ITEMS_PER_ROUND; i++) {
        (id ? get : put)(i);
    }
}

int main(int argc, char **argv)
{
    guest_init("handoff", 5000, argc, argv);
    guest_parallel(PLAYERS, pass_on);
    check(atomic_load(&token) == PLAYERS * guest.rounds, "%lu turns instead of %lu",
          atomic_load(&token), PLAYERS * guest.rounds);
    guest_parallel(PLAYERS, trade);
    guest_result("turns=%lu items=%lu", atomic_load(&token), guest.rounds * ITEMS_PER_ROUND);
    return 0;
}
