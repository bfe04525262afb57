/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See digest-trace.h.
 */
#include "qemu/osdep.h"
#include "qemu/error-report.h"
#include "qapi/error.h"

#include "hw/recorder/session.h"
#include "hw/recorder/target.h"
#include "hw/recorder/vcpu.h"
#include "replay/digest-trace.h"

static LogWriter *trace_log;    /* NULL: there is no trace */

/* Return the point that @text says.  Return NULL without an error if @text is NULL. */
static Point *parse_point(const char *text, unsigned n_vcpus, Error **errp)
{
    g_autoptr(GError) error = NULL;
    Point *point = text ? point_parse(text, n_vcpus, &error) : NULL;

    if (error) {
        error_setg(errp, "%s", error->message);
    }
    return point;
}

bool digest_trace_start(const PlayerTrace *trace, RecorderVcpu *v[], unsigned n_vcpus, Error **errp)
{
    ERRP_GUARD();
    g_autoptr(Point) from = parse_point(trace->from, n_vcpus, errp);
    g_autoptr(Point) to = *errp ? NULL : parse_point(trace->to, n_vcpus, errp);
    g_autoptr(GError) error = NULL;

    if (!*errp && trace->interval == 0) {
        error_setg(errp, "a trace interval of 0 steps: give at least 1");
    }
    if (*errp || !recorder_make_directory(trace->directory, errp)) {
        return false;
    }
    trace_log = log_writer_new(trace->directory, n_vcpus, ORDER_SET_FDR, &error);
    if (!trace_log || !register_set_save(recorder_register_set, trace->directory, &error)) {
        error_setg(errp, "%s", error->message);
        return false;
    }
    for (unsigned i = 0; i < n_vcpus; i++) {
        v[i]->log = log_writer_stream(trace_log, i);
        recorder_digest_every(v[i], trace->interval, from ? from->at[i] : 0,
                              to ? to->at[i] : UINT64_MAX);
    }
    return true;
}

void digest_trace_end(void)
{
    g_autoptr(GError) error = NULL;

    if (trace_log && !log_writer_finish(trace_log, &error)) {
        error_report("the trace is not complete: %s", error->message);
    }
    digest_trace_drop();
}

void digest_trace_drop(void)
{
    g_clear_pointer(&trace_log, log_writer_free);
}
