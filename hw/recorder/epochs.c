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
 * Respec rolls back where the replay differs.  Our log is complete, so a difference is a fault, and
 * there is nothing to be gained by trying again.
 *
 * Main thread, BQL held, but for the thread.
 */
#include "qemu/osdep.h"
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
#include "recording/epochs.h"

/* An epoch with output that is held lasts so long, unless the one before is being written then. */
#define OUTPUT_MS 50

/* An epoch whose logs are on their way to their files. */
typedef struct Pending {
    GThread *thread;
    Epoch *epoch;
    CheckpointPosition *place;
    double pause_s;
    uint64_t bytes;             /* size of the memory that had changed */
    GError *error;
} Pending;

static struct {
    int fd;                     /* of the file */
    LogWriter *writer;          /* NULL: there are no epochs */
    unsigned interval_ms;
    QEMUTimer *timer;
    int64_t began_ms;           /* when the last epoch ended */
    bool is_overdue;            /* an epoch was to end while the last one was being written */
    RamDigestTracker *digest;
    Point *last;                /* where the last epoch ended; NULL: there was none */
    uint64_t n_written;
    Pending *pending;
} epochs;

/* --- writing ------------------------------------------------------------------------- */

static void pending_free(Pending *pending)
{
    epoch_free(pending->epoch);
    checkpoint_position_free(pending->place);
    g_clear_error(&pending->error);
    g_free(pending);
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

    if (log_places_wait(logs, &pending->error)) {
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

static Pending *take_stopped(void)
{
    Pending *pending = g_new0(Pending, 1);

    recorder_dma_hold();
    pending->epoch = epoch_new(epochs.last->n_vcpus);
    pending->epoch->number = epochs.n_written + 1;
    pending->epoch->time_us = g_get_real_time();
    take(pending);
    recorder_dma_release();
    return pending;
}

static void end_epoch(bool is_running)
{
    int64_t began = g_get_monotonic_time();

    if (is_running) {
        pause_all_vcpus();
    }
    recorder_finish_work();
    /* On its way to a boundary a vCPU may have failed, or QEMU have changed its registers. */
    if (!recorder_failure()) {
        epochs.pending = take_stopped();
    }
    if (is_running) {
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
    if (!epochs.writer) {
        return;
    }
    recorder_epochs_settle();
    if (has_moved() || recorder_hold_has_new()) {
        end_epoch(false);
    }
}

/* --- start and end -------------------------------------------------------------------------- */

bool recorder_epochs_start(const char *directory, int directory_fd, LogWriter *writer,
                           unsigned interval_ms, Error **errp)
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
    epochs.n_written = 0;
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

uint64_t recorder_epochs_current(void)
{
    return (epochs.pending ? epochs.pending->epoch->number : epochs.n_written) + 1;
}

uint64_t recorder_epochs_written(void)
{
    return epochs.n_written;
}
