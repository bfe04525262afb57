/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A disk that is full, for tests: files cannot grow beyond a size. */
#ifndef TESTS_UNIT_FILE_LIMIT_H
#define TESTS_UNIT_FILE_LIMIT_H

#include <sys/resource.h>

/* Returns the limit that was there before, to be put back. */
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
