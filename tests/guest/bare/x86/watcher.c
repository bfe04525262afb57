/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program for x86_64 Linux, without a C library, that watches others by the debug registers as
 * debuggers do.  The first argument says how many pairs of processes there are.  In each, one
 * traces the other, which adds to a word of its own and to a word that all share, and stops behind
 * each such access.  Each tracer counts the stops and what DR6 says; the last line has the shared
 * word, and a digest of what was seen of it.
 */
#include <stdint.h>

#define ROUNDS 60
#define DEBUG_REGISTER(n) (848 + 8 * (n))       /* in struct user */

enum { SYS_WRITE = 1, SYS_MMAP = 9, SYS_GETPID = 39, SYS_FORK = 57, SYS_EXIT = 60, SYS_WAIT4 = 61,
       SYS_KILL = 62, SYS_PTRACE = 101 };
enum { TRACE_ME = 0, PEEK_USER = 3, POKE_USER = 6, CONT = 7 };
enum { SIGTRAP = 5, SIGSTOP = 19 };

static volatile uint64_t own __attribute__((aligned(64)));
static volatile uint64_t *shared;

static long call(long number, long a, long b, long c, long d)
{
    register long r10 asm("r10") = d;
    register long r8 asm("r8") = -1;
    register long r9 asm("r9") = 0;

    asm volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) :
                 "rcx", "r11", "memory");
    return number;
}

static void leave(int status)
{
    for (;;) {
        call(SYS_EXIT, status, 0, 0, 0);
    }
}

static void say_number(uint64_t number, char end)
{
    char text[17];

    for (int i = 0; i < 16; i++) {
        text[i] = "0123456789abcdef"[number >> (60 - 4 * i) & 15];
    }
    text[16] = end;
    call(SYS_WRITE, 1, (long)text, sizeof(text), 0);
}

/* Return the status of a child, or of the one that is told. */
static int wait_for(long child)
{
    int status = 0;

    call(SYS_WAIT4, child, (long)&status, 0, 0);
    return status;
}

static void be_traced(unsigned pair)
{
    uint64_t digest = pair, copy;

    call(SYS_PTRACE, TRACE_ME, 0, 0, 0);
    call(SYS_KILL, call(SYS_GETPID, 0, 0, 0, 0), SIGSTOP, 0, 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t value = 1;
        volatile uint64_t *from = shared, *to = &own;

        asm volatile("lock xadd %0, %1" : "+r"(value), "+m"(*shared) : : "memory", "cc");
        digest = (digest ^ value) * 0x9e3779b97f4a7c15;
        asm volatile("incq %0" : "+m"(own) : : "memory", "cc");
        copy = 1;
        asm volatile("rep movsq" : "+S"(from), "+D"(to), "+c"(copy) : : "memory");
        digest += own;
        own = i + 1;
    }
    shared[8 + pair] = digest;
    leave(0);
}

/* Return the status of a pair: 0 if the traced process has stopped at each access. */
static int trace(unsigned pair)
{
    long child = call(SYS_FORK, 0, 0, 0, 0);
    unsigned stops = 0, by_own = 0, by_shared = 0, by_both = 0;
    long bad = 0, why;
    int status;

    if (child == 0) {
        be_traced(pair);
    }
    wait_for(child);
    bad |= call(SYS_PTRACE, POKE_USER, child, DEBUG_REGISTER(0), (long)&own);
    bad |= call(SYS_PTRACE, POKE_USER, child, DEBUG_REGISTER(1), (long)shared);
    /* Writes of 8 bytes, and all accesses of 4. */
    bad |= call(SYS_PTRACE, POKE_USER, child, DEBUG_REGISTER(7), 0x00f90005);
    bad |= call(SYS_PTRACE, CONT, child, 0, 0);
    while (((status = wait_for(child)) & 0xff) == 0x7f) {
        if (status >> 8 != SIGTRAP) {
            return 2;
        }
        stops++;
        bad |= call(SYS_PTRACE, PEEK_USER, child, DEBUG_REGISTER(6), (long)&why);
        by_own += (why & 3) == 1;
        by_shared += (why & 3) == 2;
        by_both += (why & 3) == 3;
        bad |= call(SYS_PTRACE, POKE_USER, child, DEBUG_REGISTER(6), 0);
        bad |= call(SYS_PTRACE, CONT, child, 0, 0);
    }
    return bad ? 3 : status ? 4 : stops != 4 * ROUNDS ? 5 :
           by_own != 2 * ROUNDS || by_shared != ROUNDS || by_both != ROUNDS ? 6 : 0;
}

void __attribute__((used)) run(uint64_t *stack)
{
    unsigned pairs = stack[0] > 1 ? ((const char *)stack[2])[0] - '0' : 1;
    uint64_t digest = 0;
    int status = 0;

    /* PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, no file. */
    shared = (void *)call(SYS_MMAP, 0, 4096, 3, 0x21);
    for (unsigned i = 0; i < pairs; i++) {
        if (call(SYS_FORK, 0, 0, 0, 0) == 0) {
            leave(trace(i));
        }
    }
    for (unsigned i = 0; i < pairs; i++) {
        status |= wait_for(-1);
    }
    for (unsigned i = 0; i < pairs; i++) {
        digest ^= shared[8 + i];
    }
    say_number(shared[0], ' ');
    say_number(digest, '\n');
    leave(status ? status >> 8 : shared[0] != pairs * ROUNDS);
}

asm(".globl _start\n"
    "_start:\n"
    "    mov %rsp, %rdi\n"
    "    and $-16, %rsp\n"
    "    call run\n");
