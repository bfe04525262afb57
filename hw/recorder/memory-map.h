/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where main memory and ROMs are in the guest's physical address space.  On a PC firmware changes
 * that: it shows RAM instead of ROM below 1 MiB, and maps ROMs of devices.  Everything else is a
 * device, wherever it is: its loads are inputs.
 *
 * A map is text, a line for each range of addresses, ascending:
 *     ADDRESS SIZE ram|rom OFFSET BLOCK
 * with hexadecimal numbers; OFFSET is that in the block of this name.
 *
 * Main thread, or the thread of a vCPU, with the BQL held.
 */
#ifndef RECORDER_MEMORY_MAP_H
#define RECORDER_MEMORY_MAP_H

#include "recording/ram-image.h"

/* Return the present map.  The caller frees the text. */
char *memory_map_describe(void);
/* Tell recorder_map_changed() of changes from now on, or no more. */
void memory_map_watch(bool on);

/* Add all blocks of ROM to @writer that this map or a later one may show. */
bool memory_map_save_roms(RamImageWriter *writer, GError **error);
/* Return true if the first checkpoint of the recording has all blocks of @map. */
bool memory_map_is_saved(const char *map);
/* Return memory for ROM @name: a RamImageBlockFn. */
uint8_t *memory_map_find_rom(void *opaque, const char *name, uint64_t size, bool *zeroed);
/*
 * Replaying: make @map the map of this machine, whatever it had.  Its blocks are main memory and
 * ROMs that memory_map_find_rom() has made.  Return false if the text is no such map.
 */
bool memory_map_apply(const char *map);
/* Return the map that was applied last, or NULL. */
const char *memory_map_applied(void);
/* Show the machine's own map again, with the recorded contents of its ROMs. */
void memory_map_uncover(void);

/* Set *@address to where the byte at @offset of main memory is.  Return false if it is nowhere. */
bool memory_map_address(uint64_t offset, uint64_t *address);
/* Set *@offset to the place of the byte at @address in main memory.  Return false if none. */
bool memory_map_offset(uint64_t address, uint64_t *offset);

#endif
