/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `reprise pack` and `reprise unpack`: turn a recording into one file, to be sent, and back.
 */
#include <glib.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "recording/pack.h"
#include "tool/stop-signals.h"
#include "tool/tool.h"

static const char pack_usage[] =
    "usage: reprise pack DIR FILE\n"
    "\n"
    "Put a recording into one new file, to be sent to somebody.  It is a tar\n"
    "archive, with a checksum at its end.  A damaged recording is packed as it is.\n"
    "\n"
    "  --help        show this text\n"
    "\n"
    "exit status: 0 packed; 2 not, and why; then there is no FILE\n";

static const char unpack_usage[] =
    "usage: reprise unpack FILE DIR\n"
    "\n"
    "Make a new directory from what reprise pack wrote.  The checksum must be right.\n"
    "\n"
    "  --help        show this text\n"
    "\n"
    "exit status: 0 unpacked; 2 not, and why; then there is no DIR\n";

/* Parse the two arguments that both commands take.  Return false if *@status is the result. */
static bool parse(const char *command, const char *usage, const char *wanted, int argc,
                  char ***argv, int *status)
{
    gboolean help = FALSE;
    const GOptionEntry entries[] = {
        { "help", 'h', 0, G_OPTION_ARG_NONE, &help, NULL, NULL },
        G_OPTION_ENTRY_NULL
    };

    if (!parse_options(command, entries, &help, usage, &argc, argv, status)) {
        return false;
    }
    if (argc != 3) {
        g_autofree char *what = g_strdup_printf("%s takes %s%s%s%s", command, wanted,
                                                argc > 3 ? ", got '" : "",
                                                argc > 3 ? (*argv)[3] : "",
                                                argc > 3 ? "' too" : "");

        *status = usage_error("%s", what);
        return false;
    }
    return true;
}

int run_pack(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    uint64_t bytes = 0;
    int status;

    if (!parse("pack", pack_usage, "the directory of a recording and a new file", argc, &argv,
               &status)) {
        return status;
    }
    if (!pack_recording(argv[1], argv[2], stop_signals_catch(), &bytes, &error)) {
        return input_error(error);
    }
    printf("%s was packed: %s, %" PRIu64 " bytes\n", argv[1], argv[2], bytes);
    return STATUS_OK;
}

int run_unpack(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    int status;

    if (!parse("unpack", unpack_usage, "a packed recording and a new directory", argc, &argv,
               &status)) {
        return status;
    }
    if (!unpack_recording(argv[1], argv[2], stop_signals_catch(), &error)) {
        return input_error(error);
    }
    printf("%s was unpacked: %s\n", argv[1], argv[2]);
    return STATUS_OK;
}
