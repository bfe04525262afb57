/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What disks had before the guest wrote to them, a file `disks-N` for the writes of epoch N.  The
 * recorder saves that before it lets a write begin.  So whoever goes on with the guest from the end
 * of an epoch can bring its disks back to that moment, wherever the recorder was when it died.
 * docs/log-format.md, "Disks", describes the file.
 *
 * The file is removed when the epoch and the next one are in the file of epochs: nobody goes on
 * from an earlier one.
 */
#ifndef RECORDING_DISK_UNDO_H
#define RECORDING_DISK_UNDO_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As much as an entry can have. */
#define DISK_UNDO_MOST_BYTES (1 << 20)

typedef struct DiskUndo DiskUndo;

/* Begin.  @directory is the name of @directory_fd, for messages; both are the caller's. */
DiskUndo *disk_undo_new(int directory_fd, const char *directory);
void disk_undo_free(DiskUndo *undo);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(DiskUndo, disk_undo_free)

/*
 * Save @n bytes, DISK_UNDO_MOST_BYTES at most, that disk @disk has at @offset before a write in
 * @epoch.  Epochs do not go back.  Return false and @error on failure.
 */
bool disk_undo_save(DiskUndo *undo, uint64_t epoch, unsigned disk, uint64_t offset,
                    const void *bytes, size_t n, GError **error);
/* Remove the file of an epoch, if there is one. */
void disk_undo_remove(int directory_fd, uint64_t epoch);

/*
 * Bring @n_disks disks, open as @fds, back to the end of @epoch of the recording in @directory.
 * Return false and @error on failure; unless that is one of the disks', none has changed then.
 */
bool disk_undo_roll_back(const char *directory, uint64_t epoch, const int fds[], unsigned n_disks,
                         GError **error);

#endif
