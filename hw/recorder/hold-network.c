/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Holds the packets that the guest sends (hold.h), by a filter of each network backend.
 *
 * QEMU passes no packets on while the guest is paused, and drops them if too many wait.  So what is
 * released is brought on its way at once, one packet after the other.
 */
#include "qemu/osdep.h"
#include "net/filter.h"
#include "net/net.h"
#include "net/queue.h"
#include "qemu/iov.h"
#include "qemu/module.h"

#include "hw/recorder/hold.h"

#define TYPE_FILTER_RECORDER "filter-recorder"

OBJECT_DECLARE_SIMPLE_TYPE(FilterRecorder, FILTER_RECORDER)

struct FilterRecorder {
    NetFilterState parent;
    Outlet *outlet;
};

static GPtrArray *filters;      /* NULL: nothing is held */

/* --- packets ------------------------------------------------------------------------------- */

/*
 * A packet begins with a header whose size a driver may change.  Flags of a packet that is held
 * have this size, too.
 */
static unsigned flags_of(unsigned flags, const NetClientState *backend)
{
    return flags | (unsigned)backend->vnet_hdr_len << 8;
}

/* Leave no packet in QEMU's own queue, which is emptied when the guest is paused. */
static size_t send_packet(void *opaque, unsigned flags, const uint8_t *data, size_t n)
{
    FilterRecorder *filter = opaque;
    NetClientState *backend = filter->parent.netdev;
    struct iovec part = { (void *)data, n };

    if (!backend->peer || flags != flags_of(flags & 0xff, backend)) {
        return n;                       /* another driver's: lost, as packets may be */
    }
    if (backend->receive_disabled || !qemu_net_queue_flush(backend->incoming_queue)) {
        return 0;
    }
    qemu_netfilter_pass_to_next(backend->peer, flags & 0xff, &part, 1, &filter->parent);
    if (qemu_net_queue_flush(backend->incoming_queue)) {
        return n;
    }
    qemu_net_queue_purge(backend->incoming_queue, backend->peer);
    return 0;
}

void hold_network_insist(void)
{
    for (unsigned i = 0; i < filters->len; i++) {
        qemu_flush_queued_packets(((NetFilterState *)filters->pdata[i])->netdev);
    }
}

/* --- filters ------------------------------------------------------------------------------- */

static ssize_t hold_packet(NetFilterState *nf, NetClientState *sender, unsigned flags,
                           const struct iovec *part, int n_parts, NetPacketSent *sent)
{
    size_t size = iov_size(part, n_parts);
    g_autofree uint8_t *packet = g_malloc(size);

    iov_to_buf(part, n_parts, 0, packet, size);
    hold_output(FILTER_RECORDER(nf)->outlet, flags_of(flags, nf->netdev), packet, size);
    return size;
}

static void setup(NetFilterState *nf, Error **errp)
{
    FilterRecorder *filter = FILTER_RECORDER(nf);
    OutletOptions options = { send_packet, filter };

    if (!filters) {
        error_setg(errp, "only the recorder makes it");
        return;
    }
    filter->outlet = hold_outlet(&options);
}

/* Its backend is removed, or nothing is held any more. */
static void cleanup(NetFilterState *nf)
{
    FilterRecorder *filter = FILTER_RECORDER(nf);

    if (filter->outlet) {
        hold_drop_outlet(filter->outlet);
        g_ptr_array_remove(filters, filter);
    }
}

static void class_init(ObjectClass *class, void *data)
{
    NetFilterClass *filter = NETFILTER_CLASS(class);

    filter->setup = setup;
    filter->cleanup = cleanup;
    filter->receive_iov = hold_packet;
}

static const TypeInfo filter_recorder = {
    .name = TYPE_FILTER_RECORDER,
    .parent = TYPE_NETFILTER,
    .class_init = class_init,
    .instance_size = sizeof(FilterRecorder),
};

static void register_type(void)
{
    type_register_static(&filter_recorder);
}
type_init(register_type)

typedef struct Start {
    Error **errp;
    bool ok;
} Start;

static void add_filter(NICState *nic, void *opaque)
{
    NetClientState *backend = qemu_get_queue(nic)->peer;
    g_autofree char *id = NULL;
    Start *start = opaque;
    Object *filter;

    if (!start->ok || !backend) {
        return;
    }
    if (backend->info->type == NET_CLIENT_DRIVER_HUBPORT) {
        error_setg(start->errp, "cannot hold what is sent to a hub: give -netdev or -nic, not "
                   "-net");
        start->ok = false;
        return;
    }
    /* No user can name an object so. */
    id = g_strdup_printf("#recorder-hold-%u", filters->len);
    filter = object_new_with_props(TYPE_FILTER_RECORDER, object_get_objects_root(), id,
                                   start->errp, "netdev", backend->name, "queue", "rx", NULL);
    start->ok = filter;
    if (filter) {
        g_ptr_array_add(filters, filter);
    } else {
        error_prepend(start->errp, "cannot hold what is sent to network backend %s: ",
                      backend->name);
    }
}

bool hold_network_start(Error **errp)
{
    Start start = { errp, true };

    filters = g_ptr_array_new();
    qemu_foreach_nic(add_filter, &start);
    return start.ok;
}

void hold_network_stop(void)
{
    while (filters && filters->len) {
        object_unparent(filters->pdata[filters->len - 1]);
    }
    g_clear_pointer(&filters, g_ptr_array_unref);
}
