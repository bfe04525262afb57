/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writing all of something: a write may be interrupted, or do a part; and until it is on disk.  Any
 * thread.
 */
#ifndef BASE_WRITE_ALL_H
#define BASE_WRITE_ALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False, and errno, if it cannot be done; some of it may have been. */
bool write_all(int fd, const void *bytes, size_t n);
bool write_all_at(int fd, const void *bytes, size_t n, uint64_t offset);
/* A file or a directory that others have written; the same. */
bool sync_path(const char *path);

#endif
