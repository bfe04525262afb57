/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QMP commands of the recorder.  They run in the main thread, with the big
 * lock held.
 */
#include "qemu/osdep.h"
#include "hw/boards.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-recorder.h"

#include "hw/recorder/log-format.h"
#include "hw/recorder/position.h"
#include "hw/recorder/version.h"

RecorderInfo *qmp_query_recorder(Error **errp)
{
    g_autoptr(RecorderInfo) info = g_new0(RecorderInfo, 1);
    unsigned n_vcpus = MACHINE(qdev_get_machine())->smp.cpus;
    g_autoptr(Point) start = NULL;

    if (n_vcpus > RECORDER_MAX_VCPUS) {
        error_setg(errp, "the guest has %u vCPUs; Reprise records at most %u",
                   n_vcpus, RECORDER_MAX_VCPUS);
        return NULL;
    }
    start = point_new(n_vcpus);
    info->version = g_strdup(reprise_version());
    info->patch_level = g_strdup(reprise_patch_level());
    info->log_version = LOG_VERSION;
    info->state = RECORDER_STATE_OFF;
    info->point = point_format(start);
    return g_steal_pointer(&info);
}
