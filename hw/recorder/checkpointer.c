/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checkpoints that are made while recording: replay can begin at any of them.
 *
 * All vCPUs are brought to a boundary, and devices are kept from writing memory.  So what is saved
 * is a cut of the recording that is closed under its arcs: if a step before the cut waited for
 * another step, that one lies before the cut as well.  Each log gets a block boundary there.  The
 * guest goes on as soon as the changed memory is in the page cache; a thread waits for the disk.  A
 * checkpoint is valid when its position file is written and the manifest names it.
 *
 * A flight recorder keeps only the last seconds.  Let C be the newest checkpoint that is older than
 * that.  Logs and checkpoints before C can go, once C has a whole image of memory.  The image is
 * made when that frees enough space.
 *
 * Main thread, BQL held, except for the thread, which has the manifest to itself while it runs.
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "qemu/units.h"
#include "hw/boards.h"
#include "hw/core/cpu.h"
#include "qapi/error.h"
#include "qapi/qapi-events-recorder.h"
#include "system/cpus.h"
#include "system/runstate.h"

#include "hw/recorder/checkpointer.h"
#include "hw/recorder/dma.h"
#include "hw/recorder/episodes.h"
#include "hw/recorder/machine-state.h"
#include "hw/recorder/paused.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/session.h"
#include "hw/recorder/stand-still.h"
#include "hw/recorder/vcpu.h"
#include "recording/checkpoint-position.h"
#include "recording/checkpoint-sums.h"
#include "recording/log-writer.h"
#include "recording/manifest.h"
#include "recording/position.h"
#include "recording/ram-image.h"

/* Logs that a flight recorder does not need are dropped when they are larger than this. */
#define MOST_OLD_LOG_BYTES (64 * MiB)

/* A checkpoint that is being written to disk. */
typedef struct Pending {
    GThread *thread;
    char *name;
    char *directory;
    RamImageWriter *ram;
    CheckpointPosition *place;
    int64_t made_us;
    double pause_s;
    uint64_t bytes;             /* size of the memory that had changed */
    GError *error;
} Pending;

/* A checkpoint on disk. */
typedef struct Kept {
    char *name;
    int64_t made_us;
    uint64_t ram_bytes;         /* size of its RAM image */
    CheckpointPosition *place;               /* NULL: the start */
} Kept;

static struct {
    const char *recording;      /* NULL: nothing is recorded */
    int recording_fd;
    Manifest *manifest;
    LogWriter *writer;
    unsigned n_made;
    int64_t interval_ms;
    QEMUTimer *timer;           /* NULL: no regular checkpoints */
    Pending *pending;
    int64_t keep_us;            /* 0: keep all */
    GPtrArray *kept;            /* of Kept, oldest first; the thread's while it runs */
} checkpoints;

/* --- the thread: dropping old checkpoints ------------------------------------------- */

static void kept_free(void *opaque)
{
    Kept *kept = opaque;

    checkpoint_position_free(kept->place);
    g_free(kept->name);
    g_free(kept);
}

static Kept *kept_at(unsigned i)
{
    return g_ptr_array_index(checkpoints.kept, i);
}

static char *path_of(const Kept *kept, const char *file)
{
    return g_build_filename(checkpoints.recording, kept->name, file, NULL);
}

static uint64_t file_size(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 ? status.st_size : 0;
}

static void keep(const char *name, int64_t made_us, CheckpointPosition *place)
{
    Kept *kept = g_new0(Kept, 1);
    g_autofree char *ram = NULL;

    kept->name = g_strdup(name);
    kept->made_us = made_us;
    kept->place = place;
    ram = path_of(kept, RAM_IMAGE_FILE);
    kept->ram_bytes = file_size(ram);
    g_ptr_array_add(checkpoints.kept, kept);
}

static uint64_t log_bytes_before(const Kept *kept)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; kept->place && i < kept->place->logs->n_streams * LOG_SUBSTREAMS; i++) {
        bytes += kept->place->logs->place[i].offset;
    }
    return bytes;
}

/*
 * Return true if enough space is gained by letting the recording begin at checkpoint @first.  That
 * costs the writing of a whole image.
 */
static bool is_worth_it(unsigned first)
{
    uint64_t changes = 0;

    for (unsigned i = 1; i <= first; i++) {
        changes += kept_at(i)->ram_bytes;
    }
    return changes > kept_at(0)->ram_bytes / 2 ||
           log_bytes_before(kept_at(first)) - log_bytes_before(kept_at(0)) > MOST_OLD_LOG_BYTES;
}

/* Save the manifest in the directory that was opened, even if it has been renamed. */
static bool save_manifest(GError **error)
{
    return manifest_save_at(checkpoints.manifest, checkpoints.recording_fd, checkpoints.recording,
                            error);
}

static bool merge(unsigned first, GError **error)
{
    g_autoptr(GPtrArray) paths = g_ptr_array_new_with_free_func(g_free);
    g_autofree char *directory = path_of(kept_at(first), "");

    for (unsigned i = 0; i <= first; i++) {
        g_ptr_array_add(paths, path_of(kept_at(i), RAM_IMAGE_FILE));
    }
    if (!ram_image_merge((char *const *)paths->pdata, paths->len, error)) {
        return false;
    }
    kept_at(first)->ram_bytes = file_size(paths->pdata[first]);
    return checkpoint_sync(directory, error);
}

static void drop_logs(const Kept *first)
{
    unsigned n = first->place->n_vcpus;
    g_autofree Position *reached = g_new0(Position, n + 1);

    memcpy(reached, first->place->point->at, n * sizeof(Position));
    reached[n] = first->place->dma_steps;
    log_writer_drop(checkpoints.writer, first->place->logs, reached);
}

/*
 * Let the recording begin at checkpoint @first.  The order of operations ensures that a recorder
 * which is killed at any moment leaves a recording that can be replayed: the manifest never names a
 * checkpoint whose logs or memory are gone.
 */
static bool begin_at(unsigned first, GError **error)
{
    if (!merge(first, error)) {
        return false;
    }
    g_ptr_array_remove_range(checkpoints.manifest->checkpoints, 0, first);
    if (!save_manifest(error)) {
        return false;
    }
    drop_logs(kept_at(first));
    for (unsigned i = 0; i < first; i++) {
        g_autofree char *old = path_of(kept_at(i), "");

        checkpoint_remove(old);
    }
    g_ptr_array_remove_range(checkpoints.kept, 0, first);
    return true;
}

static bool drop_what_is_old(GError **error)
{
    int64_t limit = g_get_monotonic_time() - checkpoints.keep_us;
    unsigned first = 0;

    while (first + 1 < checkpoints.kept->len && kept_at(first + 1)->made_us <= limit) {
        first++;
    }
    return !checkpoints.keep_us || !first || !is_worth_it(first) || begin_at(first, error);
}

/* --- the thread: completing a checkpoint ------------------------------------------ */

static bool complete(Pending *pending, GError **error)
{
    g_autofree char *place = g_build_filename(pending->directory, CHECKPOINT_POSITION_FILE, NULL);

    return log_places_wait(pending->place->logs, error) && ram_image_close(pending->ram, error) &&
           checkpoint_position_save(pending->place, place, error) &&
           checkpoint_sync(pending->directory, error);
}

/*
 * Complete the checkpoint, and name it in the manifest.  From then on it is not removed on failure.
 */
static bool finish(Pending *pending, GError **error)
{
    if (!complete(pending, error)) {
        g_clear_pointer(&pending->ram, ram_image_writer_free);
        checkpoint_remove(pending->directory);
        return false;
    }
    manifest_add_checkpoint(checkpoints.manifest, pending->name);
    keep(pending->name, pending->made_us, g_steal_pointer(&pending->place));
    return save_manifest(error) && drop_what_is_old(error);
}

static void pending_free(Pending *pending)
{
    ram_image_writer_free(pending->ram);
    checkpoint_position_free(pending->place);
    g_clear_error(&pending->error);
    g_free(pending->directory);
    g_free(pending->name);
    g_free(pending);
}

/* Wait for the pending checkpoint and report it, unless that has been done already. */
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

/* --- making a checkpoint -------------------------------------------------------- */

CheckpointPosition *recorder_position_now(LogWriter *writer)
{
    CheckpointPosition *place = checkpoint_position_new(MACHINE(qdev_get_machine())->smp.cpus);
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        RecorderVcpu *v = cpu->recorder;

        place->point->at[cpu->cpu_index] = recorder_position(cpu);
        place->stores[cpu->cpu_index] = v->store_hash;
        place->logged[cpu->cpu_index] = v->logged;
    }
    place->dma_steps = recorder_dma_steps();
    recorder_episodes_cut(place->point, place->dma_steps, true);
    place->logs = log_writer_places(writer);
    return place;
}

/* Check that the directory is where it was: another directory may have its name by now. */
static bool is_there(Error **errp)
{
    g_autoptr(GError) error = NULL;

    if (!log_writer_check(checkpoints.writer, &error)) {
        error_setg(errp, "%s", error->message);
        return false;
    }
    return true;
}

/* Devices go on, unless their state is saved, too. */
static void stop(bool devices)
{
    if (devices) {
        recorder_stand_still();
    } else {
        pause_all_vcpus();
    }
}

static void go_on(bool devices)
{
    if (devices) {
        recorder_go_on();
    } else {
        resume_all_vcpus();
    }
}

static bool save_stopped(Pending *pending, Error **errp)
{
    /* While disks completed their requests, the main loop may have ended the recording. */
    if (!checkpoints.recording) {
        error_setg(errp, "the recording has ended meanwhile");
        return false;
    }
    recorder_finish_work();
    /* On its way to a boundary a vCPU may have failed, or QEMU have changed its registers. */
    if (recorder_failure()) {
        error_setg(errp, "the recording ends: %s", recorder_failure());
        return false;
    }
    recorder_dma_hold();
    pending->ram = machine_state_save_changes(pending->directory, checkpoints.manifest->live,
                                              &pending->bytes, errp);
    if (pending->ram) {
        pending->place = recorder_position_now(checkpoints.writer);
    }
    recorder_dma_release();
    return pending->ram;
}

static bool save(Pending *pending, Error **errp)
{
    bool devices = checkpoints.manifest->live;
    bool was_running = runstate_is_running();
    int64_t began = pending->made_us = g_get_monotonic_time();
    bool saved;

    if (!is_there(errp)) {
        return false;
    }
    if (was_running) {
        stop(devices);
    }
    saved = save_stopped(pending, errp);
    if (was_running) {
        go_on(devices);
    }
    pending->pause_s = (g_get_monotonic_time() - began) / 1e6;
    return saved && checkpoints.recording;      /* registers may have been changed meanwhile */
}

static bool begin(Error **errp)
{
    Pending *pending = g_new0(Pending, 1);
    ERRP_GUARD();

    pending->name = g_strdup_printf("checkpoint-%u", ++checkpoints.n_made);
    pending->directory = g_build_filename(checkpoints.recording, pending->name, NULL);
    if (!save(pending, errp)) {
        /* The dirty bits may be cleared already, so no later checkpoint would be right. */
        if (checkpoints.recording) {
            recorder_fail("%s", error_get_pretty(*errp));
        }
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
        error_setg(errp, recorder_recording() ? "the first checkpoint is still being written"
                                              : "nothing is being recorded");
        return NULL;
    }
    if (recorder_check_registers() || recorder_failure()) {
        error_setg(errp, "the recording ends: %s", recorder_failure());
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

/* --- regular checkpoints --------------------------------------------------------- */

static void set_timer(void)
{
    timer_mod(checkpoints.timer,
              qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + checkpoints.interval_ms);
}

/* Make a checkpoint, but skip it if the one before is still being written. */
static void is_due(void *opaque)
{
    if (runstate_is_running() && !checkpoints.pending) {
        g_free(recorder_checkpoint(NULL));
    }
    set_timer();
}

void recorder_checkpointer_start(const char *directory, int directory_fd, Manifest *manifest,
                                 LogWriter *writer, double interval_s, double keep_s)
{
    checkpoints.recording = directory;
    checkpoints.recording_fd = directory_fd;
    checkpoints.manifest = manifest;
    checkpoints.writer = writer;
    checkpoints.n_made = 0;
    checkpoints.interval_ms = interval_s * 1000;
    checkpoints.keep_us = keep_s * 1e6;
    checkpoints.kept = g_ptr_array_new_with_free_func(kept_free);
    keep(manifest->checkpoints->pdata[0], g_get_monotonic_time(), NULL);
    if (interval_s > 0) {
        checkpoints.timer = timer_new_ms(QEMU_CLOCK_REALTIME, is_due, NULL);
        set_timer();
    }
}

void recorder_checkpointer_stop(void)
{
    g_clear_pointer(&checkpoints.timer, timer_free);
    join();
    g_clear_pointer(&checkpoints.kept, g_ptr_array_unref);
    checkpoints.recording = NULL;
}
