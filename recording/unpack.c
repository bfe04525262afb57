/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Unpacks a recording from an untrusted source.  Names stay below its directory.  Only plain files
 * and directories are created, all of them new.  They are created in a directory with a temporary
 * name, which is renamed at the end; so a directory with the right name is complete.
 */
#include "recording/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/write-all.h"
#include "recording/pack-format.h"

#define PIECE (1u << 20)

typedef struct Unpacker {
    const char *path;           /* of the file */
    const char *directory;
    char *place;                /* temporary directory, until all is unpacked */
    int fd;
    uint64_t offset;
    uint32_t crc;
    uint8_t *piece;
    GPtrArray *created;         /* of char *: paths, oldest first */
    volatile sig_atomic_t *stop;
} Unpacker;

static bool io_error(GError **error, const char *verb, const char *path)
{
    g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(errno), "cannot %s %s: %s", verb,
                path, g_strerror(errno));
    return false;
}

static bool damaged(const Unpacker *unpacker, uint64_t offset, const char *what, GError **error)
{
    g_set_error(error, PACK_ERROR, PACK_ERROR_DAMAGED, "%s: byte %" PRIu64 ": %s", unpacker->path,
                offset, what);
    return false;
}

/* Read all @n bytes, and add them to the checksum. */
static bool get(Unpacker *unpacker, void *bytes, size_t n, GError **error)
{
    size_t done = 0;

    if (*unpacker->stop) {
        g_set_error(error, PACK_ERROR, PACK_ERROR_STOPPED, "stopped; nothing was unpacked");
        return false;
    }
    while (done < n) {
        ssize_t got = read(unpacker->fd, (uint8_t *)bytes + done, n - done);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return io_error(error, "read", unpacker->path);
        }
        if (got == 0) {
            return damaged(unpacker, unpacker->offset + done,
                           "it ends here: it is truncated, or not a packed recording", error);
        }
        done += got;
    }
    unpacker->offset += n;
    unpacker->crc = recording_crc32c(unpacker->crc, bytes, n);
    return true;
}

static bool get_zeros(Unpacker *unpacker, size_t n, GError **error)
{
    uint8_t bytes[PACK_END_BYTES];
    uint64_t offset = unpacker->offset;

    if (!get(unpacker, bytes, n, error)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (bytes[i]) {
            return damaged(unpacker, offset + i, "there must be zeros", error);
        }
    }
    return true;
}

/* --- one file --------------------------------------------------------------------- */

static bool make_directory(Unpacker *unpacker, const char *path, GError **error)
{
    if (mkdir(path, 0777) < 0) {
        return errno == EEXIST || io_error(error, "make", path);
    }
    g_ptr_array_add(unpacker->created, g_strdup(path));
    return true;
}

static bool copy_content(Unpacker *unpacker, int fd, const char *path, uint64_t size,
                         GError **error)
{
    for (uint64_t left = size; left > 0; ) {
        size_t n = MIN(left, PIECE);

        if (!get(unpacker, unpacker->piece, n, error)) {
            return false;
        }
        left -= n;
        if (!write_all(fd, unpacker->piece, n)) {
            return io_error(error, "write", path);
        }
    }
    return true;
}

static bool unpack_file(Unpacker *unpacker, const char *name, uint64_t size, GError **error)
{
    g_autofree char *path = g_build_filename(unpacker->place, name, NULL);
    const char *slash = strchr(name, '/');
    bool ok;
    int fd;

    if (slash) {
        g_autofree char *first = g_strndup(name, slash - name);
        g_autofree char *parent = g_build_filename(unpacker->place, first, NULL);

        if (!make_directory(unpacker, parent, error)) {
            return false;
        }
    }
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) {
        return io_error(error, "create", path);
    }
    g_ptr_array_add(unpacker->created, g_strdup(path));
    ok = copy_content(unpacker, fd, path, size, error) &&
         get_zeros(unpacker, pack_padding(size), error);
    if (close(fd) < 0 && ok) {
        ok = io_error(error, "write", path);
    }
    return ok;
}

/* --- the archive -------------------------------------------------------------------- */

/*
 * Check the last member, whose header was read.  @crc is the checksum of all bytes before that
 * header.
 */
static bool check_sum(Unpacker *unpacker, const PackMember *member, uint32_t crc, GError **error)
{
    g_autofree char *right = g_strdup_printf("%08" PRIx32 "\n", crc);
    uint64_t offset = unpacker->offset;
    char sum[PACK_SUM_BYTES], more;
    ssize_t got;

    if (member->size != PACK_SUM_BYTES) {
        return damaged(unpacker, offset, "the checksum has another size", error);
    }
    if (!get(unpacker, sum, sizeof(sum), error)) {
        return false;
    }
    if (memcmp(sum, right, sizeof(sum)) != 0) {
        return damaged(unpacker, offset, "wrong checksum: the file is damaged", error);
    }
    if (!get_zeros(unpacker, pack_padding(PACK_SUM_BYTES), error) ||
        !get_zeros(unpacker, PACK_END_BYTES, error)) {
        return false;
    }
    got = read(unpacker->fd, &more, 1);
    return got == 0 || damaged(unpacker, unpacker->offset, "it goes on after its end", error);
}

static bool unpack_members(Unpacker *unpacker, uint64_t file_size, GError **error)
{
    for (unsigned i = 0; i <= PACK_MAX_MEMBERS; i++) {
        uint64_t offset = unpacker->offset;
        uint32_t crc = unpacker->crc;
        uint8_t bytes[PACK_BLOCK];
        PackMember member;
        const char *name;

        if (!get(unpacker, bytes, sizeof(bytes), error)) {
            return false;
        }
        if (!pack_header_get(&member, bytes)) {
            return damaged(unpacker, offset, i ? "a damaged header, or not by reprise pack"
                                               : "this is not a packed recording", error);
        }
        if (g_str_equal(member.name, PACK_SUM_NAME)) {
            return check_sum(unpacker, &member, crc, error);
        }
        name = member.name + strlen(PACK_TOP);
        if (!g_str_has_prefix(member.name, PACK_TOP) || !pack_name_ok(name)) {
            return damaged(unpacker, offset, "a file with a name that no recording has", error);
        }
        /* Checked before the disk is filled in vain. */
        if (member.size > file_size - unpacker->offset) {
            return damaged(unpacker, offset, "a file that is larger than what follows: the packed "
                           "recording is truncated", error);
        }
        if (!unpack_file(unpacker, name, member.size, error)) {
            return false;
        }
    }
    return damaged(unpacker, unpacker->offset, "too many files", error);
}

/* Remove in reverse order, so that a directory is empty when its turn comes. */
static void remove_created(Unpacker *unpacker)
{
    for (unsigned i = unpacker->created->len; i > 0; i--) {
        remove(unpacker->created->pdata[i - 1]);
    }
}

static bool sync_created(Unpacker *unpacker, GError **error)
{
    bool ok = true;

    for (unsigned i = 0; ok && i < unpacker->created->len; i++) {
        const char *path = unpacker->created->pdata[i];

        ok = sync_path(path) || io_error(error, "write", path);
    }
    return ok;
}

static bool unpack_to_place(Unpacker *unpacker, GError **error)
{
    struct stat st;

    if (fstat(unpacker->fd, &st) < 0) {
        return io_error(error, "read", unpacker->path);
    }
    if (!S_ISREG(st.st_mode)) {
        return damaged(unpacker, 0, "this is not a file", error);
    }
    if (mkdir(unpacker->place, 0777) < 0) {
        return io_error(error, "make", unpacker->place);
    }
    g_ptr_array_add(unpacker->created, g_strdup(unpacker->place));
    if (!unpack_members(unpacker, st.st_size, error) || !sync_created(unpacker, error)) {
        return false;
    }
    /* Fails if the directory exists by now, unless it is empty. */
    return rename(unpacker->place, unpacker->directory) == 0 ||
           io_error(error, "make", unpacker->directory);
}

static size_t length_without_slashes(const char *path)
{
    size_t length = strlen(path);

    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    return length;
}

bool unpack_recording(const char *path, const char *directory, volatile sig_atomic_t *stop,
                      GError **error)
{
    Unpacker unpacker = { .path = path, .directory = directory, .stop = stop };
    struct stat st;
    bool ok;

    if (lstat(directory, &st) == 0) {
        errno = EEXIST;
        return io_error(error, "make", directory);
    }
    unpacker.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (unpacker.fd < 0) {
        return io_error(error, "open", path);
    }
    /* Beside @directory, and so in the same file system. */
    unpacker.place = g_strdup_printf("%.*s.unpacking-%d", (int)length_without_slashes(directory),
                                     directory, (int)getpid());
    unpacker.created = g_ptr_array_new_with_free_func(g_free);
    unpacker.piece = g_malloc(PIECE);
    ok = unpack_to_place(&unpacker, error);
    if (!ok) {
        remove_created(&unpacker);
    }
    close(unpacker.fd);
    g_ptr_array_unref(unpacker.created);
    g_free(unpacker.place);
    g_free(unpacker.piece);
    return ok;
}
