/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The manifest and the command line of a QEMU that replays a recording.
 */
#include "tool/replay-command.h"

#include <inttypes.h>

#include "tool/emulator.h"

Manifest *replay_command_manifest(const char *directory, int checkpoint, const char *order,
                                  GError **error)
{
    g_autoptr(Manifest) manifest = manifest_load(directory, error);

    if (!manifest || !manifest_check_replayable(manifest, error) ||
        !manifest_follow(manifest, directory, order, error)) {
        return NULL;
    }
    /* QEMU reports the fault if a recording has no checkpoint at all. */
    if (checkpoint > 0 && (unsigned)checkpoint >= manifest->checkpoints->len) {
        g_set_error(error, MANIFEST_ERROR, MANIFEST_ERROR_INVALID,
                    "%s has no checkpoint %d: reprise info lists them", directory, checkpoint);
        return NULL;
    }
    return g_steal_pointer(&manifest);
}

char **replay_command_line(const Manifest *manifest, const char *serial, char **more,
                           GError **error)
{
    g_autofree char *name = g_strdup_printf("qemu-system-%s", manifest->arch);
    g_autofree char *qemu = emulator_find(name);
    g_autofree char *machine = g_strjoin(*manifest->machine_options ? "," : "",
                                         manifest->machine, manifest->machine_options, NULL);
    g_autofree char *smp = g_strdup_printf("%u", manifest->n_vcpus);
    g_autofree char *ram = g_strdup_printf("%" PRIu64 "B", manifest->ram_size);
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();

    if (!qemu) {
        g_set_error(error, MANIFEST_ERROR, MANIFEST_ERROR_INVALID,
                    "no %s beside reprise: configure with --targets and run make", name);
        return NULL;
    }
    g_strv_builder_add_many(builder, qemu, "-nodefaults", "-no-user-config", "-display", "none",
                            "-machine", machine, "-cpu", manifest->cpu, "-smp", smp, "-m", ram,
                            "-serial", serial, NULL);
    /* QEMU takes the first accelerator named, but the last of most other options. */
    if (!more || !g_strv_contains((const char *const *)more, "-accel")) {
        g_strv_builder_add_many(builder, "-accel", "tcg,thread=multi", NULL);
    }
    if (more) {
        g_strv_builder_addv(builder, (const char **)more);
    }
    return g_strv_builder_end(builder);
}
