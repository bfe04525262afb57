/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Questions about a recording that is debugged, in QMP and in the human monitor.
 */
#include "qemu/osdep.h"
#include "hw/boards.h"
#include "hw/core/cpu.h"
#include "monitor/hmp.h"
#include "monitor/monitor.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-recorder-debug.h"
#include "qobject/qdict.h"

#include "hw/recorder/recorder-internal.h"
#include "replay/debugger.h"
#include "replay/questions.h"

#define LINE 64

static unsigned n_vcpus(void)
{
    return MACHINE(qdev_get_machine())->smp.cpus;
}

/* Can be asked, and where is that? */
static bool find(uint64_t address, uint64_t size, bool physical, const uint32_t *vcpu,
                 uint64_t *offset, Error **errp)
{
    CPUState *cpu = vcpu ? qemu_get_cpu(*vcpu) : NULL;

    if (!debugger_active()) {
        error_setg(errp, "no recording is being debugged: use recorder-debug first");
        return false;
    }
    if (debugger_busy()) {
        error_setg(errp, "the guest runs: stop it first");
        return false;
    }
    if (vcpu && !cpu) {
        error_setg(errp, "there is no vCPU %u", *vcpu);
        return false;
    }
    return question_find_memory(cpu ?: debugger_looks_at(), address, size, physical, offset, errp);
}

static RecorderAccess *access_new(const SeenAccess *seen)
{
    const Access *access = &seen->access;
    RecorderAccess *new = g_new0(RecorderAccess, 1);
    bool is_dma = access->stream == n_vcpus();

    *new = (RecorderAccess) {
        .moment = seen->moment, .has_vcpu = !is_dma, .vcpu = access->stream,
        .position = access->position, .how = g_strdup(access_name(access)),
        .address = checkpoint_ram_address() + access->offset, .size = access->size,
        .has_pc = !is_dma, .pc = access->pc, .before = access->before,
        .has_after = access->is_write, .after = access->after,
        .has_from = seen->from >= 0, .from = seen->from,
    };
    return new;
}

RecorderAccessList *qmp_recorder_last_write(uint64_t address, bool has_size, uint32_t size,
                                            bool has_physical, bool physical, bool has_vcpu,
                                            uint32_t vcpu, Error **errp)
{
    RecorderAccessList *found = NULL;
    uint64_t offset;
    SeenAccess last;

    size = has_size ? size : sizeof(uint64_t);
    if (find(address, size, has_physical && physical, has_vcpu ? &vcpu : NULL, &offset, errp) &&
        question_last_write(offset, size, &last, errp)) {
        QAPI_LIST_PREPEND(found, access_new(&last));
    }
    return found;
}

RecorderAccesses *qmp_recorder_who(uint64_t address, bool has_physical, bool physical,
                                   bool has_vcpu, uint32_t vcpu, Error **errp)
{
    g_autoptr(GArray) seen = NULL;
    RecorderAccesses *accesses;
    unsigned n_before;
    uint64_t offset;

    if (!find(address, 1, has_physical && physical, has_vcpu ? &vcpu : NULL, &offset, errp) ||
        !(seen = question_who(offset & -(uint64_t)LINE, LINE, &n_before, errp))) {
        return NULL;
    }
    accesses = g_new0(RecorderAccesses, 1);
    for (unsigned i = seen->len; i-- > 0; ) {
        RecorderAccess *access = access_new(&g_array_index(seen, SeenAccess, i));

        if (i < n_before) {
            QAPI_LIST_PREPEND(accesses->before, access);
        } else {
            QAPI_LIST_PREPEND(accesses->after, access);
        }
    }
    return accesses;
}

/* --- for people ----------------------------------------------------------------------- */

static char *stream_name(uint32_t stream)
{
    return stream == n_vcpus() ? g_strdup("DMA") : g_strdup_printf("vCPU %u", stream);
}

static void show(Monitor *mon, const RecorderAccess *access)
{
    g_autofree char *who = stream_name(access->has_vcpu ? access->vcpu : n_vcpus());

    monitor_printf(mon, "moment %" PRIu64 "  %s at %" PRIu64 "  %s 0x%" PRIx64 ",%u", access->moment,
                   who, access->position, access->how, access->address, access->size);
    if (access->has_pc) {
        monitor_printf(mon, "  pc 0x%" PRIx64, access->pc);
    }
    monitor_printf(mon, "  0x%" PRIx64, access->before);
    if (access->has_after) {
        monitor_printf(mon, " -> 0x%" PRIx64, access->after);
    }
    if (access->has_from) {
        g_autofree char *from = stream_name(access->from);

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
    Error *error = NULL;
    g_autoptr(RecorderAccessList) found =
        qmp_recorder_last_write(qdict_get_int(qdict, "address"), true,
                                qdict_get_try_int(qdict, "size", sizeof(uint64_t)), true,
                                qdict_get_try_bool(qdict, "physical", false), false, 0, &error);

    if (!hmp_handle_error(mon, error) && !found) {
        monitor_printf(mon, "nobody has written there since the recording began\n");
    }
    show_all(mon, found);
}

void hmp_who(Monitor *mon, const QDict *qdict)
{
    Error *error = NULL;
    g_autoptr(RecorderAccesses) found =
        qmp_recorder_who(qdict_get_int(qdict, "address"), true,
                         qdict_get_try_bool(qdict, "physical", false), false, 0, &error);

    if (!hmp_handle_error(mon, error)) {
        show_all(mon, found->before);
        monitor_printf(mon, "-- now, at moment %" PRIu64 "\n", debugger_moment());
        show_all(mon, found->after);
    }
}
