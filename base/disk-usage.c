/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See disk-usage.h.
 */
#include "base/disk-usage.h"

#include <glib.h>
#include <glib/gstdio.h>

uint64_t disk_usage(const char *directory)
{
    g_autoptr(GDir) entries = g_dir_open(directory, 0, NULL);
    const char *name;
    uint64_t size = 0;

    while (entries && (name = g_dir_read_name(entries))) {
        g_autofree char *path = g_build_filename(directory, name, NULL);
        GStatBuf st;

        if (g_lstat(path, &st) < 0) {
            continue;           /* the file was removed meanwhile */
        }
        /* Without holes, the blocks are the size rounded up; with holes, they are less. */
        size += S_ISDIR(st.st_mode) ? disk_usage(path)
                                    : MIN((uint64_t)st.st_size, (uint64_t)st.st_blocks * 512);
    }
    return size;
}
