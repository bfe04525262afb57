/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A digest of a guest's RAM.  It depends on the names, sizes and contents of the
 * RAM blocks, but neither on the order in which they are added, nor on how they
 * are stored.  Recording and replay compare it at the end.  docs/log-format.md,
 * "RAM digest", defines the function.
 *
 * It finds accidents (a wrong byte is missed with a chance of about 2^-64), not
 * forgery.
 */
#ifndef RECORDING_RAM_DIGEST_H
#define RECORDING_RAM_DIGEST_H

#include <glib.h>
#include <stdint.h>

typedef struct RamDigest {
    uint64_t sum[2];
} RamDigest;

#define RAM_DIGEST_DIGITS 32

void ram_digest_init(RamDigest *digest);

/*
 * Add a block.  @size is a multiple of 4096, @host is aligned to 8.  Several
 * threads work on it (parallel.h).  Memory must not change meanwhile.  Pages are
 * only read, so untouched memory stays untouched.
 */
void ram_digest_add_block(RamDigest *digest, const char *name,
                          const uint8_t *host, uint64_t size);

/*
 * The digest of a block that changes a little at a time: it keeps 16 bytes for each page, which is
 * what the page adds.  One thread at a time; several work for it.  Memory must not change during
 * ram_digest_track() and ram_digest_update().
 */
typedef struct RamDigestTracker RamDigestTracker;

/* Return a tracker of a block as in ram_digest_add_block(), after reading all of it. */
RamDigestTracker *ram_digest_track(const char *name, const uint8_t *host, uint64_t size);
void ram_digest_tracker_free(RamDigestTracker *tracker);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RamDigestTracker, ram_digest_tracker_free)

/*
 * Read the pages in @changed anew: bit p % 64 of word p / 64 is that of page p.  All others must be
 * as they were when they were last read.
 */
void ram_digest_update(RamDigestTracker *tracker, const uint64_t *changed);

/* Add the block as it was when its pages were last read. */
void ram_digest_add_tracked(RamDigest *digest, const RamDigestTracker *tracker);

/* Return what ram_digest_format() makes of this block alone, to be freed by the caller. */
char *ram_digest_tracked(const RamDigestTracker *tracker);

/* Return RAM_DIGEST_DIGITS hexadecimal digits, to be freed by the caller. */
char *ram_digest_format(const RamDigest *digest);

#endif
