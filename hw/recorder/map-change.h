/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Changes of the memory map while recording: firmware of a PC makes some.  Replay must change the
 * map between the same steps of all vCPUs, so the change is a step of the vCPU that makes it (MAP
 * event), and no other vCPU may make a step while it is under way.
 */
#ifndef RECORDER_MAP_CHANGE_H
#define RECORDER_MAP_CHANGE_H

#include "hw/core/cpu.h"

/* Forget what an earlier recording has left. */
void recorder_map_changes_start(void);
/* Look what vCPUs do before memory or devices move, if they do.  Any thread.  BQL held. */
void recorder_map_begins(void);
/*
 * Note that the guest finds memory elsewhere, as @map says (memory-map.h).  In the thread of the
 * vCPU whose device access has changed that.  BQL held.
 */
void recorder_map_changed(const char *map);
/*
 * At a boundary: return true if the vCPU has changed the map, and must leave cpu_exec() to have it
 * logged and drop all translations.
 */
bool recorder_log_map(CPUState *cpu);
/* Log the vCPU's change of the map, if it has made one.  Exclusive.  Return true if so. */
bool recorder_log_map_exclusively(CPUState *cpu);
/* Come after the latest change of the map.  The vCPU has just become RUNNING, between steps. */
void recorder_follow_map(CPUState *cpu);

#endif
