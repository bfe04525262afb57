/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See memory-map.h.
 */
#include "qemu/osdep.h"
#include "qemu/rcu.h"
#include "exec/address-spaces.h"
#include "exec/cpu-common.h"
#include "exec/memory.h"
#include "hw/boards.h"
#include "qapi/error.h"

#include "hw/recorder/map-change.h"
#include "hw/recorder/memory-map.h"

static MemoryRegion *main_ram(void)
{
    return MACHINE(qdev_get_machine())->ram;
}

static bool is_main_ram(const MemoryRegion *mr)
{
    return mr->ram_block && mr->ram_block == main_ram()->ram_block;
}

/* --- the present map --------------------------------------------------------------- */

/* A map that is being described.  Neighbours that continue each other are one range. */
typedef struct Description {
    MemoryListener listener;
    GString *text;
    uint64_t address, size, offset;     /* of the last range, which is not in @text yet */
    bool read_only;
    RAMBlock *block;            /* NULL: there is no such range */
} Description;

static void end_range(Description *d)
{
    if (d->block) {
        g_string_append_printf(d->text, "%" PRIx64 " %" PRIx64 " %s %" PRIx64 " %s\n", d->address,
                               d->size, d->read_only ? "rom" : "ram", d->offset,
                               qemu_ram_get_idstr(d->block));
    }
    d->block = NULL;
}

/* Called for all ranges of the address space, ascending. */
static void describe_range(MemoryListener *listener, MemoryRegionSection *section)
{
    Description *d = container_of(listener, Description, listener);
    uint64_t address = section->offset_within_address_space;

    if (!memory_region_is_ram(section->mr) || !section->mr->ram_block) {
        return;
    }
    if (d->block != section->mr->ram_block || d->read_only != section->readonly ||
        d->address + d->size != address ||
        d->offset + d->size != section->offset_within_region) {
        end_range(d);
        d->address = address;
        d->size = 0;
        d->offset = section->offset_within_region;
        d->read_only = section->readonly;
        d->block = section->mr->ram_block;
    }
    d->size += int128_get64(section->size);
}

char *memory_map_describe(void)
{
    Description d = {
        .listener = { .name = "reprise-map", .region_add = describe_range },
        .text = g_string_new(NULL),
    };

    memory_listener_register(&d.listener, &address_space_memory);
    memory_listener_unregister(&d.listener);
    end_range(&d);
    return g_string_free(d.text, false);
}

/* --- changes --------------------------------------------------------------------------- */

static Description watched;     /* its text: what was described last, NULL: not watched */
static char *before;

static void change_begins(MemoryListener *listener)
{
    g_string_truncate(watched.text, 0);
    recorder_map_begins();
}

/* Tell of changes of RAM and ROM alone: devices move all the time. */
static void change_ends(MemoryListener *listener)
{
    end_range(&watched);
    if (before && !g_str_equal(before, watched.text->str)) {
        recorder_map_changed(watched.text->str);
    }
    g_free(before);
    before = g_strdup(watched.text->str);
}

void memory_map_watch(bool on)
{
    if (on) {
        watched = (Description) {
            .listener = {
                .name = "reprise-watch", .begin = change_begins, .commit = change_ends,
                .region_add = describe_range, .region_nop = describe_range,
            },
            .text = g_string_new(NULL),
        };
        memory_listener_register(&watched.listener, &address_space_memory);
    } else if (watched.text) {
        memory_listener_unregister(&watched.listener);
        g_string_free(watched.text, true);
        watched.text = NULL;
        g_clear_pointer(&before, g_free);
    }
}

/* --- blocks of ROM ------------------------------------------------------------------------ */

/* Return the @n th word of a line, which ends at a space or at the end of the line. */
static char *word(const char *line, unsigned n)
{
    for (; n > 0 && line; n--) {
        line = strchr(line, ' ');
        line = line ? line + 1 : NULL;
    }
    return line ? g_strndup(line, strcspn(line, " \n")) : NULL;
}

/* Names of the blocks that the first checkpoint has: all that a map of the recording may show. */
static GHashTable *saved;

typedef struct Saving {
    RamImageWriter *writer;
    bool first;                 /* the first checkpoint */
    GError **error;
} Saving;

/*
 * Save @block.  Return nonzero if that failed.  Firmware may map any ROM of a device later, but
 * blobs of fw_cfg are never mapped.
 */
static int save_rom(RAMBlock *block, void *opaque)
{
    const char *name = qemu_ram_get_idstr(block);
    Saving *saving = opaque;

    if (block == main_ram()->ram_block || g_str_has_prefix(name, "/rom@")) {
        return 0;
    }
    if (saving->first) {
        g_hash_table_add(saved, g_strdup(name));
    }
    return !ram_image_add_block(saving->writer, name, qemu_ram_get_host_addr(block),
                                qemu_ram_get_used_length(block), saving->error);
}

bool memory_map_save_roms(RamImageWriter *writer, GError **error)
{
    Saving saving = { writer, !watched.text, error };

    if (saving.first) {
        g_clear_pointer(&saved, g_hash_table_unref);
        saved = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    }
    return qemu_ram_foreach_block(save_rom, &saving) == 0;
}

bool memory_map_is_saved(const char *map)
{
    g_auto(GStrv) lines = g_strsplit(map, "\n", -1);

    for (char **line = lines; *line; line++) {
        g_autofree char *name = word(*line, 4);

        if (name && !g_str_equal(name, qemu_ram_get_idstr(main_ram()->ram_block)) &&
            !g_hash_table_contains(saved, name)) {
            return false;
        }
    }
    return true;
}

/* ROMs of the recording, by name; of MemoryRegion *. */
static GHashTable *roms;

uint8_t *memory_map_find_rom(void *opaque, const char *name, uint64_t size, bool *zeroed)
{
    MemoryRegion *rom;

    if (!roms) {
        roms = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    }
    rom = g_hash_table_lookup(roms, name);
    if (!rom) {
        g_autofree char *own = g_strdup_printf("recorded-%s", name);

        rom = g_new0(MemoryRegion, 1);
        memory_region_init_ram_nomigrate(rom, NULL, own, size, &error_abort);
        g_hash_table_insert(roms, g_strdup(name), rom);
    }
    return memory_region_size(rom) == size ? memory_region_get_ram_ptr(rom) : NULL;
}

/* --- a map that replaces the machine's own ------------------------------------------------ */

static struct {
    MemoryRegion *all;          /* covers the whole address space; NULL: nothing was applied */
    GPtrArray *ranges;          /* of MemoryRegion *, in @all */
    char *text;
} applied;

/* No device answers in a replay.  Loads come from the log before they get here. */
static uint64_t no_load(void *opaque, hwaddr address, unsigned size)
{
    return 0;
}

static void no_store(void *opaque, hwaddr address, uint64_t value, unsigned size)
{
}

static const MemoryRegionOps no_device = {
    .read = no_load, .write = no_store, .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
    .impl = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
};

static MemoryRegion *find_block(const char *name)
{
    if (g_str_equal(name, qemu_ram_get_idstr(main_ram()->ram_block))) {
        return main_ram();
    }
    return roms ? g_hash_table_lookup(roms, name) : NULL;
}

/* Return the region of a line, or NULL if the line is bad. */
static MemoryRegion *make_range(const char *line, uint64_t *address)
{
    uint64_t size, offset;
    MemoryRegion *block, *range;
    int name_at = 0;
    char kind[4];

    if (sscanf(line, "%" SCNx64 " %" SCNx64 " %3s %" SCNx64 " %n", address, &size, kind, &offset,
               &name_at) != 4 || !name_at) {
        return NULL;
    }
    block = find_block(line + name_at);
    if (!block || size == 0 || offset > memory_region_size(block) ||
        size > memory_region_size(block) - offset || *address > UINT64_MAX - size) {
        return NULL;
    }
    range = g_new0(MemoryRegion, 1);
    memory_region_init_alias(range, NULL, "recorded-range", block, offset, size);
    memory_region_set_readonly(range, g_str_equal(kind, "rom"));
    return range;
}

/* A range is an alias, to which no lookup leads.  So nobody uses it once it is removed. */
static void remove_range(gpointer data)
{
    MemoryRegion *range = data;

    if (range->container) {
        memory_region_del_subregion(range->container, range);
    }
    object_unparent(OBJECT(range));
    g_free(range);
}

/* Return the regions of all lines of @map, or NULL if a line is bad. */
static GPtrArray *make_ranges(const char *map, GArray *addresses)
{
    g_autofree char *copy = g_strchomp(g_strdup(map));
    g_auto(GStrv) lines = g_strsplit(copy, "\n", -1);
    g_autoptr(GPtrArray) ranges = g_ptr_array_new_with_free_func(remove_range);

    for (char **line = lines; *line; line++) {
        uint64_t address;
        MemoryRegion *range = make_range(*line, &address);

        if (!range) {
            return NULL;
        }
        g_ptr_array_add(ranges, range);
        g_array_append_val(addresses, address);
    }
    return g_steal_pointer(&ranges);
}

/* Cover all of the machine's own map. */
static void cover(void)
{
    applied.all = g_new0(MemoryRegion, 1);
    memory_region_init_io(applied.all, NULL, &no_device, NULL, "recorded-map", UINT64_MAX);
    memory_region_add_subregion_overlap(get_system_memory(), 0, applied.all, INT_MAX);
}

bool memory_map_apply(const char *map)
{
    g_autoptr(GArray) addresses = g_array_new(false, false, sizeof(uint64_t));
    GPtrArray *ranges;

    if (applied.text && g_str_equal(map, applied.text)) {
        return true;
    }
    memory_region_transaction_begin();
    ranges = make_ranges(map, addresses);
    if (ranges) {
        if (!applied.all) {
            cover();
        }
        g_clear_pointer(&applied.ranges, g_ptr_array_unref);
        for (unsigned i = 0; i < ranges->len; i++) {
            memory_region_add_subregion(applied.all, g_array_index(addresses, uint64_t, i),
                                        ranges->pdata[i]);
        }
        applied.ranges = ranges;
        g_free(applied.text);
        applied.text = g_strdup(map);
    }
    memory_region_transaction_commit();
    return ranges;
}

const char *memory_map_applied(void)
{
    return applied.text;
}

/* Copy a ROM of the recording to the machine's own.  What firmware wrote to it is there, too. */
static void give_rom(gpointer name, gpointer rom, gpointer unused)
{
    RAMBlock *block = qemu_ram_block_by_name(name);

    if (block && qemu_ram_get_used_length(block) == memory_region_size(rom)) {
        memcpy(qemu_ram_get_host_addr(block), memory_region_get_ram_ptr(rom),
               memory_region_size(rom));
    }
}

void memory_map_uncover(void)
{
    if (!applied.all) {
        return;
    }
    g_hash_table_foreach(roms, give_rom, NULL);
    memory_region_transaction_begin();
    g_clear_pointer(&applied.ranges, g_ptr_array_unref);
    memory_region_del_subregion(get_system_memory(), applied.all);
    memory_region_transaction_commit();
    /* A lookup may still lead to it, until the grace period is over: it stays. */
    applied.all = NULL;
    g_clear_pointer(&applied.text, g_free);
}

/* --- addresses ------------------------------------------------------------------------- */

typedef struct Lookup {
    uint64_t offset, address;
    bool found;
} Lookup;

static bool find_offset(Int128 start, Int128 len, const MemoryRegion *mr, hwaddr offset,
                        void *opaque)
{
    Lookup *lookup = opaque;

    if (is_main_ram(mr) && lookup->offset - offset < int128_get64(len)) {
        lookup->address = int128_get64(start) + (lookup->offset - offset);
        lookup->found = true;
    }
    return lookup->found;
}

bool memory_map_address(uint64_t offset, uint64_t *address)
{
    Lookup lookup = { .offset = offset };

    RCU_READ_LOCK_GUARD();
    flatview_for_each_range(address_space_to_flatview(&address_space_memory), find_offset,
                            &lookup);
    *address = lookup.address;
    return lookup.found;
}

bool memory_map_offset(uint64_t address, uint64_t *offset)
{
    hwaddr within, size = 1;
    MemoryRegion *mr;

    RCU_READ_LOCK_GUARD();
    mr = address_space_translate(&address_space_memory, address, &within, &size, false,
                                 MEMTXATTRS_UNSPECIFIED);
    *offset = within;
    return is_main_ram(mr);
}
