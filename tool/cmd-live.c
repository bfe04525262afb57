/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `reprise live`: starts a QEMU with the recorded machine, brings it to a checkpoint of the
 * recording, and lets the guest go on from there, with real devices.
 */
#include <glib.h>
#include <stdio.h>

#include "tool/origin.h"
#include "tool/tool.h"

typedef struct Live {
    Origin origin;
    char *qmp;
    gboolean print;
} Live;

static void live_clear(Live *live)
{
    g_free(live->origin.directory);
    g_free(live->qmp);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Live, live_clear)

static const char usage[] =
    "usage: reprise live DIR [OPTION...] (--as-recorded | -- QEMU ARG...)\n"
    "\n"
    "Let a recorded guest go on from a checkpoint, with real devices, as often as\n"
    "you like.  The recording was made with --live, and QEMU ARG... is the machine\n"
    "that it is of, with the same devices.\n"
    "\n"
    "  --from N        go on from checkpoint N (default: the last one; reprise info\n"
    "                  lists them)\n"
    "  --as-recorded   start QEMU as it was started for the recording, in the same\n"
    "                  directory; the command is shown first\n"
    "  --print         print that command, and run nothing: a recording may come\n"
    "                  from anybody\n"
    "  --qmp SOCK      QEMU answers QMP on this socket\n"
    "  --help          show this text\n"
    "\n"
    "To record what it does then: reprise record -o NEW --continue DIR.\n"
    "\n"
    "exit status: 0 the guest ended; 1 QEMU failed, and how; 2 it cannot go live\n";

/* Return false if the command ends here, with exit status *@status. */
static bool parse_arguments(Live *live, int argc, char **argv, int *status)
{
    gboolean help = FALSE;
    const GOptionEntry entries[] = {
        { "help", 'h', 0, G_OPTION_ARG_NONE, &help, NULL, NULL },
        { "from", 0, 0, G_OPTION_ARG_INT, &live->origin.from, NULL, NULL },
        { "as-recorded", 0, 0, G_OPTION_ARG_NONE, &live->origin.as_recorded, NULL, NULL },
        { "print", 0, 0, G_OPTION_ARG_NONE, &live->print, NULL, NULL },
        { "qmp", 0, 0, G_OPTION_ARG_FILENAME, &live->qmp, NULL, NULL },
        G_OPTION_ENTRY_NULL
    };
    const char *objection;

    live->origin.command = emulator_arguments(&argc, argv);
    if (!parse_options("live", entries, &help, usage, &argc, &argv, status)) {
        return false;
    }
    objection = live->print ? NULL : origin_objection(&live->origin);
    if (argc < 2) {
        *status = usage_error("%s", "live: which recording? Give its directory");
    } else if (argc > 2) {
        *status = usage_error("live takes one directory, got '%s' too", argv[2]);
    } else if (objection) {
        *status = usage_error("live: %s", objection);
    } else {
        live->origin.directory = g_canonicalize_filename(argv[1], NULL);
        make_absolute(&live->qmp);      /* QEMU may be started in another directory */
        return true;
    }
    return false;
}

/* Return the exit status when QEMU has ended, or when the user wants that. */
static int follow(Emulator *emulator)
{
    for (;;) {
        g_autoptr(JsonValue) event = NULL;
        g_autofree char *ending = NULL;

        switch (emulator_wait(emulator, INT64_MAX, &event)) {
        case EMULATOR_EVENT:
            break;
        case EMULATOR_ENDED:
            if (emulator_ended_well(emulator)) {
                return STATUS_OK;
            }
            ending = emulator_ending(emulator);
            fprintf(stderr, "reprise: QEMU ended with %s\n", ending);
            return STATUS_DIVERGED;
        case EMULATOR_SIGNAL:
        case EMULATOR_DEADLINE:
        case EMULATOR_OTHER:
            emulator_quit(emulator);
            return STATUS_OK;
        }
    }
}

int run_live(int argc, char **argv)
{
    g_auto(Live) live = { .origin.from = ORIGIN_LAST };
    g_auto(GStrv) command = NULL;
    g_autoptr(Emulator) emulator = NULL;
    g_autoptr(GError) error = NULL;
    int status;

    if (!parse_arguments(&live, argc, argv, &status)) {
        return status;
    }
    if (live.print) {
        return origin_print(&live.origin);
    }
    if (!(command = origin_command(&live.origin, &error)) ||
        !(emulator = emulator_start(command, live.qmp, true, &error))) {
        return input_error(error);
    }
    if (!origin_load(&live.origin, emulator, &error) ||
        !emulator_execute(emulator, "cont", NULL, &error)) {
        emulator_quit(emulator);
        return input_error(error);
    }
    return follow(emulator);
}
