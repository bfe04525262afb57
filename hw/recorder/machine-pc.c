/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The machines `q35`, `pc` and `microvm` of x86_64.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"

#include "hw/recorder/machine.h"
#include "hw/recorder/recorder.h"

/* The data port of the first serial port. */
#define COM1 0x3f8

/* QEMU means "off" if it is not told: a patch of ours. */
static bool is_on(MachineState *machine, const char *property)
{
    g_autofree char *value = object_property_print(OBJECT(machine), property, false, NULL);

    return g_strcmp0(value, "on") == 0;
}

static char *objection(MachineState *machine)
{
    if (is_on(machine, "smm")) {
        return g_strdup("system management mode (smm=off in -machine)");
    }
    if (recorder_machine_has("kvmvapic")) {
        return g_strdup("code that QEMU puts into the guest (-global apic-common.vapic=off)");
    }
    if (recorder_machine_has("cfi.pflash01")) {
        return g_strdup("firmware in flash (-drive if=pflash) so far: use -bios");
    }
    return NULL;
}

/* CPUID tells the guest how its vCPUs are arranged. */
static char *options(MachineState *machine)
{
    const CpuTopology *smp = &machine->smp;

    return g_strdup_printf("smm=off,smp.sockets=%u,smp.dies=%u,smp.modules=%u,"
                           "smp.cores=%u,smp.threads=%u", smp->sockets, smp->dies, smp->modules,
                           smp->cores, smp->threads);
}

static void describe_console(Manifest *manifest)
{
    if (recorder_machine_has("isa-serial")) {
        manifest->console = g_strdup("16550");
        manifest->console_address = recorder_port_address(COM1);
    }
}

static const char *const types[] = { "generic-pc-machine", "microvm-machine", NULL };
static const char *const reaches_memory[] = {
    "virtio-device", "pci-device", "pc-dimm", "x86-iommu", "ide-device", "floppy", "vmgenid",
    "base-xhci", NULL,
};
static const char *const known[] = {
    "virtio-blk-device", "virtio-net-device", "virtio-rng-device", "virtio-serial-device",
    "virtio-blk-pci", "virtio-net-pci", "virtio-rng-pci", "virtio-serial-pci",
    "mch", "ICH9-LPC", "ICH9-SMB", "ich9-ahci", "pcie-root-port",
    "i440FX", "PIIX3", "PIIX4_PM", "piix3-ide", "gpex-root", "pvpanic-pci", NULL,
};

const RecordedMachine recorded_machine_pc = {
    .arch = "x86_64",
    .types = types,
    .reaches_memory = reaches_memory,
    .known = known,
    .map_may_change = true,
    .objection = objection,
    .options = options,
    .describe_console = describe_console,
};
