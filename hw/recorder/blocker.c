/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prevents saving, migrating and loading a guest that is recorded or replayed.
 *
 * Checkpoints of a recording and snapshots of the debugger learn from QEMU's dirty bits for
 * migration which pages were written (hw/recorder/machine-state.c).  Savevm, snapshot jobs and all
 * modes of migration clear these bits.  Then the next checkpoint would lack pages, and nothing
 * would show it.  All of them test for migration blockers first.  Two commands do not, and are
 * refused by hooks: measuring the dirty rate with these bits, and loading a state, which changes
 * the guest without the recorder's knowledge.
 *
 * A replay has devices that do nothing, so there is nothing to save in the first place.
 *
 * Main thread, BQL held.
 */
#include "qemu/osdep.h"
#include "migration/blocker.h"
#include "migration/misc.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-migration.h"
#include "system/runstate.h"

#include "hw/recorder/blocker.h"
#include "hw/recorder/recorder.h"

static Error *blocker;          /* NULL: nothing is blocked */

/* Set @errp to what is refused, why, and what the user can do. */
static void refuse(const char *what, const char *since, bool replaying, Error **errp)
{
    if (replaying) {
        error_setg(errp, "cannot %s while a recording is replayed, since its devices do nothing: "
                   "end the replay first", what);
    } else {
        error_setg(errp, "cannot %s while a recording is made, since it %s: "
                   "end it with recorder-stop first", what, since);
    }
}

bool recorder_refuses_load_slow(Error **errp)
{
    refuse("load a saved state", "could not follow that", recorder_replaying(), errp);
    return true;
}

bool recorder_refuses_dirty_rate_slow(Error **errp)
{
    refuse("measure the dirty rate in this mode", "needs the dirty bits of memory for itself",
           recorder_replaying(), errp);
    return true;
}

/* Return true from the command on, even if the measuring thread does not run yet. */
static bool dirty_bits_are_counted(void)
{
    g_autoptr(DirtyRateInfo) info = qmp_query_dirty_rate(false, 0, &error_abort);

    return info->mode != DIRTY_RATE_MEASURE_MODE_PAGE_SAMPLING &&
           (info->status == DIRTY_RATE_STATUS_MEASURING ||
            (info->status == DIRTY_RATE_STATUS_UNSTARTED && info->start_time > 0));
}

/* Return what uses the dirty bits or loads a state now, and what the user can do; NULL: nothing. */
static const char *find_user(void)
{
    if (runstate_check(RUN_STATE_INMIGRATE) || migration_in_incoming_postcopy()) {
        return "the guest is being received by a migration: wait until that is complete";
    }
    if (runstate_check(RUN_STATE_SAVE_VM)) {
        return "a snapshot is being saved: wait until that is done";
    }
    if (migration_is_running()) {
        return "a migration is under way: wait for its end, or end it with migrate_cancel";
    }
    if (dirty_bits_are_counted()) {
        return "the dirty rate is being measured: wait until query-dirty-rate says 'measured'";
    }
    return NULL;
}

/* Block with an internal blocker, which is allowed with -only-migratable: it is temporary. */
bool recorder_block_others(bool replaying, Error **errp)
{
    const char *user = find_user();

    if (blocker) {
        /* Another start is under way: pausing the guest lets the main loop do other work. */
        error_setg(errp, "a recording is being made or replayed already");
        return false;
    }
    if (user) {
        error_setg(errp, "cannot %s now: %s", replaying ? "replay" : "record", user);
        return false;
    }
    refuse("save or migrate the guest", "needs the dirty bits of memory for itself", replaying,
           &blocker);
    return migrate_add_blocker_internal(&blocker, errp) == 0;
}

void recorder_unblock_others(void)
{
    migrate_del_blocker(&blocker);
}
