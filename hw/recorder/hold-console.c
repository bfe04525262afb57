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

/* What is done with each console of a device that has a backend.  Return false to end. */
typedef struct Visit {
    bool (*fn)(Object *device, CharBackend *console, void *opaque);
    void *opaque;
} Visit;

static bool visit_consoles(Object *object, const DeviceClass *class, const Visit *visit)
{
    for (unsigned i = 0; i < class->props_count_; i++) {
        const Property *property = &class->props_[i];
        CharBackend *console;

        if (property->info != &qdev_prop_chr) {
            continue;
        }
        console = object_field_prop_ptr(object, property);
        if (console->chr && !visit->fn(object, console, visit->opaque)) {
            return false;
        }
    }
    return true;
}

/* Each class has the properties that it adds to those of its parent. */
static int visit_device(Object *object, void *opaque)
{
    if (object_dynamic_cast(object, TYPE_DEVICE)) {
        for (ObjectClass *class = object_get_class(object);
             class && object_class_dynamic_cast(class, TYPE_DEVICE);
             class = object_class_get_parent(class)) {
            if (!visit_consoles(object, DEVICE_CLASS(class), opaque)) {
                return 1;
            }
        }
    }
    return 0;
}

static bool add_console(Object *device, CharBackend *console, void *opaque)
{
    OutletOptions options = { send_characters, console, .is_stream = true };

    if (!g_hash_table_contains(consoles, console)) {
        g_hash_table_insert(consoles, console, hold_outlet(&options));
        g_ptr_array_add(devices, object_ref(device));
    }
    return true;
}

typedef struct Ask {
    bool (*fn)(const Chardev *chr, void *opaque);
    void *opaque;
} Ask;

static bool ask_of_console(Object *device, CharBackend *console, void *opaque)
{
    const Ask *ask = opaque;

    return ask->fn(console->chr, ask->opaque);
}

bool hold_foreach_console(bool (*fn)(const Chardev *chr, void *opaque), void *opaque)
{
    Ask ask = { fn, opaque };
    Visit visit = { ask_of_console, &ask };

    return !object_child_foreach_recursive(qdev_get_machine(), visit_device, &visit);
}

void hold_consoles_start(void)
{
    Visit visit = { add_console, NULL };

    consoles = g_hash_table_new_full(NULL, NULL, NULL, drop_outlet);
    devices = g_ptr_array_new_with_free_func(object_unref);
    object_child_foreach_recursive(qdev_get_machine(), visit_device, &visit);
    qatomic_set(&qemu_chr_fe_divert, hold_characters);
}

void hold_consoles_stop(void)
{
    qatomic_set(&qemu_chr_fe_divert, NULL);
    g_clear_pointer(&consoles, g_hash_table_unref);
    g_clear_pointer(&devices, g_ptr_array_unref);
}
