/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A 32-bit program for x86_64 Linux, without a C library.  Two processes race to increment a word
 * that they share, and call the kernel both ways: by INT 0x80, and as the vDSO does (SYSENTER).
 * The last line has what the word was in the end, and a digest of what was seen of it.
 */
#include <stdint.h>

#define ROUNDS 20000
#define AT_SYSINFO 32

enum { SYS_EXIT = 1, SYS_FORK = 2, SYS_WRITE = 4, SYS_WAITPID = 7, SYS_GETPPID = 64,
       SYS_MMAP2 = 192 };

static uint32_t vdso_entry;

static long by_interrupt(long number, long a, long b, long c)
{
    asm volatile("int $0x80" : "+a"(number) : "b"(a), "c"(b), "d"(c) : "memory");
    return number;
}

static long by_vdso(long number)
{
    asm volatile("call *%1" : "+a"(number) : "m"(vdso_entry) : "memory");
    return number;
}

static long map_shared_page(void)
{
    long result;

    /* PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, no file. */
    asm volatile("push %%ebp; xor %%ebp, %%ebp; int $0x80; pop %%ebp" : "=a"(result)
                 : "a"(SYS_MMAP2), "b"(0), "c"(4096), "d"(3), "S"(0x21), "D"(-1) : "memory");
    return result;
}

static void say_number(uint32_t number, char end)
{
    char text[9];

    for (int i = 0; i < 8; i++) {
        text[i] = "0123456789abcdef"[number >> (28 - 4 * i) & 15];
    }
    text[8] = end;
    by_interrupt(SYS_WRITE, 1, (long)text, sizeof(text));
}

static uint32_t race(volatile uint32_t *word)
{
    uint32_t digest = 0;

    for (int i = 0; i < ROUNDS; i++) {
        uint32_t seen = *word;

        *word = seen + 1;
        digest = (digest ^ seen) * 0x9e3779b1u;
        if (i % 100 == 0) {
            digest += by_interrupt(SYS_GETPPID, 0, 0, 0) == by_vdso(SYS_GETPPID);
        }
    }
    return digest;
}

void __attribute__((used)) run(uint32_t *stack)
{
    volatile uint32_t *word = (uint32_t *)map_shared_page();
    uint32_t *next = stack + 1 + stack[0] + 1;
    long child;

    while (*next++) {
    }
    for (; *next; next += 2) {
        if (*next == AT_SYSINFO) {
            vdso_entry = next[1];
        }
    }
    child = by_interrupt(SYS_FORK, 0, 0, 0);
    if (child == 0) {
        word[1] = race(word);
        by_interrupt(SYS_EXIT, 0, 0, 0);
    }
    word[2] = race(word);
    by_interrupt(SYS_WAITPID, child, 0, 0);
    say_number(word[0], ' ');
    say_number(word[1] ^ word[2], '\n');
    by_interrupt(SYS_EXIT, word[0] < ROUNDS || !vdso_entry, 0, 0);
}

asm(".globl _start\n"
    "_start:\n"
    "    mov %esp, %eax\n"
    "    and $-16, %esp\n"
    "    sub $12, %esp\n"
    "    push %eax\n"
    "    call run\n");
