/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The disks that a recorded guest writes.  They are not part of its state, so whoever goes on with
 * it from an earlier moment needs what they had then.  For a standby that is saved before each
 * write (recording/disk-undo.h), by a filter between a disk's device and its image.
 *
 * The image must be a raw one, which keeps nothing in memory that a QEMU which is killed would take
 * with it.  Both QEMUs have the same file.  Main thread, BQL held.
 */
#ifndef RECORDER_DISKS_H
#define RECORDER_DISKS_H

#include "qapi/error.h"

#include "hw/recorder/session.h"

/* Return false and set @errp if the guest may write disks that cannot be part of the recording. */
bool recorder_can_have_disks(const RecorderOptions *options, Error **errp);
/*
 * Return a text for each disk that the guest may write, sorted: its device, the host's number of
 * its image, and its size.  NULL: there is none.
 */
char **recorder_own_disks(void);
/* Return false and set @errp if the disks that this machine may write are not @recorded. */
bool recorder_are_own_disks(char *const *recorded, Error **errp);

/*
 * Put the filters in.  They do nothing until recorder_disks_start().  Other work of the main thread
 * is done on the way.  Return false and set @errp on failure.
 */
bool recorder_disks_prepare(Error **errp);
/* Save what disks have before writes, in the directory of the recording; both are the caller's. */
void recorder_disks_start(int directory_fd, const char *directory);
/* End that.  The filters are taken out soon. */
void recorder_disks_stop(void);

/*
 * Bring the images back to the end of @epoch of the recording in @directory, whose recorder is
 * dead.  Return false and set @errp on failure.
 */
bool recorder_disks_roll_back(const char *directory, uint64_t epoch, Error **errp);

#endif
