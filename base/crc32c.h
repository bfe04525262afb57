/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CRC-32C (Castagnoli), the checksum of everything in a recording.  Any thread.
 */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/*
 * Return the checksum of the @n bytes at @data.  @crc is 0 at the start of the
 * checksummed bytes, and the result for the bytes before @data otherwise.
 * (QEMU's crc32c() starts from all ones, and its result is no such start.)
 */
uint32_t recording_crc32c(uint32_t crc, const void *data, size_t n);

#endif
