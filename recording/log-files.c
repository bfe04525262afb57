/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The files of a recording's logs.  All accesses go through the descriptors that
 * were opened at the start, so that nothing is written to another directory that
 * takes the place of the recording's.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* fallocate() */
#endif
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/write-all.h"
#include "recording/log-files.h"

typedef struct LogFile {
    int fd;                     /* -1: no such log */
    char *name;
    uint64_t size;
    uint64_t hole_end;          /* end of the dropped part; 0: none */
} LogFile;

struct LogFiles {
    char *directory;
    int directory_fd;
    unsigned n_files;
    LogFile file[];             /* stream * LOG_SUBSTREAMS + substream */
};

/* Set @error to "cannot write DIR/vcpu-0.order: No space left on device"; return false. */
static bool fail_because(LogFiles *files, const LogFile *file, const char *what, int failure,
                         const char *why, GError **error)
{
    g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(failure), "cannot %s %s%s%s: %s",
                what, files->directory, file ? "/" : "", file ? file->name : "", why);
    return false;
}

static bool fail(LogFiles *files, const LogFile *file, const char *what, int failure,
                 GError **error)
{
    return fail_because(files, file, what, failure, g_strerror(failure), error);
}

/*
 * A log of episodes begins with a block that stands for no dropped blocks, so that there is room to
 * drop even a short log.  Readers need all logs of episodes to begin at the same cut.
 */
static size_t reserve(const LogFileHeader *header, uint8_t bytes[LOG_DROPPED_BLOCK_BYTES])
{
    LogDropped none = { .offset = LOG_FILE_HEADER_BYTES + LOG_DROPPED_BLOCK_BYTES };

    if (header->substream != LOG_KARMA && header->substream != LOG_RERUN) {
        return 0;
    }
    log_dropped_put(header->stream, header->substream, 0, 0, &none, bytes);
    return LOG_DROPPED_BLOCK_BYTES;
}

static bool create(LogFiles *files, LogFile *file, const LogFileHeader *header, GError **error)
{
    uint8_t bytes[LOG_FILE_HEADER_BYTES + LOG_DROPPED_BLOCK_BYTES];

    file->name = log_file_name(header->n_vcpus, header->stream, header->substream);
    file->fd = openat(files->directory_fd, file->name,
                      O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->fd < 0) {
        return fail(files, file, "create", errno, error);
    }
    log_file_header_put(header, bytes);
    file->size = LOG_FILE_HEADER_BYTES + reserve(header, bytes + LOG_FILE_HEADER_BYTES);
    return write_all(file->fd, bytes, file->size) || fail(files, file, "write", errno, error);
}

static bool create_all(LogFiles *files, unsigned n_vcpus, OrderSet orders, GError **error)
{
    files->directory_fd = open(files->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (files->directory_fd < 0) {
        return fail(files, NULL, "open", errno, error);
    }
    for (unsigned i = 0; i < files->n_files; i++) {
        LogFileHeader header = {
            .version = LOG_VERSION,
            .compatible = LOG_FILE_COMPATIBLE,
            .incompatible = log_file_features(orders),
            .stream = i / LOG_SUBSTREAMS,
            .substream = i % LOG_SUBSTREAMS,
            .n_vcpus = n_vcpus,
        };

        if (log_file_exists(n_vcpus, orders, header.stream, header.substream) &&
            !create(files, &files->file[i], &header, error)) {
            return false;
        }
    }
    return true;
}

LogFiles *log_files_new(const char *directory, unsigned n_vcpus, OrderSet orders, GError **error)
{
    unsigned n_files = (n_vcpus + 1) * LOG_SUBSTREAMS;
    g_autoptr(LogFiles) files = g_malloc0(sizeof(*files) + n_files * sizeof(files->file[0]));

    files->directory = g_strdup(directory);
    files->n_files = n_files;
    for (unsigned i = 0; i < n_files; i++) {
        files->file[i].fd = -1;
    }
    if (!create_all(files, n_vcpus, orders, error)) {
        /* Leave nothing behind that looks like a recording. */
        for (unsigned i = 0; i < n_files; i++) {
            if (files->file[i].fd >= 0) {
                unlinkat(files->directory_fd, files->file[i].name, 0);
            }
        }
        return NULL;
    }
    return g_steal_pointer(&files);
}

bool log_files_append(LogFiles *files, unsigned stream, LogSubstream substream,
                      const void *bytes, size_t n, GError **error)
{
    LogFile *file = &files->file[stream * LOG_SUBSTREAMS + substream];

    file->size += n;
    return write_all(file->fd, bytes, n) || fail(files, file, "write", errno, error);
}

uint64_t log_files_size(const LogFiles *files, unsigned stream, LogSubstream substream)
{
    return files->file[stream * LOG_SUBSTREAMS + substream].size;
}

static bool punch(LogFiles *files, const LogFile *file, uint64_t from, uint64_t to, GError **error)
{
    return fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, to - from) == 0 ||
           fail(files, file, "drop the old part of", errno, error);
}

/* The block that tells where the log continues is written before the hole is punched. */
bool log_files_drop(LogFiles *files, unsigned stream, LogSubstream substream, uint64_t sequence,
                    Position start, const LogDropped *dropped, uint64_t *freed, GError **error)
{
    LogFile *file = &files->file[stream * LOG_SUBSTREAMS + substream];
    uint8_t block[LOG_DROPPED_BLOCK_BYTES];
    uint64_t rest = LOG_FILE_HEADER_BYTES + sizeof(block);

    *freed = 0;
    if (dropped->offset <= MAX(rest, file->hole_end)) {
        return true;            /* there is nothing to free */
    }
    log_dropped_put(stream, substream, sequence, start, dropped, block);
    if (!write_all_at(file->fd, block, sizeof(block), LOG_FILE_HEADER_BYTES)) {
        return fail(files, file, "write", errno, error);
    }
    if (!punch(files, file, rest, dropped->offset, error)) {
        return false;
    }
    *freed = dropped->offset - MAX(rest, file->hole_end);
    file->hole_end = dropped->offset;
    return true;
}

/* A hole beyond the end of the file changes nothing. */
bool log_files_can_drop(LogFiles *files, GError **error)
{
    return punch(files, &files->file[0], 1 << 30, (1 << 30) + 4096, error);
}

/*
 * Return true if the directory's name is that of another directory by now, or of none.  Other
 * failures of the disk do not count.
 */
static bool directory_is_gone(LogFiles *files)
{
    struct stat ours, named;

    if (fstat(files->directory_fd, &ours) < 0) {
        return false;
    }
    if (stat(files->directory, &named) < 0) {
        return errno == ENOENT || errno == ENOTDIR;
    }
    return ours.st_dev != named.st_dev || ours.st_ino != named.st_ino;
}

bool log_files_check(LogFiles *files, GError **error)
{
    struct stat status;

    if (directory_is_gone(files)) {
        return fail_because(files, NULL, "write", ENOENT, "it was renamed or removed", error);
    }
    for (unsigned i = 0; i < files->n_files; i++) {
        const LogFile *file = &files->file[i];

        if (file->fd >= 0 && fstat(file->fd, &status) == 0 && status.st_nlink == 0) {
            return fail_because(files, file, "write", ENOENT, "it was removed", error);
        }
    }
    return true;
}

bool log_files_sync(LogFiles *files, GError **error)
{
    for (unsigned i = 0; i < files->n_files; i++) {
        const LogFile *file = &files->file[i];

        if (file->fd >= 0 && fsync(file->fd) < 0) {
            return fail(files, file, "write", errno, error);
        }
    }
    return log_files_check(files, error) &&
           (fsync(files->directory_fd) == 0 || fail(files, NULL, "write", errno, error));
}

void log_files_free(LogFiles *files)
{
    if (!files) {
        return;
    }
    for (unsigned i = 0; i < files->n_files; i++) {
        if (files->file[i].fd >= 0) {
            close(files->file[i].fd);
        }
        g_free(files->file[i].name);
    }
    if (files->directory_fd >= 0) {
        close(files->directory_fd);
    }
    g_free(files->directory);
    g_free(files);
}
