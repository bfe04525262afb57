/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What guests of 64 and of 32 bits share: ports, model-specific registers, the time stamp counter,
 * a digest, and the console.
 */
#ifndef IO_H
#define IO_H

#include <stdbool.h>
#include <stdint.h>

#define COM1        0x3f8
#define SHUTDOWN    0x604               /* q35: PM1a control */

static inline uint64_t mix(uint64_t digest, uint64_t value)
{
    digest = (digest ^ value) * 0x9e3779b97f4a7c15ull;
    return digest ^ digest >> 32;
}

static inline void outb(uint16_t port, uint8_t value)
{
    asm volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}

static inline void outw(uint16_t port, uint16_t value)
{
    asm volatile("outw %0, %1" : : "a"(value), "Nd"(port));
}

static inline void outl(uint16_t port, uint32_t value)
{
    asm volatile("outl %0, %1" : : "a"(value), "Nd"(port) : "memory");
}

static inline uint8_t inb(uint16_t port)
{
    uint8_t value;

    asm volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
    return value;
}

static inline uint32_t inl(uint16_t port)
{
    uint32_t value;

    asm volatile("inl %1, %0" : "=a"(value) : "Nd"(port));
    return value;
}

#define PCI_ADDRESS 0xcf8
#define PCI_DATA    0xcfc
#define PAM3        0x80000090          /* q35: of the host bridge; its byte 3 is for 0xd0000 */

/* Let 0xd0000 to 0xd7fff be memory, or ROM. */
static inline void map_memory(bool memory)
{
    outl(PCI_ADDRESS, PAM3);
    outb(PCI_DATA + 3, memory ? 0x33 : 0);
}

static inline uint64_t rdtsc(void)
{
    uint32_t low, high;

    asm volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}

static inline uint64_t read_msr(uint32_t number)
{
    uint32_t low, high;

    asm volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(number) : "memory");
    return (uint64_t)high << 32 | low;
}

static inline void write_msr(uint32_t number, uint64_t value)
{
    asm volatile("wrmsr" : : "c"(number), "a"((uint32_t)value), "d"((uint32_t)(value >> 32))
                 : "memory");
}

typedef struct Cpuid {
    uint32_t a, b, c, d;
} Cpuid;

static inline Cpuid cpuid(uint32_t leaf)
{
    Cpuid is = { .a = leaf };

    asm volatile("cpuid" : "+a"(is.a), "=b"(is.b), "+c"(is.c), "=d"(is.d));
    return is;
}

static inline void put(char c)
{
    while (!(inb(COM1 + 5) & 0x20)) {
    }
    outb(COM1, c);
}

static inline void say(const char *text)
{
    while (*text) {
        put(*text++);
    }
}

/* @good: show this digest, of so many digits.  Else something is wrong. */
static inline void say_result(const char *name, bool good, uint64_t digest, unsigned digits)
{
    say(name);
    if (good) {
        say(" ");
        for (int shift = 4 * digits - 4; shift >= 0; shift -= 4) {
            put("0123456789abcdef"[digest >> shift & 15]);
        }
    } else {
        say(" bad");
    }
    say("\r\n");
}

#endif
