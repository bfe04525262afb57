/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands of the human monitor for users who debug a recording, directly or from gdb (`monitor
 * when`).  Each calls its QMP twin.  Main thread, big lock held.
 */
#include "qemu/osdep.h"
#include "hw/boards.h"
#include "monitor/hmp.h"
#include "monitor/monitor.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-recorder-debug.h"
#include "qapi/qapi-commands-recorder.h"
#include "qobject/qdict.h"

#include "replay/debugger/debugger.h"

/* --- commands that take long ---------------------------------------------------------- */

typedef struct Waiting {
    Monitor *mon;
    bool any;                   /* a dot was printed */
} Waiting;

/* Print a dot, every second: gdb gives up if there is no output for a while. */
static void show_waiting(void *opaque)
{
    Waiting *waiting = opaque;

    waiting->any = true;
    monitor_puts(waiting->mon, ".");
    monitor_flush(waiting->mon);
}

static void begin_waiting(Waiting *waiting, Monitor *mon)
{
    *waiting = (Waiting) { .mon = mon };
    debugger_tell_waiter(show_waiting, waiting);
}

/* End the line of dots.  Return true if @error is NULL; else print and free @error. */
static bool end_waiting(const Waiting *waiting, Error *error)
{
    debugger_tell_waiter(NULL, NULL);
    if (waiting->any) {
        monitor_puts(waiting->mon, "\n");
    }
    return !hmp_handle_error(waiting->mon, error);
}

/* --- moments -------------------------------------------------------------------------- */

static void show_moment(Monitor *mon)
{
    g_autoptr(RecorderInfo) info = qmp_query_recorder(&error_abort);

    monitor_printf(mon, "moment %" PRIu64 " of %" PRIu64 " to %" PRIu64 ", vCPUs at %s\n",
                   debugger_moment(), debugger_first(), debugger_last(), info->point);
}

void hmp_when(Monitor *mon, const QDict *qdict)
{
    if (debugger_active()) {
        show_moment(mon);
    } else {
        monitor_puts(mon, "no recording is being debugged\n");
    }
}

void hmp_goto(Monitor *mon, const QDict *qdict)
{
    Error *error = NULL;
    Waiting waiting;

    begin_waiting(&waiting, mon);
    qmp_recorder_goto(qdict_get_str(qdict, "at"), &error);
    if (end_waiting(&waiting, error)) {
        show_moment(mon);
        monitor_puts(mon, "gdb does not know yet: type maintenance flush register-cache\n");
    }
}

/* --- queries -------------------------------------------------------------------------- */

static char *stream_name(bool is_vcpu, uint32_t vcpu)
{
    return is_vcpu ? g_strdup_printf("vCPU %u", vcpu) : g_strdup("DMA");
}

static void show(Monitor *mon, const RecorderAccess *access)
{
    g_autofree char *who = stream_name(access->has_vcpu, access->vcpu);

    monitor_printf(mon, "moment %" PRIu64 "  %s at %" PRIu64 "  %s 0x%" PRIx64 ",%u",
                   access->moment, who, access->position, access->how, access->address,
                   access->size);
    if (access->has_pc) {
        monitor_printf(mon, "  pc 0x%" PRIx64, access->pc);
    }
    monitor_printf(mon, "  0x%" PRIx64, access->before);
    if (access->has_after) {
        monitor_printf(mon, " -> 0x%" PRIx64, access->after);
    }
    if (access->has_from) {
        bool is_vcpu = access->from < MACHINE(qdev_get_machine())->smp.cpus;
        g_autofree char *from = stream_name(is_vcpu, access->from);

        monitor_printf(mon, "  (line from %s)", from);
    }
    monitor_printf(mon, "\n");
}

static void show_all(Monitor *mon, const RecorderAccessList *list)
{
    for (; list; list = list->next) {
        show(mon, list->value);
    }
}

void hmp_last_write(Monitor *mon, const QDict *qdict)
{
    g_autoptr(RecorderAccessList) found = NULL;
    Error *error = NULL;
    Waiting waiting;

    begin_waiting(&waiting, mon);
    found = qmp_recorder_last_write(qdict_get_int(qdict, "address"), true,
                                    qdict_get_try_int(qdict, "size", sizeof(uint64_t)), true,
                                    qdict_get_try_bool(qdict, "physical", false), false, 0, &error);
    if (end_waiting(&waiting, error) && !found) {
        monitor_puts(mon, "nobody has written there since the recording began\n");
    }
    show_all(mon, found);
}

void hmp_who(Monitor *mon, const QDict *qdict)
{
    g_autoptr(RecorderAccesses) found = NULL;
    Error *error = NULL;
    Waiting waiting;

    begin_waiting(&waiting, mon);
    found = qmp_recorder_who(qdict_get_int(qdict, "address"), true,
                             qdict_get_try_bool(qdict, "physical", false), false, 0, &error);
    if (end_waiting(&waiting, error)) {
        show_all(mon, found->before);
        monitor_printf(mon, "-- now, at moment %" PRIu64 "\n", debugger_moment());
        show_all(mon, found->after);
    }
}
