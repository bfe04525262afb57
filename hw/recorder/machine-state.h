/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The state of a stopped machine: saved in a directory of its own, loaded, looked at.
 */
#ifndef RECORDER_MACHINE_STATE_H
#define RECORDER_MACHINE_STATE_H

#include "recording/ram-image.h"

/*
 * Saves it into @directory.  It is valid once its RAM is closed (ram_image_close()), for which
 * the machine need not stand still.
 */
RamImageWriter *machine_state_save(const char *directory, Error **errp);
/* What has changed since the last one that was saved, and how much that is. */
RamImageWriter *machine_state_save_changes(const char *directory, uint64_t *bytes, Error **errp);
/* Main memory was written by other means than a vCPU's store. */
void machine_state_written(uint64_t offset, uint64_t size);
/* Checkpoint @number of @names, which are directories of @recording. */
bool machine_state_load(const char *recording, char *const *names, unsigned number, Error **errp);
/* Where main memory is, guest-physical. */
uint64_t machine_state_ram_address(void);
/* Write main memory as a device would; false if there is none at @offset. */
bool machine_state_write_ram(uint64_t offset, const void *bytes, size_t n);
/* Digest of all guest RAM; to be freed. */
char *machine_state_ram_digest(void);
/* Which pages were written since this was last asked, as uint32_t, ascending. */
GArray *machine_state_take_changes(void);
const uint8_t *machine_state_ram(uint64_t *size);
/* The registers of all vCPUs, to be loaded in the same process. */
GByteArray *machine_state_save_registers(void);
void machine_state_load_registers(const GByteArray *registers);

#endif
