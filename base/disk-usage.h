/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The disk space that a recording takes.
 */
#ifndef BASE_DISK_USAGE_H
#define BASE_DISK_USAGE_H

#include <stdint.h>

/* Return the bytes of all files below @directory.  Holes (dropped parts of logs) do not count. */
uint64_t disk_usage(const char *directory);

#endif
