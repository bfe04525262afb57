/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The end of an epoch (Respec, 4.1 and 4.4): all vCPUs are at a boundary and devices do not write,
 * as for a checkpoint.  So it is a cut that is closed under the arcs.  What is kept of it is a
 * line: how far everybody is, and digests of registers, device stores and memory.  Only what has
 * changed since the last epoch is read for the digest of memory.
 *
 * A thread writes the line when all logs up to the cut are in their files.  So whoever finds the
 * line can replay up to there, also while the recording goes on.
 *
 * With the state of devices, a standby can go on from the end of the epoch.  Then requests that
 * disks have begun are completed before.  Clocks stand still while QEMU saves them, but the guest's
 * time goes on: it would be slower by all these pauses otherwise.  Devices need not be told to
 * stop.  What they keep beside their state are packets on their way out, and hold.c takes these at
 * once.
 *
 * Respec rolls back where the replay differs.  Our log is complete, so a difference is a fault, and
 * there is nothing to be gained by trying again.
 *
 * Main thread, BQL held, but for the thread.
 */
#include "qemu/osdep.h"
#include "block/block.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "hw/boards.h"
#include "hw/core/cpu.h"
#include "qapi/error.h"
#include "qapi/qapi-events-recorder.h"
#include "system/cpus.h"
#include "system/runstate.h"

#include "hw/recorder/checkpointer.h"
#include "hw/recorder/dma.h"
#include "hw/recorder/epochs.h"
#include "hw/recorder/hold.h"
#include "hw/recorder/machine-state.h"
#include "hw/recorder/paused.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/session.h"
#include "hw/recorder/stand-still.h"
#include "hw/recorder/target.h"
#include "hw/recorder/vcpu.h"
#include "recording/disk-undo.h"
#include "recording/epoch-state.h"
#include "recording/epochs.h"

/* An epoch with output that is held lasts so long, unless the one before is being written then. */
#define OUTPUT_MS 50

/* An epoch whose logs are on their way to their files. */
typedef struct Pending {
    GThread *thread;
    Epoch *epoch;
    CheckpointPosition *place;
    GByteArray *state;          /* of vCPUs and devices; NULL: not wanted */
    double pause_s;
    uint64_t bytes;             /* size of the memory that had changed */
    GError *error;
} Pending;

static struct {
    int fd;                     /* of the file */
    const char *directory;      /* the recording, the session's */
    int directory_fd;
    LogWriter *writer;          /* NULL: there are no epochs */
    bool with_devices;          /* a standby can go on from each epoch */
    uint64_t first_state;       /* the first epoch whose state is in its file */
    bool is_ending;             /* an epoch is about to end */
    unsigned interval_ms;
    QEMUTimer *timer;
    int64_t began_ms;           /* when the last epoch ended */
    bool is_overdue;            /* an epoch was to end while the last one was being written */
    RamDigestTracker *digest;
    Point *last;                /* where the last epoch ended; NULL: there was none */
    uint64_t n_written, n_taken;        /* the former are fewer if one cannot be written */
    Pending *pending;
} epochs;

/* --- writing ------------------------------------------------------------------------- */

static void pending_free(Pending *pending)
{
    epoch_free(pending->epoch);
    checkpoint_position_free(pending->place);
    if (pending->state) {
        g_byte_array_unref(pending->state);
    }
    g_clear_error(&pending->error);
    g_free(pending);
}

/* Remove what a standby would need of the epochs before @before. */
static void forget_states(uint64_t before)
{
    for (; epochs.with_devices && epochs.first_state < before; epochs.first_state++) {
        epoch_state_remove(epochs.directory_fd, epochs.first_state);
        disk_undo_remove(epochs.directory_fd, epochs.first_state);
    }
}

void recorder_epochs_settle(void)
{
    Pending *pending = epochs.pending;

    if (!pending) {
        return;
    }
    epochs.pending = NULL;
    g_thread_join(pending->thread);
    if (pending->error) {
        recorder_fail("%s", pending->error->message);
    } else {
        epochs.n_written = pending->epoch->number;
        forget_states(epochs.n_written);
        qapi_event_send_recorder_epoch(pending->epoch->number, pending->pause_s, pending->bytes);
    }
    pending_free(pending);
}

static void finished(void *opaque)
{
    if (epochs.pending == opaque) {
        recorder_epochs_settle();
        if (epochs.is_overdue) {
            timer_mod(epochs.timer, qemu_clock_get_ms(QEMU_CLOCK_REALTIME));
        }
    }
}

static void *finish_thread(void *opaque)
{
    Pending *pending = opaque;
    LogPlaces *logs = pending->place->logs;

    if (!pending->error && log_places_wait(logs, &pending->error) &&
        (!pending->state || epoch_state_write(epochs.directory_fd, epochs.directory,
                                              pending->epoch->number, pending->state,
                                              &pending->error))) {
        for (unsigned i = 0; i < logs->n_streams * LOG_SUBSTREAMS; i++) {
            pending->epoch->log_bytes[i] = logs->place[i].offset;
        }
        epochs_append(epochs.fd, pending->epoch, &pending->error);
    }
    aio_bh_schedule_oneshot(qemu_get_aio_context(), finished, pending);
    return NULL;
}

/* --- the end of an epoch ----------------------------------------------------------------- */

/* All vCPUs are stopped, and devices do not write. */
static void take(Pending *pending)
{
    g_autofree uint64_t *changed = machine_state_take_bits(MACHINE_STATE_EPOCHS, &pending->bytes);
    Epoch *epoch = pending->epoch;
    CPUState *cpu;

    pending->bytes *= RAM_IMAGE_PAGE;
    ram_digest_update(epochs.digest, changed);
    epoch->ram = ram_digest_tracked(epochs.digest);
    pending->place = recorder_position_now(epochs.writer);
    epoch->dma_steps = pending->place->dma_steps;
    CPU_FOREACH(cpu) {
        unsigned i = cpu->cpu_index;

        epoch->point->at[i] = epochs.last->at[i] = pending->place->point->at[i];
        epoch->stores[i] = pending->place->stores[i];
        epoch->registers[i] = recorder_register_digest(cpu);
    }
}

/* Return true if a vCPU has made a step since the last epoch.  All are stopped. */
static bool has_moved(void)
{
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        if (recorder_position(cpu) != epochs.last->at[cpu->cpu_index]) {
            return true;
        }
    }
    return false;
}

static void take_devices(Pending *pending)
{
    RecorderClocks clocks;

    recorder_stop_clocks(&clocks);
    pending->state = machine_state_save_epoch();
    recorder_restart_clocks(&clocks);
    if (!pending->state) {
        g_set_error(&pending->error, EPOCHS_ERROR, EPOCHS_ERROR_DAMAGED,
                    "cannot save the state of devices at the end of an epoch");
    }
}

static Pending *take_stopped(void)
{
    Pending *pending = g_new0(Pending, 1);

    recorder_dma_hold();
    pending->epoch = epoch_new(epochs.last->n_vcpus);
    pending->epoch->number = ++epochs.n_taken;
    pending->epoch->time_us = g_get_real_time();
    take(pending);
    if (epochs.with_devices) {
        take_devices(pending);
    }
    recorder_dma_release();
    return pending;
}

/*
 * Complete what disks have begun.  On the way work of the main thread is done, too: it may pause
 * the guest, which then does not end the epoch (is_ending); resume it; or end the recording.
 */
static void finish_requests(bool is_running)
{
    bool was_running;

    epochs.is_ending = true;
    do {
        was_running = runstate_is_running();
        bdrv_drain_all();               /* a device that is stopped meanwhile may begin another */
    } while (was_running != runstate_is_running());
    epochs.is_ending = false;
    if (is_running) {
        pause_all_vcpus();
    }
}

/*
 * No saved state has a request to reset the machine or to end, which the main thread is about to
 * meet.  A standby that goes on from there would wait for that for ever; from the epoch before, its
 * guest makes the request again.
 */
static bool is_about_to_end(void)
{
    return epochs.with_devices &&
           (qemu_shutdown_requested_get() || qemu_reset_requested_get() ||
            runstate_check(RUN_STATE_SHUTDOWN));
}

static void end_epoch(bool is_running)
{
    int64_t began = g_get_monotonic_time();

    if (is_running) {
        pause_all_vcpus();
    }
    if (epochs.with_devices) {
        finish_requests(is_running);
    }
    recorder_finish_work();
    /* On its way to a boundary a vCPU may have failed, or QEMU have changed its registers. */
    if (epochs.writer && !recorder_failure() && !is_about_to_end()) {
        epochs.pending = take_stopped();
    }
    if (is_running && runstate_is_running()) {
        resume_all_vcpus();
    }
    if (epochs.pending) {
        epochs.began_ms = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);
        timer_mod(epochs.timer, epochs.began_ms + epochs.interval_ms);
        epochs.pending->pause_s = (g_get_monotonic_time() - began) / 1e6;
        epochs.pending->thread = g_thread_new("epoch", finish_thread, epochs.pending);
    }
}

/*
 * End the epoch, unless the last one is still being written: then it is longer, or ends after that
 * if its output is awaited.  A guest that is paused has none.
 */
static void is_due(void *opaque)
{
    timer_mod(epochs.timer, qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + epochs.interval_ms);
    epochs.is_overdue = epochs.pending && recorder_hold_has_new();
    if (!epochs.pending && runstate_is_running() && !recorder_check_registers() &&
        !recorder_failure()) {
        end_epoch(true);
    }
}

void recorder_epochs_has_output(void)
{
    if (epochs.timer) {                 /* else the recording is about to end */
        timer_mod_anticipate(epochs.timer, epochs.began_ms + OUTPUT_MS);
    }
}

void recorder_epochs_paused(void)
{
    if (!epochs.writer || epochs.is_ending) {
        return;
    }
    recorder_epochs_settle();
    if (has_moved() || recorder_hold_has_new()) {
        end_epoch(false);
    }
}

/* --- start and end -------------------------------------------------------------------------- */

bool recorder_epochs_start(const char *directory, int directory_fd, LogWriter *writer,
                           unsigned interval_ms, bool with_devices, Error **errp)
{
    g_autoptr(GError) error = NULL;
    g_autofree uint64_t *before = NULL;
    uint64_t unwanted;

    epochs.fd = epochs_create(directory_fd, directory, &error);
    if (epochs.fd < 0) {
        error_setg(errp, "%s", error->message);
        return false;
    }
    machine_state_share_changes(true);
    before = machine_state_take_bits(MACHINE_STATE_EPOCHS, &unwanted);
    epochs.digest = machine_state_track_digest();
    epochs.last = point_new(MACHINE(qdev_get_machine())->smp.cpus);
    epochs.n_written = epochs.n_taken = 0;
    epochs.directory = directory;
    epochs.directory_fd = directory_fd;
    epochs.with_devices = with_devices;
    epochs.first_state = 1;
    epochs.interval_ms = interval_ms;
    epochs.is_overdue = false;
    epochs.began_ms = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);
    epochs.writer = writer;
    epochs.timer = timer_new_ms(QEMU_CLOCK_REALTIME, is_due, NULL);
    timer_mod(epochs.timer, qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + interval_ms);
    return true;
}

void recorder_epochs_stop(void)
{
    if (!epochs.writer) {
        return;
    }
    g_clear_pointer(&epochs.timer, timer_free);
    recorder_epochs_settle();
    epochs.writer = NULL;
    if (fsync(epochs.fd) < 0) {
        recorder_fail("cannot write the epochs to disk: %s", g_strerror(errno));
    }
    close(epochs.fd);
    g_clear_pointer(&epochs.digest, ram_digest_tracker_free);
    g_clear_pointer(&epochs.last, point_free);
    machine_state_share_changes(false);
}

void recorder_epochs_forget_states(void)
{
    forget_states(recorder_epochs_current() + 1);
}

uint64_t recorder_epochs_current(void)
{
    return epochs.n_taken + 1;
}

uint64_t recorder_epochs_written(void)
{
    return epochs.n_written;
}
