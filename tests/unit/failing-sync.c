/* SPDX-License-Identifier: GPL-2.0-or-later */
/* To be preloaded: a disk that takes all that is written, and fails when it is synced. */
#include <errno.h>
#include <unistd.h>

int fsync(int fd)
{
    (void)fd;
    errno = EIO;
    return -1;
}
