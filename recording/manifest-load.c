/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Loading the manifest of a recording (docs/log-format.md, "Manifest"), which
 * may be damaged or hostile.
 *
 * Unknown keys and sections are ignored, so that compatible ones can be added.
 * When a reader must understand an addition, a key in [required] says so.
 */
#include "recording/manifest-internal.h"

#include <inttypes.h>
#include <string.h>

#include "base/summed-text.h"
#include "recording/log-format.h"

static bool foreign(GError **error, const char *path, const char *why)
{
    g_set_error(error, MANIFEST_ERROR, MANIFEST_ERROR_FOREIGN,
                "%s is not the manifest of a recording: %s", path, why);
    return false;
}

/* Read the text; what summed_text_read_any() refuses becomes a MANIFEST_ERROR. */
static GString *read_text(const char *directory, const char *path, SummedTextSum *sum,
                          GError **error)
{
    g_autoptr(GError) why = NULL;
    GString *text = summed_text_read_any(path, MANIFEST_MAX_BYTES, sum, &why);

    if (text) {
        return text;
    }
    if (why->domain == SUMMED_TEXT_ERROR) {
        g_set_error(error, MANIFEST_ERROR, MANIFEST_ERROR_FOREIGN, "%s is not a recording: %s",
                    directory, why->message);
    } else if (g_error_matches(why, G_FILE_ERROR, G_FILE_ERROR_NOENT) &&
               g_file_test(directory, G_FILE_TEST_IS_DIR)) {
        g_set_error(error, MANIFEST_ERROR, MANIFEST_ERROR_FOREIGN,
                    "%s is not a recording: it has no manifest", directory);
    } else {
        g_set_error_literal(error, MANIFEST_ERROR, MANIFEST_ERROR_IO, why->message);
    }
    return NULL;
}

/* Read the manifest as a key file.  @sum says what is known of its checksum, which is not wrong. */
static GKeyFile *read_keys(const char *directory, SummedTextSum *sum, GError **error)
{
    g_autofree char *path = g_build_filename(directory, MANIFEST_FILE, NULL);
    g_autoptr(GString) text = read_text(directory, path, sum, error);
    g_autoptr(GKeyFile) keys = g_key_file_new();

    if (!text) {
        return NULL;
    }
    /* The checksum comes first: any other message about a damaged file would mislead. */
    if (*sum == SUMMED_TEXT_WRONG) {
        g_set_error(error, MANIFEST_ERROR, MANIFEST_ERROR_INVALID,
                    "%s: wrong checksum: it is damaged, or was changed by hand", path);
        return NULL;
    }
    /* The message of glib would quote arbitrary bytes of the file. */
    if (!g_utf8_validate(text->str, text->len, NULL) ||
        !g_key_file_load_from_data(keys, text->str, text->len, G_KEY_FILE_NONE, NULL)) {
        foreign(error, path, "not sections of KEY=VALUE lines");
        return NULL;
    }
    if (!g_key_file_has_key(keys, "reprise", "log-version", NULL)) {
        foreign(error, path, "no log-version in [reprise]");
        return NULL;
    }
    return g_steal_pointer(&keys);
}

static char *get_text(GKeyFile *keys, const char *group, const char *key, GError **error)
{
    char *text = g_key_file_get_string(keys, group, key, NULL);

    if (!text) {
        manifest_invalid(error, "no usable %s in [%s]", key, group);
    }
    return text;
}

static bool parse_number(const char *text, unsigned base, uint64_t max, uint64_t *value)
{
    guint64 parsed;

    if (!g_ascii_string_to_unsigned(text, base, 0, max, &parsed, NULL)) {
        return false;
    }
    *value = parsed;
    return true;
}

static bool get_number(GKeyFile *keys, const char *group, const char *key, uint64_t max,
                       uint64_t *value, GError **error)
{
    g_autofree char *text = get_text(keys, group, key, error);
    bool hex = text && g_str_has_prefix(text, "0x");

    if (!text) {
        return false;
    }
    if (!parse_number(text + (hex ? 2 : 0), hex ? 16 : 10, max, value)) {
        g_autofree char *shown = manifest_quote(text);
        return manifest_invalid(error, "[%s] %s is %s, must be a number up to %" PRIu64,
                                group, key, shown, max);
    }
    return true;
}

/* Get one number per vCPU. */
static bool get_numbers(GKeyFile *keys, const char *group, const char *key, unsigned base,
                        uint64_t *values, unsigned n, GError **error)
{
    g_autofree char *text = get_text(keys, group, key, error);
    g_auto(GStrv) items = NULL;

    if (!text) {
        return false;
    }
    items = g_strsplit(text, ",", n + 1);
    if (g_strv_length(items) != n) {
        return manifest_invalid(error, "[%s] %s must have %u numbers, one per vCPU",
                                group, key, n);
    }
    for (unsigned i = 0; i < n; i++) {
        if (!parse_number(items[i], base, UINT64_MAX, &values[i])) {
            g_autofree char *shown = manifest_quote(items[i]);
            return manifest_invalid(error, "[%s] %s: %s is not a number", group, key, shown);
        }
    }
    return true;
}

static bool get_bool(GKeyFile *keys, const char *group, const char *key, bool *value,
                     GError **error)
{
    g_autofree char *text = get_text(keys, group, key, error);

    if (!text) {
        return false;
    }
    *value = g_str_equal(text, "true");
    if (!*value && !g_str_equal(text, "false")) {
        g_autofree char *shown = manifest_quote(text);
        return manifest_invalid(error, "[%s] %s is %s, must be true or false",
                                group, key, shown);
    }
    return true;
}

/* Return true if this build knows the log version and all required features. */
static bool understood(GKeyFile *keys, uint64_t log_version, GError **error)
{
    g_auto(GStrv) features = g_key_file_get_keys(keys, "required", NULL, NULL);

    if (log_version > LOG_VERSION) {
        g_set_error(error, MANIFEST_ERROR, MANIFEST_ERROR_VERSION,
                    "the recording has log format %" PRIu64 ", this reprise knows up to %d",
                    log_version, LOG_VERSION);
        return false;
    }
    if (features && features[0]) {      /* none is known so far */
        g_autofree char *shown = manifest_quote(features[0]);
        g_set_error(error, MANIFEST_ERROR, MANIFEST_ERROR_VERSION,
                    "the recording needs %s, which this reprise does not know", shown);
        return false;
    }
    return true;
}

static Point *get_point(GKeyFile *keys, const char *key, unsigned n_vcpus, GError **error)
{
    g_autofree char *text = get_text(keys, "end", key, error);
    Point *point = text ? point_parse(text, n_vcpus, NULL) : NULL;

    if (text && !point) {
        g_autofree char *shown = manifest_quote(text);

        manifest_invalid(error, "[end] %s is %s, not a point of %u vCPUs", key, shown, n_vcpus);
    }
    return point;
}

static bool has_point(GKeyFile *keys, const char *key, const Manifest *manifest)
{
    /* A machine without vCPUs has no points; manifest_valid() refuses it later. */
    return g_key_file_has_key(keys, "end", key, NULL) && manifest->n_vcpus > 0;
}

static bool load_end(Manifest *manifest, GKeyFile *keys, GError **error)
{
    g_autofree char *seconds = NULL;
    char *rest;

    if (!get_bool(keys, "end", "complete", &manifest->complete, error)) {
        return false;
    }
    if (has_point(keys, "cut", manifest) &&
        !(manifest->cut = get_point(keys, "cut", manifest->n_vcpus, error))) {
        return false;
    }
    if (!has_point(keys, "point", manifest)) {
        return true;
    }
    if (!(manifest->end = get_point(keys, "point", manifest->n_vcpus, error)) ||
        !(seconds = get_text(keys, "end", "seconds", error))) {
        return false;
    }
    manifest->seconds = g_ascii_strtod(seconds, &rest);
    if (!g_ascii_isdigit(seconds[0]) || *rest) {
        return manifest_invalid(error, "[end] seconds is not a number");
    }
    return get_numbers(keys, "end", "register-digests", 16, manifest->register_digests,
                       manifest->n_vcpus, error) &&
           get_numbers(keys, "end", "instructions", 10, manifest->instructions,
                       manifest->n_vcpus, error) &&
           get_number(keys, "end", "arcs", UINT64_MAX, &manifest->arcs, error);
}

/* Recordings of FDR alone have no such key: they are as they were before there were others. */
static bool load_orders(Manifest *manifest, GKeyFile *keys, GError **error)
{
    g_autofree char *text = NULL;
    g_autoptr(GError) why = NULL;
    Orders orders;

    if (!g_key_file_has_group(keys, "order")) {
        return true;
    }
    text = get_text(keys, "order", "recorded", error);
    if (!text) {
        return false;
    }
    if (!orders_parse(text, &orders, &why)) {
        return manifest_invalid(error, "[order] recorded: %s", why->message);
    }
    manifest_set_orders(manifest, &orders);
    return true;
}

/* Recordings that cannot go live have no such section. */
static bool load_origin(Manifest *manifest, GKeyFile *keys, GError **error)
{
    if (!g_key_file_has_group(keys, "origin")) {
        return true;
    }
    manifest->command = g_key_file_get_string_list(keys, "origin", "command", NULL, NULL);
    if (!manifest->command && g_key_file_has_key(keys, "origin", "command", NULL)) {
        return manifest_invalid(error, "no usable command in [origin]");
    }
    manifest->devices = g_key_file_get_string_list(keys, "origin", "devices", NULL, NULL);
    if (!manifest->devices) {
        return manifest_invalid(error, "no usable devices in [origin]");
    }
    manifest->disks = g_key_file_get_string_list(keys, "origin", "disks", NULL, NULL);
    if (!manifest->disks && g_key_file_has_key(keys, "origin", "disks", NULL)) {
        return manifest_invalid(error, "no usable disks in [origin]");
    }
    manifest->command_directory = get_text(keys, "origin", "directory", error);
    return manifest->command_directory &&
           get_bool(keys, "origin", "live", &manifest->live, error) &&
           (!g_key_file_has_key(keys, "origin", "standby", NULL) ||
            get_bool(keys, "origin", "standby", &manifest->standby, error));
}

static Manifest *from_keys(GKeyFile *keys, SummedTextSum sum, GError **error)
{
    g_autoptr(Manifest) manifest = NULL;
    g_auto(GStrv) checkpoints = NULL;
    uint64_t log_version, n_vcpus, start_time;

    /* The version comes first: all other keys may have another meaning in a later version. */
    if (!get_number(keys, "reprise", "log-version", UINT_MAX, &log_version, error) ||
        !understood(keys, log_version, error)) {
        return NULL;
    }
    if (sum == SUMMED_TEXT_WITHOUT && log_version >= MANIFEST_SUM_SINCE) {
        manifest_invalid(error, "it does not end with its checksum: it is damaged or cut off");
        return NULL;
    }
    if (!get_number(keys, "machine", "vcpus", RECORDER_MAX_VCPUS, &n_vcpus, error)) {
        return NULL;
    }
    manifest = manifest_new(n_vcpus);
    manifest->log_version = log_version;
    if (!get_number(keys, "machine", "ram-size", UINT64_MAX, &manifest->ram_size, error) ||
        !get_number(keys, "machine", "console-address", UINT64_MAX,
                    &manifest->console_address, error) ||
        !get_number(keys, "start", "time", INT64_MAX, &start_time, error) ||
        !load_orders(manifest, keys, error) ||
        !load_origin(manifest, keys, error) ||
        !load_end(manifest, keys, error)) {
        return NULL;
    }
    manifest->start_time = start_time;
    for (size_t i = 0; i < manifest_n_text_keys; i++) {
        const TextKey *key = &manifest_text_keys[i];
        char **text = text_of(manifest, key);

        g_free(*text);
        *text = get_text(keys, key->group, key->key, error);
        if (!*text) {
            return NULL;
        }
    }
    checkpoints = g_key_file_get_string_list(keys, "checkpoints", "names", NULL, NULL);
    if (!checkpoints) {
        manifest_invalid(error, "no usable names in [checkpoints]");
        return NULL;
    }
    for (size_t i = 0; checkpoints[i]; i++) {
        manifest_add_checkpoint(manifest, checkpoints[i]);
    }
    return manifest_valid(manifest, error) ? g_steal_pointer(&manifest) : NULL;
}

Manifest *manifest_load(const char *directory, GError **error)
{
    SummedTextSum sum;
    g_autoptr(GKeyFile) keys = read_keys(directory, &sum, error);
    Manifest *manifest;

    if (!keys) {
        return NULL;
    }
    manifest = from_keys(keys, sum, error);
    if (!manifest) {
        g_prefix_error(error, "%s: ", directory);
    }
    return manifest;
}
