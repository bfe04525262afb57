/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that goes on from a checkpoint of its recording, with real devices.  Main thread, BQL
 * held.
 */
#ifndef RECORDER_LIVE_H
#define RECORDER_LIVE_H

#include "recording/manifest.h"

/* Return true if the state of all devices can be saved and used again; else set @errp. */
bool recorder_can_go_live(Error **errp);
/* Note in @manifest how this QEMU was started. */
void recorder_describe_origin(Manifest *manifest);
/*
 * Return true if this machine is the recorded one and has its devices, and no others, as far as the
 * manifest tells; else set @errp.
 */
bool recorder_is_recorded_machine(const Manifest *recorded, Error **errp);
/*
 * Load a checkpoint of the recording @directory into this machine, which has not run yet, and has
 * the recorded devices.  It is paused then.  Return false and set @errp if that is not possible; a
 * machine that was changed by then refuses to run.
 */
bool recorder_live(const char *directory, bool has_from, unsigned from, Error **errp);

#endif
