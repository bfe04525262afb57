/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The headers of a packed recording; docs/log-format.md, "Packed recordings".
 */
#include "recording/pack-format.h"

#include <stdio.h>
#include <string.h>

/* Offsets and sizes, as in POSIX. */
enum {
    NAME = 0,
    MODE = 100,
    UID = 108,
    GID = 116,
    SIZE = 124,
    TIME = 136,
    CHECKSUM = 148,
    TYPE = 156,
    MAGIC = 257,
    NUMBER = 12,                /* bytes of a size or a time */
    CHECKSUM_BYTES = 8,
};

/* The largest number of 11 octal digits; larger numbers are binary, as in GNU tar. */
#define OCTAL_MAX ((UINT64_C(1) << 33) - 1)

static void put_number(uint8_t *p, uint64_t value)
{
    if (value <= OCTAL_MAX) {
        snprintf((char *)p, NUMBER, "%011" G_GINT64_MODIFIER "o", value);
        return;
    }
    p[0] = 0x80;
    for (unsigned i = 0; i < 8; i++) {
        p[NUMBER - 1 - i] = value >> (8 * i);
    }
}

static uint64_t get_number(const uint8_t *p)
{
    uint64_t value = 0;

    if (p[0] & 0x80) {
        for (unsigned i = NUMBER - 8; i < NUMBER; i++) {
            value = value << 8 | p[i];
        }
    } else {
        for (unsigned i = 0; i < NUMBER - 1; i++) {
            value = value << 3 | (p[i] & 7);
        }
    }
    return value;
}

void pack_header_put(const PackMember *member, uint8_t bytes[PACK_BLOCK])
{
    unsigned sum = 0;

    memset(bytes, 0, PACK_BLOCK);
    memcpy(bytes + NAME, member->name, strlen(member->name));
    memcpy(bytes + MODE, "0000644", 7);
    memcpy(bytes + UID, "0000000", 7);
    memcpy(bytes + GID, "0000000", 7);
    put_number(bytes + SIZE, member->size);
    put_number(bytes + TIME, member->time);
    bytes[TYPE] = '0';
    memcpy(bytes + MAGIC, "ustar\00000", 8);
    /* In the sum, the checksum field counts as spaces. */
    memset(bytes + CHECKSUM, ' ', CHECKSUM_BYTES);
    for (unsigned i = 0; i < PACK_BLOCK; i++) {
        sum += bytes[i];
    }
    snprintf((char *)bytes + CHECKSUM, CHECKSUM_BYTES - 1, "%06o", sum);
}

bool pack_header_get(PackMember *member, const uint8_t bytes[PACK_BLOCK])
{
    uint8_t expected[PACK_BLOCK];

    *member = (PackMember) {
        .size = get_number(bytes + SIZE),
        .time = get_number(bytes + TIME),
    };
    memcpy(member->name, bytes + NAME, PACK_MAX_NAME);
    pack_header_put(member, expected);
    return memcmp(bytes, expected, PACK_BLOCK) == 0;
}

bool pack_name_ok(const char *name)
{
    unsigned n_parts = 1;

    if (strlen(PACK_TOP) + strlen(name) > PACK_MAX_NAME || !*name) {
        return false;
    }
    for (const char *p = name; *p; p++) {
        bool begins = p == name || p[-1] == '/';

        if (*p == '/') {
            n_parts++;
        }
        if ((begins && (*p == '.' || *p == '/')) ||
            (!g_ascii_isalnum(*p) && !strchr("._-/", *p)) || (*p == '/' && !p[1])) {
            return false;
        }
    }
    return n_parts <= 2;
}
