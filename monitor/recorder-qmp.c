/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QMP commands of the recorder.  They run in the main thread, with the big
 * lock held.
 */
#include "qemu/osdep.h"
#include "hw/boards.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-recorder.h"
#include "system/runstate.h"

#include "hw/recorder/log-format.h"
#include "hw/recorder/position.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/session.h"
#include "hw/recorder/version.h"
#include "replay/player.h"

RecorderInfo *qmp_query_recorder(Error **errp)
{
    g_autoptr(RecorderInfo) info = g_new0(RecorderInfo, 1);
    unsigned n_vcpus = MACHINE(qdev_get_machine())->smp.cpus;
    g_autoptr(Point) point = NULL;

    if (n_vcpus > RECORDER_MAX_VCPUS) {
        error_setg(errp, "the guest has %u vCPUs; Reprise records at most %u",
                   n_vcpus, RECORDER_MAX_VCPUS);
        return NULL;
    }
    point = point_new(n_vcpus);
    info->version = g_strdup(reprise_version());
    info->patch_level = g_strdup(reprise_patch_level());
    info->log_version = LOG_VERSION;
    info->state = recorder_replaying() ? RECORDER_STATE_REPLAYING :
                  recorder_recording() ? RECORDER_STATE_RECORDING : RECORDER_STATE_OFF;
    recorder_query_point(point);
    info->point = point_format(point);
    return g_steal_pointer(&info);
}

void qmp_recorder_start(const char *directory, bool has_digest_interval, uint64_t digest_interval,
                        Error **errp)
{
    recorder_start(directory, has_digest_interval ? digest_interval : RECORDER_DIGEST_INTERVAL,
                   errp);
}

void qmp_recorder_stop(bool has_pause, bool pause, Error **errp)
{
    recorder_stop(has_pause && pause, errp);
}

void qmp_recorder_replay(const char *directory, RecorderTrace *trace, Error **errp)
{
    PlayerTrace wanted;

    if (runstate_is_running()) {
        error_setg(errp, "the guest runs already: start QEMU with -S to replay");
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
    player_start(directory, trace ? &wanted : NULL, errp);
}
