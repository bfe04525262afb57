/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See live.h.
 *
 * Replay has no devices, so it cannot just go on without a log.  A recording that shall go live
 * has the state of all devices in each checkpoint, as a migration would send it.  The machine that
 * loads it must have the same devices, so QEMU's command line is kept for the user.
 *
 * What is not part of the state is refused, so that nothing differs silently: disks that the guest
 * may write (disks.h), since they go on changing; devices that QEMU cannot migrate.
 */
#include "qemu/osdep.h"
#include "hw/boards.h"
#include "hw/qdev-core.h"
#include "migration/migration.h"
#include "qapi/error.h"
#include "system/runstate.h"

#include "hw/recorder/disks.h"
#include "hw/recorder/live.h"
#include "hw/recorder/machine-state.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/session.h"
#include "recording/checkpoint-sums.h"

#define MOST_COMMAND_BYTES (128 * 1024)

/* --- recording ---------------------------------------------------------------------- */

bool recorder_can_go_live(Error **errp)
{
    if (migration_is_blocked(errp)) {
        error_prepend(errp, "cannot make checkpoints to go live from: ");
        return false;
    }
    return true;
}

/* Return this process's command line; NULL if it is not known, or cannot be kept as text. */
static char **own_command(void)
{
    g_autoptr(GPtrArray) words = g_ptr_array_new_with_free_func(g_free);
    g_autofree char *line = NULL;
    size_t size;

    if (!g_file_get_contents("/proc/self/cmdline", &line, &size, NULL) || size == 0 ||
        size > MOST_COMMAND_BYTES) {
        return NULL;
    }
    for (const char *word = line; word < line + size; word += strlen(word) + 1) {
        if (!manifest_is_line(word) || words->len == MANIFEST_MAX_WORDS) {
            return NULL;
        }
        g_ptr_array_add(words, g_strdup(word));
    }
    g_ptr_array_add(words, NULL);
    return (char **)g_ptr_array_free(g_steal_pointer(&words), false);
}

static int add_device(Object *object, void *opaque)
{
    if (object_dynamic_cast(object, TYPE_DEVICE)) {
        g_autofree char *path = object_get_canonical_path(object);

        g_ptr_array_add(opaque, g_strdup_printf("%s %s", path, object_get_typename(object)));
    }
    return 0;
}

static gint compare_texts(gconstpointer a, gconstpointer b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/*
 * Return a text for each device of this machine, sorted.  QEMU would load a state into a machine
 * that has more devices, and the guest would suddenly see them.
 */
static char **own_devices(void)
{
    GPtrArray *devices = g_ptr_array_new();

    object_child_foreach_recursive(qdev_get_machine(), add_device, devices);
    g_ptr_array_sort(devices, compare_texts);
    g_ptr_array_add(devices, NULL);
    return (char **)g_ptr_array_free(devices, false);
}

void recorder_describe_origin(Manifest *manifest)
{
    g_autofree char *directory = g_get_current_dir();

    manifest->live = true;
    manifest->command = own_command();
    manifest->devices = own_devices();
    manifest->disks = recorder_own_disks();
    manifest->command_directory = g_strdup(manifest_is_line(directory) ? directory : "");
}

/* --- going live ------------------------------------------------------------------------- */

static bool has_devices(const char *directory, const Manifest *manifest, unsigned number)
{
    g_autofree char *path = g_build_filename(directory, manifest->checkpoints->pdata[number],
                                             CHECKPOINT_DEVICES, NULL);

    return g_file_test(path, G_FILE_TEST_EXISTS);
}

/* Set *@number to the checkpoint to begin at: @from if given, else the last one. */
static bool choose_checkpoint(const char *directory, const Manifest *manifest, bool has_from,
                              unsigned from, unsigned *number, Error **errp)
{
    unsigned n = manifest->checkpoints->len;

    if (!manifest->live) {
        error_setg(errp, "%s was not recorded to go live: record with --live", directory);
        return false;
    }
    if (n == 0 || (has_from && from >= n)) {
        error_setg(errp, n ? "%s has no checkpoint %u: its last is %u" :
                   "%s is not complete: it has no checkpoint", directory, from, n - 1);
        return false;
    }
    if (manifest->disks) {
        error_setg(errp, "%s cannot go live: what its guest has written to disk is no part of its "
                   "checkpoints", directory);
        return false;
    }
    *number = has_from ? from : n - 1;
    if (!has_devices(directory, manifest, *number)) {
        error_setg(errp, "checkpoint %u of %s has no state of devices", *number, directory);
        return false;
    }
    return true;
}

/* Return true if this machine is the recorded one, as far as the manifest tells. */
static bool is_same_machine(const Manifest *recorded, Error **errp)
{
    g_autoptr(Manifest) own = recorder_describe_machine();
    const struct {
        const char *what, *recorded, *own;
    } texts[] = {
        { "architecture", recorded->arch, own->arch },
        { "machine", recorded->machine, own->machine },
        { "machine options", recorded->machine_options, own->machine_options },
        { "CPU", recorded->cpu, own->cpu },
    };

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        if (!g_str_equal(texts[i].recorded, texts[i].own)) {
            error_setg(errp, "this is another machine: its %s is '%s', recorded was '%s'",
                       texts[i].what, texts[i].own, texts[i].recorded);
            return false;
        }
    }
    if (recorded->n_vcpus != own->n_vcpus || recorded->ram_size != own->ram_size) {
        error_setg(errp, "this is another machine: it has %u vCPUs and %" PRIu64 " bytes of "
                   "memory, recorded were %u and %" PRIu64, own->n_vcpus, own->ram_size,
                   recorded->n_vcpus, recorded->ram_size);
        return false;
    }
    return true;
}

/* Return true if this machine has the recorded devices, and no others. */
static bool has_same_devices(const Manifest *recorded, Error **errp)
{
    g_auto(GStrv) devices = own_devices();
    char **own = devices, **other = recorded->devices;
    int order = 0;

    while ((*own || *other) && order == 0) {
        order = !*own ? 1 : !*other ? -1 : strcmp(*own, *other);
        if (order == 0) {
            own++;
            other++;
        }
    }
    if (order) {
        error_setg(errp, "this machine has other devices: %s was %srecorded",
                   order < 0 ? *own : *other, order < 0 ? "not " : "");
    }
    return order == 0;
}

bool recorder_is_recorded_machine(const Manifest *recorded, Error **errp)
{
    return is_same_machine(recorded, errp) && has_same_devices(recorded, errp);
}

bool recorder_live(const char *directory, bool has_from, unsigned from, Error **errp)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(Manifest) manifest = NULL;
    unsigned number;
    bool loaded;

    if (recorder_active()) {
        error_setg(errp, "a recording is being made or replayed already");
        return false;
    }
    if (!runstate_check(RUN_STATE_PRELAUNCH)) {
        error_setg(errp, "the guest has run already: start QEMU with -S to go live");
        return false;
    }
    manifest = manifest_load(directory, &error);
    if (!manifest || !manifest_check_replayable(manifest, &error)) {
        error_setg(errp, "%s", error->message);
        return false;
    }
    if (!choose_checkpoint(directory, manifest, has_from, from, &number, errp) ||
        !recorder_is_recorded_machine(manifest, errp)) {
        return false;
    }
    runstate_set(RUN_STATE_INMIGRATE);
    loaded = machine_state_load_live(directory, (char *const *)manifest->checkpoints->pdata,
                                     number, errp);
    /* A machine that was loaded in part must not run. */
    runstate_set(loaded ? RUN_STATE_PAUSED : RUN_STATE_INTERNAL_ERROR);
    return loaded;
}
