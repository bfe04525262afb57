/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CRC-32C (Castagnoli), the checksum of everything in a recording.  Any thread
 * may call it.
 */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of @data alone with @crc 0; to go on, @crc is what came before. */
/* QEMU has a function of this name, with another convention. */
#define crc32c reprise_crc32c

uint32_t crc32c(uint32_t crc, const void *data, size_t n);

#endif
