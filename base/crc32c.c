/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CRC-32C by tables, eight bytes at a time ("slicing by 8", Kounavis and Berry,
 * "A Systematic Approach to Building High Performance Software-based CRC
 * Generators", 2005).  This is faster than lz4, which runs before it on every
 * block, so the host's CRC instruction is not worth its special cases.
 */
#include <pthread.h>

#include "base/crc32c.h"

/* The polynomial 0x1edc6f41 of RFC 3720, bits reversed. */
#define POLYNOMIAL 0x82f63b78u

/* table[k][b]: the effect of byte b on the checksum k bytes later. */
static uint32_t table[8][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void make_table(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;

        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (crc & 1 ? POLYNOMIAL : 0);
        }
        table[0][b] = crc;
    }
    for (int k = 1; k < 8; k++) {
        for (uint32_t b = 0; b < 256; b++) {
            uint32_t crc = table[k - 1][b];

            table[k][b] = (crc >> 8) ^ table[0][crc & 0xff];
        }
    }
}

/* Load 4 bytes as little endian, on any host.  Compilers emit one load for it. */
static inline uint32_t load_le32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint32_t recording_crc32c(uint32_t crc, const void *data, size_t n)
{
    const uint8_t *p = data;

    pthread_once(&table_once, make_table);
    crc = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t low = crc ^ load_le32(p);
        uint32_t high = load_le32(p + 4);

        crc = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^
              table[5][low >> 16 & 0xff] ^ table[4][low >> 24] ^
              table[3][high & 0xff] ^ table[2][high >> 8 & 0xff] ^
              table[1][high >> 16 & 0xff] ^ table[0][high >> 24];
    }
    for (; n > 0; n--, p++) {
        crc = (crc >> 8) ^ table[0][(crc ^ *p) & 0xff];
    }
    return ~crc;
}
