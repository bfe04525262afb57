/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much space a recording takes.
 */
#ifndef BASE_DISK_USAGE_H
#define BASE_DISK_USAGE_H

#include <stdint.h>

/* Bytes of all files below @directory; holes, of logs whose start was dropped, do not count. */
uint64_t disk_usage(const char *directory);

#endif
