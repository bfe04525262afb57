/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Snapshots of a debugger: states of a replay, kept in memory, to which the debugger can return at
 * once.  Main thread, BQL held, all vCPUs paused where they have arrived.
 *
 * The first snapshot is of the checkpoint at which the replay was started.  When snapshots take
 * more than the budget, some are given up: those with near neighbours, far from the current moment.
 *
 * Replay is exact, so a snapshot of a moment stays valid.  Snapshots may be taken and given up in
 * any order.
 */
#ifndef DEBUGGER_SNAPSHOTS_H
#define DEBUGGER_SNAPSHOTS_H

#include "recording/position.h"
#include "recording/total-order.h"

typedef struct Snapshot Snapshot;

/* Drop all snapshots and take the first.  The replay is at a checkpoint, and @order there, too. */
void snapshots_begin(const TotalOrder *order, uint64_t budget);
/* Drop all snapshots. */
void snapshots_end(void);

/* Take a snapshot, unless there is one of this moment.  The replay is at the moment of @order. */
void snapshots_take(const TotalOrder *order);
/* Do not give up the snapshot of @moment, if there is one, until another is held. */
void snapshots_hold(uint64_t moment);
/* Restore memory, registers and the player's place in the logs. */
void snapshots_go(const Snapshot *snapshot);

/*
 * Return the last snapshot that is not after @moment, or NULL.  A snapshot is valid until
 * snapshots_take(), _begin() or _end().
 */
const Snapshot *snapshots_at(uint64_t moment);
/* Return the last snapshot at which @stream had made at most @position steps, or NULL. */
const Snapshot *snapshots_of(unsigned stream, Position position);

uint64_t snapshot_moment(const Snapshot *snapshot);
const TotalOrder *snapshot_order(const Snapshot *snapshot);

#endif
