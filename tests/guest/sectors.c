// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Blocks of a disk, past the page cache, that are read again.
 *
 * Usage:  sectors [-d DEVICE] [-t THREADS] [-n ROUNDS] [THREADS [ROUNDS]]
 *
 * Exercises: requests to a disk that read or write a random block.  Each thread has blocks of its
 * own.  Memory knows what each block must have, so a disk that is of another moment than memory is
 * noticed at once.  Without DEVICE the blocks are in a file of /tmp, which has no disk.
 * With DEVICE thread 0 prints "round N" now and then.
 *
 * Self-check: a block has what was written to it last.
 */
#define _GNU_SOURCE
#include "guest.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK 4096
#define WORDS (BLOCK / sizeof(uint64_t))
#define BLOCKS 64               /* of each thread */
#define TELL_EVERY 100

static const char *device;
static int file;

static uint64_t word_of(unsigned block, uint64_t version, unsigned i)
{
    return version ? guest_mix(block ^ version << 16 ^ (uint64_t)i << 48) : 0;
}

static void write_block(uint64_t *buffer, unsigned block, uint64_t version)
{
    for (unsigned i = 0; i < WORDS; i++) {
        buffer[i] = word_of(block, version, i);
    }
    check(pwrite(file, buffer, BLOCK, (off_t)block * BLOCK) == BLOCK, "cannot write: %m");
}

static void check_block(uint64_t *buffer, unsigned block, uint64_t version)
{
    check(pread(file, buffer, BLOCK, (off_t)block * BLOCK) == BLOCK, "cannot read: %m");
    for (unsigned i = 0; i < WORDS; i++) {
        check(buffer[i] == word_of(block, version, i),
              "block %u is not of version %" PRIu64 ", from byte %zu on", block, version,
              i * sizeof(*buffer));
    }
}

static void work(unsigned id)
{
    uint64_t versions[BLOCKS] = { 0 };
    uint64_t *buffer = aligned_alloc(BLOCK, BLOCK);

    check(buffer, "no memory");
    for (unsigned i = 0; i < BLOCKS; i++) {
        write_block(buffer, id * BLOCKS + i, ++versions[i]);
    }
    for (unsigned long round = 1; round <= guest.rounds; round++) {
        uint64_t random = guest_mix(round << 8 ^ id);
        unsigned i = random % BLOCKS, block = id * BLOCKS + i;

        check_block(buffer, block, versions[i]);
        if (random >> 63) {
            write_block(buffer, block, ++versions[i]);
        }
        if (device && id == 0 && round % TELL_EVERY == 0) {
            dprintf(STDOUT_FILENO, "round %lu\n", round);
        }
    }
    free(buffer);
}

int main(int argc, char **argv)
{
    char *words[argc + 1];
    int n = 0;

    /* What guest_init() does not know. */
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "-d") == 0 && argv[i + 1]) {
            device = argv[++i];
        } else {
            words[n++] = argv[i];
        }
    }
    words[n] = NULL;
    guest_init("sectors", 2000, n, words);
    file = device ? open(device, O_RDWR | O_DIRECT | O_SYNC)
                  : open("/tmp", O_RDWR | O_TMPFILE, 0600);
    check(file >= 0, "cannot open %s: %m", device ? device : "a file in /tmp");
    guest_parallel(guest.threads, work);
    guest_result("blocks=%u", guest.threads * BLOCKS);
    return 0;
}
