/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checkpoints that are made while recording: replay can begin at any of them.
 *
 * All vCPUs are brought to a boundary and devices are kept from memory, so what is saved is a
 * cut of the recording that is closed under its arcs: whatever a step before it waited for lies
 * before it, too.  The logs get a block boundary there.  The guest goes on as soon as what has
 * changed in memory is in the page cache; a thread waits for the disk.  A checkpoint counts
 * when its place is written, and the manifest names it.
 *
 * Main thread, big lock held, but for that thread, which has the manifest to itself meanwhile.
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "hw/core/cpu.h"
#include "qapi/error.h"
#include "qapi/qapi-events-recorder.h"
#include "system/cpus.h"
#include "system/runstate.h"

#include "hw/recorder/place.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/recorder-internal.h"
#include "hw/recorder/session.h"

/* One that is on its way to the disk. */
typedef struct Pending {
    GThread *thread;
    char *name;
    char *directory;
    RamImageWriter *ram;
    Place *place;
    double pause_s;
    uint64_t bytes;             /* of memory that had changed */
    GError *error;
} Pending;

static struct {
    const char *recording;      /* NULL: nothing is recorded */
    Manifest *manifest;
    LogWriter *writer;
    int64_t interval_ms;
    QEMUTimer *timer;           /* NULL: nobody wants them regularly */
    Pending *pending;
} checkpoints;

/* --- the thread --------------------------------------------------------------- */

static bool finish(Pending *pending, GError **error)
{
    g_autofree char *place = g_build_filename(pending->directory, PLACE_FILE, NULL);

    if (!log_places_wait(pending->place->logs, error) || !ram_image_close(pending->ram, error) ||
        !place_save(pending->place, place, error)) {
        return false;
    }
    manifest_add_checkpoint(checkpoints.manifest, pending->name);
    return manifest_save(checkpoints.manifest, checkpoints.recording, error);
}

static void pending_free(Pending *pending)
{
    ram_image_writer_free(pending->ram);
    place_free(pending->place);
    g_clear_error(&pending->error);
    g_free(pending->directory);
    g_free(pending->name);
    g_free(pending);
}

/* It may have been waited for already. */
static void join(void)
{
    Pending *pending = checkpoints.pending;

    if (!pending) {
        return;
    }
    checkpoints.pending = NULL;
    g_thread_join(pending->thread);
    if (pending->error) {
        recorder_fail("%s", pending->error->message);
    } else {
        qapi_event_send_recorder_checkpoint(pending->name, pending->pause_s, pending->bytes);
    }
    pending_free(pending);
}

static void finished(void *opaque)
{
    if (checkpoints.pending == opaque) {
        join();
    }
}

static void *finish_thread(void *opaque)
{
    Pending *pending = opaque;

    finish(pending, &pending->error);
    aio_bh_schedule_oneshot(qemu_get_aio_context(), finished, pending);
    return NULL;
}

/* --- making one ----------------------------------------------------------------- */

/* All vCPUs are at a boundary. */
static Place *where(void)
{
    Place *place = place_new(checkpoints.manifest->n_vcpus);
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        RecorderVcpu *v = cpu->recorder;

        place->point->at[cpu->cpu_index] = recorder_position(cpu);
        place->stores[cpu->cpu_index] = v->store_hash;
        place->logged[cpu->cpu_index] = v->logged;
    }
    place->dma_steps = recorder_dma_steps();
    place->logs = log_writer_places(checkpoints.writer);
    return place;
}

static bool save(Pending *pending, Error **errp)
{
    bool was_running = runstate_is_running();
    int64_t began = g_get_monotonic_time();

    if (was_running) {
        pause_all_vcpus();
    }
    recorder_dma_hold();
    pending->ram = checkpoint_save_changes(pending->directory, &pending->bytes, errp);
    if (pending->ram) {
        pending->place = where();
    }
    recorder_dma_release();
    if (was_running) {
        resume_all_vcpus();
    }
    pending->pause_s = (g_get_monotonic_time() - began) / 1e6;
    return pending->ram;
}

static bool begin(Error **errp)
{
    unsigned number = checkpoints.manifest->checkpoints->len;
    Pending *pending = g_new0(Pending, 1);
    ERRP_GUARD();

    pending->name = g_strdup_printf("checkpoint-%u", number);
    pending->directory = g_build_filename(checkpoints.recording, pending->name, NULL);
    if (!save(pending, errp)) {
        /* What had changed is forgotten, so no later one would be right. */
        recorder_fail("%s", error_get_pretty(*errp));
        pending_free(pending);
        return false;
    }
    checkpoints.pending = pending;
    pending->thread = g_thread_new("checkpoint", finish_thread, pending);
    return true;
}

char *recorder_checkpoint(Error **errp)
{
    if (!checkpoints.recording) {
        error_setg(errp, "nothing is being recorded");
        return NULL;
    }
    if (checkpoints.pending) {
        error_setg(errp, "%s is still being written: wait for RECORDER_CHECKPOINT",
                   checkpoints.pending->name);
        return NULL;
    }
    if (checkpoints.manifest->checkpoints->len >= MANIFEST_MAX_CHECKPOINTS) {
        error_setg(errp, "a recording has at most %u checkpoints", MANIFEST_MAX_CHECKPOINTS);
        return NULL;
    }
    return begin(errp) ? g_strdup(checkpoints.pending->name) : NULL;
}

/* --- regularly ------------------------------------------------------------------- */

static void set_timer(void)
{
    timer_mod(checkpoints.timer,
              qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + checkpoints.interval_ms);
}

/* One that is still being written when the next is due takes its turn, too. */
static void is_due(void *opaque)
{
    if (runstate_is_running() && !checkpoints.pending) {
        g_free(recorder_checkpoint(NULL));
    }
    set_timer();
}

void recorder_checkpoints_start(const char *directory, Manifest *manifest, LogWriter *writer,
                                double interval_s)
{
    checkpoints.recording = directory;
    checkpoints.manifest = manifest;
    checkpoints.writer = writer;
    checkpoints.interval_ms = interval_s * 1000;
    if (interval_s > 0) {
        checkpoints.timer = timer_new_ms(QEMU_CLOCK_REALTIME, is_due, NULL);
        set_timer();
    }
}

void recorder_checkpoints_stop(void)
{
    g_clear_pointer(&checkpoints.timer, timer_free);
    join();
    checkpoints.recording = NULL;
}
