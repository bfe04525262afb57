/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tool/origin.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <stdio.h>

#include "recording/manifest.h"
#include "tool/progress.h"
#include "tool/tool.h"

const char *origin_objection(const Origin *origin)
{
    if (origin->from < 0 && origin->from != ORIGIN_LAST) {
        return "--from is the number of a checkpoint";
    }
    if (origin->command && origin->as_recorded) {
        return "--as-recorded is another command than the one after --";
    }
    if (origin->command && !origin->command[0]) {
        return "no QEMU after --";
    }
    if (!origin->command && !origin->as_recorded) {
        return "which machine? Give QEMU's command line after --, or --as-recorded (reprise live "
               "--print shows it)";
    }
    return NULL;
}

/* The tool adds options of its own at the end, from here on. */
static bool are_own_options(char **words)
{
    return g_strv_length(words) > 2 && g_str_equal(words[0], "-S") &&
           g_str_equal(words[1], "-chardev") &&
           g_str_has_prefix(words[2], "socket,id=reprise-qmp,");
}

/* Return the recorded command; NULL and @error if the recording has none. */
static char **recorded_command(const Manifest *manifest, const char *directory, GError **error)
{
    g_autoptr(GStrvBuilder) words = g_strv_builder_new();

    if (!manifest->live || !manifest->command) {
        g_set_error(error, MANIFEST_ERROR, MANIFEST_ERROR_INVALID, manifest->live ?
                    "%s does not tell how its QEMU was started: give the command after --" :
                    "%s was not recorded to go live: record with --live", directory);
        return NULL;
    }
    for (char **word = manifest->command; *word && !are_own_options(word); word++) {
        g_strv_builder_add(words, *word);
    }
    return g_strv_builder_end(words);
}

/* Return the command as a shell takes it, to be freed by the caller. */
static char *quote(char **command)
{
    g_autoptr(GString) text = g_string_new(NULL);

    for (char **word = command; *word; word++) {
        g_autofree char *quoted = g_shell_quote(*word);
        bool plain = **word && strspn(*word, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "-_=./,:+@%")
                     == strlen(*word);

        g_string_append_printf(text, "%s%s", word == command ? "" : " ", plain ? *word : quoted);
    }
    return g_string_free(g_steal_pointer(&text), FALSE);
}

static bool change_directory(const Manifest *manifest, GError **error)
{
    const char *directory = manifest->command_directory;

    if (*directory && g_chdir(directory) < 0) {
        g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(errno),
                    "cannot go to %s, where QEMU was started: %s", directory, g_strerror(errno));
        return false;
    }
    return true;
}

char **origin_command(const Origin *origin, GError **error)
{
    g_autoptr(Manifest) manifest = NULL;
    g_auto(GStrv) command = NULL;
    g_autofree char *text = NULL;

    if (origin->command) {
        return emulator_users_command(origin->command);
    }
    manifest = manifest_load(origin->directory, error);
    if (!manifest || !(command = recorded_command(manifest, origin->directory, error)) ||
        !change_directory(manifest, error)) {
        return NULL;
    }
    text = quote(command);
    fprintf(stderr, "reprise: starting %s\n", text);
    return g_steal_pointer(&command);
}

int origin_print(const Origin *origin)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(Manifest) manifest = manifest_load(origin->directory, &error);
    g_auto(GStrv) command = NULL;
    g_autofree char *text = NULL;

    if (!manifest || !(command = recorded_command(manifest, origin->directory, &error))) {
        return input_error(error);
    }
    text = quote(command);
    printf("%s\n", text);
    return STATUS_OK;
}

bool origin_load(const Origin *origin, Emulator *emulator, GError **error)
{
    g_autofree char *text = NULL;
    Json arguments;

    json_init(&arguments);
    json_open(&arguments, NULL, '{');
    if (origin->from != ORIGIN_LAST) {
        json_u64(&arguments, "from", origin->from);
    }
    if (!emulator_put_path(&arguments, "directory", origin->directory, error)) {
        return false;
    }
    json_close(&arguments, '{');
    text = json_finish(&arguments);
    return emulator_execute(emulator, "recorder-live", text, error);
}
