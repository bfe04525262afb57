/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See write-all.h.
 */
#include "base/write-all.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Return true if the rest may be written after a write that returned @written; else set errno. */
static bool go_on(ssize_t written)
{
    if (written == 0) {
        errno = EIO;            /* a retry would return 0 for ever */
    }
    return written > 0 || (written < 0 && errno == EINTR);
}

bool write_all(int fd, const void *bytes, size_t n)
{
    for (size_t done = 0; done < n; ) {
        ssize_t written = write(fd, (const char *)bytes + done, n - done);

        if (!go_on(written)) {
            return false;
        }
        done += written > 0 ? written : 0;
    }
    return true;
}

bool write_all_at(int fd, const void *bytes, size_t n, uint64_t offset)
{
    for (size_t done = 0; done < n; ) {
        ssize_t written = pwrite(fd, (const char *)bytes + done, n - done, offset + done);

        if (!go_on(written)) {
            return false;
        }
        done += written > 0 ? written : 0;
    }
    return true;
}

bool sync_path(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool ok = fd >= 0 && fsync(fd) == 0;
    int saved = errno;

    if (fd >= 0) {
        close(fd);
    }
    errno = saved;
    return ok;
}
