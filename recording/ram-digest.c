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
#define UPDATE_PAGES 32u        /* that a thread takes at a time while changes are read */
#define THREADS_PAGES 512u      /* fewer are read sooner than threads are started */
#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

typedef struct Key {
    uint64_t word[PAGE_WORDS];
} Key;

/* What pages add to the digest of their block. */
typedef struct Share {
    uint64_t sum[2];
} Share;

typedef struct Block {
    const uint8_t *host;
    uint64_t n_pages;
    Key key;
    Share share[PARALLEL_MAX_WORKERS];
} Block;

/* The last step of splitmix64: every bit of the result depends on all of @x. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static void key_init(Key *key)
{
    for (unsigned i = 0; i < PAGE_WORDS; i++) {
        key->word[i] = mix((i + 1) * GOLDEN);
    }
}

/* Return what @page, of this number in its block, adds. */
static Share page_share(const Key *key, const uint8_t *page, uint64_t number)
{
    const uint64_t *word = (const uint64_t *)page;
    unsigned __int128 hash = 0;
    uint64_t a, b;

    if (page_is_zero(page, PAGE)) {
        return (Share){ { 0, 0 } };
    }
    for (unsigned i = 0; i < PAGE_WORDS; i += 2) {
        uint64_t x = GUINT64_FROM_LE(word[i]) + key->word[i];
        uint64_t y = GUINT64_FROM_LE(word[i + 1]) + key->word[i + 1];
        hash += (unsigned __int128)x * y;
    }
    a = mix((uint64_t)hash ^ mix(number + 1));
    b = mix((uint64_t)(hash >> 64) ^ a);
    return (Share){ { mix(a ^ b), b } };
}

static void share_add(Share *share, Share other)
{
    share->sum[0] += other.sum[0];
    share->sum[1] += other.sum[1];
}

static Share share_total(const Share share[PARALLEL_MAX_WORKERS])
{
    Share total = { { 0, 0 } };

    for (unsigned i = 0; i < PARALLEL_MAX_WORKERS; i++) {
        share_add(&total, share[i]);
    }
    return total;
}

static uint64_t n_pieces(uint64_t n_pages, unsigned piece_pages)
{
    return (n_pages + piece_pages - 1) / piece_pages;
}

static void add_piece(void *opaque, uint64_t piece, unsigned worker)
{
    Block *block = opaque;
    uint64_t first = piece * PIECE_PAGES;
    uint64_t end = MIN(first + PIECE_PAGES, block->n_pages);
    Share share = { { 0, 0 } };

    for (uint64_t i = first; i < end; i++) {
        share_add(&share, page_share(&block->key, block->host + i * PAGE, i));
    }
    share_add(&block->share[worker], share);
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

static void add_block(RamDigest *digest, const char *name, uint64_t size, Share pages)
{
    uint64_t state[2] = { 0, 0 };

    absorb(state, size);
    absorb(state, pages.sum[0]);
    absorb(state, pages.sum[1]);
    for (const char *p = name; *p; p++) {
        absorb(state, (uint8_t)*p);
    }
    digest->sum[0] += state[0];
    digest->sum[1] += state[1];
}

void ram_digest_add_block(RamDigest *digest, const char *name,
                          const uint8_t *host, uint64_t size)
{
    g_autofree Block *block = g_new0(Block, 1);

    g_assert(size % PAGE == 0);
    block->host = host;
    block->n_pages = size / PAGE;
    key_init(&block->key);
    parallel_for(n_pieces(block->n_pages, PIECE_PAGES), add_piece, block);
    add_block(digest, name, size, share_total(block->share));
}

char *ram_digest_format(const RamDigest *digest)
{
    return g_strdup_printf("%016" PRIx64 "%016" PRIx64, digest->sum[0], digest->sum[1]);
}

/* --- tracking ------------------------------------------------------------------------- */

struct RamDigestTracker {
    char *name;
    const uint8_t *host;
    uint64_t n_pages;
    Key key;
    Share *pages;               /* of zero pages it is not touched */
    Share sum;                  /* of all @pages */
    uint64_t *numbers;          /* of the pages to read; room for @room */
    size_t room;
    uint64_t n_numbers;
    Share change[PARALLEL_MAX_WORKERS];
};

/* Read the page again.  Return how the sum changes. */
static Share read_page(RamDigestTracker *tracker, uint64_t number)
{
    Share share = page_share(&tracker->key, tracker->host + number * PAGE, number);
    Share *kept = &tracker->pages[number];
    Share change = { { share.sum[0] - kept->sum[0], share.sum[1] - kept->sum[1] } };

    if (change.sum[0] || change.sum[1]) {
        *kept = share;
    }
    return change;
}

static void track_piece(void *opaque, uint64_t piece, unsigned worker)
{
    RamDigestTracker *tracker = opaque;
    uint64_t first = piece * PIECE_PAGES;
    uint64_t end = MIN(first + PIECE_PAGES, tracker->n_pages);
    Share change = { { 0, 0 } };

    for (uint64_t i = first; i < end; i++) {
        share_add(&change, read_page(tracker, i));
    }
    share_add(&tracker->change[worker], change);
}

static void update_piece(void *opaque, uint64_t piece, unsigned worker)
{
    RamDigestTracker *tracker = opaque;
    uint64_t first = piece * UPDATE_PAGES;
    uint64_t end = MIN(first + UPDATE_PAGES, tracker->n_numbers);
    Share change = { { 0, 0 } };

    for (uint64_t i = first; i < end; i++) {
        share_add(&change, read_page(tracker, tracker->numbers[i]));
    }
    share_add(&tracker->change[worker], change);
}

static void take_changes(RamDigestTracker *tracker)
{
    share_add(&tracker->sum, share_total(tracker->change));
    memset(tracker->change, 0, sizeof(tracker->change));
}

RamDigestTracker *ram_digest_track(const char *name, const uint8_t *host, uint64_t size)
{
    RamDigestTracker *tracker = g_new0(RamDigestTracker, 1);

    g_assert(size % PAGE == 0);
    tracker->name = g_strdup(name);
    tracker->host = host;
    tracker->n_pages = size / PAGE;
    tracker->pages = g_new0(Share, tracker->n_pages);
    key_init(&tracker->key);
    parallel_for(n_pieces(tracker->n_pages, PIECE_PAGES), track_piece, tracker);
    take_changes(tracker);
    return tracker;
}

void ram_digest_tracker_free(RamDigestTracker *tracker)
{
    if (tracker) {
        g_free(tracker->name);
        g_free(tracker->pages);
        g_free(tracker->numbers);
        g_free(tracker);
    }
}

static void put_number(RamDigestTracker *tracker, uint64_t number)
{
    if (tracker->n_numbers == tracker->room) {
        tracker->room = MAX(tracker->room * 2, 1024);
        tracker->numbers = g_renew(uint64_t, tracker->numbers, tracker->room);
    }
    tracker->numbers[tracker->n_numbers++] = number;
}

void ram_digest_update(RamDigestTracker *tracker, const uint64_t *changed)
{
    uint64_t n;

    tracker->n_numbers = 0;
    for (uint64_t i = 0; i < n_pieces(tracker->n_pages, 64); i++) {
        for (uint64_t word = changed[i]; word; word &= word - 1) {
            uint64_t number = i * 64 + __builtin_ctzll(word);

            if (number < tracker->n_pages) {
                put_number(tracker, number);
            }
        }
    }

    n = n_pieces(tracker->n_numbers, UPDATE_PAGES);
    if (tracker->n_numbers >= THREADS_PAGES) {
        parallel_for(n, update_piece, tracker);
    } else {
        for (uint64_t i = 0; i < n; i++) {
            update_piece(tracker, i, 0);
        }
    }
    take_changes(tracker);
}

void ram_digest_add_tracked(RamDigest *digest, const RamDigestTracker *tracker)
{
    add_block(digest, tracker->name, tracker->n_pages * PAGE, tracker->sum);
}

char *ram_digest_tracked(const RamDigestTracker *tracker)
{
    RamDigest digest;

    ram_digest_init(&digest);
    ram_digest_add_tracked(&digest, tracker);
    return ram_digest_format(&digest);
}
