/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See snapshots.h.
 *
 * Snapshot i has its memory in version i of the page history.  Invariant: memory is that of the
 * snapshot @current, except for pages whose dirty bit (DIRTY_MEMORY_MIGRATION) is set.
 */
#include "qemu/osdep.h"
#include "hw/core/cpu.h"

#include "base/page-history.h"
#include "hw/recorder/machine-state.h"
#include "hw/recorder/memory-map.h"
#include "recording/position.h"
#include "recording/ram-image.h"
#include "replay/debugger/snapshots.h"
#include "replay/player.h"

/* The pages of machine_state_take_changes() are those of an image. */
QEMU_BUILD_BUG_ON(PAGE_HISTORY_PAGE != RAM_IMAGE_PAGE);

struct Snapshot {
    uint64_t moment;
    TotalOrder *order;
    PlayerState *player;
    GByteArray *registers;
    char *map;                  /* memory-map.h; NULL: the machine's own */
    uint64_t bytes;             /* its size, without memory */
};

static GPtrArray *snapshots;    /* by moment, ascending */
static PageHistory *history;
static unsigned current;        /* index of the snapshot that was taken or restored last */
static uint64_t bytes, budget;  /* what all snapshots take, without memory; may take, with memory */
static uint64_t held;           /* the moment whose snapshot is not given up */

/* How many snapshots are never given up: the first, the held and the current one. */
#define N_STAYING 3

static Snapshot *get(unsigned i)
{
    return snapshots->pdata[i];
}

static Snapshot *snapshot_new(const TotalOrder *order)
{
    Snapshot *snapshot = g_new(Snapshot, 1);

    snapshot->moment = total_order_moment(order);
    snapshot->order = total_order_copy(order);
    snapshot->player = player_save();
    snapshot->registers = machine_state_save_registers();
    snapshot->map = g_strdup(memory_map_applied());
    snapshot->bytes = sizeof(*snapshot) + total_order_size(order) +
                      player_state_size(snapshot->player) + snapshot->registers->len;
    bytes += snapshot->bytes;
    return snapshot;
}

static void snapshot_free(gpointer data)
{
    Snapshot *snapshot = data;

    bytes -= snapshot->bytes;
    total_order_free(snapshot->order);
    player_state_free(snapshot->player);
    g_byte_array_unref(snapshot->registers);
    g_free(snapshot->map);
    g_free(snapshot);
}

void snapshots_begin(const TotalOrder *order, uint64_t most)
{
    uint64_t size;
    const uint8_t *memory = machine_state_ram(&size);

    snapshots_end();
    g_array_unref(machine_state_take_changes());
    history = page_history_new(memory, size / PAGE_HISTORY_PAGE);
    snapshots = g_ptr_array_new_with_free_func(snapshot_free);
    g_ptr_array_add(snapshots, snapshot_new(order));
    current = 0;
    budget = most;
}

void snapshots_end(void)
{
    g_clear_pointer(&history, page_history_free);
    g_clear_pointer(&snapshots, g_ptr_array_unref);
}

/* --- too many -------------------------------------------------------------------- */

/*
 * Return the worth of snapshot @i, which is not the first: the distance between its neighbours,
 * divided by its own distance from @now plus a million steps.
 */
static double worth(unsigned i, uint64_t now)
{
    uint64_t moment = get(i)->moment;
    uint64_t after = i + 1 < snapshots->len ? get(i + 1)->moment : moment;
    uint64_t gap = after - get(i - 1)->moment;

    return gap / (1e6 + (moment > now ? moment - now : now - moment));
}

/* Give up the snapshot of the least worth.  There are more than N_STAYING. */
static void remove_one(void)
{
    uint64_t now = get(current)->moment;
    unsigned worst = 0;

    for (unsigned i = 1; i < snapshots->len; i++) {
        if (i != current && get(i)->moment != held &&
            (worst == 0 || worth(i, now) < worth(worst, now))) {
            worst = i;
        }
    }
    g_ptr_array_remove_index(snapshots, worst);
    page_history_remove(history, worst);
    current -= worst < current;
}

/* --- the interface ---------------------------------------------------------------- */

/* Return the index of the last snapshot that is not after @moment, or -1. */
static int find(uint64_t moment)
{
    int i = snapshots->len - 1;

    while (i >= 0 && get(i)->moment > moment) {
        i--;
    }
    return i;
}

void snapshots_take(const TotalOrder *order)
{
    uint64_t moment = total_order_moment(order), size;
    /* Not always @current: replay may have run past snapshots.  @pages has some more, then. */
    int before = find(moment);
    g_autoptr(GArray) pages = machine_state_take_changes();

    if (get(before)->moment == moment) {
        /* Replay is exact, so memory is now as it was when this snapshot was taken. */
        current = before;
        return;
    }
    page_history_add(history, before, pages, machine_state_ram(&size));
    g_ptr_array_insert(snapshots, before + 1, snapshot_new(order));
    current = before + 1;
    while (bytes + page_history_bytes(history) > budget && snapshots->len > N_STAYING) {
        remove_one();
    }
}

void snapshots_hold(uint64_t moment)
{
    held = moment;
}

/* Write @page as a device would, so that TBs made from it are invalidated. */
static void write_page(uint32_t page, const uint8_t *content)
{
    machine_state_write_ram(page * (uint64_t)PAGE_HISTORY_PAGE, content, PAGE_HISTORY_PAGE);
}

void snapshots_go(const Snapshot *snapshot)
{
    g_autoptr(GArray) pages = machine_state_take_changes();
    unsigned to;

    g_ptr_array_find(snapshots, snapshot, &to);
    page_history_go(history, current, pages, to, write_page);
    g_array_unref(machine_state_take_changes());
    current = to;
    if (snapshot->map) {
        memory_map_apply(snapshot->map);
    }
    machine_state_load_registers(snapshot->registers);
    player_load(snapshot->player);
}

const Snapshot *snapshots_at(uint64_t moment)
{
    int i = find(moment);

    return i < 0 ? NULL : get(i);
}

const Snapshot *snapshots_of(unsigned stream, Position position)
{
    for (unsigned i = snapshots->len; i-- > 0; ) {
        if (total_order_reached(get(i)->order, stream) <= position) {
            return get(i);
        }
    }
    return NULL;
}

uint64_t snapshot_moment(const Snapshot *snapshot)
{
    return snapshot->moment;
}

const TotalOrder *snapshot_order(const Snapshot *snapshot)
{
    return snapshot->order;
}
