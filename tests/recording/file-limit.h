/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A full disk, for tests: files cannot grow beyond a limit. */
#ifndef TESTS_UNIT_FILE_LIMIT_H
#define TESTS_UNIT_FILE_LIMIT_H

#include <sys/resource.h>

/* Set the limit of this process.  Return the former limit, to be restored by the caller. */
static inline rlim_t file_limit_set(rlim_t bytes)
{
    struct rlimit limit;
    rlim_t before;

    getrlimit(RLIMIT_FSIZE, &limit);
    before = limit.rlim_cur;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
    return before;
}

#endif
