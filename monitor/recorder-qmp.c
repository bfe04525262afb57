/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QMP commands of the recorder, but for query-recorder, which is in recorder-status.c.  Main
 * thread, big lock held; recorder-start runs in a coroutine.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-recorder-replay.h"
#include "qapi/qapi-commands-recorder.h"
#include "system/runstate.h"

#include "hw/recorder/checkpointer.h"
#include "hw/recorder/hold.h"
#include "hw/recorder/live.h"
#include "hw/recorder/session.h"
#include "replay/epoch-check.h"
#include "replay/player.h"

void coroutine_fn qmp_recorder_start(const char *directory,
                                     bool has_digest_interval, uint64_t digest_interval,
                                     bool has_checkpoint_interval, double checkpoint_interval,
                                     bool has_keep_seconds, double keep_seconds,
                                     bool has_live_checkpoints, bool live_checkpoints,
                                     bool has_epochs, uint32_t epochs, bool has_hold,
                                     uint64_t hold, bool has_standby, bool standby,
                                     const char *protocol,
                                     bool has_slow_path, bool slow_path,
                                     bool has_max_bytes, uint64_t max_bytes,
                                     bool has_max_seconds, double max_seconds,
                                     bool has_x_chaos, uint64_t x_chaos, Error **errp)
{
    RecorderOptions options = {
        .digest_interval = has_digest_interval ? digest_interval : RECORDER_DIGEST_INTERVAL,
        .slow_path = has_slow_path && slow_path,
        .checkpoint_interval_s = has_checkpoint_interval ? checkpoint_interval : 0,
        .keep_s = has_keep_seconds ? keep_seconds : 0,
        .epoch_ms = has_epochs ? epochs : 0,
        .hold = has_hold ? hold : 0,
        .live = has_live_checkpoints && live_checkpoints,
        .standby = has_standby && standby,
        .limits.bytes = has_max_bytes ? max_bytes : 0,
        .limits.seconds = has_max_seconds ? max_seconds : 0,
        .chaos = has_x_chaos ? x_chaos : 0,
    };
    g_autoptr(GError) error = NULL;

    if ((has_max_bytes && max_bytes == 0) || (has_max_seconds && !(max_seconds > 0))) {
        error_setg(errp, "a limit of 0: give %s more, or none", has_max_bytes && max_bytes == 0 ?
                   "max-bytes" : "max-seconds");
        return;
    }
    if (!orders_parse(protocol ?: "fdr", &options.orders, &error)) {
        error_setg(errp, "%s", error->message);
        return;
    }
    recorder_start(directory, &options, errp);
}

RecorderCheckpoint *qmp_recorder_checkpoint(Error **errp)
{
    char *name = recorder_checkpoint(errp);
    RecorderCheckpoint *checkpoint;

    if (!name) {
        return NULL;
    }
    checkpoint = g_new0(RecorderCheckpoint, 1);
    checkpoint->name = name;
    return checkpoint;
}

void qmp_recorder_stop(bool has_pause, bool pause, Error **errp)
{
    recorder_stop(has_pause && pause, errp);
}

RecorderReleased *qmp_recorder_release(uint64_t epoch, Error **errp)
{
    RecorderReleased *released;
    uint64_t sent;

    if (!recorder_hold_release(epoch, &sent, errp)) {
        return NULL;
    }
    released = g_new0(RecorderReleased, 1);
    released->sent = sent;
    return released;
}

void qmp_recorder_live(const char *directory, bool has_from, uint32_t from, Error **errp)
{
    recorder_live(directory, has_from, from, errp);
}

void qmp_recorder_replay(const char *directory, RecorderTrace *trace, bool has_threads,
                         RecorderThreads threads, bool has_from, uint32_t from,
                         bool has_until, uint64_t until, RecorderWatch *watch,
                         bool has_order, RecorderOrder order, bool has_paranoid,
                         uint64_t paranoid, bool has_follow, bool follow, bool has_standby,
                         bool standby, bool has_x_chaos, uint64_t x_chaos, bool has_x_positions,
                         bool x_positions, Error **errp)
{
    PlayerTrace wanted;
    PlayerWatch watched;
    PlayerOptions options = {
        .has_from = has_from,
        .from = from,
        .one_at_a_time = has_threads && threads == RECORDER_THREADS_SINGLE,
        .has_until = has_until,
        .until = until,
        .chaos = has_x_chaos ? x_chaos : 0,
        .trace = trace ? &wanted : NULL,
        .watch = watch ? &watched : NULL,
        .order = has_order ? RecorderOrder_str(order) : NULL,
        .by_positions = has_x_positions && x_positions,
        .paranoid = has_paranoid ? paranoid : 0,
        .follow = (has_follow && follow) || (has_standby && standby),
        .standby = has_standby && standby,
    };

    if (runstate_is_running()) {
        error_setg(errp, "the guest runs already: start QEMU with -S to replay");
        return;
    }
    if (options.standby && (trace || watch || options.paranoid || options.one_at_a_time)) {
        error_setg(errp, "a standby is not for experiments: no trace, watch, paranoid, threads");
        return;
    }
    if (trace) {
        wanted = (PlayerTrace) {
            .directory = trace->directory,
            .interval = trace->has_interval ? trace->interval : RECORDER_DIGEST_INTERVAL,
            .from = trace->from,
            .to = trace->to,
        };
    }
    if (watch) {
        watched = (PlayerWatch) {
            .address = watch->address,
            .size = watch->has_size ? watch->size : sizeof(uint64_t),
            .reads = !watch->has_reads || watch->reads,
            .writes = !watch->has_writes || watch->writes,
            .file = watch->file,
        };
    }
    player_start(directory, &options, errp);
}

void qmp_recorder_take_over(uint64_t released, Error **errp)
{
    epoch_check_take_over(released, errp);
}
