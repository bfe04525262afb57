/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What disks had before writes: random writes are undone to the end of each epoch; an entry that
 * was cut off is none; every changed bit is noticed before a disk changes; a hostile file is
 * refused.
 */
#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/write-all.h"
#include "recording/disk-undo.h"
#include "tests/recording/log-test.h"

#define DISKS 2
#define DISK_BYTES (256 * 1024)
#define EPOCHS 5
#define WRITES 12
#define HEADER_BYTES 32

static char *directory;
static int directory_fd;

/* The disks, each a file, and what they had at the end of each epoch. */
typedef struct Fixture {
    int fds[DISKS];
    uint8_t *now[DISKS], *then[EPOCHS + 1][DISKS];
} Fixture;

static char *path_of(const char *name)
{
    return g_build_filename(directory, name, NULL);
}

static void keep(Fixture *f, unsigned epoch)
{
    for (unsigned i = 0; i < DISKS; i++) {
        f->then[epoch][i] = g_memdup2(f->now[i], DISK_BYTES);
    }
}

/* Write to a random place as the guest would, and save before what is there. */
static void write_somewhere(Fixture *f, DiskUndo *undo, unsigned epoch)
{
    unsigned disk = g_test_rand_int_range(0, DISKS);
    unsigned n = g_test_rand_int_range(1, 20000), at = g_test_rand_int_range(0, DISK_BYTES - n);
    g_autoptr(GError) error = NULL;

    g_assert_true(disk_undo_save(undo, epoch, disk, at, f->now[disk] + at, n, &error));
    g_assert_no_error(error);
    for (unsigned i = 0; i < n; i++) {
        f->now[disk][at + i] = g_test_rand_int();
    }
    g_assert_true(write_all_at(f->fds[disk], f->now[disk] + at, n, at));
}

/* Make disks, and write to them in all epochs. */
static Fixture *setup(void)
{
    g_autoptr(DiskUndo) undo = disk_undo_new(directory_fd, directory);
    Fixture *f = g_new0(Fixture, 1);

    for (unsigned i = 0; i < DISKS; i++) {
        g_autofree char *path = g_strdup_printf("%s/image-%u", directory, i);

        f->fds[i] = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        g_assert_cmpint(f->fds[i], >=, 0);
        f->now[i] = g_malloc0(DISK_BYTES);
        g_assert_true(write_all_at(f->fds[i], f->now[i], DISK_BYTES, 0));
    }
    keep(f, 0);
    for (unsigned epoch = 1; epoch <= EPOCHS; epoch++) {
        for (unsigned i = 0; i < WRITES && epoch != 3; i++) {       /* one without any */
            write_somewhere(f, undo, epoch);
        }
        keep(f, epoch);
    }
    return f;
}

static void teardown(Fixture *f)
{
    for (unsigned i = 0; i < DISKS; i++) {
        close(f->fds[i]);
        g_free(f->now[i]);
        for (unsigned epoch = 0; epoch <= EPOCHS; epoch++) {
            g_free(f->then[epoch][i]);
        }
    }
    g_free(f);
    for (unsigned epoch = 1; epoch <= EPOCHS; epoch++) {
        disk_undo_remove(directory_fd, epoch);
    }
}

static void expect_disks(const Fixture *f, uint8_t *const expected[])
{
    g_autofree uint8_t *found = g_malloc(DISK_BYTES);

    for (unsigned i = 0; i < DISKS; i++) {
        g_assert_cmpint(pread(f->fds[i], found, DISK_BYTES, 0), ==, DISK_BYTES);
        g_assert_cmpint(memcmp(found, expected[i], DISK_BYTES), ==, 0);
    }
}

static void expect_bad(const Fixture *f, uint64_t epoch, const char *words)
{
    g_autoptr(GError) error = NULL;

    g_assert_false(disk_undo_roll_back(directory, epoch, f->fds, DISKS, &error));
    if (!strstr(error->message, words) || strchr(error->message, '\n')) {
        g_error("'%s' expected in one line: %s", words, error->message);
    }
    expect_disks(f, f->now);
}

static void test_every_epoch(void)
{
    Fixture *f = setup();

    for (int epoch = EPOCHS; epoch >= 0; epoch--) {
        g_autoptr(GError) error = NULL;

        /* Who died on the way does it again. */
        for (unsigned i = 0; i < 2; i++) {
            g_assert_true(disk_undo_roll_back(directory, epoch, f->fds, DISKS, &error));
            g_assert_no_error(error);
            expect_disks(f, f->then[epoch]);
        }
    }
    teardown(f);
}

/* The write of an entry that is not whole has not begun. */
static void test_cut_off(void)
{
    g_autofree char *path = path_of("disks-1");

    for (unsigned left = 0; left < HEADER_BYTES + 100; left += 7) {
        g_autoptr(DiskUndo) undo = disk_undo_new(directory_fd, directory);
        g_autoptr(GError) error = NULL;
        Fixture *f = setup();
        uint8_t more[100] = { 0 };
        GStatBuf before;

        for (unsigned epoch = 2; epoch <= EPOCHS; epoch++) {
            disk_undo_remove(directory_fd, epoch);
        }
        g_assert_cmpint(g_stat(path, &before), ==, 0);
        g_assert_true(disk_undo_save(undo, 1, 0, 0, more, sizeof(more), &error));
        g_assert_cmpint(truncate(path, before.st_size + left), ==, 0);
        for (unsigned i = 0; i < DISKS; i++) {
            g_assert_true(write_all_at(f->fds[i], f->then[1][i], DISK_BYTES, 0));
        }
        g_assert_true(disk_undo_roll_back(directory, 0, f->fds, DISKS, &error));
        g_assert_no_error(error);
        expect_disks(f, f->then[0]);
        teardown(f);
    }
}

static void test_changed_bits(void)
{
    g_autofree char *path = path_of("disks-2");
    Fixture *f = setup();
    int fd = open(path, O_RDWR);
    off_t size = lseek(fd, 0, SEEK_END);

    for (unsigned i = 0; i < 300; i++) {
        /* Each bit of a header, and some of the rest. */
        off_t at = i < HEADER_BYTES * 8 ? (off_t)i / 8 : g_test_rand_int_range(0, size);
        uint8_t byte, bit = 1 << i % 8, spoiled;

        g_assert_cmpint(pread(fd, &byte, 1, at), ==, 1);
        spoiled = byte ^ bit;
        g_assert_true(write_all_at(fd, &spoiled, 1, at));
        expect_bad(f, 0, "disks-2: the checksum of");
        g_assert_true(write_all_at(fd, &byte, 1, at));
    }
    close(fd);
    teardown(f);
}

static void test_hostile(void)
{
    g_autoptr(DiskUndo) undo = disk_undo_new(directory_fd, directory);
    g_autoptr(GError) error = NULL;
    Fixture *f = setup();
    uint8_t bytes[100] = { 0 };
    static const struct {
        unsigned disk;
        uint64_t offset;
    } places[] = {
        { DISKS, 0 }, { UINT32_MAX, 0 }, { 0, DISK_BYTES }, { 0, DISK_BYTES - 99 },
        { 1, UINT64_MAX }, { 1, UINT64_MAX - 99 }, { 0, UINT64_C(1) << 63 },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(places); i++) {
        g_autoptr(DiskUndo) hostile = disk_undo_new(directory_fd, directory);

        g_assert_true(disk_undo_save(hostile, EPOCHS + 1, places[i].disk, places[i].offset, bytes,
                                     sizeof(bytes), &error));
        expect_bad(f, 0, "a place that no disk has");
        disk_undo_remove(directory_fd, EPOCHS + 1);
    }
    g_assert_cmpint(symlinkat("image-0", directory_fd, "disks-7x"), ==, 0);     /* another name */
    g_assert_cmpint(mkdirat(directory_fd, "disks-9", 0700), ==, 0);
    expect_bad(f, 0, "disks-9");
    g_assert_true(disk_undo_roll_back(directory, 9, f->fds, DISKS, &error));
    g_assert_cmpint(unlinkat(directory_fd, "disks-9", AT_REMOVEDIR), ==, 0);
    g_assert_false(disk_undo_roll_back("/nonexistent", 0, f->fds, DISKS, &error));
    teardown(f);
}

int main(int argc, char **argv)
{
    int status;

    g_test_init(&argc, &argv, NULL);
    directory = test_directory();
    directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    g_test_add_func("/disk-undo/every-epoch", test_every_epoch);
    g_test_add_func("/disk-undo/cut-off", test_cut_off);
    g_test_add_func("/disk-undo/changed-bits", test_changed_bits);
    g_test_add_func("/disk-undo/hostile", test_hostile);
    status = g_test_run();
    close(directory_fd);
    remove_directory(directory);
    return status;
}
