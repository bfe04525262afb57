/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The state of vCPUs and devices at the end of an epoch, a file `epoch-N` of a recording.  With it
 * a standby, which has replayed memory up to there, goes on with the guest.  QEMU wrote the bytes,
 * and would load some damaged ones without an error, so they have a checksum.  docs/log-format.md,
 * "Epochs", describes the file.
 *
 * The file is written before the epoch's line, and removed when no standby can need it any more.
 */
#ifndef RECORDING_EPOCH_STATE_H
#define RECORDING_EPOCH_STATE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* More than any state of devices has. */
#define EPOCH_STATE_MOST_BYTES (256 << 20)

/*
 * Write the state of epoch @number into the directory that is open as @directory_fd; @directory is
 * its name for messages.  Return false and @error on failure.
 */
bool epoch_state_write(int directory_fd, const char *directory, uint64_t number,
                       const GByteArray *state, GError **error);
/* Remove it, if it is there. */
void epoch_state_remove(int directory_fd, uint64_t number);
/*
 * Return the state of epoch @number of the recording in @directory, to be unreffed by the caller;
 * NULL and @error if there is none, or it is damaged.
 */
GByteArray *epoch_state_read(const char *directory, uint64_t number, GError **error);

#endif
