/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A packed recording: a tar archive (ustar, POSIX.1-1988), so that common tools can
 * read it, but of one form only: a header is a function of name, size and time.
 * docs/log-format.md, "Packed recordings", describes the archive.
 */
#ifndef RECORDING_PACK_FORMAT_H
#define RECORDING_PACK_FORMAT_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define PACK_BLOCK          512u
/* All members are in this directory. */
#define PACK_TOP            "recording/"
/* The last member: a checksum of all bytes before its header. */
#define PACK_SUM_NAME       "recording.crc32c"
#define PACK_SUM_BYTES      9       /* 8 digits and a newline */
/* Of a member, PACK_TOP included. */
#define PACK_MAX_NAME       100u
#define PACK_MAX_MEMBERS    100000u
/* Zeros at the end of the archive. */
#define PACK_END_BYTES      (2 * PACK_BLOCK)

typedef struct PackMember {
    char name[PACK_MAX_NAME + 1];
    uint64_t size;
    uint64_t time;              /* seconds since 1970 */
} PackMember;

void pack_header_put(const PackMember *member, uint8_t bytes[PACK_BLOCK]);
/* Decode a header.  Return false if pack_header_put() would not encode @member as @bytes. */
bool pack_header_get(PackMember *member, const uint8_t bytes[PACK_BLOCK]);

/*
 * Return true for names such as "manifest" or "checkpoint-0/ram": one or two parts of
 * letters, digits and ._-, none of which begins with a dot.
 */
bool pack_name_ok(const char *name);

/* Return the number of zeros after a member of this size. */
static inline unsigned pack_padding(uint64_t size)
{
    return -size % PACK_BLOCK;
}

#endif
