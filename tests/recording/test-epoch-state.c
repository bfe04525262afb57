/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The state of devices at the end of an epoch: every changed bit and byte is noticed, and a hostile
 * file is refused.
 */
#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recording/epoch-state.h"
#include "tests/recording/log-test.h"

static char *directory;
static int directory_fd;

static GByteArray *random_state(unsigned n)
{
    GByteArray *state = g_byte_array_new();

    g_byte_array_set_size(state, n);
    for (unsigned i = 0; i < n; i++) {
        state->data[i] = g_test_rand_int();
    }
    return state;
}

static void put(uint64_t number, const GByteArray *state)
{
    g_autoptr(GError) error = NULL;

    g_assert_true(epoch_state_write(directory_fd, directory, number, state, &error));
    g_assert_no_error(error);
}

static char *path_of(const char *name)
{
    return g_build_filename(directory, name, NULL);
}

static void expect_bad(uint64_t number, const char *words)
{
    g_autoptr(GError) error = NULL;
    GByteArray *state = epoch_state_read(directory, number, &error);

    g_assert_null(state);
    if (!strstr(error->message, words) || strchr(error->message, '\n')) {
        g_error("'%s' expected in one line: %s", words, error->message);
    }
}

static void test_round_trip(void)
{
    static const unsigned sizes[] = { 0, 1, 40000 };

    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        g_autoptr(GByteArray) state = random_state(sizes[i]), again = NULL;
        g_autoptr(GError) error = NULL;

        put(i, state);
        again = epoch_state_read(directory, i, &error);
        g_assert_no_error(error);
        g_assert_cmpmem(again->data, again->len, state->data, state->len);
        g_assert_false(epoch_state_write(directory_fd, directory, i, state, &error));
        g_assert_error(error, G_FILE_ERROR, G_FILE_ERROR_EXIST);
        epoch_state_remove(directory_fd, i);
        epoch_state_remove(directory_fd, i);
        expect_bad(i, "cannot open");
    }
}

static void test_damage(void)
{
    g_autoptr(GByteArray) state = random_state(300);
    g_autofree char *path = path_of("epoch-7");
    g_autofree char *bytes = NULL;
    gsize n;

    put(7, state);
    g_assert_true(g_file_get_contents(path, &bytes, &n, NULL));
    for (gsize bit = 0; bit < n * 8; bit++) {
        bytes[bit / 8] ^= 1 << bit % 8;
        write_file(path, bytes, n);
        expect_bad(7, "/epoch-7: its checksum is wrong");
        bytes[bit / 8] ^= 1 << bit % 8;
    }
    for (gsize size = 0; size < n; size++) {
        write_file(path, bytes, size);
        expect_bad(7, "/epoch-7: it");
    }
    write_file(path, bytes, n);
    epoch_state_remove(directory_fd, 7);
}

static void test_hostile(void)
{
    g_autoptr(GByteArray) state = random_state(30);
    g_autofree char *seven = path_of("epoch-7");
    g_autofree char *eight = path_of("epoch-8");

    put(7, state);
    g_assert_cmpint(g_rename(seven, eight), ==, 0);
    expect_bad(8, "/epoch-8: its checksum is wrong");
    g_assert_cmpint(truncate(eight, (off_t)EPOCH_STATE_MOST_BYTES + 1), ==, 0);
    expect_bad(8, "/epoch-8: it has another size");
    epoch_state_remove(directory_fd, 8);
    g_assert_cmpint(mkfifo(eight, 0600), ==, 0);
    expect_bad(8, "not a regular file");
    epoch_state_remove(directory_fd, 8);
}

int main(int argc, char **argv)
{
    int status;

    g_test_init(&argc, &argv, NULL);
    directory = test_directory();
    directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    g_test_add_func("/epoch-state/round-trip", test_round_trip);
    g_test_add_func("/epoch-state/damage", test_damage);
    g_test_add_func("/epoch-state/hostile", test_hostile);
    status = g_test_run();
    close(directory_fd);
    remove_directory(directory);
    return status;
}
