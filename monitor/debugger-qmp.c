/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QMP commands to debug a recording (docs/guide-debugging.md).  Main thread, big lock held.
 */
#include "qemu/osdep.h"
#include "hw/boards.h"
#include "hw/core/cpu.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-recorder-debug.h"
#include "system/runstate.h"

#include "hw/recorder/machine-state.h"
#include "hw/recorder/memory-map.h"
#include "hw/recorder/target.h"
#include "hw/recorder/vcpu.h"
#include "protocol/sphere.h"
#include "replay/debugger/access-queries.h"
#include "replay/debugger/debugger.h"

#define SNAPSHOT_MEMORY (UINT64_C(1) << 30)
#define LINE (UINT64_C(1) << SPHERE_LINE_SHIFT)

void qmp_recorder_debug(const char *directory, const char *at, bool has_snapshot_memory,
                        uint64_t snapshot_memory, bool has_order, RecorderOrder order,
                        Error **errp)
{
    debugger_open(directory, has_order ? RecorderOrder_str(order) : NULL, at ?: "start",
                  has_snapshot_memory ? snapshot_memory : SNAPSHOT_MEMORY, errp);
}

static bool is_debugging(Error **errp)
{
    if (!debugger_active()) {
        error_setg(errp, "no recording is being debugged: use recorder-debug first");
    }
    return debugger_active();
}

void qmp_recorder_goto(const char *at, Error **errp)
{
    if (is_debugging(errp)) {
        debugger_goto(at, errp);
    }
}

RecorderDigests *qmp_query_recorder_digests(Error **errp)
{
    RecorderDigests *digests;
    strList **tail;
    CPUState *cpu;

    if (runstate_is_running()) {
        error_setg(errp, "the guest runs: stop it first");
        return NULL;
    }
    CPU_FOREACH(cpu) {
        g_autofree char *objection = recorder_cpu_objection(cpu);

        if (objection) {
            error_setg(errp, "%s", objection);
            return NULL;
        }
    }
    digests = g_new0(RecorderDigests, 1);
    digests->ram = machine_state_ram_digest();
    tail = &digests->vcpus;
    CPU_FOREACH(cpu) {
        QAPI_LIST_APPEND(tail, g_strdup_printf("%016" PRIx64, recorder_register_digest(cpu)));
    }
    return digests;
}

/* --- queries -------------------------------------------------------------------------- */

static unsigned n_vcpus(void)
{
    return MACHINE(qdev_get_machine())->smp.cpus;
}

/*
 * Return true if the guest can be queried now and @address is in main memory, and set *@offset to
 * the offset there.  Return false and @errp if not.  @vcpu translates a virtual address; NULL: the
 * vCPU that the debugger user looks at.
 */
static bool find(uint64_t address, uint64_t size, bool physical, const uint32_t *vcpu,
                 uint64_t *offset, Error **errp)
{
    CPUState *cpu = vcpu ? qemu_get_cpu(*vcpu) : NULL;

    if (!is_debugging(errp)) {
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
    return access_query_find_memory(cpu ?: debugger_looks_at(), address, size, physical, offset,
                                    errp);
}

static RecorderAccess *access_new(const SeenAccess *seen)
{
    const Access *access = &seen->access;
    RecorderAccess *new = g_new0(RecorderAccess, 1);
    bool is_dma = access->stream == n_vcpus();
    uint64_t address = 0;

    memory_map_address(access->offset, &address);
    *new = (RecorderAccess) {
        .moment = seen->moment, .has_vcpu = !is_dma, .vcpu = access->stream,
        .position = access->position, .how = g_strdup(access_name(access)),
        .address = address, .size = access->size,
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
        access_query_last_write(offset, size, &last, errp)) {
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
        !(seen = access_query_who(offset & -LINE, LINE, &n_before, errp))) {
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
