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

/*
 * Put the filters in, and let nobody else change what is between a disk's device and its image.
 * The filters do nothing until recorder_disks_start().  Other work of the main thread is done on
 * the way.  Return false and set @errp on failure; recorder_disks_stop() must be called then, too.
 */
bool recorder_disks_prepare(Error **errp);
/* Save what disks have before writes, in the directory of the recording; both are the caller's. */
void recorder_disks_start(int directory_fd, const char *directory);
/* End that.  The filters are taken out soon. */
void recorder_disks_stop(void);

/* --- a standby ---------------------------------------------------------------------------- */

/*
 * Open the images of the disks that this machine may write.  Return false and set @errp if they are
 * not @recorded, or cannot be opened.
 */
bool recorder_disks_open(char *const *recorded, Error **errp);
/*
 * Lock the images as QEMU does, and bring them back to the end of @epoch of the recording in
 * @directory, whose recorder is dead.  They stay open and locked.  Return false and set @errp on
 * failure.
 */
bool recorder_disks_take(const char *directory, uint64_t epoch, Error **errp);

#endif
