/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Holds what the guest sends out until its epoch is released: packets, and characters of consoles.
 * So nobody outside sees what a follower has not verified yet, or a standby not received.  Respec
 * (4.2) does so with the output of a process.  Main thread, BQL held, unless said otherwise.
 */
#ifndef RECORDER_HOLD_H
#define RECORDER_HOLD_H

#include "chardev/char.h"
#include "qapi/error.h"
#include "qapi/qapi-types-recorder.h"

#include "hw/recorder/outlet.h"

/*
 * Begin.  Pause the guest while more than @most bytes are held; 0: hold nothing.  Return false and
 * set @errp on failure.
 */
bool recorder_hold_start(uint64_t most, Error **errp);
/* Release all, and end that. */
void recorder_hold_stop(void);
/*
 * Release all up to the end of an epoch.  Set *@sent to the last epoch of which all consoles have
 * sent all: backends may refuse some for now.  Return false and set @errp if there is no such
 * epoch.
 */
bool recorder_hold_release(uint64_t epoch, uint64_t *sent, Error **errp);
/* Do not resume the guest if it is paused since too much is held; or somebody has resumed it. */
void recorder_hold_leave_paused(void);
/* Return true if output is held of the epoch that has not ended yet. */
bool recorder_hold_has_new(void);
/* Add what is held, and what is released, if anything ever is. */
void recorder_hold_query(RecorderInfo *info);

/* --- kinds of output ------------------------------------------------------------------------ */

/* Make an outlet, which its owner drops, at the latest when nothing is held any more. */
Outlet *hold_outlet(const OutletOptions *options);
/* Drop it, with what it still has. */
void hold_drop_outlet(Outlet *outlet);
/* Hold @n bytes of the epoch that has not ended yet.  Any thread, BQL held. */
void hold_output(Outlet *outlet, unsigned flags, const uint8_t *data, size_t n);

/* Call @fn for the backend of each console, until it returns false.  Then return false. */
bool hold_foreach_console(bool (*fn)(const Chardev *chr, void *opaque), void *opaque);
/* Make the outlets of a kind, and end that, also after a start that has failed. */
void hold_consoles_start(void);
void hold_consoles_stop(void);
bool hold_network_start(Error **errp);
/* Try also backends that have taken nothing the last time, and have not said so since. */
void hold_network_insist(void);
void hold_network_stop(void);

#endif
