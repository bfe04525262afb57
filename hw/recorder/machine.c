/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finds the kind of a machine, and what of it cannot be recorded.
 */
#include "qemu/osdep.h"
#include "hw/core/cpu.h"
#include "hw/qdev-core.h"
#include "semihosting/semihost.h"

#include "hw/recorder/machine.h"
#include "hw/recorder/target.h"

static const RecordedMachine *const kinds[] = { &recorded_machine_virt, &recorded_machine_pc };

static bool is_any(Object *object, const char *const *types)
{
    for (; *types; types++) {
        if (object_dynamic_cast(object, *types)) {
            return true;
        }
    }
    return false;
}

const RecordedMachine *recorder_machine_kind(MachineState *machine)
{
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        if (g_str_equal(kinds[i]->arch, recorder_register_set->arch) &&
            is_any(OBJECT(machine), kinds[i]->types)) {
            return kinds[i];
        }
    }
    return NULL;
}

bool recorder_map_may_change(void)
{
    const RecordedMachine *kind = recorder_machine_kind(MACHINE(qdev_get_machine()));

    return kind && kind->map_may_change;
}

bool recorder_machine_has(const char *type)
{
    bool ambiguous = false;

    return object_resolve_path_type("", type, &ambiguous) || ambiguous;
}

typedef struct Search {
    const RecordedMachine *kind;
    char *objection;
} Search;

static int find_objection(Object *object, void *opaque)
{
    Search *search = opaque;
    DeviceState *device;

    if (!is_any(object, search->kind->reaches_memory) || is_any(object, search->kind->known)) {
        return 0;
    }
    device = DEVICE(object);
    search->objection = g_strdup_printf("the device %s%s%s", object_get_typename(object),
                                        device->id ? " with id " : "", device->id ?: "");
    return 1;
}

char *recorder_machine_objection(MachineState *machine, const RecordedMachine *kind)
{
    Search search = { .kind = kind };

    if (semihosting_enabled(false)) {
        return g_strdup("semihosting (leave -semihosting away)");
    }
    if (!memory_region_is_ram(machine->ram)) {
        return g_strdup("memory in several parts (-numa)");
    }
    search.objection = kind->objection(machine);
    if (!search.objection) {
        search.objection = recorder_cpu_objection(first_cpu);
    }
    if (!search.objection) {
        object_child_foreach_recursive(object_get_root(), find_objection, &search);
    }
    return search.objection;
}
