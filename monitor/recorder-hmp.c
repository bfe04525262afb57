/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The recorder's commands in the human monitor.  Each calls its QMP twin, which does the work.
 * Main thread, big lock held.
 */
#include "qemu/osdep.h"
#include "monitor/hmp.h"
#include "monitor/monitor.h"
#include "monitor/recorder-status.h"
#include "qapi/qapi-commands-recorder.h"
#include "qapi/qapi-types-recorder.h"
#include "qobject/qdict.h"


/* Unlike in QMP, 0 means no limit, so that max-seconds can be given without max-bytes. */
void coroutine_fn hmp_recorder_start(Monitor *mon, const QDict *qdict)
{
    int64_t max_bytes = qdict_get_try_int(qdict, "max-bytes", 0);
    double max_seconds = qdict_haskey(qdict, "max-seconds")
                         ? qdict_get_double(qdict, "max-seconds") : 0;
    Error *error = NULL;

    qmp_recorder_start(qdict_get_str(qdict, "directory"), false, 0, false, 0, false, 0, false,
                       false, false, 0, false, 0, false, false, NULL, false, false, max_bytes != 0,
                       max_bytes, max_seconds != 0, max_seconds, false, 0, &error);
    hmp_handle_error(mon, error);
}

void hmp_recorder_checkpoint(Monitor *mon, const QDict *qdict)
{
    Error *error = NULL;
    g_autoptr(RecorderCheckpoint) checkpoint = qmp_recorder_checkpoint(&error);

    if (!hmp_handle_error(mon, error)) {
        monitor_printf(mon, "%s\n", checkpoint->name);
    }
}

void hmp_recorder_stop(Monitor *mon, const QDict *qdict)
{
    bool pause = qdict_get_try_bool(qdict, "pause", false);
    Error *error = NULL;

    qmp_recorder_stop(pause, pause, &error);
    hmp_handle_error(mon, error);
}

void hmp_info_recorder(Monitor *mon, const QDict *qdict)
{
    Error *error = NULL;
    g_autoptr(RecorderInfo) info = qmp_query_recorder(&error);
    g_autofree char *text = NULL;

    if (!hmp_handle_error(mon, error)) {
        text = recorder_status_text(info);
        monitor_puts(mon, text);
    }
}
