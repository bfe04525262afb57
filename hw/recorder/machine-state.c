/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The state of a stopped machine in a directory of its own: `ram`, main memory; `cpus`, the
 * registers of each vCPU; `devices`, everything else that QEMU would migrate, if the guest may go
 * live from there (live.h); `sums`, checksums of all but `ram`.  On machines whose memory map may
 * change also `map`, where the guest finds memory, and `roms`, what is in its ROMs.
 *
 * Translations and code are not part of it: they are coherent copies, and replay makes them anew.
 *
 * Later checkpoints have only that part of RAM which has changed since the checkpoint before.
 * QEMU's dirty bits for migration tell which pages were written.  A vCPU sets the bit with its
 * first store to a page whose bit is clear.  Other writers call machine_state_written().
 *
 * Main thread, BQL held, vCPUs stopped, unless machine-state.h says otherwise.
 */
#include "qemu/osdep.h"
#include "exec/address-spaces.h"
#include "exec/memory.h"
#include "exec/ram_addr.h"
#include "hw/boards.h"
#include "hw/core/cpu.h"
#include "hw/core/sysemu-cpu-ops.h"
#include "io/channel-buffer.h"
#include "io/channel-file.h"
#include "migration/global_state.h"
#include "migration/qemu-file.h"
#include "migration/savevm.h"
#include "migration/vmstate.h"
#include "qapi/error.h"

#include "base/summed-text.h"
#include "hw/recorder/machine.h"
#include "hw/recorder/machine-state.h"
#include "hw/recorder/memory-map.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/target.h"
#include "hw/recorder/vcpu.h"
#include "recording/checkpoint-sums.h"
#include "recording/ram-digest.h"
#include "recording/ram-image.h"

typedef int StateFn(QEMUFile *file);

#define MOST_MAP_BYTES (1 << 20)

static MemoryRegion *main_ram(void)
{
    return MACHINE(qdev_get_machine())->ram;
}

static const char *main_ram_name(void)
{
    return qemu_ram_get_idstr(main_ram()->ram_block);
}

/* --- RAM -------------------------------------------------------------------- */

/* Save the pages of RAM in @changed, or all if that is NULL. */
static RamImageWriter *save_ram(const char *directory, const uint64_t *changed, Error **errp)
{
    g_autofree char *path = g_build_filename(directory, RAM_IMAGE_FILE, NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(RamImageWriter) writer = ram_image_create(path, &error);
    const char *name = main_ram_name();
    const uint8_t *host = memory_region_get_ram_ptr(main_ram());
    uint64_t size = memory_region_size(main_ram());

    if (!writer ||
        !(changed ? ram_image_add_changes(writer, name, host, size, changed, &error)
                  : ram_image_add_block(writer, name, host, size, &error))) {
        error_setg(errp, "%s", error->message);
        return NULL;
    }
    return g_steal_pointer(&writer);
}

void machine_state_written(uint64_t offset, uint64_t size)
{
    cpu_physical_memory_set_dirty_range(memory_region_get_ram_addr(main_ram()) + offset, size,
                                        1 << DIRTY_MEMORY_MIGRATION);
}

/* How many pages are looked at together before each is looked at by itself. */
#define MANY_PAGES RAM_IMAGE_CHUNK_PAGES

/*
 * For each of those who take changes while others do, too: pages that others have taken.  NULL:
 * nobody else takes any.
 */
static uint64_t *taken_by_others[MACHINE_STATE_TAKERS];

static size_t n_change_words(void)
{
    return memory_region_size(main_ram()) / RAM_IMAGE_PAGE / MANY_PAGES + 1;
}

/* Return the pages of the snapshot from @first on, at most MANY_PAGES, as bits. */
static uint64_t changes_from(DirtyBitmapSnapshot *snapshot, uint64_t first)
{
    uint64_t end = MIN(first + MANY_PAGES, memory_region_size(main_ram()) / RAM_IMAGE_PAGE);
    uint64_t bits = 0;

    if (first < end &&
        memory_region_snapshot_get_dirty(main_ram(), snapshot, first * RAM_IMAGE_PAGE,
                                         (end - first) * RAM_IMAGE_PAGE)) {
        for (uint64_t page = first; page < end; page++) {
            if (memory_region_snapshot_get_dirty(main_ram(), snapshot, page * RAM_IMAGE_PAGE,
                                                 RAM_IMAGE_PAGE)) {
                bits |= UINT64_C(1) << (page - first);
            }
        }
    }
    return bits;
}

uint64_t *machine_state_take_bits(MachineStateTaker taker, uint64_t *n_changed)
{
    size_t n_words = n_change_words();
    uint64_t *changed = g_new(uint64_t, n_words);
    g_autofree DirtyBitmapSnapshot *snapshot =
        memory_region_snapshot_and_clear_dirty(main_ram(), 0, memory_region_size(main_ram()),
                                               DIRTY_MEMORY_MIGRATION);

    *n_changed = 0;
    for (size_t i = 0; i < n_words; i++) {
        changed[i] = changes_from(snapshot, i * MANY_PAGES);
        for (unsigned other = 0; other < MACHINE_STATE_TAKERS; other++) {
            if (other != taker && taken_by_others[other]) {
                taken_by_others[other][i] |= changed[i];
            }
        }
        if (taken_by_others[taker]) {
            changed[i] |= taken_by_others[taker][i];
            taken_by_others[taker][i] = 0;
        }
        *n_changed += ctpop64(changed[i]);
    }
    return changed;
}

void machine_state_share_changes(bool share)
{
    for (unsigned i = 0; i < MACHINE_STATE_TAKERS; i++) {
        g_clear_pointer(&taken_by_others[i], g_free);
        taken_by_others[i] = share ? g_new0(uint64_t, n_change_words()) : NULL;
    }
}

/* Return the pages that changed since the last checkpoint, to be freed by the caller. */
static uint64_t *take_changes(uint64_t *n_changed)
{
    return machine_state_take_bits(MACHINE_STATE_CHECKPOINTS, n_changed);
}

GArray *machine_state_take_changes(void)
{
    GArray *pages = g_array_new(false, false, sizeof(uint32_t));
    uint64_t n_changed;
    g_autofree uint64_t *changed = take_changes(&n_changed);
    uint32_t n = memory_region_size(main_ram()) / RAM_IMAGE_PAGE;

    for (uint32_t page = 0; n_changed > 0 && page < n; page++) {
        uint64_t word = changed[page / RAM_IMAGE_CHUNK_PAGES];

        if (word == 0) {
            page |= RAM_IMAGE_CHUNK_PAGES - 1;
        } else if (word >> page % RAM_IMAGE_CHUNK_PAGES & 1) {
            g_array_append_val(pages, page);
            n_changed--;
        }
    }
    return pages;
}

const uint8_t *machine_state_ram(uint64_t *size)
{
    *size = memory_region_size(main_ram());
    return memory_region_get_ram_ptr(main_ram());
}

static uint8_t *find_ram(void *opaque, const char *name, uint64_t size, bool *zeroed)
{
    if (!g_str_equal(name, main_ram_name()) || size != memory_region_size(main_ram())) {
        return NULL;
    }
    return memory_region_get_ram_ptr(main_ram());
}

static bool load_ram(const char *directory, bool changes, Error **errp)
{
    g_autofree char *path = g_build_filename(directory, RAM_IMAGE_FILE, NULL);
    g_autoptr(GError) error = NULL;

    if (!(changes ? ram_image_load_changes : ram_image_load)(path, find_ram, NULL, &error)) {
        error_setg(errp, "%s", error->message);
        return false;
    }
    return true;
}

/* --- vCPUs and devices ------------------------------------------------------ */

/*
 * Return the reason of a failure.  Loading fails for one of two reasons, which QEMU's error codes
 * do not distinguish.
 */
static const char *why_not(const char *name, bool write, int failed, int file_error)
{
    if (write) {
        return strerror(failed < 0 ? -failed : EIO);
    }
    if (file_error) {
        return "it is truncated";
    }
    return g_str_equal(name, CHECKPOINT_CPUS) ? "it does not fit this CPU model"
                                              : "this machine has other devices";
}

/* Run @fn on the file @name of the checkpoint. */
static bool with_file(const char *directory, const char *name, bool write, StateFn *fn,
                      Error **errp)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);
    QIOChannelFile *channel;
    QEMUFile *file;
    int failed, file_error;

    channel = qio_channel_file_new_path(path, write ? O_WRONLY | O_CREAT | O_EXCL : O_RDONLY,
                                        0644, errp);
    if (!channel) {
        return false;
    }
    file = write ? qemu_file_new_output(QIO_CHANNEL(channel))
                 : qemu_file_new_input(QIO_CHANNEL(channel));
    object_unref(OBJECT(channel));
    failed = fn(file);
    file_error = qemu_file_get_error(file);
    if (qemu_fclose(file) < 0 || file_error) {
        failed = failed ?: file_error ?: -EIO;
    }
    if (failed) {
        error_setg(errp, "cannot %s %s: %s", write ? "write" : "use", path,
                   why_not(name, write, failed, file_error));
        return false;
    }
    return true;
}

static int save_cpus(QEMUFile *file)
{
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        int failed;

        recorder_before_save(cpu);
        failed = vmstate_save_state(file, &vmstate_cpu_common, cpu, NULL);

        if (!failed) {
            failed = vmstate_save_state(file, cpu->cc->sysemu_ops->legacy_vmsd, cpu, NULL);
        }
        if (failed) {
            return failed;
        }
        qemu_put_byte(file, recorder_points_hit(cpu));
    }
    qemu_put_byte(file, 0);     /* the loader looks one byte ahead */
    return 0;
}

/* Load all vCPUs.  Interrupts and wake-ups come from the log, so nothing is pending. */
static int load_cpus(QEMUFile *file)
{
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        const VMStateDescription *vmsd = cpu->cc->sysemu_ops->legacy_vmsd;
        int failed;

        recorder_before_load(cpu);
        failed = vmstate_load_state(file, &vmstate_cpu_common, cpu, vmstate_cpu_common.version_id);
        if (!failed) {
            failed = vmstate_load_state(file, vmsd, cpu, vmsd->version_id);
        }
        if (failed) {
            return failed;
        }
        cpu->halted = 0;
        cpu->interrupt_request = 0;
        cpu->recorder_points = qemu_get_byte(file);
    }
    return 0;
}

/*
 * Save the exception that a vCPU has raised but not delivered, if any, and data breakpoints that it
 * has hit.
 */
static void save_pending(QEMUFile *file, CPUState *cpu)
{
    uint64_t words[RECORDER_PENDING_WORDS];

    recorder_get_pending(cpu, words);
    qemu_put_byte(file, recorder_points_hit(cpu));
    qemu_put_be32(file, cpu->exception_index);
    for (unsigned i = 0; i < ARRAY_SIZE(words); i++) {
        qemu_put_be64(file, words[i]);
    }
}

static void load_pending(QEMUFile *file, CPUState *cpu)
{
    uint64_t words[RECORDER_PENDING_WORDS];

    cpu->recorder_points = qemu_get_byte(file);
    cpu->exception_index = qemu_get_be32(file);
    for (unsigned i = 0; i < ARRAY_SIZE(words); i++) {
        words[i] = qemu_get_be64(file);
    }
    recorder_set_pending(cpu, words);
}

/* A file in memory.  Closing it to write it also returns what was written. */
static QEMUFile *create_in_memory(QIOChannelBuffer **channel)
{
    *channel = qio_channel_buffer_new(64 * 1024);
    return qemu_file_new_output(QIO_CHANNEL(*channel));
}

static GByteArray *close_in_memory(QEMUFile *file, QIOChannelBuffer *channel)
{
    GByteArray *bytes = g_byte_array_new();

    qemu_fflush(file);
    g_byte_array_append(bytes, channel->data, channel->usage);
    qemu_fclose(file);
    object_unref(OBJECT(channel));
    return bytes;
}

static QEMUFile *open_in_memory(const GByteArray *bytes)
{
    QIOChannelBuffer *channel = qio_channel_buffer_new(bytes->len);
    QEMUFile *file = qemu_file_new_input(QIO_CHANNEL(channel));

    memcpy(channel->data, bytes->data, bytes->len);
    channel->usage = bytes->len;
    object_unref(OBJECT(channel));
    return file;
}

/*
 * Save without the state that all CPUs have in common.  None of it is needed.  Loading it would
 * invalidate all TBs, since most code that loads it has written memory without TCG's knowledge.
 */
GByteArray *machine_state_save_registers(void)
{
    QIOChannelBuffer *channel;
    QEMUFile *file = create_in_memory(&channel);
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        int failed;

        recorder_before_save(cpu);
        failed = vmstate_save_state(file, cpu->cc->sysemu_ops->legacy_vmsd, cpu, NULL);
        assert(!failed);
        save_pending(file, cpu);
    }
    qemu_put_byte(file, 0);     /* the loader looks one byte ahead */
    return close_in_memory(file, channel);
}

void machine_state_load_registers(const GByteArray *bytes)
{
    QEMUFile *file = open_in_memory(bytes);
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        const VMStateDescription *vmsd = cpu->cc->sysemu_ops->legacy_vmsd;
        int failed;

        recorder_before_load(cpu);
        failed = vmstate_load_state(file, vmsd, cpu, vmsd->version_id);
        assert(!failed);
        cpu->halted = 0;
        cpu->interrupt_request = 0;
        load_pending(file, cpu);
    }
    qemu_fclose(file);
}

static int save_devices(QEMUFile *file)
{
    global_state_store_running();       /* one of the sections; it cannot be loaded otherwise */
    return qemu_save_device_state(file);
}

/* QEMU's own function expects to be behind the header. */
static int load_devices(QEMUFile *file)
{
    if (qemu_get_be32(file) != QEMU_VM_FILE_MAGIC ||
        qemu_get_be32(file) != QEMU_VM_FILE_VERSION) {
        return -EINVAL;
    }
    return qemu_load_device_state(file);
}

/* Save where the guest finds memory, and its ROMs. */
static bool save_map(const char *directory, Error **errp)
{
    g_autofree char *map_path = g_build_filename(directory, CHECKPOINT_MAP, NULL);
    g_autofree char *roms_path = g_build_filename(directory, CHECKPOINT_ROMS, NULL);
    g_autofree char *map = memory_map_describe();
    g_autoptr(GString) text = g_string_new(map);
    g_autoptr(GError) error = NULL;
    g_autoptr(RamImageWriter) roms = ram_image_create(roms_path, &error);

    if (!roms || !memory_map_save_roms(roms, &error) || !ram_image_close(roms, &error) ||
        !summed_text_create(map_path, text, false, &error)) {
        error_setg(errp, "%s", error->message);
        return false;
    }
    return true;
}

static bool load_map(const char *directory, Error **errp)
{
    g_autofree char *map_path = g_build_filename(directory, CHECKPOINT_MAP, NULL);
    g_autofree char *roms_path = g_build_filename(directory, CHECKPOINT_ROMS, NULL);
    g_autoptr(GString) map = NULL;
    g_autoptr(GError) error = NULL;

    if (!recorder_map_may_change()) {
        return true;
    }
    map = summed_text_read(map_path, MOST_MAP_BYTES, &error);
    if (!map || !ram_image_load(roms_path, memory_map_find_rom, NULL, &error)) {
        error_setg(errp, "%s", error->message);
        return false;
    }
    if (!memory_map_apply(map->str)) {
        error_setg(errp, "%s: it is no map of this machine's memory", map_path);
        return false;
    }
    return true;
}

/* Save all but memory, and @devices if wanted. */
static bool save_state(const char *directory, bool devices, Error **errp)
{
    const char *names[] = { CHECKPOINT_CPUS, NULL, NULL, NULL, NULL };
    unsigned n = 1;
    g_autoptr(GError) error = NULL;

    if (!with_file(directory, CHECKPOINT_CPUS, true, save_cpus, errp)) {
        return false;
    }
    if (devices) {
        names[n++] = CHECKPOINT_DEVICES;
        if (!with_file(directory, CHECKPOINT_DEVICES, true, save_devices, errp)) {
            return false;
        }
    }
    if (recorder_map_may_change()) {
        names[n++] = CHECKPOINT_MAP;
        names[n++] = CHECKPOINT_ROMS;
        if (!save_map(directory, errp)) {
            return false;
        }
    }
    if (!checkpoint_sums_save(directory, names, &error)) {
        error_setg(errp, "%s", error->message);
        return false;
    }
    return true;
}

/* Check the checksums: QEMU loads some damaged registers without an error. */
static bool check_sums(const char *directory, Error **errp)
{
    g_autoptr(GError) error = NULL;

    if (!checkpoint_sums_check(directory, &error)) {
        error_setg(errp, "%s", error->message);
        return false;
    }
    return true;
}

/* --- complete states -------------------------------------------------------- */

static bool make_directory(const char *directory, Error **errp)
{
    if (mkdir(directory, 0755) < 0) {
        error_setg(errp, "cannot make %s: %s", directory, strerror(errno));
        return false;
    }
    return true;
}

static RamImageWriter *save_all(const char *directory, bool devices, Error **errp)
{
    uint64_t n_changed;

    if (!save_state(directory, devices, errp)) {
        return NULL;
    }
    g_free(take_changes(&n_changed));
    return save_ram(directory, NULL, errp);
}

static RamImageWriter *save_changes(const char *directory, bool devices, uint64_t *bytes,
                                    Error **errp)
{
    g_autofree uint64_t *changed = NULL;
    uint64_t n_changed;

    if (!save_state(directory, devices, errp)) {
        return NULL;
    }
    changed = take_changes(&n_changed);
    *bytes = n_changed * RAM_IMAGE_PAGE;
    return save_ram(directory, changed, errp);
}

/*
 * Save all of memory, or only what has changed if @changed_bytes is not NULL.  Remove @directory
 * after a failure, but not if it existed before.
 */
static RamImageWriter *save_or_remove(const char *directory, bool devices, uint64_t *changed_bytes,
                                      Error **errp)
{
    RamImageWriter *ram;

    if (!make_directory(directory, errp)) {
        return NULL;
    }
    ram = changed_bytes ? save_changes(directory, devices, changed_bytes, errp)
                        : save_all(directory, devices, errp);
    if (!ram) {
        checkpoint_remove(directory);
    }
    return ram;
}

RamImageWriter *machine_state_save(const char *directory, bool devices, Error **errp)
{
    return save_or_remove(directory, devices, NULL, errp);
}

RamImageWriter *machine_state_save_changes(const char *directory, bool devices, uint64_t *bytes,
                                           Error **errp)
{
    return save_or_remove(directory, devices, bytes, errp);
}

static bool load_memory(const char *recording, char *const *names, unsigned number, Error **errp)
{
    for (unsigned i = 0; i <= number; i++) {
        g_autofree char *directory = g_build_filename(recording, names[i], NULL);

        if (!load_ram(directory, i > 0, errp)) {
            return false;
        }
    }
    return true;
}

bool machine_state_load(const char *recording, char *const *names, unsigned number, Error **errp)
{
    g_autofree char *last = g_build_filename(recording, names[number], NULL);

    return load_memory(recording, names, number, errp) && check_sums(last, errp) &&
           load_map(last, errp) && with_file(last, CHECKPOINT_CPUS, false, load_cpus, errp);
}

/* --- going live ------------------------------------------------------------- */

/* Return the machine's own memory for ROM @name: a RamImageBlockFn. */
static uint8_t *find_own_rom(void *opaque, const char *name, uint64_t size, bool *zeroed)
{
    RAMBlock *block = qemu_ram_block_by_name(name);

    return block && qemu_ram_get_used_length(block) == size ? qemu_ram_get_host_addr(block) : NULL;
}

/* Load what is in ROMs.  Devices tell where the guest finds them. */
static bool load_roms(const char *directory, Error **errp)
{
    g_autofree char *path = g_build_filename(directory, CHECKPOINT_ROMS, NULL);
    g_autoptr(GError) error = NULL;

    if (recorder_map_may_change() && !ram_image_load(path, find_own_rom, NULL, &error)) {
        error_setg(errp, "%s", error->message);
        return false;
    }
    return true;
}

static uint64_t digest_of_vcpus(void)
{
    uint64_t digest = 0;
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        digest = recorder_mix(digest, recorder_register_digest(cpu));
    }
    return digest;
}

static void let_qemu_trap_points(void)
{
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        recorder_points_end(cpu);
    }
}

/* The devices' file has registers, too: those of another moment would be noticed. */
bool machine_state_load_live(const char *recording, char *const *names, unsigned number,
                             Error **errp)
{
    g_autofree char *last = g_build_filename(recording, names[number], NULL);
    uint64_t digest;

    if (!load_memory(recording, names, number, errp) || !check_sums(last, errp) ||
        !load_roms(last, errp) || !with_file(last, CHECKPOINT_CPUS, false, load_cpus, errp)) {
        return false;
    }
    digest = digest_of_vcpus();
    if (!with_file(last, CHECKPOINT_DEVICES, false, load_devices, errp)) {
        return false;
    }
    if (digest_of_vcpus() != digest) {
        error_setg(errp, "%s: its devices and its registers are of different moments", last);
        return false;
    }
    let_qemu_trap_points();
    return true;
}

GByteArray *machine_state_save_epoch(void)
{
    QIOChannelBuffer *channel;
    QEMUFile *file = create_in_memory(&channel);
    int failed = save_cpus(file) ?: save_devices(file) ?: qemu_file_get_error(file);
    g_autoptr(GByteArray) bytes = close_in_memory(file, channel);

    return failed ? NULL : g_steal_pointer(&bytes);
}

/* Load the state as save_cpus() and save_devices() have written it, one after the other. */
static bool load_epoch(QEMUFile *file, uint64_t replayed, Error **errp)
{
    if (load_cpus(file) || qemu_get_byte(file) != 0 || digest_of_vcpus() != replayed) {
        error_setg(errp, "its registers are not those of the replay");
        return false;
    }
    if (load_devices(file) || qemu_file_get_error(file)) {
        error_setg(errp, "this machine has other devices");
        return false;
    }
    if (digest_of_vcpus() != replayed) {
        error_setg(errp, "its devices and its registers are of different moments");
        return false;
    }
    return true;
}

bool machine_state_load_epoch(const GByteArray *state, Error **errp)
{
    uint64_t replayed = digest_of_vcpus();
    QEMUFile *file = open_in_memory(state);
    bool loaded;

    memory_map_uncover();
    loaded = load_epoch(file, replayed, errp);
    qemu_fclose(file);
    if (loaded) {
        let_qemu_trap_points();
    }
    return loaded;
}

/*
 * Return main memory alone, from MAIN_RAM_BASE on, wherever the guest finds it.  The base is not 0:
 * QEMU looks through a container whose only region begins at 0, and finds memory at its usual
 * address.
 */
#define MAIN_RAM_BASE 4096

static AddressSpace *main_ram_space(void)
{
    static AddressSpace *space;
    static MemoryRegion root, alias;

    if (!space) {
        memory_region_init(&root, NULL, "reprise-ram-space", UINT64_MAX);
        memory_region_init_alias(&alias, NULL, "reprise-ram", main_ram(), 0,
                                 memory_region_size(main_ram()));
        memory_region_add_subregion(&root, MAIN_RAM_BASE, &alias);
        space = g_new0(AddressSpace, 1);
        address_space_init(space, &root, "reprise-ram-space");
    }
    return space;
}

void machine_state_prepare_writes(void)
{
    main_ram_space();
}

bool machine_state_write_ram(uint64_t offset, const void *bytes, size_t n)
{
    if (offset > memory_region_size(main_ram()) ||
        n > memory_region_size(main_ram()) - offset) {
        return false;
    }
    machine_state_written(offset, n);
    return address_space_write(main_ram_space(), MAIN_RAM_BASE + offset, MEMTXATTRS_UNSPECIFIED,
                               bytes, n) == MEMTX_OK;
}

RamDigestTracker *machine_state_track_digest(void)
{
    return ram_digest_track(main_ram_name(), memory_region_get_ram_ptr(main_ram()),
                            memory_region_size(main_ram()));
}

char *machine_state_ram_digest(void)
{
    RamDigest digest;

    ram_digest_init(&digest);
    ram_digest_add_block(&digest, main_ram_name(), memory_region_get_ram_ptr(main_ram()),
                         memory_region_size(main_ram()));
    return ram_digest_format(&digest);
}
