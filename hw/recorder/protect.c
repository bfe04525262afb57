/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See protect.h.  An epoch has the state of devices that were not stopped (epochs.c), and a standby
 * shows what replay tells it of the console.  What these two do not cover is refused.
 */
#include "qemu/osdep.h"
#include "chardev/char-fe.h"
#include "hw/boards.h"
#include "hw/qdev-core.h"
#include "net/net.h"
#include "system/iothread.h"
#include "system/system.h"

#include "hw/recorder/hold.h"
#include "hw/recorder/protect.h"

/*
 * An I/O thread goes on while the state is saved.  And the interrupt of a request that it has
 * completed is on its way to the main thread, which is in no state.
 */
static int refuse_iothread(Object *object, void *opaque)
{
    if (object_dynamic_cast(object, TYPE_IOTHREAD)) {
        error_setg(opaque, "a standby cannot go on with a guest that has I/O threads: leave out "
                   "iothread %s", object_get_canonical_path_component(object));
        return 1;
    }
    return 0;
}

/* A standby learns from the replay what the guest writes to its first serial port alone. */
static bool refuse_console(const Chardev *chr, void *opaque)
{
    if (chr == serial_hd(0) || object_dynamic_cast(OBJECT(chr), TYPE_CHARDEV_NULL)) {
        return true;
    }
    error_setg(opaque, "a standby shows only what the guest writes to its first serial port: give "
               "chardev %s the backend null", chr->label);
    return false;
}

static void refuse_network(NICState *nic, void *opaque)
{
    NetClientState *backend = qemu_get_queue(nic)->peer;
    Error **errp = opaque;

    if (backend && backend->info->type == NET_CLIENT_DRIVER_USER && !*errp) {
        error_setg(errp, "the connections of user network %s end with QEMU, so no standby can go "
                   "on with them: give -netdev dgram, stream or tap", backend->name);
    }
}

bool recorder_can_protect(Error **errp)
{
    Error *failure = NULL;

    if (object_child_foreach_recursive(object_get_objects_root(), refuse_iothread, errp) ||
        !hold_foreach_console(refuse_console, errp)) {
        return false;
    }
    qemu_foreach_nic(refuse_network, &failure);
    error_propagate(errp, failure);
    return !failure;
}
