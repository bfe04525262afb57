/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The debugger's recording: opens and closes it, parses moments, and waits for moves to end.
 * Main thread, BQL held.
 */
#include "qemu/osdep.h"
#include "hw/core/cpu.h"
#include "qapi/error.h"
#include "qemu/ctype.h"
#include "qemu/cutils.h"
#include "system/runstate.h"

#include "hw/recorder/recorder.h"
#include "recording/manifest.h"
#include "replay/debugger/debugger-internal.h"
#include "replay/debugger/snapshots.h"
#include "replay/player.h"

/* How often DebuggerWaitFn is called while the main thread waits. */
#define WAIT_MS 1000

bool debugger_active(void)
{
    return debugger.directory != NULL;
}

bool debugger_busy(void)
{
    return debugger.plan.going != STILL;
}

uint64_t debugger_moment(void)
{
    return debugger.now;
}

uint64_t debugger_first(void)
{
    return debugger.first;
}

uint64_t debugger_last(void)
{
    return debugger.last;
}

void debugger_query(RecorderInfo *info)
{
    if (debugger_active()) {
        info->has_moment = info->has_first_moment = info->has_last_moment = true;
        info->moment = debugger.now;
        info->first_moment = debugger.first;
        info->last_moment = debugger.last;
    }
}

/* --- moments, in words ------------------------------------------------------------------ */

/* Set *@moment to that of checkpoint @number.  Return false and set @errp if there is none. */
static bool find_checkpoint(const char *number, uint64_t *moment, Error **errp)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(TotalOrder) order = NULL;
    unsigned checkpoint;

    if (qemu_strtoui(number, NULL, 10, &checkpoint) < 0) {
        error_setg(errp, "'%s' is not the number of a checkpoint", number);
        return false;
    }
    order = total_order_open(debugger.directory, debugger.manifest, checkpoint, &error);
    if (!order) {
        error_setg(errp, "%s", error->message);
        return false;
    }
    *moment = total_order_moment(order);
    return true;
}

/* Set *@moment to what @at says, as for debugger_goto().  Return false and set @errp on failure. */
static bool parse_moment(const char *at, uint64_t *moment, Error **errp)
{
    const char *number;

    if (g_str_equal(at, "start")) {
        *moment = debugger.first;
    } else if (g_str_equal(at, "end")) {
        *moment = debugger.last;
    } else if (strstart(at, "checkpoint ", &number)) {
        return find_checkpoint(number, moment, errp);
    } else if (!qemu_isdigit(at[0]) || qemu_strtou64(at, NULL, 10, moment) < 0) {
        error_setg(errp, "'%s' is no moment: give a number of steps, start, end, or "
                   "checkpoint N", at);
        return false;
    }
    if (*moment < debugger.first || *moment > debugger.last) {
        error_setg(errp, "moment %" PRIu64 " is outside of the recording, which has moments %"
                   PRIu64 " to %" PRIu64, *moment, debugger.first, debugger.last);
        return false;
    }
    return true;
}

/* --- the interface ------------------------------------------------------------------- */

/*
 * Wait, without the BQL, until a leg ends or WAIT_MS have passed.  It may return early: legs that
 * ended while the main thread was not here have posted the semaphore, too.  The caller loops.
 */
static void wait_for_leg(void)
{
    int64_t now;

    bql_unlock();
    qemu_sem_timedwait(&debugger.event, WAIT_MS);
    bql_lock();
    now = g_get_monotonic_time();
    if (debugger.waiter.fn && now - debugger.waiter.told_us >= WAIT_MS * 1000) {
        debugger.waiter.fn(debugger.waiter.opaque);
        debugger.waiter.told_us = now;
    }
}

void debugger_tell_waiter(DebuggerWaitFn *fn, void *opaque)
{
    debugger.waiter.fn = fn;
    debugger.waiter.opaque = opaque;
    debugger.waiter.told_us = g_get_monotonic_time();
}

/* Move to @moment and return when the move has ended.  Return false and set @errp on failure. */
static bool go_and_wait(uint64_t moment, bool on_foot, Error **errp)
{
    if (debugger_busy()) {
        error_setg(errp, "the guest runs: stop it first");
        return false;
    }
    debugger.plan = (Plan) {
        .going = TO, .target = moment, .reason = STOP_THERE, .on_foot = on_foot,
    };
    error_free(debugger.failure);
    debugger.failure = NULL;
    debugger.waits = true;
    vm_start();
    while (debugger_busy()) {
        wait_for_leg();
        debugger_continue_way();
    }
    debugger.waits = false;
    if (debugger.now != moment) {
        if (debugger.failure) {
            error_propagate(errp, g_steal_pointer(&debugger.failure));
        } else {
            error_setg(errp, "the replay differs from the recording");
        }
        return false;
    }
    return true;
}

bool debugger_goto(const char *at, Error **errp)
{
    uint64_t moment;

    return parse_moment(at, &moment, errp) && go_and_wait(moment, false, errp);
}

bool debugger_jump(uint64_t moment, Error **errp)
{
    return go_and_wait(moment, false, errp);
}

bool debugger_walk(uint64_t moment, Error **errp)
{
    return go_and_wait(moment, true, errp);
}

TotalOrder *debugger_order(uint64_t moment)
{
    TotalOrder *order = total_order_copy(snapshot_order(snapshots_at(moment)));

    total_order_follow(order, moment, NULL);
    return order;
}

void debugger_look_at(CPUState *cpu)
{
    debugger.looked_at = cpu;
}

void debugger_go_alone(CPUState *cpu)
{
    debugger.alone = cpu;
}

const char *debugger_end_met(void)
{
    return debugger.history;
}

CPUState *debugger_looks_at(void)
{
    return debugger.looked_at ?: debugger.shown.cpu ?: first_cpu;
}

static void close_debugger(void)
{
    if (recorder_replaying()) {
        player_leave();
    }
    player_forget_console();
    snapshots_end();
    error_free(debugger.failure);
    debugger.failure = NULL;
    g_clear_pointer(&debugger.order, total_order_free);
    g_clear_pointer(&debugger.manifest, manifest_free);
    g_clear_pointer(&debugger.directory, g_free);
    g_clear_pointer(&debugger.order_name, g_free);
}

/* Set the first and the last moment of the recording.  Return false and set @errp on failure. */
static bool find_bounds(Error **errp)
{
    g_autoptr(GError) error = NULL;
    unsigned n = debugger.manifest->checkpoints->len;
    g_autoptr(TotalOrder) first =
        total_order_open(debugger.directory, debugger.manifest, 0, &error);
    g_autoptr(TotalOrder) last = first ? total_order_open(debugger.directory, debugger.manifest,
                                                          n - 1, &error) : NULL;

    if (last) {
        total_order_follow(last, UINT64_MAX, &error);
    }
    if (error) {
        error_setg(errp, "%s", error->message);
        return false;
    }
    debugger.first = total_order_moment(first);
    debugger.last = total_order_moment(last);
    return true;
}

bool debugger_open(const char *directory, const char *order, const char *at,
                   uint64_t snapshot_bytes, Error **errp)
{
    g_autoptr(GError) error = NULL;
    uint64_t moment;

    if (recorder_active()) {
        error_setg(errp, "a recording is being made or replayed already");
        return false;
    }
    if (runstate_is_running()) {
        error_setg(errp, "the guest runs: stop it first");
        return false;
    }
    if (!debugger.bh) {
        debugger.bh = qemu_bh_new(debugger_leg_ended, NULL);
        qemu_sem_init(&debugger.event, 0);
    }
    debugger.manifest = manifest_load(directory, &error);
    if (!debugger.manifest || !manifest_check_replayable(debugger.manifest, &error) ||
        !manifest_follow(debugger.manifest, directory, order, &error)) {
        error_setg(errp, "%s", error->message);
        g_clear_pointer(&debugger.manifest, manifest_free);
        return false;
    }
    debugger.directory = g_strdup(directory);
    debugger.order_name = g_strdup(order);
    debugger.shown.cpu = NULL;
    debugger.shown.moment = UINT64_MAX;         /* no hit was shown: the first moment may be one */
    debugger.looked_at = debugger.alone = NULL;
    debugger.snapshot_bytes = snapshot_bytes;
    if (!find_bounds(errp) || !parse_moment(at, &moment, errp) ||
        !debugger_begin_at(total_order_checkpoint(directory, debugger.manifest, moment), errp) ||
        !debugger_goto(at, errp)) {
        close_debugger();
        return false;
    }
    return true;
}
