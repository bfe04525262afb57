/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `reprise verify`: reports whether a recording is sound, or where it is damaged.
 */
#include <glib.h>
#include <inttypes.h>
#include <stdio.h>

#include "recording/log-format.h"
#include "recording/manifest.h"
#include "recording/verify.h"
#include "tool/tool.h"

static const char usage[] =
    "usage: reprise verify DIR\n"
    "\n"
    "Check a recording without replaying it: every checksum, every event, that\n"
    "whoever waits waits for a step that is there, and nobody in a circle, that the\n"
    "logs end where the manifest says, and that epochs lie within.  Prints a line\n"
    "for each fault: which file, at which byte, what.\n"
    "\n"
    "A recording that was cut off (its recorder was killed, the disk was full) is\n"
    "sound as far as it goes, and the line says how far that is.\n"
    "\n"
    "  --help        show this text\n"
    "\n"
    "exit status: 0 sound; 1 damaged; 2 it is not a recording, or of another\n"
    "version, or cannot be read\n";

/*
 * Return true if the manifest is damaged.  Other errors mean that the file is no manifest, is of
 * another version, or cannot be read.
 */
static bool is_damage(const GError *error)
{
    return g_error_matches(error, MANIFEST_ERROR, MANIFEST_ERROR_INVALID);
}

static int say_damaged(const char *directory, unsigned n_faults)
{
    fflush(stdout);
    fprintf(stderr, "reprise: %s is damaged: %u fault%s\n", directory, n_faults,
            n_faults == 1 ? "" : "s");
    return STATUS_DAMAGED;
}

static int verify(const char *directory)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(Manifest) manifest = manifest_load(directory, &error);
    g_auto(Verified) verified = { 0 };
    g_autofree char *reached = NULL;

    if (!manifest && is_damage(error)) {
        puts(error->message);
        return say_damaged(directory, 1);
    }
    if (!manifest) {
        return input_error(error);
    }
    if (manifest->log_version != LOG_VERSION) {
        fprintf(stderr, "reprise: %s has log format %u, this reprise verifies format %d\n",
                directory, manifest->log_version, LOG_VERSION);
        return STATUS_USAGE;
    }
    verify_recording(directory, manifest, &verified);
    for (unsigned i = 0; i < verified.faults->len; i++) {
        puts(verified.faults->pdata[i]);
    }
    if (verified.faults->len > 0) {
        return say_damaged(directory, verified.faults->len);
    }
    reached = point_format(verified.reached);
    printf("%s is sound%s %s: %u vCPU%s, %" PRIu64 " events, %" PRIu64 " arcs\n", directory,
           verified.cut_off ? ", not complete, and replays up to" : " up to its end,", reached,
           manifest->n_vcpus, manifest->n_vcpus == 1 ? "" : "s", verified.events, verified.arcs);
    return STATUS_OK;
}

int run_verify(int argc, char **argv)
{
    gboolean help = FALSE;
    const GOptionEntry entries[] = {
        { "help", 'h', 0, G_OPTION_ARG_NONE, &help, NULL, NULL },
        G_OPTION_ENTRY_NULL
    };
    int status;

    if (!parse_options("verify", entries, &help, usage, &argc, &argv, &status)) {
        return status;
    }
    if (argc != 2) {
        return argc < 2 ? usage_error("%s", "verify: which recording? Give its directory")
                        : usage_error("verify takes one directory, got '%s' too", argv[2]);
    }
    return verify(argv[1]);
}
