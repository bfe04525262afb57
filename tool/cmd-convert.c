/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `reprise convert`: makes a recording of the same execution with other orders.
 */
#include <glib.h>
#include <inttypes.h>
#include <stdio.h>

#include "recording/convert.h"
#include "recording/manifest.h"
#include "tool/progress.h"
#include "tool/stop-signals.h"
#include "tool/tool.h"

static const char usage[] =
    "usage: reprise convert DIR NEW --order LIST [--from NAME]\n"
    "\n"
    "Make a recording of the same execution with other orders of steps, in the new\n"
    "or empty directory NEW.  A replay of it can follow each of them.\n"
    "\n"
    "  --order LIST  the orders that NEW has: fdr, karma[:MAX] and rerun[:MAX],\n"
    "                separated by commas; MAX is the most steps of an episode, 0 for\n"
    "                no limit, by default 16384\n"
    "  --from NAME   the order of DIR that is followed: fdr, karma or rerun; by\n"
    "                default the first of these that it has\n"
    "  --help        show this text\n"
    "\n"
    "Of a recording that is not complete, NEW has what can be replayed.\n"
    "\n"
    "exit status: 0 converted; 2 not, and why; then NEW is as it was\n";

typedef struct Arguments {
    char *orders, *from;
    const char *directory, *to;
} Arguments;

static void arguments_clear(Arguments *arguments)
{
    g_free(arguments->orders);
    g_free(arguments->from);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Arguments, arguments_clear)

static bool parse(Arguments *arguments, int argc, char **argv, int *status)
{
    gboolean help = FALSE;
    const GOptionEntry entries[] = {
        { "help", 'h', 0, G_OPTION_ARG_NONE, &help, NULL, NULL },
        { "order", 0, 0, G_OPTION_ARG_STRING, &arguments->orders, NULL, NULL },
        { "from", 0, 0, G_OPTION_ARG_STRING, &arguments->from, NULL, NULL },
        G_OPTION_ENTRY_NULL
    };

    if (!parse_options("convert", entries, &help, usage, &argc, &argv, status)) {
        return false;
    }
    if (argc != 3) {
        *status = argc < 3 ? usage_error("%s", "convert: give the directory of a recording and a "
                                         "new one")
                           : usage_error("convert takes two directories, got '%s' too", argv[3]);
        return false;
    }
    if (!arguments->orders) {
        *status = usage_error("%s", "convert: which orders? Give --order LIST");
        return false;
    }
    arguments->directory = argv[1];
    arguments->to = argv[2];
    return true;
}

static void show_progress(uint64_t done, uint64_t all)
{
    static gint64 shown;
    gint64 now = g_get_monotonic_time();

    if (now - shown < G_USEC_PER_SEC / 5) {
        return;
    }
    shown = now;
    if (all > 0) {
        progress_line("converting: %" PRIu64 " %% of %" PRIu64 " steps",
                      MIN(done, all) * 100 / all, all);
    } else {
        progress_line("converting: %" PRIu64 " steps", done);
    }
}

static bool convert(const Arguments *arguments, GError **error)
{
    const ConvertHooks hooks = { stop_signals_catch(), show_progress };
    g_autoptr(Manifest) manifest = NULL;
    Orders orders;
    bool ok;

    if (!orders_parse(arguments->orders, &orders, error)) {
        g_prefix_error(error, "--order: ");
        return false;
    }
    manifest = manifest_load(arguments->directory, error);
    if (!manifest ||
        (arguments->from &&
         !manifest_follow(manifest, arguments->directory, arguments->from, error))) {
        return false;
    }
    ok = convert_recording(arguments->directory, manifest, arguments->to, &orders, &hooks, error);
    progress_clear();
    return ok;
}

int run_convert(int argc, char **argv)
{
    g_auto(Arguments) arguments = { 0 };
    g_autoptr(GError) error = NULL;
    int status;

    if (!parse(&arguments, argc, argv, &status)) {
        return status;
    }
    if (!convert(&arguments, &error)) {
        return input_error(error);
    }
    printf("%s was converted: %s\n", arguments.directory, arguments.to);
    return STATUS_OK;
}
