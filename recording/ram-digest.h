/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A digest of a guest's RAM: of names, sizes and contents of its blocks, and
 * nothing else: neither of the order in which they are added, nor of how they
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
 * @size is a multiple of 4096, @host is aligned to 8.  Uses a second thread
 * for speed; memory does not change meanwhile, and is not touched where it was not.
 */
void ram_digest_add_block(RamDigest *digest, const char *name,
                          const uint8_t *host, uint64_t size);

/* RAM_DIGEST_DIGITS hexadecimal digits; g_free() it. */
char *ram_digest_format(const RamDigest *digest);

#endif
