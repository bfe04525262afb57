/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See hold.h.  Output is labelled with the epoch that has not ended yet.  The steps that caused it
 * are all in that epoch or before: a vCPU sends while it holds the BQL and before it stops at the
 * boundary where the epoch ends, and what devices send later comes later.  So when that epoch can
 * be replayed, its output can be seen.
 *
 * Memory is bounded.  Beyond the bound the guest is paused, which ends its epoch (epochs.h); it
 * goes on when half of it was released and sent.
 */
#include "qemu/osdep.h"
#include "block/aio.h"
#include "hw/qdev-core.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "system/runstate.h"

#include "hw/recorder/epochs.h"
#include "hw/recorder/hold.h"
#include "hw/recorder/live.h"

/* How soon it is tried again to send what was released, if somebody did not take it. */
#define RETRY_MS 5
/* How long the end of a recording waits for those that receive. */
#define PATIENCE_MS 10000

static struct {
    uint64_t most;              /* bytes; 0: nothing is held */
    uint64_t bytes;             /* held now */
    uint64_t released;          /* the last epoch that was */
    uint64_t newest;            /* epoch of the last output; 0: none */
    GPtrArray *outlets;
    bool has_paused;            /* the guest, since too much was held */
    QEMUTimer *retry;
} hold;

/* --- holding --------------------------------------------------------------------------------- */

Outlet *hold_outlet(const OutletOptions *options)
{
    Outlet *outlet = outlet_new(options);

    g_ptr_array_add(hold.outlets, outlet);
    return outlet;
}

void hold_drop_outlet(Outlet *outlet)
{
    g_ptr_array_remove(hold.outlets, outlet);
    hold.bytes -= outlet_free(outlet);
}

/* Pause the guest, unless enough was released meanwhile. */
static void pause_guest(void *opaque)
{
    if (hold.most && hold.bytes > hold.most && runstate_is_running()) {
        hold.has_paused = true;
        vm_stop(RUN_STATE_PAUSED);
    }
}

void hold_output(Outlet *outlet, unsigned flags, const uint8_t *data, size_t n)
{
    uint64_t epoch = recorder_epochs_current();

    hold.bytes += outlet_put(outlet, epoch, flags, data, n);
    if (hold.newest != epoch) {
        hold.newest = epoch;
        recorder_epochs_has_output();
    }
    if (hold.bytes > hold.most) {
        aio_bh_schedule_oneshot(qemu_get_aio_context(), pause_guest, NULL);
    }
}

/* --- release -------------------------------------------------------------------------------- */

/* Send what was released.  Return false if some of it is left. */
static bool flush_all(void)
{
    bool is_done = true;

    for (unsigned i = 0; i < hold.outlets->len; i++) {
        is_done &= outlet_flush(hold.outlets->pdata[i], hold.released, &hold.bytes);
    }
    return is_done;
}

static void resume_guest(void *opaque)
{
    if (!hold.has_paused) {
        return;                         /* somebody has resumed it */
    }
    hold.has_paused = false;
    if (runstate_check(RUN_STATE_PAUSED) || runstate_check(RUN_STATE_PRELAUNCH)) {
        vm_start();
    }
}

/* Send what was released, and let the guest go on if it may. */
static void go_on(void *opaque)
{
    if (!flush_all()) {
        timer_mod(hold.retry, qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + RETRY_MS);
    }
    if (hold.bytes <= hold.most / 2) {
        resume_guest(NULL);
    }
}

/* Return the last epoch of which all that streams have is sent. */
static uint64_t last_sent(void)
{
    uint64_t sent = hold.released;

    for (unsigned i = 0; i < hold.outlets->len; i++) {
        sent = outlet_sent(hold.outlets->pdata[i], sent);
    }
    return sent;
}

bool recorder_hold_release(uint64_t epoch, uint64_t *sent, Error **errp)
{
    if (!hold.most) {
        error_setg(errp, "no output is held");
        return false;
    }
    if (epoch > recorder_epochs_written()) {
        recorder_epochs_settle();       /* whoever names it may have read its line already */
    }
    if (epoch > recorder_epochs_written()) {
        error_setg(errp, "epoch %" PRIu64 " has not ended: the last is %" PRIu64, epoch,
                   recorder_epochs_written());
        return false;
    }
    hold.released = MAX(hold.released, epoch);
    go_on(NULL);
    *sent = last_sent();
    return true;
}

void recorder_hold_leave_paused(void)
{
    hold.has_paused = false;
}

bool recorder_hold_has_new(void)
{
    return hold.most && hold.newest == recorder_epochs_current();
}

void recorder_hold_query(RecorderInfo *info)
{
    info->has_held_bytes = info->has_released = hold.most;
    info->held_bytes = hold.bytes;
    info->released = hold.released;
}

/* --- start and end ------------------------------------------------------------------------ */

/* Refuse a new device: what it sends would be seen at once. */
static bool refuse_device(DeviceListener *self, const QDict *options, bool from_json, Error **errp)
{
    error_setg(errp, "cannot add a device while output is held: end the recording first");
    return false;
}

static DeviceListener listener = { .hide_device = refuse_device };

bool recorder_hold_start(uint64_t most, Error **errp)
{
    if (most == 0) {
        return true;
    }
    hold.most = most;
    hold.bytes = hold.released = hold.newest = 0;
    hold.has_paused = false;
    hold.outlets = g_ptr_array_new();
    hold.retry = timer_new_ms(QEMU_CLOCK_REALTIME, go_on, NULL);
    device_listener_register(&listener);
    hold_consoles_start();
    return hold_network_start(errp);
}

/* Send all, also to a backend that has refused some.  Say so if somebody does not receive it. */
static void send_rest(void)
{
    int64_t until = g_get_monotonic_time() + PATIENCE_MS * 1000;

    hold.released = UINT64_MAX;
    while (!flush_all()) {
        if (g_get_monotonic_time() > until) {
            warn_report("recorder: output of the guest that was held is lost: nobody receives it");
            return;
        }
        g_usleep(RETRY_MS * 1000);
        hold_network_insist();
    }
}

void recorder_hold_stop(void)
{
    if (!hold.most) {
        return;
    }
    send_rest();
    device_listener_unregister(&listener);
    hold_consoles_stop();
    hold_network_stop();
    g_clear_pointer(&hold.retry, timer_free);
    g_ptr_array_unref(hold.outlets);
    hold.most = 0;
    if (hold.has_paused) {
        /* Not here: the recording has not quite ended, and QEMU may be about to reset. */
        aio_bh_schedule_oneshot(qemu_get_aio_context(), resume_guest, NULL);
    }
}
