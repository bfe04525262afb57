/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which manifests are sound, and which of them this build can replay.
 */
#include "recording/manifest-internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/version.h"
#include "recording/log-format.h"
#include "recording/ram-digest.h"
#include "recording/registers.h"

#define NAME_MAX_BYTES 255

G_GNUC_PRINTF(2, 3)
bool manifest_invalid(GError **error, const char *format, ...)
{
    g_autofree char *what = NULL;
    va_list args;

    va_start(args, format);
    what = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error(error, MANIFEST_ERROR, MANIFEST_ERROR_INVALID, "bad manifest: %s", what);
    return false;
}

char *manifest_quote(const char *text)
{
    g_autofree char *start = g_strndup(text, 60);
    g_autofree char *escaped = g_strescape(start, NULL);

    return g_strdup_printf("'%s%s'", escaped, strlen(text) > 60 ? "..." : "");
}

static bool all_of(const char *text, const char *marks)
{
    for (; *text; text++) {
        if (!g_ascii_isalnum(*text) && !strchr(marks, *text)) {
            return false;
        }
    }
    return true;
}

bool manifest_is_line(const char *text)
{
    if (!g_utf8_validate(text, -1, NULL)) {
        return false;
    }
    for (; *text; text = g_utf8_next_char(text)) {
        if (!g_unichar_isprint(g_utf8_get_char(text))) {
            return false;
        }
    }
    return true;
}

static bool valid_texts(const Manifest *manifest, GError **error)
{
    for (size_t i = 0; i < manifest_n_text_keys; i++) {
        const TextKey *key = &manifest_text_keys[i];
        const char *text = text_or_empty(*text_of(manifest, key));

        if (key->needed && !*text) {
            return manifest_invalid(error, "[%s] %s is empty", key->group, key->key);
        }
        if (!(key->kind == TEXT_WORD ? all_of(text, "._=,+-") : manifest_is_line(text))) {
            g_autofree char *value = manifest_quote(text);
            return manifest_invalid(error, "[%s] %s has a character that may not be there: %s",
                           key->group, key->key, value);
        }
    }
    return true;
}

static bool valid_checkpoints(const Manifest *manifest, GError **error)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);

    if (manifest->checkpoints->len > MANIFEST_MAX_CHECKPOINTS) {
        return manifest_invalid(error, "%u checkpoints, at most %d are allowed",
                       manifest->checkpoints->len, MANIFEST_MAX_CHECKPOINTS);
    }
    for (unsigned i = 0; i < manifest->checkpoints->len; i++) {
        char *name = manifest->checkpoints->pdata[i];

        /* The name becomes part of a path, which must stay below the recording. */
        if (!*name || *name == '.' || strstr(name, "..") || !all_of(name, "._-") ||
            strlen(name) > NAME_MAX_BYTES) {
            g_autofree char *value = manifest_quote(name);
            return manifest_invalid(error, "a checkpoint cannot have the name %s", value);
        }
        if (!g_hash_table_add(seen, name)) {
            return manifest_invalid(error, "checkpoint '%s' is listed twice", name);
        }
    }
    return true;
}

/* Check a list in [origin]: how long it is, and that all of it is printable. */
static bool valid_list(char **list, const char *key, unsigned most, GError **error)
{
    unsigned n = g_strv_length(list);

    if (n < 1 || n > most) {
        return manifest_invalid(error, "[origin] %s has %u items, must have 1 to %u", key, n, most);
    }
    for (unsigned i = 0; i < n; i++) {
        if (!manifest_is_line(list[i])) {
            g_autofree char *value = manifest_quote(list[i]);
            return manifest_invalid(error, "[origin] %s has a character that may not be there: %s",
                                    key, value);
        }
    }
    return true;
}

static bool valid_origin(const Manifest *manifest, GError **error)
{
    char *directory[] = { (char *)text_or_empty(manifest->command_directory), NULL };

    return (!manifest->devices ||
            valid_list(manifest->devices, "devices", MANIFEST_MAX_DEVICES, error)) &&
           (!manifest->disks ||
            valid_list(manifest->disks, "disks", MANIFEST_MAX_DISKS, error)) &&
           (!manifest->command ||
            valid_list(manifest->command, "command", MANIFEST_MAX_WORDS, error)) &&
           valid_list(directory, "directory", 1, error);
}

static bool valid_end(const Manifest *manifest, GError **error)
{
    const char *digest = text_or_empty(manifest->ram_digest);

    if (manifest->cut && (manifest->complete || manifest->cut->n_vcpus != manifest->n_vcpus)) {
        return manifest_invalid(error, "a cut, of a recording that is %s",
                                manifest->complete ? "complete" : "of other vCPUs");
    }
    if (!manifest->end) {
        return !manifest->complete || manifest_invalid(error, "complete, but without an end");
    }
    if (manifest->end->n_vcpus != manifest->n_vcpus) {
        return manifest_invalid(error, "the end is a point of %u vCPUs, the machine has %u",
                       manifest->end->n_vcpus, manifest->n_vcpus);
    }
    if (!isfinite(manifest->seconds) || manifest->seconds < 0) {
        return manifest_invalid(error, "[end] seconds is not a length of time");
    }
    if (*digest && (strlen(digest) != RAM_DIGEST_DIGITS ||
                    strspn(digest, "0123456789abcdef") != RAM_DIGEST_DIGITS)) {
        return manifest_invalid(error, "[end] ram-digest is not %d hexadecimal digits",
                       RAM_DIGEST_DIGITS);
    }
    if (manifest->complete && !*digest) {
        return manifest_invalid(error, "complete, but without a digest of RAM");
    }
    return true;
}

bool manifest_valid(const Manifest *manifest, GError **error)
{
    if (manifest->log_version < 1) {
        return manifest_invalid(error, "log format 0 never existed");
    }
    if (manifest->n_vcpus < 1 || manifest->n_vcpus > RECORDER_MAX_VCPUS) {
        return manifest_invalid(error, "%u vCPUs, must be 1 to %d",
                       manifest->n_vcpus, RECORDER_MAX_VCPUS);
    }
    if (manifest->ram_size < 1 || manifest->ram_size > MANIFEST_MAX_RAM) {
        return manifest_invalid(error, "%" PRIu64 " bytes of RAM, must be 1 to %" PRIu64,
                       manifest->ram_size, MANIFEST_MAX_RAM);
    }
    if (!valid_texts(manifest, error)) {
        return false;
    }
    if (!register_set(manifest->arch)) {
        g_autofree char *value = manifest_quote(manifest->arch);
        return manifest_invalid(error, "[machine] arch is %s, which reprise does not know", value);
    }
    if (!*text_or_empty(manifest->console) != !manifest->console_address) {
        return manifest_invalid(error, "a console needs a kind and an address, or neither");
    }
    if (manifest->start_time < 0) {
        return manifest_invalid(error, "[start] time is negative");
    }
    if (!g_str_equal(manifest->start, MANIFEST_START_POWER_ON) &&
        !g_str_equal(manifest->start, MANIFEST_START_RUNNING)) {
        g_autofree char *value = manifest_quote(manifest->start);
        return manifest_invalid(error, "[start] reason is %s, must be " MANIFEST_START_POWER_ON
                       " or " MANIFEST_START_RUNNING, value);
    }
    return valid_origin(manifest, error) && valid_end(manifest, error) &&
           valid_checkpoints(manifest, error);
}

bool manifest_check_replayable(const Manifest *manifest, GError **error)
{
    if (manifest->log_version != LOG_VERSION) {
        g_set_error(error, MANIFEST_ERROR, MANIFEST_ERROR_VERSION,
                    "the recording has log format %u (made by reprise %s), this one "
                    "replays format %d", manifest->log_version,
                    manifest->reprise_version, LOG_VERSION);
        return false;
    }
    /* Patches decide what an event means, even if the format stays the same. */
    if (!g_str_equal(manifest->patch_level, reprise_patch_level())) {
        g_set_error(error, MANIFEST_ERROR, MANIFEST_ERROR_VERSION,
                    "the recording was made with QEMU patches %s, this build has %s: "
                    "replay it with reprise %s at that patch level",
                    manifest->patch_level, reprise_patch_level(),
                    manifest->reprise_version);
        return false;
    }
    return true;
}
