/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CRC-32C (Castagnoli), the checksum of everything in a recording.  Any thread.
 */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* QEMU has a function of the name crc32c(), with another convention. */
#define crc32c reprise_crc32c

/*
 * Return the checksum of the @n bytes at @data.  @crc is 0 at the start of the
 * checksummed bytes, and the result for the bytes before @data otherwise.
 */
uint32_t crc32c(uint32_t crc, const void *data, size_t n);

#endif
