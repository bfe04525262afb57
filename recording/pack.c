/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Packs a recording: all regular files of its directory, and of the directories in it.  Files are
 * stored as they are, since they are compressed already.
 */
#include "recording/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/write-all.h"
#include "recording/manifest.h"
#include "recording/pack-format.h"
#include "recording/repair.h"

G_DEFINE_QUARK(pack-error-quark, pack_error)

typedef struct Packer {
    const char *path;
    int fd;
    uint32_t crc;
    uint64_t bytes;
    uint64_t time;              /* of all members */
    volatile sig_atomic_t *stop;
} Packer;

static bool io_error(GError **error, const char *verb, const char *path)
{
    g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(errno), "cannot %s %s: %s", verb,
                path, g_strerror(errno));
    return false;
}

/* --- what is packed --------------------------------------------------------------- */

/*
 * Add the names of all files in @below, which is @directory itself ("") or a directory in it.
 * Return false and @error if something there cannot be packed.
 */
static bool add_names(const char *directory, const char *below, GPtrArray *names, GError **error)
{
    g_autofree char *path = g_build_filename(directory, below, NULL);
    g_autoptr(GDir) dir = g_dir_open(path, 0, error);
    const char *entry;

    while (dir && (entry = g_dir_read_name(dir))) {
        g_autofree char *name = *below ? g_strdup_printf("%s/%s", below, entry) : g_strdup(entry);
        g_autofree char *file = g_build_filename(directory, name, NULL);
        struct stat st;

        /* Skip what a repair cut off, and the unfinished manifest of a killed recorder. */
        if (g_str_equal(name, REPAIR_CUT_OFF) || g_str_equal(name, MANIFEST_FILE ".new")) {
            continue;
        }
        if (lstat(file, &st) < 0) {
            return io_error(error, "read", file);
        }
        if (S_ISDIR(st.st_mode) && !*below) {
            if (!add_names(directory, name, names, error)) {
                return false;
            }
        } else if (!S_ISREG(st.st_mode) || !pack_name_ok(name)) {
            g_set_error(error, PACK_ERROR, PACK_ERROR_REFUSED, "%s cannot be packed: %s", file,
                        S_ISREG(st.st_mode) ? "its name" : "it is not a file");
            return false;
        } else {
            g_ptr_array_add(names, g_steal_pointer(&name));
        }
    }
    return dir != NULL;
}

static int by_name(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* --- writing ---------------------------------------------------------------------- */

static bool put(Packer *packer, const void *bytes, size_t n, GError **error)
{
    if (*packer->stop) {
        g_set_error(error, PACK_ERROR, PACK_ERROR_STOPPED, "stopped; %s was removed",
                    packer->path);
        return false;
    }
    packer->crc = recording_crc32c(packer->crc, bytes, n);
    packer->bytes += n;
    return write_all(packer->fd, bytes, n) || io_error(error, "write", packer->path);
}

static bool put_header(Packer *packer, const char *name, uint64_t size, GError **error)
{
    PackMember member = { .size = size, .time = packer->time };
    uint8_t bytes[PACK_BLOCK];

    g_strlcpy(member.name, name, sizeof(member.name));
    pack_header_put(&member, bytes);
    return put(packer, bytes, sizeof(bytes), error);
}

static bool put_padding(Packer *packer, uint64_t size, GError **error)
{
    const uint8_t zeros[PACK_BLOCK] = { 0 };

    return put(packer, zeros, pack_padding(size), error);
}

/* Write exactly @size bytes, as the header says. */
static bool put_content(Packer *packer, int fd, const char *path, uint64_t size, GError **error)
{
    g_autofree uint8_t *piece = g_malloc(1 << 20);

    for (uint64_t left = size; left > 0; ) {
        ssize_t got = read(fd, piece, MIN(left, 1 << 20));

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return io_error(error, "read", path);
        }
        if (got == 0) {
            g_set_error(error, PACK_ERROR, PACK_ERROR_REFUSED,
                        "%s became shorter: is somebody changing it?", path);
            return false;
        }
        if (!put(packer, piece, got, error)) {
            return false;
        }
        left -= got;
    }
    return true;
}

static bool put_file(Packer *packer, const char *directory, const char *name, GError **error)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);
    g_autofree char *member = g_strconcat(PACK_TOP, name, NULL);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    struct stat st;
    bool ok;

    if (fd < 0 || fstat(fd, &st) < 0) {
        ok = io_error(error, "read", path);
    } else {
        ok = put_header(packer, member, st.st_size, error) &&
             put_content(packer, fd, path, st.st_size, error) &&
             put_padding(packer, st.st_size, error);
    }
    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

static bool put_end(Packer *packer, GError **error)
{
    g_autofree char *sum = g_strdup_printf("%08" PRIx32 "\n", packer->crc);
    const uint8_t zeros[PACK_END_BYTES] = { 0 };

    return put_header(packer, PACK_SUM_NAME, PACK_SUM_BYTES, error) &&
           put(packer, sum, PACK_SUM_BYTES, error) &&
           put_padding(packer, PACK_SUM_BYTES, error) &&
           put(packer, zeros, sizeof(zeros), error);
}

static bool put_all(Packer *packer, const char *directory, const GPtrArray *names, GError **error)
{
    for (unsigned i = 0; i < names->len; i++) {
        if (!put_file(packer, directory, names->pdata[i], error)) {
            return false;
        }
    }
    return put_end(packer, error) &&
           (fsync(packer->fd) == 0 || io_error(error, "write", packer->path));
}

bool pack_recording(const char *directory, const char *path, volatile sig_atomic_t *stop,
                    uint64_t *bytes, GError **error)
{
    g_autoptr(Manifest) manifest = manifest_load(directory, error);
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    Packer packer = { .path = path, .stop = stop };
    bool ok;

    if (!manifest || !add_names(directory, "", names, error)) {
        return false;
    }
    if (names->len > PACK_MAX_MEMBERS) {
        g_set_error(error, PACK_ERROR, PACK_ERROR_REFUSED, "%s has %u files, at most %u can be "
                    "packed", directory, names->len, PACK_MAX_MEMBERS);
        return false;
    }
    g_ptr_array_sort(names, by_name);
    packer.time = manifest->start_time;
    packer.fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (packer.fd < 0) {
        return io_error(error, "create", path);
    }
    ok = put_all(&packer, directory, names, error);
    if (close(packer.fd) < 0 && ok) {
        ok = io_error(error, "write", path);
    }
    if (!ok) {
        unlink(path);
    }
    *bytes = packer.bytes;
    return ok;
}
