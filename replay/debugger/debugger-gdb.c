/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The functions that QEMU's gdbstub calls while a recording is debugged (exec/gdbstub.h).  Main
 * thread, BQL held.
 */
#include "qemu/osdep.h"
#include "chardev/char-socket.h"
#include "exec/address-spaces.h"
#include "exec/cpu-common.h"
#include "exec/gdbstub.h"
#include "exec/memory.h"
#include "hw/core/cpu.h"
#include "io/net-listener.h"
#include "system/runstate.h"

#include "base/page-history.h"
#include "replay/debugger/debugger.h"

/*
 * The vCPU of gdb's last T packet ("is this thread alive?"), and the vCPU that the user looked at
 * before.  gdb sends T when its user selects a thread, but also to list threads.  In a list
 * qThreadExtraInfo follows for the same thread; then the user still looks at the earlier vCPU.
 */
static CPUState *asked_for, *looked_at_before;
/*
 * The vCPU that moves backwards alone, set by gdb's Hc packet.  NULL: all vCPUs do, and a step back
 * is one of the vCPU that the user looks at.
 */
static CPUState *alone_back;

bool gdb_travels(void)
{
    return debugger_active();
}

bool gdb_travel(CPUState *cpu, char how)
{
    if (!debugger_active()) {
        return false;
    }
    switch (how) {
    case 'T':
        looked_at_before = debugger_looks_at();
        asked_for = cpu;
        debugger_look_at(cpu);
        return true;
    case 'q':
        if (cpu == asked_for) {
            debugger_look_at(looked_at_before);
        }
        /* fall through */
    case 'f':
        asked_for = NULL;
        return true;
    case 'o':
        debugger_go_alone(cpu);
        return true;
    case 'H':
        alone_back = cpu;
        return true;
    case 's':
        debugger_plan_step(cpu, false);
        break;
    case 'S':
        debugger_go_alone(alone_back);
        debugger_plan_step(alone_back ?: debugger_looks_at(), true);
        break;
    case 'C':
        debugger_go_alone(alone_back);
        debugger_plan_continue(true);
        break;
    default:
        debugger_plan_continue(false);
        break;
    }
    vm_start();
    return true;
}

/* Return true if @address, guest-physical, is RAM or ROM. */
static bool is_memory(hwaddr address)
{
    hwaddr offset, size = 1;
    MemoryRegion *mr;

    RCU_READ_LOCK_GUARD();
    mr = address_space_translate(&address_space_memory, address, &offset, &size, false,
                                 MEMTXATTRS_UNSPECIFIED);
    return memory_region_is_ram(mr) || memory_region_is_romd(mr);
}

/*
 * Return false if some of the bytes are of a device: a replay has no devices.  Unmapped bytes do
 * not matter here, since gdbstub's own access to them fails.
 */
bool gdb_travel_sees(CPUState *cpu, uint64_t address, int n, bool physical)
{
    const vaddr page = -(vaddr)PAGE_HISTORY_PAGE;

    for (vaddr at = address & page; at - (address & page) < n + (address & ~page);
         at += PAGE_HISTORY_PAGE) {
        hwaddr where = physical ? at : cpu_get_phys_page_debug(cpu, at);

        if (where != -1 && !is_memory(where)) {
            return false;
        }
    }
    return true;
}

void gdb_travel_history(GString *reply)
{
    if (debugger_end_met()) {
        g_string_append_printf(reply, "replaylog:%s;", debugger_end_met());
    }
}

/* --- a second gdb -------------------------------------------------------------------------- */

/*
 * Answer each packet of a second gdb with the same error.  gdb shows the first answer to its user
 * and disconnects at the second.  Return false to remove this watch of the channel.
 */
static gboolean refuse(QIOChannel *another, GIOCondition condition, gpointer opaque)
{
    static const char why[] = "E.this recording is being debugged already: one gdb at a time";
    g_autofree char *answer = NULL;
    uint8_t sum = 0;
    char packet[4096];
    ssize_t n = qio_channel_read(another, packet, sizeof(packet), NULL);

    if (n == QIO_CHANNEL_ERR_BLOCK || (n > 0 && !memchr(packet, '#', n))) {
        return G_SOURCE_CONTINUE;
    }
    for (const char *c = why; *c; c++) {
        sum += *c;
    }
    answer = g_strdup_printf("+$%s#%02x", why, sum);
    return n > 0 && qio_channel_write(another, answer, strlen(answer), NULL) > 0;
}

/* Refuse a new connection. */
static void meet_another(QIONetListener *listener, QIOChannelSocket *another, gpointer opaque)
{
    qio_channel_set_blocking(QIO_CHANNEL(another), false, NULL);
    qio_channel_add_watch(QIO_CHANNEL(another), G_IO_IN | G_IO_HUP, refuse, NULL, NULL);
}

/*
 * Refuse further connections while a gdb is attached: QEMU would leave them without an answer.
 * When this gdb disconnects, QEMU itself sets the listener back.
 */
void gdb_travel_attached(Chardev *chr)
{
    SocketChardev *socket = (SocketChardev *)object_dynamic_cast(OBJECT(chr), TYPE_CHARDEV_SOCKET);

    alone_back = NULL;
    if (debugger_active() && socket && socket->listener) {
        qio_net_listener_set_client_func_full(socket->listener, meet_another, NULL, NULL,
                                              chr->gcontext);
    }
}
