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
    bool zeroed;                /* *@zeroed of guest_lookup() */
} Guest;

/* Map zero pages that are not resident yet.  The caller unmaps them. */
uint8_t *guest_pages(uint64_t size);

void guest_add_block(Guest *guest, const char *name, uint64_t n_pages);
/* Make a guest with random blocks and contents, to be freed by the caller. */
Guest *guest_random(void);
/* Make a guest with the same blocks, all zero, to be freed by the caller. */
Guest *guest_like(const Guest *guest);
void guest_free(Guest *guest);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Guest, guest_free)

void guest_fill_page(uint8_t *page);
void guest_fill(Guest *guest);
bool guest_same(const Guest *a, const Guest *b);

/* A RamImageBlockFn for the guest @guest. */
uint8_t *guest_lookup(void *guest, const char *name, uint64_t size, bool *zeroed);

/* Return the digest, to be freed by the caller; @backwards: blocks are added in reverse order. */
char *guest_digest(const Guest *guest, bool backwards);

#endif
