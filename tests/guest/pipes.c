// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Groups of processes that send messages over pipes, as hackbench does.
 *
 * Exercises: the guest kernel's scheduler and its shared data: run queues, wait
 * queues, pipe buffers and page references migrate between vCPUs with each
 * message; blocking and wake-up by reschedule IPI; context switches between
 * address spaces; far more runnable tasks than vCPUs.
 *
 * -t gives the number of groups.  In a group, each sender sends ROUNDS messages
 * to each receiver.  A receiver has one pipe, which all senders share.
 *
 * Self-check: the messages of a sender must arrive in order, whole and
 * unaltered, and as many as were sent.  The parent adds up the totals of all
 * receivers, which are in shared memory.
 */
#include "guest.h"

#include <inttypes.h>
#include <limits.h>
#include <sys/mman.h>
#include <unistd.h>

/* The number of senders, and of receivers, in a group. */
#define FAN 4

#define MESSAGE_WORDS 16

/* Not longer than PIPE_BUF, so that each write is atomic. */
typedef struct Message {
    uint32_t group;
    uint32_t sender;
    uint64_t number;
    uint64_t payload[MESSAGE_WORDS];
} Message;

_Static_assert(sizeof(Message) <= PIPE_BUF, "messages must be atomic");

typedef struct Pipe {
    int read_end;
    int write_end;
} Pipe;

typedef struct Tally {
    _Alignas(GUEST_LINE) uint64_t messages;
} Tally;

static Pipe ready, go;
static Tally *tallies;

static Pipe open_pipe(void)
{
    int fds[2];

    check(pipe(fds) == 0, "pipe: %m");
    return (Pipe) { .read_end = fds[0], .write_end = fds[1] };
}

static uint64_t payload_seed(const Message *msg, unsigned receiver)
{
    return guest_mix((uint64_t)msg->group << 48 | (uint64_t)msg->sender << 40 |
                     (uint64_t)receiver << 32 | msg->number);
}

/* Tell the parent that this child is ready, then wait until the parent closes its end. */
static void await_go(void)
{
    char byte = 0;

    close(go.write_end);
    check(write(ready.write_end, &byte, 1) == 1, "ready pipe: %m");
    check(read(go.read_end, &byte, 1) == 0, "go pipe: %m");
}

static void send_all(unsigned group, unsigned sender, const Pipe *pipes)
{
    Message msg = { .group = group, .sender = sender };

    for (; msg.number < guest.rounds; msg.number++) {
        for (unsigned to = 0; to < FAN; to++) {
            uint64_t seed = payload_seed(&msg, to);

            for (unsigned i = 0; i < MESSAGE_WORDS; i++) {
                msg.payload[i] = seed + i;
            }
            check(write(pipes[to].write_end, &msg, sizeof(msg)) ==
                  sizeof(msg), "sender %u of group %u: %m", sender, group);
        }
    }
}

static void check_message(const Message *msg, unsigned group,
                          unsigned receiver, uint64_t *expected)
{
    uint64_t seed = payload_seed(msg, receiver);

    check(msg->group == group && msg->sender < FAN,
          "group %u got a message of group %u, sender %u", group, msg->group,
          msg->sender);
    check(msg->number == expected[msg->sender], "message %" PRIu64
          " of sender %u instead of %" PRIu64, msg->number, msg->sender,
          expected[msg->sender]);
    expected[msg->sender]++;
    for (unsigned i = 0; i < MESSAGE_WORDS; i++) {
        check(msg->payload[i] == seed + i, "word %u of a message is wrong", i);
    }
}

static void receive_all(unsigned group, unsigned receiver, int fd)
{
    Tally *tally = &tallies[group * FAN + receiver];
    uint64_t expected[FAN] = { 0 };
    Message msg;
    ssize_t got;

    while ((got = read(fd, &msg, sizeof(msg))) != 0) {
        check(got == sizeof(msg), "read of a message returned %zd", got);
        check_message(&msg, group, receiver, expected);
        tally->messages++;
    }
    for (unsigned i = 0; i < FAN; i++) {
        check(expected[i] == guest.rounds, "sender %u stopped after %" PRIu64
              " messages", i, expected[i]);
    }
}

/* Children with numbers below FAN receive, the others send. */
static pid_t start_child(unsigned group, unsigned number, const Pipe *pipes)
{
    pid_t pid = fork();

    check(pid >= 0, "fork: %m");
    if (pid) {
        return pid;
    }
    for (unsigned i = 0; i < FAN; i++) {
        if (number < FAN) {
            /* End of file comes when the last write end is closed. */
            close(pipes[i].write_end);
        }
        if (number != i) {
            close(pipes[i].read_end);
        }
    }
    await_go();
    if (number < FAN) {
        receive_all(group, number, pipes[number].read_end);
    } else {
        send_all(group, number - FAN, pipes);
    }
    _exit(0);
}

static void start_group(unsigned group, pid_t *pids)
{
    Pipe pipes[FAN];

    for (unsigned i = 0; i < FAN; i++) {
        pipes[i] = open_pipe();
    }
    for (unsigned i = 0; i < 2 * FAN; i++) {
        pids[i] = start_child(group, i, pipes);
    }
    for (unsigned i = 0; i < FAN; i++) {
        close(pipes[i].read_end);
        close(pipes[i].write_end);
    }
}

int main(int argc, char **argv)
{
    pid_t pids[GUEST_MAX_THREADS][2 * FAN];
    uint64_t messages = 0, expected;
    char byte;

    guest_init("pipes", 4000, argc, argv);
    ready = open_pipe();
    go = open_pipe();
    tallies = guest_map(guest.threads * FAN * sizeof(Tally), MAP_SHARED);
    for (unsigned i = 0; i < guest.threads; i++) {
        start_group(i, pids[i]);
    }
    for (unsigned i = 0; i < guest.threads * 2 * FAN; i++) {
        check(read(ready.read_end, &byte, 1) == 1, "ready pipe: %m");
    }
    close(go.write_end);
    for (unsigned i = 0; i < guest.threads * 2 * FAN; i++) {
        guest_reap(pids[i / (2 * FAN)][i % (2 * FAN)], 0,
                   i % (2 * FAN) < FAN ? "a receiver" : "a sender");
    }
    for (unsigned i = 0; i < guest.threads * FAN; i++) {
        messages += tallies[i].messages;
    }
    expected = (uint64_t)guest.threads * FAN * FAN * guest.rounds;
    check(messages == expected, "%" PRIu64 " messages instead of %" PRIu64,
          messages, expected);
    guest_result("messages=%" PRIu64, messages);
    return 0;
}
