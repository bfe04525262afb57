/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The machine `virt` of aarch64.
 */
#include "qemu/osdep.h"
#include "hw/sysbus.h"
#include "qapi/error.h"

#include "hw/recorder/machine.h"

static bool has_flash_drive(MachineState *machine)
{
    g_autofree char *code = object_property_get_str(OBJECT(machine), "pflash0", NULL);
    g_autofree char *data = object_property_get_str(OBJECT(machine), "pflash1", NULL);

    return (code && *code) || (data && *data);
}

static char *objection(MachineState *machine)
{
    if (machine->firmware || has_flash_drive(machine)) {
        return g_strdup("firmware in flash (-bios, -drive if=pflash) so far: boot with -kernel");
    }
    return NULL;
}

/* The machine's own property of the ITS is on by default, even if its GIC has none. */
static char *options(MachineState *machine)
{
    g_autofree char *gic = object_property_get_str(OBJECT(machine), "gic-version", &error_abort);

    return g_strdup_printf("gic-version=%s,its=%s", gic,
                           recorder_machine_has("arm-gicv3-its-common") ? "on" : "off");
}

/* Describe the UART's data register, where the guest's console output goes. */
static void describe_console(Manifest *manifest)
{
    Object *uart = object_resolve_path_type("", "pl011", NULL);

    if (uart) {
        manifest->console = g_strdup("pl011");
        for (MemoryRegion *mr = sysbus_mmio_get_region(SYS_BUS_DEVICE(uart), 0); mr;
             mr = mr->container) {
            manifest->console_address += mr->addr;
        }
    }
}

static const char *const types[] = { "virt-machine", NULL };
static const char *const reaches_memory[] = {
    "virtio-device", "pci-device", "arm-gicv3-its-common", "pc-dimm", NULL,
};
static const char *const known[] = {
    "virtio-blk-device", "virtio-net-device", "virtio-rng-device", "virtio-serial-device",
    "virtio-blk-pci", "virtio-net-pci", "virtio-rng-pci", "virtio-serial-pci",
    "gpex-root", "pcie-root-port", "pvpanic-pci", "arm-gicv3-its", NULL,
};

const RecordedMachine recorded_machine_virt = {
    .arch = "aarch64",
    .types = types,
    .reaches_memory = reaches_memory,
    .known = known,
    .objection = objection,
    .options = options,
    .describe_console = describe_console,
};
