/* SPDX-License-Identifier: GPL-2.0-or-later */
/* CRC-32C: published values, and in any pieces the same result as bit by bit. */
#include <glib.h>
#include <string.h>

#include "base/crc32c.h"

/* Values of RFC 3720, appendix B.4, and the check value of CRC catalogues. */
static void test_known(void)
{
    uint8_t bytes[32];

    g_assert_cmphex(recording_crc32c(0, "", 0), ==, 0);
    g_assert_cmphex(recording_crc32c(0, "123456789", 9), ==, 0xe3069283);
    memset(bytes, 0x00, sizeof(bytes));
    g_assert_cmphex(recording_crc32c(0, bytes, sizeof(bytes)), ==, 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    g_assert_cmphex(recording_crc32c(0, bytes, sizeof(bytes)), ==, 0x62a8ab43);
    for (unsigned i = 0; i < sizeof(bytes); i++) {
        bytes[i] = i;
    }
    g_assert_cmphex(recording_crc32c(0, bytes, sizeof(bytes)), ==, 0x46dd794e);
    for (unsigned i = 0; i < sizeof(bytes); i++) {
        bytes[i] = 31 - i;
    }
    g_assert_cmphex(recording_crc32c(0, bytes, sizeof(bytes)), ==, 0x113fdb5c);
}

static uint32_t bit_by_bit(const uint8_t *data, size_t n)
{
    uint32_t crc = 0xffffffff;

    for (size_t i = 0; i < n; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
        }
    }
    return ~crc;
}

/* Every length and alignment, whole and in two pieces. */
static void test_pieces(void)
{
    uint8_t bytes[96];

    for (unsigned i = 0; i < sizeof(bytes); i++) {
        bytes[i] = g_test_rand_int();
    }
    for (unsigned start = 0; start < 8; start++) {
        for (unsigned n = 0; n <= sizeof(bytes) - start; n++) {
            unsigned cut = g_test_rand_int_range(0, n + 1);
            uint32_t expected = bit_by_bit(bytes + start, n);
            uint32_t first = recording_crc32c(0, bytes + start, cut);

            g_assert_cmphex(recording_crc32c(0, bytes + start, n), ==, expected);
            g_assert_cmphex(recording_crc32c(first, bytes + start + cut, n - cut), ==, expected);
        }
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/crc32c/known", test_known);
    g_test_add_func("/crc32c/pieces", test_pieces);
    return g_test_run();
}
