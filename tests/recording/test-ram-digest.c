/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The digest of RAM depends on names, sizes and contents alone, and is the one that
 * docs/log-format.md defines.
 */
#include "tests/recording/ram-test.h"

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

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/ram-digest/known", test_known);
    g_test_add_func("/ram-digest/differs", test_differs);
    return g_test_run();
}
