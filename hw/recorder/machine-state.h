/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The state of a stopped machine: saved in a directory of its own, loaded, inspected.
 */
#ifndef RECORDER_MACHINE_STATE_H
#define RECORDER_MACHINE_STATE_H

#include "recording/ram-digest.h"
#include "recording/ram-image.h"

/*
 * Save the state into @directory, which is new, with that of devices if @devices: then these must
 * stand still (stand-still.h).  Return the writer of its RAM image, or NULL with @errp set.  The
 * state is valid once the caller has closed the image with ram_image_close(); the machine may run
 * meanwhile.
 */
RamImageWriter *machine_state_save(const char *directory, bool devices, Error **errp);
/*
 * Save what has changed since the last saved state, likewise.  Set *@bytes to the size of the
 * memory that has changed.
 */
RamImageWriter *machine_state_save_changes(const char *directory, bool devices, uint64_t *bytes,
                                           Error **errp);
/* Mark main memory as changed by something other than a vCPU's store.  Any thread. */
void machine_state_written(uint64_t offset, uint64_t size);
/* Load checkpoint @number of @names, which are directories in @recording. */
bool machine_state_load(const char *recording, char *const *names, unsigned number, Error **errp);
/* The same with the state of devices, for a machine that is not to be replayed. */
bool machine_state_load_live(const char *recording, char *const *names, unsigned number,
                             Error **errp);
/*
 * Return the state of vCPUs and devices, which stand still, to be unreffed by the caller; NULL if a
 * device cannot save its state.
 */
GByteArray *machine_state_save_epoch(void);
/*
 * Load it into this machine, whose memory and registers are those of a replay up to that moment.
 * Return false and set @errp if it is of another machine or moment: then the machine must not run.
 */
bool machine_state_load_epoch(const GByteArray *state, Error **errp);
/*
 * Write main memory as a device would.  Return false if it does not reach that far.  Any thread,
 * once the main thread has called the first function.
 */
void machine_state_prepare_writes(void);
bool machine_state_write_ram(uint64_t offset, const void *bytes, size_t n);
/* Return the digest of all guest RAM.  The caller frees the text. */
char *machine_state_ram_digest(void);
/*
 * Return the numbers of the pages written since the last call, as uint32_t, ascending.  The caller
 * unrefs the array.
 */
GArray *machine_state_take_changes(void);
/* Who takes what has changed: checkpoints and a debugger's snapshots; epochs. */
typedef enum MachineStateTaker {
    MACHINE_STATE_CHECKPOINTS,
    MACHINE_STATE_EPOCHS,
    MACHINE_STATE_TAKERS,
} MachineStateTaker;

/* From now on there are two takers, each of which gets all changes; with false, one again. */
void machine_state_share_changes(bool share);
/*
 * Return the pages written since @taker's last call, as bits, RAM_IMAGE_CHUNK_PAGES in a word, to
 * be freed by the caller.  Set *@n_changed to their number.
 */
uint64_t *machine_state_take_bits(MachineStateTaker taker, uint64_t *n_changed);
/* Return a tracker of the digest of all guest RAM, to be freed by the caller. */
RamDigestTracker *machine_state_track_digest(void);
/* Return main memory, and set *@size. */
const uint8_t *machine_state_ram(uint64_t *size);
/*
 * Return the registers of all vCPUs, to be loaded in the same process.  The caller unrefs the
 * array.
 */
GByteArray *machine_state_save_registers(void);
void machine_state_load_registers(const GByteArray *registers);

#endif
