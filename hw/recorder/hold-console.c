/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Holds what the guest's devices write to character devices (hold.h): serial ports, consoles of
 * virtio and others that have such a property.  Monitors and the port of a debugger are no devices
 * of the guest, so they are not held.
 */
#include "qemu/osdep.h"
#include "chardev/char-fe.h"
#include "hw/boards.h"
#include "hw/qdev-core.h"
#include "hw/qdev-properties-system.h"
#include "hw/qdev-properties.h"
#include "qemu/main-loop.h"

#include "hw/recorder/hold.h"

/* Most bytes that are written at once: some backends make a packet of them. */
#define MOST_BYTES 4096

static GHashTable *consoles;    /* CharBackend to Outlet */
static GPtrArray *devices;      /* whose memory has the CharBackends, also if one is unplugged */

/* As a device would, drop what a backend refuses for good. */
static size_t send_characters(void *opaque, unsigned flags, const uint8_t *data, size_t n)
{
    CharBackend *console = opaque;
    size_t part = MIN(n, MOST_BYTES);
    int sent;

    if (!console->chr) {
        return n;
    }
    errno = 0;
    sent = qemu_chr_write(console->chr, data, part, false);
    return sent >= 0 ? sent : errno == EAGAIN ? 0 : part;
}

/* A monitor may write without the BQL; no device does. */
static bool hold_characters(CharBackend *console, const uint8_t *data, int n)
{
    Outlet *outlet = bql_locked() ? g_hash_table_lookup(consoles, console) : NULL;

    if (!outlet) {
        return false;
    }
    hold_output(outlet, 0, data, n);
    return true;
}

static void drop_outlet(void *outlet)
{
    hold_drop_outlet(outlet);
}

static void add_consoles(Object *object, const DeviceClass *class)
{
    for (unsigned i = 0; i < class->props_count_; i++) {
        const Property *property = &class->props_[i];
        CharBackend *console;

        if (property->info != &qdev_prop_chr) {
            continue;
        }
        console = object_field_prop_ptr(object, property);
        if (console->chr && !g_hash_table_contains(consoles, console)) {
            OutletOptions options = { send_characters, console, .is_stream = true };

            g_hash_table_insert(consoles, console, hold_outlet(&options));
            g_ptr_array_add(devices, object_ref(object));
        }
    }
}

/* Each class has the properties that it adds to those of its parent. */
static int add_device(Object *object, void *opaque)
{
    if (object_dynamic_cast(object, TYPE_DEVICE)) {
        for (ObjectClass *class = object_get_class(object);
             class && object_class_dynamic_cast(class, TYPE_DEVICE);
             class = object_class_get_parent(class)) {
            add_consoles(object, DEVICE_CLASS(class));
        }
    }
    return 0;
}

void hold_consoles_start(void)
{
    consoles = g_hash_table_new_full(NULL, NULL, NULL, drop_outlet);
    devices = g_ptr_array_new_with_free_func(object_unref);
    object_child_foreach_recursive(qdev_get_machine(), add_device, NULL);
    qatomic_set(&qemu_chr_fe_divert, hold_characters);
}

void hold_consoles_stop(void)
{
    qatomic_set(&qemu_chr_fe_divert, NULL);
    g_clear_pointer(&consoles, g_hash_table_unref);
    g_clear_pointer(&devices, g_ptr_array_unref);
}
