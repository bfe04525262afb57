/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Complete writes, where write(2) may be interrupted or write only a part; and syncs.  Any thread.
 */
#ifndef BASE_WRITE_ALL_H
#define BASE_WRITE_ALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Write all @n bytes.  On failure return false and set errno; a part may have been written. */
bool write_all(int fd, const void *bytes, size_t n);
bool write_all_at(int fd, const void *bytes, size_t n, uint64_t offset);
/* Sync a file or directory that was written through other descriptors.  Errors as above. */
bool sync_path(const char *path);

#endif
