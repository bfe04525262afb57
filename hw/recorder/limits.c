/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Periodic checks of a recording: limits, rate, free space on the disk, and whether the logs can be
 * written at all.
 *
 * A timer of the main loop does them ten times a second, with the BQL held; vCPUs are not involved.
 * The log writer counts what it writes.  The files of checkpoints are measured once a second, since
 * other code creates and removes them.
 */
#include "qemu/osdep.h"
#include "qemu/timer.h"
#include "qapi/qapi-events-recorder.h"

#include <sys/statvfs.h>

#include "base/disk-usage.h"
#include "hw/recorder/limits.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/session.h"
#include "recording/log-writer.h"

#define PERIOD_MS       100
#define SLOW_PERIODS    10

/* Free space is low below the smaller of these two. */
#define LOW_BYTES       (UINT64_C(256) << 20)
#define LOW_PERCENT     5

typedef struct Sample {
    int64_t us;                 /* g_get_monotonic_time() */
    uint64_t bytes;             /* of logs, written so far */
} Sample;

static struct {
    QEMUTimer *timer;           /* created by the first recording */
    const char *directory;
    LogWriter *writer;          /* NULL: nothing is recorded */
    RecorderLimits limits;
    int64_t started_us;
    unsigned periods;
    Sample before, last;        /* about a second apart, for the rate */
    uint64_t checkpoint_bytes;
    uint64_t free_bytes;
    bool knows_free;
    bool told_low;
} watch;

static struct {
    char *directory;            /* NULL: there was no recording */
    bool complete;
    char *reason;
} last_recording;

/* --- checks ------------------------------------------------------------------- */

/* Return the size of all checkpoints.  The writer knows that of the logs beside them. */
static uint64_t size_of_checkpoints(void)
{
    g_autoptr(GDir) entries = g_dir_open(watch.directory, 0, NULL);
    const char *name;
    uint64_t size = 0;

    while (entries && (name = g_dir_read_name(entries))) {
        if (g_str_has_prefix(name, "checkpoint-")) {
            g_autofree char *path = g_build_filename(watch.directory, name, NULL);

            size += disk_usage(path);
        }
    }
    return size;
}

static void look_at_disk(void)
{
    struct statvfs fs;
    uint64_t unit, threshold;

    if (statvfs(watch.directory, &fs) < 0) {
        watch.knows_free = false;
        return;
    }
    unit = fs.f_frsize;
    watch.free_bytes = fs.f_bavail * unit;
    watch.knows_free = true;
    threshold = MIN(LOW_BYTES, fs.f_blocks * unit / 100 * LOW_PERCENT);
    if (watch.free_bytes < threshold && !watch.told_low) {
        watch.told_low = true;
        qapi_event_send_recorder_low_disk_space(watch.directory, watch.free_bytes, threshold);
    }
}

static void look_slowly(void)
{
    watch.before = watch.last;
    watch.last = (Sample) { g_get_monotonic_time(), log_writer_written(watch.writer) };
    watch.checkpoint_bytes = size_of_checkpoints();
    look_at_disk();
}

static uint64_t stored_bytes(void)
{
    return log_writer_stored(watch.writer) + watch.checkpoint_bytes;
}

/* Return the name of the limit that is reached, or NULL. */
static const char *reached(void)
{
    if (watch.limits.bytes && stored_bytes() >= watch.limits.bytes) {
        return "max-bytes";
    }
    if (watch.limits.seconds > 0 &&
        (g_get_monotonic_time() - watch.started_us) / 1e6 >= watch.limits.seconds) {
        return "max-seconds";
    }
    return NULL;
}

static void look(void *opaque)
{
    const char *limit;

    if (!watch.writer) {
        return;
    }
    if (++watch.periods % SLOW_PERIODS == 0) {
        look_slowly();
    }
    /* vCPUs notice the failure at their next boundary, which may be far away. */
    if (!log_writer_ok(watch.writer)) {
        recorder_fail("the log cannot be written");
    }
    limit = reached();
    if (limit) {
        recorder_stop_because(limit);
    } else {
        timer_mod(watch.timer, qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + PERIOD_MS);
    }
}

/* --- the interface ------------------------------------------------------------ */

void recorder_limits_start(const char *directory, LogWriter *writer, const RecorderLimits *limits)
{
    QEMUTimer *timer = watch.timer ?: timer_new_ms(QEMU_CLOCK_REALTIME, look, NULL);

    memset(&watch, 0, sizeof(watch));
    watch.timer = timer;
    watch.directory = directory;
    watch.writer = writer;
    watch.limits = *limits;
    watch.started_us = g_get_monotonic_time();
    watch.last = (Sample) { .us = watch.started_us };
    look_slowly();
    timer_mod(timer, qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + PERIOD_MS);
}

void recorder_limits_end(bool complete, const char *reason)
{
    look_at_disk();             /* the disk may have filled up since */
    g_free(last_recording.directory);
    g_free(last_recording.reason);
    last_recording.directory = g_strdup(watch.directory);
    last_recording.reason = g_strdup(reason);
    last_recording.complete = complete;
    timer_del(watch.timer);
    watch.writer = NULL;
    watch.directory = NULL;
}

static void query_last(RecorderInfo *info)
{
    RecorderEnd *last = g_new0(RecorderEnd, 1);

    last->directory = g_strdup(last_recording.directory);
    last->complete = last_recording.complete;
    last->reason = g_strdup(last_recording.reason);
    info->last_recording = last;
}

void recorder_limits_query(RecorderInfo *info)
{
    int64_t us = g_get_monotonic_time() - watch.before.us;

    if (last_recording.directory) {
        query_last(info);
    }
    if (!watch.writer) {
        return;
    }
    info->has_stored_bytes = info->has_rate = true;
    info->stored_bytes = stored_bytes();
    info->rate = us > 0 ? (log_writer_written(watch.writer) - watch.before.bytes) * 1e6 / us : 0;
    info->has_free_bytes = watch.knows_free;
    info->free_bytes = watch.free_bytes;
    info->has_max_bytes = watch.limits.bytes > 0;
    info->max_bytes = watch.limits.bytes;
    info->has_max_seconds = watch.limits.seconds > 0;
    info->max_seconds = watch.limits.seconds;
}
