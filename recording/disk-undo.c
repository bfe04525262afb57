/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See disk-undo.h.
 */
#include "recording/disk-undo.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/summed-text.h"
#include "base/write-all.h"

#define PREFIX "disks-"

/* An entry is a header, little-endian, and the bytes. */
typedef struct Header {
    uint64_t epoch;
    uint64_t offset;            /* in the disk */
    uint32_t disk;
    uint32_t n;                 /* bytes */
    uint32_t own_sum;           /* of what is before: a wrong @n would hide all later entries */
    uint32_t sum;               /* of the bytes */
} Header;

struct DiskUndo {
    int directory_fd;
    const char *directory;
    int fd;                     /* of the last epoch's file, or -1 */
    uint64_t epoch;
    GByteArray *entry;          /* the one that is written */
};

static char *file_name(uint64_t epoch)
{
    return g_strdup_printf(PREFIX "%" PRIu64, epoch);
}

static uint32_t sum_of(const void *bytes, size_t n)
{
    return GUINT32_TO_LE(recording_crc32c(0, bytes, n));
}

/* --- saving --------------------------------------------------------------------------- */

DiskUndo *disk_undo_new(int directory_fd, const char *directory)
{
    DiskUndo *undo = g_new0(DiskUndo, 1);

    undo->directory_fd = directory_fd;
    undo->directory = directory;
    undo->fd = -1;
    undo->entry = g_byte_array_new();
    return undo;
}

static void close_file(DiskUndo *undo)
{
    if (undo->fd >= 0) {
        close(undo->fd);
        undo->fd = -1;
    }
}

void disk_undo_free(DiskUndo *undo)
{
    if (undo) {
        close_file(undo);
        g_byte_array_unref(undo->entry);
        g_free(undo);
    }
}

bool disk_undo_save(DiskUndo *undo, uint64_t epoch, unsigned disk, uint64_t offset,
                    const void *bytes, size_t n, GError **error)
{
    g_autofree char *name = file_name(epoch);
    g_autofree char *path = g_build_filename(undo->directory, name, NULL);
    Header header = {
        .epoch = GUINT64_TO_LE(epoch), .offset = GUINT64_TO_LE(offset),
        .disk = GUINT32_TO_LE(disk), .n = GUINT32_TO_LE(n),
    };

    if (undo->fd < 0 || epoch != undo->epoch) {
        close_file(undo);
        undo->fd = openat(undo->directory_fd, name,
                          O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (undo->fd < 0) {
            return summed_text_fail(error, "create", path);
        }
        undo->epoch = epoch;
    }
    header.own_sum = sum_of(&header, offsetof(Header, own_sum));
    header.sum = sum_of(bytes, n);
    g_byte_array_set_size(undo->entry, 0);
    g_byte_array_append(undo->entry, (const uint8_t *)&header, sizeof(header));
    g_byte_array_append(undo->entry, bytes, n);
    /* A recorder that is killed in here has not begun the write: a part of an entry is none. */
    return write_all(undo->fd, undo->entry->data, undo->entry->len) ||
           summed_text_fail(error, "write", path);
}

void disk_undo_remove(int directory_fd, uint64_t epoch)
{
    g_autofree char *name = file_name(epoch);

    unlinkat(directory_fd, name, 0);
}

/* --- rolling back ----------------------------------------------------------------------- */

/* The file of an epoch that is undone. */
typedef struct Undone {
    uint64_t epoch;
    char *path;
    int fd;
    GArray *places;             /* of its entries, off_t, oldest first */
} Undone;

static void undone_free(void *opaque)
{
    Undone *undone = opaque;

    if (undone->fd >= 0) {
        close(undone->fd);
    }
    g_array_unref(undone->places);
    g_free(undone->path);
    g_free(undone);
}

/* Return false, with errno, on failure. */
static bool read_all_at(int fd, void *bytes, size_t n, off_t offset)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(fd, (uint8_t *)bytes + done, n - done, offset + done);

        if (got <= 0) {
            errno = got ? errno : EIO;
            return false;
        }
        done += got;
    }
    return true;
}

/* Return what is wrong with an entry, in words, or NULL. */
static const char *check_entry(const Undone *undone, const Header *header, const off_t sizes[],
                               unsigned n_disks)
{
    uint32_t disk = GUINT32_FROM_LE(header->disk), n = GUINT32_FROM_LE(header->n);
    uint64_t offset = GUINT64_FROM_LE(header->offset);

    if (sum_of(header, offsetof(Header, own_sum)) != header->own_sum) {
        return "the checksum of an entry is wrong";
    }
    if (GUINT64_FROM_LE(header->epoch) != undone->epoch) {
        return "it has an entry of another file";
    }
    if (n == 0 || n > DISK_UNDO_MOST_BYTES) {
        return "it has an entry of an impossible size";
    }
    if (disk >= n_disks || offset > (uint64_t)sizes[disk] || n > sizes[disk] - offset) {
        return "it has an entry of a place that no disk has";
    }
    return NULL;
}

/* Find the entries of a file, and check them.  The last one may be a part of one. */
static bool find_entries(Undone *undone, const off_t sizes[], unsigned n_disks, GError **error)
{
    g_autofree uint8_t *bytes = g_malloc(DISK_UNDO_MOST_BYTES);
    off_t size = lseek(undone->fd, 0, SEEK_END), at = 0;

    if (size < 0) {
        return summed_text_fail(error, "read", undone->path);
    }
    while (size - at > (off_t)sizeof(Header)) {
        Header header;
        const char *wrong;
        uint32_t n;

        if (!read_all_at(undone->fd, &header, sizeof(header), at)) {
            return summed_text_fail(error, "read", undone->path);
        }
        n = GUINT32_FROM_LE(header.n);
        wrong = check_entry(undone, &header, sizes, n_disks);
        if (wrong) {
            return summed_text_damaged(error, undone->path, wrong);
        }
        if (size - at - (off_t)sizeof(header) < n) {
            break;
        }
        if (!read_all_at(undone->fd, bytes, n, at + sizeof(header))) {
            return summed_text_fail(error, "read", undone->path);
        }
        if (sum_of(bytes, n) != header.sum) {
            return summed_text_damaged(error, undone->path, "the checksum of bytes is wrong");
        }
        g_array_append_val(undone->places, at);
        at += sizeof(header) + n;
    }
    return true;
}

/* Undo the writes of an epoch, the last one first. */
static bool undo_entries(const Undone *undone, const int fds[], GError **error)
{
    g_autofree uint8_t *bytes = g_malloc(DISK_UNDO_MOST_BYTES);

    for (unsigned i = undone->places->len; i > 0; i--) {
        off_t at = g_array_index(undone->places, off_t, i - 1);
        Header header;

        if (!read_all_at(undone->fd, &header, sizeof(header), at) ||
            !read_all_at(undone->fd, bytes, GUINT32_FROM_LE(header.n), at + sizeof(header))) {
            return summed_text_fail(error, "read", undone->path);
        }
        if (!write_all_at(fds[GUINT32_FROM_LE(header.disk)], bytes, GUINT32_FROM_LE(header.n),
                          GUINT64_FROM_LE(header.offset))) {
            return summed_text_fail(error, "write the disks with", undone->path);
        }
    }
    return true;
}

static gint latest_first(gconstpointer a, gconstpointer b)
{
    const Undone *one = *(Undone *const *)a, *other = *(Undone *const *)b;

    return one->epoch < other->epoch ? 1 : one->epoch > other->epoch ? -1 : 0;
}

/* Return the epoch of a file of this name, or 0. */
static uint64_t epoch_of(const char *name)
{
    uint64_t epoch;

    return g_str_has_prefix(name, PREFIX) &&
           g_ascii_string_to_unsigned(name + strlen(PREFIX), 10, 1, G_MAXUINT64, &epoch, NULL)
           ? epoch : 0;
}

/* Open the files of the epochs behind @epoch, the last one first. */
static GPtrArray *open_files(const char *directory, uint64_t epoch, GError **error)
{
    g_autoptr(GPtrArray) all = g_ptr_array_new_with_free_func(undone_free);
    g_autoptr(GDir) entries = g_dir_open(directory, 0, error);
    const char *name;

    while (entries && (name = g_dir_read_name(entries))) {
        Undone *undone;

        if (epoch_of(name) <= epoch) {
            continue;
        }
        undone = g_new0(Undone, 1);
        undone->epoch = epoch_of(name);
        undone->path = g_build_filename(directory, name, NULL);
        undone->places = g_array_new(false, false, sizeof(off_t));
        g_ptr_array_add(all, undone);
        undone->fd = summed_text_open(undone->path, error);
        if (undone->fd < 0) {
            return NULL;
        }
    }
    g_ptr_array_sort(all, latest_first);
    return entries ? g_steal_pointer(&all) : NULL;
}

bool disk_undo_roll_back(const char *directory, uint64_t epoch, const int fds[], unsigned n_disks,
                         GError **error)
{
    g_autoptr(GPtrArray) all = open_files(directory, epoch, error);
    g_autofree off_t *sizes = g_new0(off_t, n_disks + 1);

    if (!all) {
        return false;
    }
    for (unsigned i = 0; i < n_disks; i++) {
        sizes[i] = lseek(fds[i], 0, SEEK_END);
        if (sizes[i] < 0) {
            return summed_text_fail(error, "read", "a disk");
        }
    }
    for (unsigned i = 0; i < all->len; i++) {
        if (!find_entries(all->pdata[i], sizes, n_disks, error)) {
            return false;
        }
    }
    for (unsigned i = 0; i < all->len; i++) {
        if (!undo_entries(all->pdata[i], fds, error)) {
            return false;
        }
    }
    return true;
}
