/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The RAM of a guest, for tests: some blocks of pages.
 */
#ifndef TESTS_RAM_TEST_H
#define TESTS_RAM_TEST_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define PAGE 4096u
#define GUEST_MAX_BLOCKS 4

typedef struct Guest {
    unsigned n_blocks;
    struct {
        char name[32];
        uint64_t size;
        uint8_t *host;
    } blocks[GUEST_MAX_BLOCKS];
    bool zeroed;                /* what guest_lookup() says */
} Guest;

/* Fresh from the kernel: zero, and not there yet. */
uint8_t *guest_pages(uint64_t size);

void guest_add_block(Guest *guest, const char *name, uint64_t n_pages);
/* Random blocks, random contents. */
Guest *guest_random(void);
/* The same blocks, all zero. */
Guest *guest_like(const Guest *guest);
void guest_free(Guest *guest);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Guest, guest_free)

void guest_fill_page(uint8_t *page);
void guest_fill(Guest *guest);
bool guest_same(const Guest *a, const Guest *b);

/* A RamImageBlockFn; its opaque is the guest. */
uint8_t *guest_lookup(void *guest, const char *name, uint64_t size, bool *zeroed);

char *guest_digest(const Guest *guest, bool backwards);

#endif
