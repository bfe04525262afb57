/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Packed recordings: a packed recording is unpacked without changes.  A damaged or hostile file
 * leaves nothing behind, inside or outside of the target directory.
 */
#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "recording/manifest.h"
#include "recording/pack-format.h"
#include "recording/pack.h"
#include "tests/recording/file-limit.h"
#include "tests/recording/log-test.h"

static char *top;               /* directory of all files of this test */
static char *recording;
static char *packed;
static char *target;
static volatile sig_atomic_t stop;

/* --- headers ---------------------------------------------------------------------- */

static void test_headers(void)
{
    const uint64_t numbers[] = { 0, 1, 511, 512, 077777777777, 0100000000000, UINT64_MAX };
    uint8_t bytes[PACK_BLOCK];
    PackMember member = { .name = PACK_TOP "manifest" }, seen;

    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++) {
        member.size = numbers[i];
        member.time = numbers[G_N_ELEMENTS(numbers) - 1 - i];
        pack_header_put(&member, bytes);
        g_assert_true(pack_header_get(&seen, bytes));
        g_assert_cmpmem(&seen, sizeof(seen), &member, sizeof(member));
        for (unsigned bit = 0; bit < PACK_BLOCK * 8; bit++) {
            bytes[bit / 8] ^= 1 << bit % 8;
            g_assert_false(pack_header_get(&seen, bytes));
            bytes[bit / 8] ^= 1 << bit % 8;
        }
    }
}

static void test_names(void)
{
    const char *const good[] = { "manifest", "vcpu-0.order", "checkpoint-0/ram", "a..b" };
    const char *const bad[] = {
        "", "/", ".", "..", "/etc/passwd", "../x", "a/../b", "a/..", "a/.", ".hidden", "a/.hidden",
        "a/", "a//b", "a/b/c", "a b", "a\\b", "a\nb", "\xc3\xa4", "C:x",
    };
    g_autofree char *longest = g_strnfill(PACK_MAX_NAME - strlen(PACK_TOP), 'x');
    g_autofree char *longer = g_strconcat(longest, "x", NULL);

    for (size_t i = 0; i < G_N_ELEMENTS(good); i++) {
        g_assert_true(pack_name_ok(good[i]));
    }
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_assert_false(pack_name_ok(bad[i]));
    }
    g_assert_true(pack_name_ok(longest));
    g_assert_false(pack_name_ok(longer));
}

/* --- a recording -------------------------------------------------------------------- */

static char *in(const char *directory, const char *name)
{
    return g_build_filename(directory, name, NULL);
}

static void put(const char *name, const char *text)
{
    g_autofree char *path = in(recording, name);

    write_file(path, text, strlen(text));
}

static void make_recording(void)
{
    g_autoptr(Manifest) manifest = manifest_new(1);
    g_autofree char *checkpoint = in(recording, "checkpoint-0");
    g_autofree char *big = g_strnfill(3000, 'b');

    g_mkdir(recording, 0777);
    g_mkdir(checkpoint, 0777);
    manifest->qemu_version = g_strdup("10.0.2");
    manifest->arch = g_strdup("aarch64");
    manifest->machine = g_strdup("virt-10.0");
    manifest->cpu = g_strdup("cortex-a72,pmu=off");
    manifest->ram_size = 4096;
    manifest->start = g_strdup(MANIFEST_START_POWER_ON);
    g_assert_true(manifest_save(manifest, recording, NULL));
    put("empty", "");
    put("checkpoint-0/ram", big);
}

static void assert_same_file(const char *name)
{
    g_autofree char *one = in(recording, name);
    g_autofree char *other = in(target, name);
    g_autofree char *a = NULL;
    g_autofree char *b = NULL;
    size_t n_a, n_b;

    g_assert_true(g_file_get_contents(one, &a, &n_a, NULL));
    g_assert_true(g_file_get_contents(other, &b, &n_b, NULL));
    g_assert_cmpmem(a, n_a, b, n_b);
}

/* Return the sorted names in the top directory, to be freed by the caller. */
static char *listed(void)
{
    g_autoptr(GDir) dir = g_dir_open(top, 0, NULL);
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    const char *name;

    while ((name = g_dir_read_name(dir))) {
        g_ptr_array_add(names, (void *)name);
    }
    g_ptr_array_sort(names, (GCompareFunc)(void *)g_strcmp0);
    g_ptr_array_add(names, NULL);
    return g_strjoinv(" ", (char **)names->pdata);
}

static void assert_nothing_left(unsigned expected)
{
    g_autoptr(GDir) dir = g_dir_open(top, 0, NULL);
    unsigned n = 0;

    while (g_dir_read_name(dir)) {
        n++;
    }
    if (n != expected) {
        g_autofree char *names = listed();

        g_error("%u things instead of %u: %s", n, expected, names);
    }
}

static void remove_tree(const char *path)
{
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *entry = in(path, name);

        if (g_file_test(entry, G_FILE_TEST_IS_DIR) && !g_file_test(entry, G_FILE_TEST_IS_SYMLINK)) {
            remove_tree(entry);
        } else {
            unlink(entry);
        }
    }
    rmdir(path);
}

static bool pack(GError **error)
{
    uint64_t bytes;

    return pack_recording(recording, packed, &stop, &bytes, error);
}

static void test_round_trip(void)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *cut_off = in(recording, "cut-off");
    g_autofree char *slashes = g_strconcat(target, "//", NULL);

    make_recording();
    g_mkdir(cut_off, 0777);
    put("cut-off/manifest", "old");
    g_assert_true(pack(&error));
    g_assert_true(unpack_recording(packed, slashes, &stop, &error));
    g_assert_no_error(error);
    assert_same_file("manifest");
    assert_same_file("empty");
    assert_same_file("checkpoint-0/ram");
    {
        g_autofree char *other = in(target, "cut-off");

        g_assert_false(g_file_test(other, G_FILE_TEST_EXISTS));
    }
    /* Existing files and directories are not changed. */
    g_assert_false(pack(&error));
    g_assert_error(error, G_FILE_ERROR, G_FILE_ERROR_EXIST);
    g_clear_error(&error);
    g_assert_false(unpack_recording(packed, target, &stop, &error));
    g_assert_error(error, G_FILE_ERROR, G_FILE_ERROR_EXIST);
    remove_tree(target);
    assert_nothing_left(2);
    unlink(packed);
    remove_tree(recording);
}

static void expect_refused(const char *bytes, size_t n, const char *word)
{
    g_autoptr(GError) error = NULL;

    write_file(packed, bytes, n);
    g_assert_false(unpack_recording(packed, target, &stop, &error));
    if (!strstr(error->message, word) || strchr(error->message, '\n')) {
        g_error("'%s' expected in one line: %s", word, error->message);
    }
    assert_nothing_left(1);
}

static void test_damage(void)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *bytes = NULL;
    size_t n;

    make_recording();
    g_assert_true(pack(&error));
    remove_tree(recording);
    g_assert_true(g_file_get_contents(packed, &bytes, &n, NULL));
    for (size_t at = 0; at < n; at += g_test_rand_int_range(1, 25)) {
        unsigned bit = g_test_rand_int_range(0, 8);

        bytes[at] ^= 1 << bit;
        expect_refused(bytes, n, "byte ");
        bytes[at] ^= 1 << bit;
    }
    for (size_t kept = 0; kept < n; kept += g_test_rand_int_range(1, 100)) {
        expect_refused(bytes, kept, "byte ");
    }
    expect_refused(bytes, n - 1, "truncated");
    bytes = g_realloc(bytes, n + 1);
    bytes[n] = 0;
    expect_refused(bytes, n + 1, "goes on after its end");
    expect_refused("hello", 5, "not a packed recording");
    unlink(packed);
}

/* --- hostile files -------------------------------------------------------------------- */

static void add(GByteArray *archive, const char *name, uint64_t size, const char *content)
{
    PackMember member = { .size = size };
    uint8_t bytes[PACK_BLOCK], zeros[PACK_BLOCK] = { 0 };

    memcpy(member.name, name, strlen(name));
    pack_header_put(&member, bytes);
    g_byte_array_append(archive, bytes, sizeof(bytes));
    g_byte_array_append(archive, (const uint8_t *)content, strlen(content));
    g_byte_array_append(archive, zeros, pack_padding(strlen(content)));
}

static void add_end(GByteArray *archive)
{
    g_autofree char *sum = g_strdup_printf("%08x\n",
                                           recording_crc32c(0, archive->data, archive->len));
    uint8_t zeros[PACK_END_BYTES] = { 0 };

    add(archive, PACK_SUM_NAME, PACK_SUM_BYTES, sum);
    g_byte_array_append(archive, zeros, sizeof(zeros));
}

static void test_hostile(void)
{
    static const struct {
        const char *name;
        uint64_t size;
        const char *word;
    } cases[] = {
        { "/etc/passwd", 1, "name" },
        { "../x", 1, "name" },
        { "x", 1, "name" },
        { PACK_TOP, 1, "name" },
        { PACK_TOP "../../x", 1, "name" },
        { PACK_TOP "..", 1, "name" },
        { PACK_TOP "a/../../x", 1, "name" },
        { PACK_TOP "/etc/passwd", 1, "name" },
        { PACK_TOP "a/b/c", 1, "name" },
        { PACK_TOP "first", 1, "File exists" },
        { PACK_TOP "first/x", 1, "Not a directory" },
        { PACK_TOP "big", UINT64_MAX, "larger" },
        { PACK_TOP "big", UINT64_C(1) << 40, "larger" },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GByteArray) archive = g_byte_array_new();

        add(archive, PACK_TOP "first", 1, "x");
        add(archive, PACK_TOP "directory/second", 1, "x");
        add(archive, cases[i].name, cases[i].size, "x");
        add_end(archive);
        expect_refused((char *)archive->data, archive->len, cases[i].word);
    }
    unlink(packed);
}

/* --- other failures -------------------------------------------------------------------- */

static void test_refusals(void)
{
    g_autofree char *link = in(recording, "link");
    g_autofree char *deep = in(recording, "checkpoint-0/deep");
    g_autoptr(GError) error = NULL;

    make_recording();
    g_assert_cmpint(symlink("/etc/passwd", link), ==, 0);
    g_assert_false(pack(&error));
    g_assert_error(error, PACK_ERROR, PACK_ERROR_REFUSED);
    g_clear_error(&error);
    unlink(link);
    g_mkdir(deep, 0777);
    g_assert_false(pack(&error));
    g_assert_error(error, PACK_ERROR, PACK_ERROR_REFUSED);
    g_clear_error(&error);
    rmdir(deep);
    put("a b", "");
    g_assert_false(pack(&error));
    g_assert_error(error, PACK_ERROR, PACK_ERROR_REFUSED);
    assert_nothing_left(1);
    remove_tree(recording);
    g_clear_error(&error);
    g_assert_false(pack(&error));       /* there is no recording */
    g_assert_nonnull(error);
}

static void test_stop_and_full_disk(void)
{
    g_autoptr(GError) error = NULL;
    rlim_t limit;

    make_recording();
    stop = 1;
    g_assert_false(pack(&error));
    g_assert_error(error, PACK_ERROR, PACK_ERROR_STOPPED);
    g_clear_error(&error);
    stop = 0;
    signal(SIGXFSZ, SIG_IGN);
    limit = file_limit_set(2000);
    g_assert_false(pack(&error));
    g_assert_error(error, G_FILE_ERROR, G_FILE_ERROR_FAILED);
    g_clear_error(&error);
    file_limit_set(limit);
    assert_nothing_left(1);

    g_assert_true(pack(&error));
    limit = file_limit_set(2000);
    g_assert_false(unpack_recording(packed, target, &stop, &error));
    g_assert_nonnull(strstr(error->message, "cannot write"));
    g_clear_error(&error);
    file_limit_set(limit);
    stop = 1;
    g_assert_false(unpack_recording(packed, target, &stop, &error));
    g_assert_error(error, PACK_ERROR, PACK_ERROR_STOPPED);
    stop = 0;
    assert_nothing_left(2);
    unlink(packed);
    remove_tree(recording);
}

int main(int argc, char **argv)
{
    int status;

    g_test_init(&argc, &argv, NULL);
    top = test_directory();
    recording = in(top, "recording");
    packed = in(top, "packed");
    target = in(top, "target");
    g_test_add_func("/pack/headers", test_headers);
    g_test_add_func("/pack/names", test_names);
    g_test_add_func("/pack/round-trip", test_round_trip);
    g_test_add_func("/pack/damage", test_damage);
    g_test_add_func("/pack/hostile", test_hostile);
    g_test_add_func("/pack/refusals", test_refusals);
    g_test_add_func("/pack/stop-and-full-disk", test_stop_and_full_disk);
    status = g_test_run();
    remove_tree(top);
    g_free(top);
    g_free(recording);
    g_free(packed);
    g_free(target);
    return status;
}
