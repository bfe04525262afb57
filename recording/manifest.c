/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The manifest of a recording in memory, and saving it (docs/log-format.md,
 * "Manifest").
 */
#include "recording/manifest-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/summed-text.h"
#include "base/version.h"
#include "base/write-all.h"
#include "recording/log-format.h"

G_DEFINE_QUARK(manifest-error-quark, manifest_error)

const TextKey manifest_text_keys[] = {
    { "reprise", "version", offsetof(Manifest, reprise_version), TEXT_LINE, true },
    { "reprise", "patch-level", offsetof(Manifest, patch_level), TEXT_LINE, true },
    { "reprise", "qemu-version", offsetof(Manifest, qemu_version), TEXT_LINE, true },
    { "machine", "arch", offsetof(Manifest, arch), TEXT_WORD, true },
    { "machine", "type", offsetof(Manifest, machine), TEXT_WORD, true },
    { "machine", "options", offsetof(Manifest, machine_options), TEXT_WORD, false },
    { "machine", "cpu", offsetof(Manifest, cpu), TEXT_WORD, true },
    { "machine", "console", offsetof(Manifest, console), TEXT_WORD, false },
    { "start", "reason", offsetof(Manifest, start), TEXT_WORD, true },
    { "end", "reason", offsetof(Manifest, end_reason), TEXT_LINE, false },
    { "end", "ram-digest", offsetof(Manifest, ram_digest), TEXT_WORD, false },
};
const size_t manifest_n_text_keys = G_N_ELEMENTS(manifest_text_keys);

Manifest *manifest_new(unsigned n_vcpus)
{
    Manifest *manifest = g_new0(Manifest, 1);

    manifest->log_version = LOG_VERSION;
    manifest->reprise_version = g_strdup(reprise_version());
    manifest->patch_level = g_strdup(reprise_patch_level());
    manifest->n_vcpus = n_vcpus;
    manifest->register_digests = g_new0(uint64_t, n_vcpus);
    manifest->instructions = g_new0(uint64_t, n_vcpus);
    manifest->checkpoints = g_ptr_array_new_with_free_func(g_free);
    manifest_set_orders(manifest, &(Orders) { .set = ORDER_SET_FDR });
    return manifest;
}

void manifest_set_orders(Manifest *manifest, const Orders *orders)
{
    manifest->orders = *orders;
    manifest->follow = orders_first(orders);
}

bool manifest_follow(Manifest *manifest, const char *directory, const char *name, GError **error)
{
    RaceOrder order;

    if (!name) {
        return true;
    }
    if (!order_parse_name(name, &order, error)) {
        return false;
    }
    if (!orders_has(&manifest->orders, order)) {
        g_autofree char *has = order_set_format(manifest->orders.set);

        g_set_error(error, ORDERS_ERROR, ORDERS_ERROR_MISSING,
                    "%s was not recorded with the order %s: it has %s", directory, name, has);
        return false;
    }
    manifest->follow = order;
    return true;
}

void manifest_free(Manifest *manifest)
{
    if (!manifest) {
        return;
    }
    for (size_t i = 0; i < manifest_n_text_keys; i++) {
        g_free(*text_of(manifest, &manifest_text_keys[i]));
    }
    point_free(manifest->end);
    point_free(manifest->cut);
    g_strfreev(manifest->command);
    g_strfreev(manifest->devices);
    g_strfreev(manifest->disks);
    g_free(manifest->command_directory);
    g_free(manifest->register_digests);
    g_free(manifest->instructions);
    g_ptr_array_unref(manifest->checkpoints);
    g_free(manifest);
}

void manifest_add_checkpoint(Manifest *manifest, const char *name)
{
    g_ptr_array_add(manifest->checkpoints, g_strdup(name));
}

bool manifest_io_error(GError **error, const char *verb, const char *path)
{
    g_set_error(error, MANIFEST_ERROR, MANIFEST_ERROR_IO, "cannot %s %s: %s",
                verb, path, g_strerror(errno));
    return false;
}

/* Set @key to one number per vCPU. */
static void set_numbers(GKeyFile *keys, const char *key, bool hex,
                        const uint64_t *values, unsigned n)
{
    g_autoptr(GString) text = g_string_new(NULL);

    for (unsigned i = 0; i < n; i++) {
        g_string_append(text, i ? "," : "");
        if (hex) {
            g_string_append_printf(text, "%016" PRIx64, values[i]);
        } else {
            g_string_append_printf(text, "%" PRIu64, values[i]);
        }
    }
    g_key_file_set_string(keys, "end", key, text->str);
}

static void set_list(GKeyFile *keys, const char *key, char **list)
{
    g_key_file_set_string_list(keys, "origin", key, (const char *const *)list, g_strv_length(list));
}

/* Set what is needed to let the guest go on. */
static void set_origin(GKeyFile *keys, const Manifest *manifest)
{
    g_key_file_set_boolean(keys, "origin", "live", true);
    if (manifest->standby) {
        g_key_file_set_boolean(keys, "origin", "standby", true);
    }
    set_list(keys, "devices", manifest->devices);
    if (manifest->disks) {
        set_list(keys, "disks", manifest->disks);
    }
    g_key_file_set_string(keys, "origin", "directory", text_or_empty(manifest->command_directory));
    if (manifest->command) {
        set_list(keys, "command", manifest->command);
    }
}

/* Return the text of the manifest, with its checksum, to be freed by the caller. */
static GString *manifest_format(const Manifest *manifest)
{
    g_autoptr(GKeyFile) keys = g_key_file_new();
    g_autofree char *address = g_strdup_printf("0x%" PRIx64, manifest->console_address);
    g_autofree char *sections = NULL;
    GString *text;

    g_key_file_set_comment(keys, NULL, NULL,
                           " A recording of Reprise; docs/log-format.md explains it.", NULL);
    g_key_file_set_uint64(keys, "reprise", "log-version", manifest->log_version);
    for (size_t i = 0; i < manifest_n_text_keys; i++) {
        const TextKey *key = &manifest_text_keys[i];
        g_key_file_set_string(keys, key->group, key->key,
                              text_or_empty(*text_of(manifest, key)));
    }
    g_key_file_set_uint64(keys, "machine", "vcpus", manifest->n_vcpus);
    g_key_file_set_uint64(keys, "machine", "ram-size", manifest->ram_size);
    g_key_file_set_string(keys, "machine", "console-address", address);
    if (manifest->orders.set != ORDER_SET_FDR) {
        g_autofree char *orders = orders_format(&manifest->orders);

        g_key_file_set_string(keys, "order", "recorded", orders);
    }
    g_key_file_set_int64(keys, "start", "time", manifest->start_time);
    if (manifest->live) {
        set_origin(keys, manifest);
    }
    g_key_file_set_boolean(keys, "end", "complete", manifest->complete);
    if (manifest->cut) {
        g_autofree char *cut = point_format(manifest->cut);

        g_key_file_set_string(keys, "end", "cut", cut);
    }
    if (manifest->end) {
        g_autofree char *point = point_format(manifest->end);

        g_key_file_set_string(keys, "end", "point", point);
        g_key_file_set_double(keys, "end", "seconds", manifest->seconds);
        g_key_file_set_uint64(keys, "end", "arcs", manifest->arcs);
        set_numbers(keys, "register-digests", true, manifest->register_digests,
                    manifest->n_vcpus);
        set_numbers(keys, "instructions", false, manifest->instructions,
                    manifest->n_vcpus);
    }
    g_key_file_set_string_list(keys, "checkpoints", "names",
                               (const char *const *)manifest->checkpoints->pdata,
                               manifest->checkpoints->len);
    sections = g_key_file_to_data(keys, NULL, NULL);
    text = g_string_new(sections);
    g_string_append(text, MANIFEST_SUM_SECTION);
    summed_text_add_sum(text);
    return text;
}

/* Rename, and sync the directory: otherwise a crash may undo the rename. */
static bool replace(int directory_fd, const char *from, const char *to)
{
    return renameat(directory_fd, from, directory_fd, to) == 0 && fsync(directory_fd) == 0;
}

bool manifest_save_at(const Manifest *manifest, int directory_fd, const char *directory,
                      GError **error)
{
    static const char temporary[] = MANIFEST_FILE ".new";
    g_autofree char *path = g_build_filename(directory, MANIFEST_FILE, NULL);
    g_autofree char *temporary_path = g_build_filename(directory, temporary, NULL);
    g_autoptr(GString) text = NULL;
    bool ok;
    int fd;

    if (!manifest_valid(manifest, error)) {
        return false;
    }
    text = manifest_format(manifest);
    if (text->len > MANIFEST_MAX_BYTES) {
        return manifest_invalid(error, "%zu bytes, at most %d can be loaded",
                                text->len, MANIFEST_MAX_BYTES);
    }
    fd = openat(directory_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                0666);
    if (fd < 0) {
        return manifest_io_error(error, "create", temporary_path);
    }
    ok = write_all(fd, text->str, text->len) && fsync(fd) == 0;
    if (!ok) {
        manifest_io_error(error, "write", temporary_path);
    }
    if (close(fd) < 0 && ok) {
        ok = manifest_io_error(error, "write", temporary_path);
    }
    if (ok && !replace(directory_fd, temporary, MANIFEST_FILE)) {
        ok = manifest_io_error(error, "write", path);
    }
    if (!ok) {
        unlinkat(directory_fd, temporary, 0);
    }
    return ok;
}

bool manifest_save(const Manifest *manifest, const char *directory, GError **error)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok;

    if (fd < 0) {
        return manifest_io_error(error, "open", directory);
    }
    ok = manifest_save_at(manifest, fd, directory, error);
    close(fd);
    return ok;
}
