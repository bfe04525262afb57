/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The digest of RAM depends on names, sizes and contents alone, and is the one that
 * docs/log-format.md defines.
 */
#include "tests/recording/ram-test.h"

#include <string.h>

#include "recording/ram-digest.h"

static void test_known(void)
{
    /* Computed by a program in Python that follows docs/log-format.md. */
    g_autoptr(Guest) guest = g_new0(Guest, 1);
    g_autofree char *none = guest_digest(guest, false);
    g_autofree char *zero = NULL;
    g_autofree char *all = NULL;

    g_assert_cmpstr(none, ==, "00000000000000000000000000000000");
    guest_add_block(guest, "ram", 3);
    zero = guest_digest(guest, false);
    g_assert_cmpstr(zero, ==, "e49d9e14e72410ad333adb0ba2566a2b");
    guest_add_block(guest, "rom", 2);
    for (unsigned i = 0; i < PAGE; i++) {
        guest->blocks[0].host[i] = i;
        guest->blocks[0].host[2 * PAGE + i] = i * 3 + 1;
        guest->blocks[1].host[PAGE + i] = i >> 4;
    }
    all = guest_digest(guest, false);
    g_assert_cmpstr(all, ==, "9efbd933d038b3299008ef45eca79bdd");
}

/* A changed bit, a moved page, another name or another size changes the digest. */
static void test_differs(void)
{
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(Guest) guest = g_new0(Guest, 1);
    uint8_t *host;

    guest_add_block(guest, "ram", 600);
    host = guest->blocks[0].host;
    for (unsigned i = 0; i < 1000; i++) {
        unsigned byte = g_test_rand_int_range(0, guest->blocks[0].size);
        uint8_t before = host[byte];

        host[byte] ^= 1 << g_test_rand_int_range(0, 8);
        if (host[byte] != before) {
            g_hash_table_add(seen, guest_digest(guest, false));
        }
        host[byte] = before;
    }
    g_assert_cmpuint(g_hash_table_size(seen), >, 990);  /* a bit may be drawn twice */

    g_hash_table_remove_all(seen);
    for (unsigned page = 0; page < 600; page++) {
        host[page * PAGE] = 1;
        g_hash_table_add(seen, guest_digest(guest, false));
        host[page * PAGE] = 0;
    }
    guest->blocks[0].size -= PAGE;
    g_hash_table_add(seen, guest_digest(guest, false));
    guest->blocks[0].size += PAGE;
    guest->blocks[0].name[0] = 'R';
    g_hash_table_add(seen, guest_digest(guest, false));
    guest_add_block(guest, "empty", 0);
    g_hash_table_add(seen, guest_digest(guest, false));
    g_assert_cmpuint(g_hash_table_size(seen), ==, 603);
}

static void assert_tracked(const RamDigestTracker *tracker, const Guest *guest)
{
    g_autofree char *whole = guest_digest(guest, false);
    g_autofree char *tracked = ram_digest_tracked(tracker);

    g_assert_cmpstr(tracked, ==, whole);
}

static void change_page(Guest *guest, uint64_t page, uint64_t *changed)
{
    uint8_t *host = guest->blocks[0].host + page * PAGE;

    switch (g_test_rand_int_range(0, 4)) {
    case 0:
        memset(host, 0, PAGE);
        break;
    case 1:                                     /* marked, but the same */
        break;
    default:
        guest_fill_page(host);
    }
    changed[page / 64] |= UINT64_C(1) << (page % 64);
}

/* Few changes and many, in one thread and in several, make the digest of the whole block. */
static void test_tracked(void)
{
    for (unsigned round = 0; round < 40; round++) {
        g_autoptr(Guest) guest = g_new0(Guest, 1);
        g_autoptr(RamDigestTracker) tracker = NULL;
        uint64_t n_pages = g_test_rand_int_range(1, round % 4 ? 300 : 4000);
        unsigned n_words = (n_pages + 63) / 64;
        g_autofree uint64_t *changed = g_new0(uint64_t, n_words);

        guest_add_block(guest, "ram", n_pages);
        if (g_test_rand_bit()) {
            guest_fill(guest);
        }
        tracker = ram_digest_track("ram", guest->blocks[0].host, guest->blocks[0].size);
        assert_tracked(tracker, guest);
        for (unsigned i = 0; i < 5; i++) {
            unsigned most = g_test_rand_bit() ? 10 : n_pages;

            for (unsigned n = g_test_rand_int_range(0, most + 1); n > 0; n--) {
                change_page(guest, g_test_rand_int_range(0, n_pages), changed);
            }
            ram_digest_update(tracker, changed);
            assert_tracked(tracker, guest);
            memset(changed, 0, n_words * sizeof(*changed));
        }
        memset(guest->blocks[0].host, 0, guest->blocks[0].size);
        memset(changed, 0xff, n_words * sizeof(*changed));      /* also beyond the last page */
        ram_digest_update(tracker, changed);
        assert_tracked(tracker, guest);
    }
}

/* A page that is not marked is not read. */
static void test_tracked_marked(void)
{
    g_autoptr(Guest) guest = g_new0(Guest, 1);
    g_autoptr(RamDigestTracker) tracker = NULL;
    g_autofree char *before = NULL;
    g_autofree char *after = NULL;
    uint64_t changed[2] = { UINT64_C(1) << 63, 0 };

    guest_add_block(guest, "ram", 65);
    guest->blocks[0].host[63 * PAGE] = 1;
    before = guest_digest(guest, false);
    guest->blocks[0].host[63 * PAGE] = 2;
    tracker = ram_digest_track("ram", guest->blocks[0].host, guest->blocks[0].size);
    guest->blocks[0].host[63 * PAGE] = 1;
    guest->blocks[0].host[64 * PAGE] = 1;
    ram_digest_update(tracker, changed);
    after = ram_digest_tracked(tracker);
    g_assert_cmpstr(after, ==, before);
    changed[0] = 0;
    changed[1] = 1;
    ram_digest_update(tracker, changed);
    assert_tracked(tracker, guest);
}

/* Blocks that are tracked are added as others are. */
static void test_tracked_blocks(void)
{
    for (unsigned round = 0; round < 20; round++) {
        g_autoptr(Guest) guest = guest_random();
        g_autofree char *whole = guest_digest(guest, true);
        g_autofree char *tracked = NULL;
        RamDigest digest;

        ram_digest_init(&digest);
        for (unsigned i = 0; i < guest->n_blocks; i++) {
            g_autoptr(RamDigestTracker) tracker =
                ram_digest_track(guest->blocks[i].name, guest->blocks[i].host,
                                 guest->blocks[i].size);

            ram_digest_add_tracked(&digest, tracker);
        }
        tracked = ram_digest_format(&digest);
        g_assert_cmpstr(tracked, ==, whole);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/ram-digest/known", test_known);
    g_test_add_func("/ram-digest/differs", test_differs);
    g_test_add_func("/ram-digest/tracked", test_tracked);
    g_test_add_func("/ram-digest/tracked-marked", test_tracked_marked);
    g_test_add_func("/ram-digest/tracked-blocks", test_tracked_blocks);
    return g_test_run();
}
