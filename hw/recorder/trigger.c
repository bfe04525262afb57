/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ends a flight recorder's recording without QMP: when the guest panics, as a pvpanic device or the
 * console tells, or when the process gets SIGUSR2.  Then the last seconds can be replayed.
 *
 * Main thread, BQL held.  recorder_guest_panicked() and recorder_trigger_console() run in the
 * thread of a vCPU.
 */
#include "qemu/osdep.h"
#include "qemu/event_notifier.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "qapi/error.h"
#include "system/runstate.h"

#include "hw/recorder/console.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/session.h"
#include "hw/recorder/trigger.h"

/* The first words of Linux about a panic. */
static const char panic_text[] = "Kernel panic - not syncing";

/* The rest of the message and the stacks are printed within this time. */
#define PANIC_MS 1000

static struct {
    bool set;                   /* atomic: vCPUs read it */
    Console console;
    unsigned matched;           /* bytes of the text seen so far; atomic, written under the BQL */
    QEMUTimer *panic;           /* pending: the guest has panicked */
    EventNotifier signal;
    struct sigaction before;
} trigger;

/* --- a panic --------------------------------------------------------------------- */

static void has_panicked(void *opaque)
{
    recorder_stop_because("guest-panic");
}

static void panic_begins(void *opaque)
{
    if (trigger.set && !timer_pending(trigger.panic)) {     /* a guest may report panics for ever */
        timer_mod(trigger.panic, qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + PANIC_MS);
    }
}

/*
 * End the recording in a moment.  Meanwhile QEMU may pause the guest, or exit, which ends the
 * recording at once, or let the guest run on (-action panic=none).
 */
void recorder_guest_panicked(void)
{
    if (qatomic_read(&trigger.set)) {
        aio_bh_schedule_oneshot(qemu_get_aio_context(), panic_begins, NULL);
    }
}

/*
 * Compare the console's output with the text, byte by byte.  The first letter of the text does not
 * occur in it again, so after a mismatch only the current byte can begin a new match.
 */
void recorder_trigger_console(hwaddr address, uint64_t value)
{
    unsigned matched = qatomic_read(&trigger.matched);

    if (!qatomic_read(&trigger.set) || !console_shows(&trigger.console, address, value)) {
        return;
    }
    if ((uint8_t)value != panic_text[matched]) {
        matched = 0;
    }
    if ((uint8_t)value == panic_text[matched]) {
        matched++;
    }
    if (!panic_text[matched]) {
        matched = 0;
        recorder_guest_panicked();
    }
    qatomic_set(&trigger.matched, matched);
}

bool recorder_trigger_panicked(void)
{
    return trigger.set && timer_pending(trigger.panic);
}

/* --- a signal -------------------------------------------------------------------------- */

static void on_signal(int number)
{
    event_notifier_set(&trigger.signal);
}

static void got_signal(EventNotifier *notifier)
{
    if (event_notifier_test_and_clear(notifier)) {
        recorder_stop_because("signal");
    }
}

/* --- set and clear --------------------------------------------------------------------- */

void recorder_trigger_set(const Manifest *manifest)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

    console_init(&trigger.console, manifest);
    trigger.matched = 0;
    trigger.panic = timer_new_ms(QEMU_CLOCK_REALTIME, has_panicked, NULL);
    event_notifier_init(&trigger.signal, false);
    event_notifier_set_handler(&trigger.signal, got_signal);
    sigaction(SIGUSR2, &action, &trigger.before);
    qatomic_set(&trigger.set, true);
}

void recorder_trigger_clear(void)
{
    if (!trigger.set) {
        return;
    }
    qatomic_set(&trigger.set, false);
    sigaction(SIGUSR2, &trigger.before, NULL);
    event_notifier_set_handler(&trigger.signal, NULL);
    event_notifier_cleanup(&trigger.signal);
    g_clear_pointer(&trigger.panic, timer_free);
}
