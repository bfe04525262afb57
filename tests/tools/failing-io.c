/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A library to preload (LD_PRELOAD) that simulates a failing disk.
 *
 * The environment variable FAILING_IO names a file, which the test writes and removes while the
 * program runs.  Nothing fails while that file does not exist.  The file has one line:
 *
 *     WHAT COUNT PATTERN
 *
 * Calls for a file whose path matches PATTERN (a shell pattern; * also matches a slash) fail:
 *
 *     write       write() and writev(), with EIO, when COUNT bytes were written
 *     pwrite      pwrite() and pwritev(), the same
 *     fsync       fsync() and fdatasync(), after COUNT of them
 *     rename      rename() and renameat() to such a path, after COUNT of them
 *     fallocate   fallocate(), after COUNT of them
 *     slow        fsync() succeeds, but takes COUNT milliseconds
 *     short       write() and its variants write only a part, or are interrupted, at random; COUNT
 *                 is the seed
 *
 * A write may also fail in the middle: the part that fits is written.
 */
#undef _FILE_OFFSET_BITS         /* pwrite() and pwrite64() must be different names */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The line of the file.  Under the lock. */
static struct {
    struct stat file;           /* of the file when it was read */
    char what[16];
    char pattern[PATH_MAX];
    unsigned long long count;   /* what is left of COUNT; for "short", the random state */
} rule;

#define REAL(function) ((__typeof__(&function))dlsym(RTLD_NEXT, #function))

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Read the rule if the file has changed.  Return false if there is none.  Called with the lock. */
static bool has_rule(void)
{
    const char *path = getenv("FAILING_IO");
    struct stat now;
    FILE *file;

    if (!path || stat(path, &now) < 0) {
        return false;
    }
    if (is_same(&now, &rule.file)) {
        return true;
    }
    file = fopen(path, "re");
    if (!file) {
        return false;
    }
    if (fscanf(file, "%15s %llu %4095s", rule.what, &rule.count, rule.pattern) != 3) {
        abort();
    }
    fclose(file);
    rule.file = now;
    return true;
}

static bool concerns(const char *what, const char *path)
{
    return has_rule() && strcmp(what, rule.what) == 0 && fnmatch(rule.pattern, path, 0) == 0;
}

static bool concerns_fd(const char *what, int fd)
{
    char link[32], path[PATH_MAX];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    path[n > 0 ? n : 0] = 0;
    return concerns(what, path);
}

/* Return how many of @n bytes to write; 0 and errno if the call fails.  Takes the lock. */
static size_t may_write(const char *what, int fd, size_t n)
{
    int saved = errno, failure = 0;

    pthread_mutex_lock(&lock);
    if (n > 0 && concerns_fd("short", fd)) {
        rule.count = rule.count * 6364136223846793005 + 1442695040888963407;
        if (rule.count >> 62 == 0) {
            n = 0;
            failure = EINTR;
        } else {
            n = 1 + (rule.count >> 33) % n;
        }
    } else if (n > 0 && concerns_fd(what, fd)) {
        n = n < rule.count ? n : rule.count;
        rule.count -= n;
        failure = n ? 0 : EIO;
    }
    pthread_mutex_unlock(&lock);
    errno = failure ? failure : saved;
    return n;
}

/*
 * Return true and set errno if a call that @matches the rule fails; count the call otherwise.
 * Called with the lock, which is released.  For calls that cannot be done in part.
 */
static bool is_over(bool matches)
{
    bool over = matches && rule.count == 0;

    rule.count -= matches && !over;
    pthread_mutex_unlock(&lock);
    if (over) {
        errno = EIO;
    }
    return over;
}

static bool fails_fd(const char *what, int fd)
{
    pthread_mutex_lock(&lock);
    return is_over(concerns_fd(what, fd));
}

static bool fails_path(const char *what, const char *path)
{
    pthread_mutex_lock(&lock);
    return is_over(concerns(what, path));
}

/* --- replaced functions -------------------------------------------------------------- */

ssize_t write(int fd, const void *bytes, size_t n)
{
    size_t part = may_write("write", fd, n);

    return n && !part ? -1 : REAL(write)(fd, bytes, part);
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t offset)
{
    size_t part = may_write("pwrite", fd, n);

    return n && !part ? -1 : REAL(pwrite)(fd, bytes, part, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t offset)
{
    return pwrite(fd, bytes, n, offset);
}

/* If a rule applies, only the first piece is written, which is a short write, too. */
ssize_t writev(int fd, const struct iovec *pieces, int n)
{
    size_t first = n > 0 ? pieces[0].iov_len : 0;
    size_t part;

    pthread_mutex_lock(&lock);
    part = concerns_fd("short", fd) || concerns_fd("write", fd);
    pthread_mutex_unlock(&lock);
    if (!part || !first) {
        return REAL(writev)(fd, pieces, n);
    }
    return write(fd, pieces[0].iov_base, first);
}

int fsync(int fd)
{
    unsigned long long ms;

    pthread_mutex_lock(&lock);
    ms = concerns_fd("slow", fd) ? rule.count : 0;
    pthread_mutex_unlock(&lock);
    usleep(ms * 1000);
    return fails_fd("fsync", fd) ? -1 : REAL(fsync)(fd);
}

int fdatasync(int fd)
{
    return fails_fd("fsync", fd) ? -1 : REAL(fdatasync)(fd);
}

int rename(const char *from, const char *to)
{
    return fails_path("rename", to) ? -1 : REAL(rename)(from, to);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    return fails_path("rename", to) ? -1 : REAL(renameat)(from_fd, from, to_fd, to);
}

int fallocate(int fd, int mode, off_t offset, off_t length)
{
    return fails_fd("fallocate", fd) ? -1 : REAL(fallocate)(fd, mode, offset, length);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t length)
{
    return fallocate(fd, mode, offset, length);
}
