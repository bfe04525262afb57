// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Contended mutexes, and pairs of threads that wake each other.
 *
 * Exercises: migratory lines (a lock and its data are read, then written, by
 * one vCPU after the other), atomic instructions and exclusive pairs on lines
 * that move, spinning on a lock whose holder is preempted, futex wake-ups,
 * reschedule IPIs, halt and wake-up of idle vCPUs.
 *
 * Self-check: counters without atomics, guarded by the mutexes alone, must
 * reach their totals; transfers between accounts must cancel out; each side
 * of a pair must have had every second turn.
 */
#include "guest.h"

#include <inttypes.h>
#include <pthread.h>

#define ACCOUNTS 8

/* A turn of a pair needs a wake-up, which costs far more than a free lock. */
#define ROUNDS_PER_TURN 150

typedef struct Account {
    _Alignas(GUEST_LINE) pthread_mutex_t lock;
    _Alignas(GUEST_LINE) int64_t balance;
    uint64_t visits;
} Account;

typedef struct Pair {
    _Alignas(GUEST_LINE) pthread_mutex_t lock;
    pthread_cond_t turned;
    unsigned turn;
    uint64_t turns;
} Pair;

static Account accounts[ACCOUNTS];
static Account counter;
static Pair pairs[(GUEST_MAX_THREADS + 1) / 2];

static void lock(pthread_mutex_t *mutex)
{
    check(pthread_mutex_lock(mutex) == 0, "pthread_mutex_lock");
}

static void unlock(pthread_mutex_t *mutex)
{
    check(pthread_mutex_unlock(mutex) == 0, "pthread_mutex_unlock");
}

static void count(void)
{
    lock(&counter.lock);
    counter.visits++;
    unlock(&counter.lock);
}

/* Locks are taken in the order of addresses, or two transfers could deadlock. */
static void transfer(unsigned from, unsigned to, int64_t amount)
{
    Account *first = &accounts[from < to ? from : to];
    Account *second = &accounts[from < to ? to : from];

    lock(&first->lock);
    lock(&second->lock);
    accounts[from].balance -= amount;
    accounts[to].balance += amount;
    first->visits++;
    second->visits++;
    unlock(&second->lock);
    unlock(&first->lock);
}

static void contend(unsigned id)
{
    uint64_t dice = guest_mix(id + 1);

    for (unsigned long i = 0; i < guest.rounds; i++) {
        unsigned from = dice % ACCOUNTS;
        unsigned to = (from + 1 + (dice >> 8) % (ACCOUNTS - 1)) % ACCOUNTS;

        count();
        transfer(from, to, dice >> 16 & 0xffff);
        dice = guest_mix(dice + 1);
    }
}

static unsigned long turns_each(void)
{
    return guest.rounds / ROUNDS_PER_TURN + 1;
}

static void alternate(unsigned id)
{
    Pair *pair = &pairs[id / 2];
    unsigned side = id % 2;

    for (unsigned long i = 0; i < turns_each(); i++) {
        lock(&pair->lock);
        while (pair->turn != side) {
            check(pthread_cond_wait(&pair->turned, &pair->lock) == 0,
                  "pthread_cond_wait");
        }
        check(pair->turns == 2 * i + side, "pair %u had %" PRIu64
              " turns instead of %lu", id / 2, pair->turns, 2 * i + side);
        pair->turns++;
        pair->turn = !side;
        check(pthread_cond_signal(&pair->turned) == 0, "pthread_cond_signal");
        unlock(&pair->lock);
    }
}

static void check_accounts(void)
{
    uint64_t expected = guest.threads * guest.rounds;
    uint64_t visits = 0;
    int64_t balance = 0;

    for (unsigned i = 0; i < ACCOUNTS; i++) {
        balance += accounts[i].balance;
        visits += accounts[i].visits;
    }
    check(counter.visits == expected, "counted to %" PRIu64 " instead of %"
          PRIu64, counter.visits, expected);
    check(visits == 2 * expected, "%" PRIu64 " visits to accounts instead of %"
          PRIu64, visits, 2 * expected);
    check(balance == 0, "transfers left a balance of %" PRId64, balance);
}

int main(int argc, char **argv)
{
    unsigned pair_count;
    uint64_t turns = 0;

    guest_init("locks", 300000, argc, argv);
    pthread_mutex_init(&counter.lock, NULL);
    for (unsigned i = 0; i < ACCOUNTS; i++) {
        pthread_mutex_init(&accounts[i].lock, NULL);
    }
    guest_parallel(guest.threads, contend);
    check_accounts();

    /* An odd thread is in no pair, but a single thread gets a partner. */
    pair_count = guest.threads > 1 ? guest.threads / 2 : 1;
    for (unsigned i = 0; i < pair_count; i++) {
        pthread_mutex_init(&pairs[i].lock, NULL);
        pthread_cond_init(&pairs[i].turned, NULL);
    }
    guest_parallel(2 * pair_count, alternate);
    for (unsigned i = 0; i < pair_count; i++) {
        check(pairs[i].turns == 2 * turns_each(), "pair %u ended early", i);
        turns += pairs[i].turns;
    }
    guest_result("locked=%" PRIu64 " turns=%" PRIu64, counter.visits, turns);
    return 0;
}
