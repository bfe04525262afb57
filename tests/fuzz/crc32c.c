/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Instead of base/crc32c.c: every checksum is 0, so that a fuzzer need not find right ones.
 */
#include "base/crc32c.h"

uint32_t recording_crc32c(uint32_t crc, const void *data, size_t n)
{
    (void)crc;
    (void)data;
    (void)n;
    return 0;
}
