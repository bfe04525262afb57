/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RAM images: what was saved is loaded, into zeroed memory or over old contents.  A file that was
 * cut off or changed anywhere is noticed.
 */
#include <glib.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "recording/ram-image-format.h"
#include "recording/ram-image.h"
#include "tests/recording/file-limit.h"
#include "tests/recording/ram-test.h"

static char *directory;
static char *path;

static bool save(const Guest *guest, GError **error)
{
    g_autoptr(RamImageWriter) writer = NULL;

    g_unlink(path);
    writer = ram_image_create(path, error);
    if (!writer) {
        return false;
    }
    for (unsigned i = 0; i < guest->n_blocks; i++) {
        if (!ram_image_add_block(writer, guest->blocks[i].name, guest->blocks[i].host,
                                 guest->blocks[i].size, error)) {
            return false;
        }
    }
    return ram_image_close(writer, error);
}

static void test_round_trip(void)
{
    for (unsigned round = 0; round < (g_test_slow() ? 2000 : 100); round++) {
        g_autoptr(Guest) guest = guest_random();
        g_autoptr(Guest) clean = guest_like(guest);
        g_autoptr(Guest) dirty = guest_like(guest);
        g_autofree char *before = guest_digest(guest, false);
        g_autofree char *after = NULL;
        g_autoptr(GError) error = NULL;
        uint64_t raw, sum = 0;

        dirty->zeroed = false;
        guest_fill(dirty);
        save(guest, &error);
        g_assert_no_error(error);
        ram_image_load(path, guest_lookup, clean, &error);
        g_assert_no_error(error);
        ram_image_load(path, guest_lookup, dirty, &error);
        g_assert_no_error(error);
        g_assert_true(guest_same(guest, clean));
        g_assert_true(guest_same(guest, dirty));
        after = guest_digest(dirty, true);
        g_assert_cmpstr(before, ==, after);

        for (unsigned i = 0; i < guest->n_blocks; i++) {
            sum += guest->blocks[i].size;
        }
        g_assert_true(ram_image_raw_size(path, &raw, &error));
        g_assert_cmpuint(raw, ==, sum);
    }
}

/* An image of changes replaces the pages that were written, also with zeros, and no others. */
static void test_changes(void)
{
    for (unsigned round = 0; round < 20; round++) {
        g_autoptr(Guest) guest = guest_random();
        g_autoptr(Guest) copy = guest_like(guest);
        g_autoptr(RamImageWriter) writer = NULL;
        g_autoptr(GError) error = NULL;

        save(guest, &error);
        ram_image_load(path, guest_lookup, copy, &error);
        g_assert_no_error(error);

        g_unlink(path);
        writer = ram_image_create(path, &error);
        for (unsigned i = 0; i < guest->n_blocks; i++) {
            uint8_t *host = guest->blocks[i].host;
            uint64_t size = guest->blocks[i].size;
            g_autofree uint64_t *changed = g_new0(uint64_t, ram_image_chunks(size) + 1);

            for (unsigned n = size ? g_test_rand_int_range(0, 40) : 0; n > 0; n--) {
                uint64_t page = (uint32_t)g_test_rand_int() % (size / RAM_IMAGE_PAGE);

                memset(host + page * RAM_IMAGE_PAGE, g_test_rand_int_range(0, 3), RAM_IMAGE_PAGE);
                changed[page / RAM_IMAGE_CHUNK_PAGES] |=
                    UINT64_C(1) << page % RAM_IMAGE_CHUNK_PAGES;
            }
            ram_image_add_changes(writer, guest->blocks[i].name, host, size, changed, &error);
            g_assert_no_error(error);
        }
        ram_image_close(writer, &error);
        g_assert_no_error(error);
        ram_image_load_changes(path, guest_lookup, copy, &error);
        g_assert_no_error(error);
        g_assert_true(guest_same(guest, copy));
        g_assert_false(ram_image_load(path, guest_lookup, copy, &error));
        g_assert_error(error, RAM_IMAGE_ERROR, RAM_IMAGE_ERROR_FOREIGN);
    }
}

static void save_change(const char *to, Guest *guest, uint64_t page, uint8_t byte)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(RamImageWriter) writer = ram_image_create(to, &error);
    uint64_t size = guest->blocks[0].size;
    g_autofree uint64_t *changed = g_new0(uint64_t, ram_image_chunks(size) + 1);

    memset(guest->blocks[0].host + page * PAGE, byte, PAGE);
    changed[page / RAM_IMAGE_CHUNK_PAGES] |= UINT64_C(1) << page % RAM_IMAGE_CHUNK_PAGES;
    ram_image_add_changes(writer, guest->blocks[0].name, guest->blocks[0].host, size, changed,
                          &error);
    ram_image_close(writer, &error);
    g_assert_no_error(error);
}

/* A full image and two images of changes are merged into one full image. */
static void test_merge(void)
{
    g_autoptr(Guest) guest = g_new0(Guest, 1);
    g_autoptr(Guest) copy = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *first = g_build_filename(directory, "first", NULL);
    g_autofree char *second = g_build_filename(directory, "second", NULL);
    char *const paths[] = { path, first, second };

    guest_add_block(guest, "mach-virt.ram", 300);
    guest_fill(guest);
    save(guest, &error);
    save_change(first, guest, 7, 1);
    save_change(second, guest, 299, 0);
    ram_image_merge(paths, 3, &error);
    g_assert_no_error(error);
    copy = guest_like(guest);
    ram_image_load(second, guest_lookup, copy, &error);
    g_assert_no_error(error);
    g_assert_true(guest_same(guest, copy));
    g_assert_false(ram_image_merge(paths + 1, 2, &error));
    g_assert_error(error, RAM_IMAGE_ERROR, RAM_IMAGE_ERROR_FOREIGN);
    g_unlink(first);
    g_unlink(second);
}

/* Zero pages take no space in the file, and are not touched in memory. */
static void test_zero_pages(void)
{
    const unsigned n_pages = 4096;
    g_autoptr(Guest) guest = g_new0(Guest, 1);
    g_autoptr(Guest) clean = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree unsigned char *resident = g_malloc(n_pages);
    GStatBuf st;
    unsigned n_resident = 0;

    if (sysconf(_SC_PAGESIZE) != PAGE) {
        g_test_skip("the host has other pages than the guest");
        return;
    }
    guest_add_block(guest, "ram", n_pages);
    madvise(guest->blocks[0].host, guest->blocks[0].size, MADV_NOHUGEPAGE);
    clean = guest_like(guest);
    madvise(clean->blocks[0].host, clean->blocks[0].size, MADV_NOHUGEPAGE);
    memset(guest->blocks[0].host + 5 * PAGE, 1, PAGE);
    memset(guest->blocks[0].host + 7 * PAGE, 1, PAGE);
    save(guest, &error);
    g_assert_no_error(error);
    g_assert_cmpint(g_stat(path, &st), ==, 0);
    g_assert_cmpint(st.st_size, <, 512);

    ram_image_load(path, guest_lookup, clean, &error);
    g_assert_no_error(error);
    g_assert_true(guest_same(guest, clean));

    /* Load again, without the comparison, which touches all pages. */
    munmap(clean->blocks[0].host, clean->blocks[0].size);
    clean->blocks[0].host = guest_pages(clean->blocks[0].size);
    madvise(clean->blocks[0].host, clean->blocks[0].size, MADV_NOHUGEPAGE);
    ram_image_load(path, guest_lookup, clean, &error);
    g_assert_no_error(error);
    g_assert_cmpint(mincore(clean->blocks[0].host, clean->blocks[0].size, resident), ==, 0);
    for (unsigned i = 0; i < n_pages; i++) {
        n_resident += resident[i] & 1;
    }
    g_assert_cmpuint(n_resident, ==, 2);
}

static bool load_fails(Guest *target)
{
    g_autoptr(GError) error = NULL;

    if (ram_image_load(path, guest_lookup, target, &error)) {
        return false;
    }
    g_assert_nonnull(error);
    g_assert_null(strchr(error->message, '\n'));
    return true;
}

static void put_file(const void *bytes, size_t n)
{
    FILE *file;

    g_unlink(path);     /* some file systems would sync a file that is truncated instead */
    file = fopen(path, "wb");
    g_assert_cmpuint(fwrite(bytes, 1, n, file), ==, n);
    fclose(file);
}

/* Return the image of a small guest, and in *@target the memory to load it into; free both. */
static uint8_t *small_image(Guest **target, size_t *length)
{
    g_autoptr(Guest) guest = g_new0(Guest, 1);
    g_autoptr(GError) error = NULL;
    char *bytes;

    guest_add_block(guest, "ram", 70);
    guest_add_block(guest, "rom", 3);
    for (unsigned i = 0; i < 70; i += 9) {
        memset(guest->blocks[0].host + i * PAGE, i, PAGE);
    }
    guest_fill_page(guest->blocks[1].host + PAGE);
    save(guest, &error);
    g_assert_no_error(error);
    g_assert_true(g_file_get_contents(path, &bytes, length, NULL));
    *target = guest_like(guest);
    return (uint8_t *)bytes;
}

/* A flipped bit in any byte, and any truncation, is noticed. */
static void test_damage(void)
{
    g_autoptr(Guest) target = NULL;
    size_t length;
    g_autofree uint8_t *bytes = small_image(&target, &length);
    unsigned step = length > 2000 && !g_test_slow() ? 5 : 1;

    for (size_t i = 0; i < length; i++) {
        unsigned bit = g_test_rand_int_range(0, 8);

        if (i > 200 && i % step) {
            continue;
        }
        put_file(bytes, i);
        g_assert_true(load_fails(target));
        bytes[i] ^= 1 << bit;
        put_file(bytes, length);
        bytes[i] ^= 1 << bit;
        if (!load_fails(target)) {
            g_error("bit %u of byte %zu was changed unnoticed", bit, i);
        }
    }
    put_file(bytes, length);
    g_assert_false(load_fails(target));
}

/* A hostile file with right checksums does not crash the reader. */
static void test_hostile(void)
{
    g_autoptr(Guest) target = NULL;
    size_t length;
    g_autofree uint8_t *bytes = small_image(&target, &length);

    for (unsigned round = 0; round < (g_test_slow() ? 1000000 : 20000); round++) {
        g_autofree uint8_t *bad = g_memdup2(bytes, length);
        RamImageHeader *header = (RamImageHeader *)bad;
        uint64_t offset = sizeof(*header);
        uint64_t table = header->table_offset;

        for (int flips = g_test_rand_int_range(1, 4); flips > 0; flips--) {
            unsigned where = g_test_rand_int_range(0, 3);
            size_t i = where == 0 ? g_test_rand_int_range(8, sizeof(*header)) :
                       where == 1 ? g_test_rand_int_range(table, length) :
                       g_test_rand_int_range(sizeof(*header), table);
            bad[i] = g_test_rand_bit() ? g_test_rand_int() : bad[i] ^ 1;
        }
        while (offset + sizeof(RamImageChunk) <= table) {
            RamImageChunk chunk;
            const size_t crc_size = sizeof(chunk.crc);
            uint64_t end;

            memcpy(&chunk, bad + offset, sizeof(chunk));
            end = offset + sizeof(chunk) + chunk.stored;
            if (end > table) {
                break;
            }
            chunk.crc = recording_crc32c(0, bad + offset + crc_size, end - offset - crc_size);
            memcpy(bad + offset, &chunk, sizeof(chunk));
            offset = end;
        }
        header->table_crc = recording_crc32c(0, bad + table, length - table);
        header->crc = recording_crc32c(0, header, offsetof(RamImageHeader, crc));
        put_file(bad, length);
        load_fails(target);             /* any result is right, but no crash */
    }
}

static void test_refusals(void)
{
    g_autoptr(Guest) guest = g_new0(Guest, 1);
    g_autoptr(Guest) other = g_new0(Guest, 1);
    g_autoptr(RamImageWriter) writer = NULL;
    g_autoptr(GError) error = NULL;
    const uint8_t *host;

    guest_add_block(guest, "ram", 4);
    guest_add_block(other, "ram", 5);
    save(guest, &error);
    g_assert_no_error(error);
    g_assert_false(ram_image_load(path, guest_lookup, other, &error));
    g_assert_error(error, RAM_IMAGE_ERROR, RAM_IMAGE_ERROR_REFUSED);
    g_clear_error(&error);

    g_assert_null(ram_image_create(path, &error));      /* the file exists */
    g_assert_error(error, RAM_IMAGE_ERROR, RAM_IMAGE_ERROR_IO);
    g_clear_error(&error);
    g_unlink(path);
    g_assert_false(ram_image_load(path, guest_lookup, guest, &error));
    g_assert_error(error, RAM_IMAGE_ERROR, RAM_IMAGE_ERROR_IO);
    g_clear_error(&error);
    g_assert_false(ram_image_load(directory, guest_lookup, guest, &error));
    g_assert_error(error, RAM_IMAGE_ERROR, RAM_IMAGE_ERROR_FOREIGN);
    g_clear_error(&error);

    host = guest->blocks[0].host;
    writer = ram_image_create(path, &error);
    g_assert_no_error(error);
    g_assert_true(ram_image_add_block(writer, "a", host, PAGE, &error));
    g_assert_false(ram_image_add_block(writer, "a", host, PAGE, NULL));
    g_assert_false(ram_image_add_block(writer, "b", host, PAGE + 8, NULL));
    g_assert_false(ram_image_add_block(writer, "", host, PAGE, NULL));
    g_assert_false(ram_image_add_block(writer, "b\nc", host, PAGE, &error));
    g_assert_error(error, RAM_IMAGE_ERROR, RAM_IMAGE_ERROR_REFUSED);
    g_clear_error(&error);

    /* An image that is not closed is not valid, and freeing its writer removes the file. */
    g_assert_false(ram_image_load(path, guest_lookup, guest, &error));
    g_assert_error(error, RAM_IMAGE_ERROR, RAM_IMAGE_ERROR_FOREIGN);
    ram_image_writer_free(g_steal_pointer(&writer));
    g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
}

static void test_no_space(void)
{
    g_autoptr(Guest) guest = g_new0(Guest, 1);
    guest_add_block(guest, "ram", 300);
    for (unsigned i = 0; i < guest->blocks[0].size; i++) {
        guest->blocks[0].host[i] = g_test_rand_int();
    }
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t small = 0; small < guest->blocks[0].size; small += 100000) {
        g_autoptr(GError) error = NULL;
        rlim_t limit = file_limit_set(small);

        g_assert_false(save(guest, &error));
        file_limit_set(limit);
        g_assert_error(error, RAM_IMAGE_ERROR, RAM_IMAGE_ERROR_IO);
        g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
    }
}

int main(int argc, char **argv)
{
    int status;

    g_test_init(&argc, &argv, NULL);
    directory = g_dir_make_tmp("reprise-ram-XXXXXX", NULL);
    path = g_build_filename(directory, RAM_IMAGE_FILE, NULL);
    g_test_add_func("/ram-image/round-trip", test_round_trip);
    g_test_add_func("/ram-image/changes", test_changes);
    g_test_add_func("/ram-image/merge", test_merge);
    g_test_add_func("/ram-image/zero-pages", test_zero_pages);
    g_test_add_func("/ram-image/damage", test_damage);
    g_test_add_func("/ram-image/hostile", test_hostile);
    g_test_add_func("/ram-image/refusals", test_refusals);
    g_test_add_func("/ram-image/no-space", test_no_space);
    status = g_test_run();
    g_unlink(path);
    g_rmdir(directory);
    g_free(path);
    g_free(directory);
    return status;
}
