/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sums of a checkpoint: every changed bit and byte is noticed, and a hostile file is refused.
 */
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/crc32c.h"
#include "recording/checkpoint-sums.h"
#include "tests/recording/log-test.h"

static const char *const names[] = { CHECKPOINT_CPUS, CHECKPOINT_DEVICES, NULL };

static char *in(const char *directory, const char *name)
{
    return g_build_filename(directory, name, NULL);
}

static void put(const char *directory, const char *name, const void *bytes, size_t n)
{
    g_autofree char *path = in(directory, name);

    write_file(path, bytes, n);
}

/* Make a checkpoint with a file that is summed in many pieces, and an empty file. */
static char *checkpoint(void)
{
    char *directory = test_directory();
    g_autofree char *big = g_strnfill(40000, 'x');
    g_autoptr(GError) error = NULL;

    put(directory, CHECKPOINT_CPUS, big, strlen(big));
    put(directory, CHECKPOINT_DEVICES, "", 0);
    g_assert_true(checkpoint_sums_save(directory, names, &error));
    g_assert_no_error(error);
    return directory;
}

static void expect_good(const char *directory)
{
    g_autoptr(GError) error = NULL;

    g_assert_true(checkpoint_sums_check(directory, &error));
    g_assert_no_error(error);
}

static void expect_bad(const char *directory, const char *word)
{
    g_autoptr(GError) error = NULL;

    g_assert_false(checkpoint_sums_check(directory, &error));
    if (!strstr(error->message, word) || strchr(error->message, '\n')) {
        g_error("'%s' expected in one line: %s", word, error->message);
    }
}

static void test_files(void)
{
    char *directory = checkpoint();
    g_autofree char *cpus = in(directory, CHECKPOINT_CPUS);
    g_autofree char *sums = in(directory, CHECKPOINT_SUMS);
    g_autofree char *big = g_strnfill(40000, 'x');
    g_autoptr(GError) error = NULL;

    expect_good(directory);
    for (unsigned i = 0; i < 200; i++) {
        unsigned at = g_test_rand_int_range(0, 40000);

        big[at] ^= 1 << g_test_rand_int_range(0, 8);
        put(directory, CHECKPOINT_CPUS, big, 40000);
        expect_bad(directory, "/cpus: wrong checksum");
        big[at] = 'x';
    }
    put(directory, CHECKPOINT_CPUS, big, 39999);
    expect_bad(directory, "/cpus: it is truncated");
    put(directory, CHECKPOINT_CPUS, big, 40000);
    put(directory, CHECKPOINT_DEVICES, "x", 1);
    expect_bad(directory, "/devices: it is too long");
    put(directory, CHECKPOINT_DEVICES, "", 0);
    expect_good(directory);

    g_assert_false(checkpoint_sums_save(directory, names, &error));     /* the file exists */
    g_assert_error(error, G_FILE_ERROR, G_FILE_ERROR_EXIST);
    g_unlink(cpus);
    expect_bad(directory, "cannot open");
    g_assert_cmpint(mkfifo(cpus, 0600), ==, 0);
    expect_bad(directory, "/cpus: not a regular file");
    g_unlink(sums);
    expect_bad(directory, "cannot open");
    remove_directory(directory);
}

static void test_every_bit_of_it(void)
{
    char *directory = checkpoint();
    g_autofree char *sums = in(directory, CHECKPOINT_SUMS);
    g_autofree char *text = NULL;
    size_t length;

    g_assert_true(g_file_get_contents(sums, &text, &length, NULL));
    for (size_t bit = 0; bit < length * 8; bit++) {
        text[bit / 8] ^= 1 << bit % 8;
        write_file(sums, text, length);
        expect_bad(directory, "/sums: ");
        text[bit / 8] ^= 1 << bit % 8;
    }
    for (size_t kept = 0; kept < length; kept++) {
        write_file(sums, text, kept);
        expect_bad(directory, "/sums: ");
    }
    write_file(sums, text, length);
    expect_good(directory);
    remove_directory(directory);
}

/* The checksum of the file itself is right. */
static void test_hostile(void)
{
    static const struct {
        const char *text, *word;
    } cases[] = {
        { "", "/sums: " },
        { "\n", "no sum of cpus" },
        { "\n\n", "NAME SIZE" },
        { "cpus 0 0", "wrong checksum" },
        { "cpus\n", "NAME SIZE" },
        { "cpus 1 2 3\n", "NAME SIZE" },
        { "../x 1 2\n", "NAME SIZE" },
        { "/etc/passwd 1 2\n", "NAME SIZE" },
        { ".. 1 2\n", "NAME SIZE" },
        { "cpus -1 2\n", "NAME SIZE" },
        { "cpus 40000 100000000\n", "NAME SIZE" },
        { "cpus 18446744073709551616 0\n", "NAME SIZE" },
        { "cpus 99999999999 0\n", "truncated" },
        { "devices 0 0\n", "no sum of cpus" },
    };
    char *directory = checkpoint();
    g_autofree char *sums = in(directory, CHECKPOINT_SUMS);
    g_autofree char *long_text = g_strnfill(5000, '#');

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        const char *text = cases[i].text;
        g_autofree char *summed = g_strdup_printf("%scrc32c=%08x\n", text,
                                                  recording_crc32c(0, text, strlen(text)));

        write_file(sums, summed, strlen(summed));
        expect_bad(directory, cases[i].word);
    }
    write_file(sums, long_text, strlen(long_text));
    expect_bad(directory, "too long");
    remove_directory(directory);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/checkpoint-sums/files", test_files);
    g_test_add_func("/checkpoint-sums/every-bit-of-it", test_every_bit_of_it);
    g_test_add_func("/checkpoint-sums/hostile", test_hostile);
    return g_test_run();
}
