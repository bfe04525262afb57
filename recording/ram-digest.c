/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A digest of a guest's RAM; docs/log-format.md, "RAM digest", defines it.
 *
 * A page is hashed by NH (Black and others, "UMAC: Fast and Secure Message
 * Authentication", CRYPTO '99).  NH takes one multiplication per 16 bytes and has
 * no chain of dependences, so it runs as fast as memory is read.  For random keys,
 * two different pages collide with a chance of at most 2^-64.  The hashes of pages
 * are summed, each mixed with the page's number, so that threads may take pages in
 * any order.  A zero page adds nothing, and memory that was never touched costs
 * next to nothing.
 */
#include "recording/ram-digest.h"

#include <inttypes.h>
#include <string.h>

#include "base/parallel.h"
#include "base/zero-page.h"

#define PAGE 4096u
#define PAGE_WORDS (PAGE / sizeof(uint64_t))
#define PIECE_PAGES 256u        /* that a thread takes at a time */
#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

typedef struct Block {
    const uint8_t *host;
    uint64_t n_pages;
    uint64_t key[PAGE_WORDS];
    uint64_t sum[PARALLEL_MAX_WORKERS][2];
} Block;

/* The last step of splitmix64: every bit of the result depends on all of @x. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static void add_page(uint64_t sum[2], const uint64_t *key, const uint8_t *page, uint64_t number)
{
    const uint64_t *word = (const uint64_t *)page;
    unsigned __int128 hash = 0;
    uint64_t a, b;

    for (unsigned i = 0; i < PAGE_WORDS; i += 2) {
        uint64_t x = GUINT64_FROM_LE(word[i]) + key[i];
        uint64_t y = GUINT64_FROM_LE(word[i + 1]) + key[i + 1];
        hash += (unsigned __int128)x * y;
    }
    a = mix((uint64_t)hash ^ mix(number + 1));
    b = mix((uint64_t)(hash >> 64) ^ a);
    sum[0] += mix(a ^ b);
    sum[1] += b;
}

static void add_piece(void *opaque, uint64_t piece, unsigned worker)
{
    Block *block = opaque;
    uint64_t first = piece * PIECE_PAGES;
    uint64_t end = MIN(first + PIECE_PAGES, block->n_pages);
    uint64_t sum[2] = { 0, 0 };

    for (uint64_t i = first; i < end; i++) {
        const uint8_t *page = block->host + i * PAGE;

        if (!page_is_zero(page, PAGE)) {
            add_page(sum, block->key, page, i);
        }
    }
    block->sum[worker][0] += sum[0];
    block->sum[worker][1] += sum[1];
}

static void absorb(uint64_t state[2], uint64_t value)
{
    state[0] = mix(state[0] ^ value) + GOLDEN;
    state[1] = mix(state[1] + state[0]);
}

void ram_digest_init(RamDigest *digest)
{
    memset(digest, 0, sizeof(*digest));
}

void ram_digest_add_block(RamDigest *digest, const char *name,
                          const uint8_t *host, uint64_t size)
{
    g_autofree Block *block = g_new0(Block, 1);
    uint64_t sum[2] = { 0, 0 };
    uint64_t state[2] = { 0, 0 };

    g_assert(size % PAGE == 0);
    block->host = host;
    block->n_pages = size / PAGE;
    for (unsigned i = 0; i < PAGE_WORDS; i++) {
        block->key[i] = mix((i + 1) * GOLDEN);
    }
    parallel_for((block->n_pages + PIECE_PAGES - 1) / PIECE_PAGES, add_piece, block);
    for (unsigned i = 0; i < PARALLEL_MAX_WORKERS; i++) {
        sum[0] += block->sum[i][0];
        sum[1] += block->sum[i][1];
    }

    absorb(state, size);
    absorb(state, sum[0]);
    absorb(state, sum[1]);
    for (const char *p = name; *p; p++) {
        absorb(state, (uint8_t)*p);
    }
    digest->sum[0] += state[0];
    digest->sum[1] += state[1];
}

char *ram_digest_format(const RamDigest *digest)
{
    return g_strdup_printf("%016" PRIx64 "%016" PRIx64, digest->sum[0], digest->sum[1]);
}
