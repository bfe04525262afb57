/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Moments of a replay that one can go back to at once, kept in memory: the snapshots of a debugger.
 * Main thread, big lock held, all vCPUs paused where a replay has arrived.
 *
 * The first is the checkpoint at which the replay began.  The others come and go: when they take
 * more than the budget, those are given up that others are close to, as seen from where one is.
 */
#ifndef DEBUGGER_SNAPSHOTS_H
#define DEBUGGER_SNAPSHOTS_H

#include "recording/position.h"
#include "recording/total-order.h"

typedef struct Snapshot Snapshot;

/* The replay stands at its checkpoint, of which @order is. */
void snapshots_begin(const TotalOrder *order, uint64_t budget);
void snapshots_end(void);

/* It stands where @order does. */
void snapshots_take(const TotalOrder *order);
/* That of this moment, if there is one, is not given up until another is held. */
void snapshots_hold(uint64_t moment);
/* Memory, registers and logs are as they were then. */
void snapshots_go(const Snapshot *snapshot);

/*
 * The last that is not after @moment; the last in which @stream had not made more steps than
 * @position.  NULL: there is none.
 */
const Snapshot *snapshots_at(uint64_t moment);
const Snapshot *snapshots_of(unsigned stream, Position position);

uint64_t snapshot_moment(const Snapshot *snapshot);
const TotalOrder *snapshot_order(const Snapshot *snapshot);

#endif
