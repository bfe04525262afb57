/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `reprise debug`: starts a QEMU that opens a recording and pauses the guest at the wanted moment.
 * Then a debugger may connect, or the tool starts a gdb at the user's terminal.
 *
 * QEMU serves all requests of the debugger.  QEMU's gdbstub is opened only when the guest stands at
 * the wanted moment, so that no debugger can see or move the guest earlier.
 */
#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "recording/growing.h"
#include "recording/manifest.h"
#include "tool/emulator.h"
#include "tool/gdb.h"
#include "tool/progress.h"
#include "tool/qmp-client.h"
#include "tool/replay-command.h"
#include "tool/stop-signals.h"
#include "tool/tool.h"

#define DEFAULT_PORT "1234"     /* the port of QEMU's option -s */

typedef struct Debug {
    const char *directory;
    gboolean growing;           /* the recording may still be being made */
    char *view;                 /* of such a recording; NULL: @directory is seen itself */
    GrowingView seen;           /* of @view */
    volatile sig_atomic_t *stop;        /* with a view: a signal shall end the tool */
    char *at;                   /* NULL: the start */
    int checkpoint;             /* number of the checkpoint that @at names; 0: @at names none */
    char *port;
    char *socket;
    gboolean with_gdb;
    const char *gdb_given;      /* PROGRAM of --gdb=PROGRAM, or NULL */
    char *gdb;                  /* path of gdb; NULL: no gdb is started */
    char *vmlinux;
    char *console;
    char *qmp;
    char *snapshots;
    char *order;                /* "fdr", "karma" or "rerun"; NULL: the recording's first */
    char **ask;                 /* commands for QEMU's monitor; NULL: none */
    char **more;                /* arguments after "--", for gdb or else QEMU; NULL: none */
    Manifest *manifest;
    int64_t start;              /* monotonic time at which QEMU was told to go to @at */
    char *divergence;           /* the last divergence that was reported; NULL: none */
} Debug;

static void debug_clear(Debug *debug)
{
    if (debug->view) {
        growing_view_remove(debug->view);
    }
    g_free(debug->view);
    g_free(debug->at);
    g_free(debug->port);
    g_free(debug->socket);
    g_free(debug->gdb);
    g_free(debug->vmlinux);
    g_free(debug->console);
    g_free(debug->qmp);
    g_free(debug->snapshots);
    g_free(debug->order);
    g_strfreev(debug->ask);
    g_free(debug->divergence);
    manifest_free(debug->manifest);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Debug, debug_clear)

/* --- the command line ------------------------------------------------------- */

static const char usage[] =
    "usage: reprise debug DIR [OPTION...] [-- ARG...]\n"
    "\n"
    "Debug a recording with gdb, forwards and backwards; it is the same run however\n"
    "often you pass.  When the guest stands where it shall, paused, the line is\n"
    "printed that connects a gdb (Debian's gdb-multiarch) with it.\n"
    "\n"
    "  --growing        the recording is still being made, with --epochs: see it up\n"
    "                   to the end of its last epoch, which --at end means then\n"
    "  --at WHERE       stand there: start (the default), end, a moment (a number,\n"
    "                   as of reprise info --at) or 'checkpoint N'\n"
    "  --port N         listen on this port of 127.0.0.1 (default: 1234; 0: any)\n"
    "  --socket PATH    listen on this Unix socket instead\n"
    "  --gdb[=PROGRAM]  start gdb here, with a socket of its own and ARG...; when it\n"
    "                   ends, all does.  It has commands besides its own: when, goto\n"
    "                   MOMENT, last-write &VARIABLE, who &VARIABLE\n"
    "  --vmlinux FILE   with --gdb: the guest's kernel with its symbols\n"
    "  --console FILE   where the guest's console output goes (default: stdout; with\n"
    "                   --gdb, nowhere)\n"
    "  --ask COMMAND    no gdb: print what QEMU's monitor answers there, and end; as\n"
    "                   often as you like: 'last-write ADDRESS', 'who ADDRESS',\n"
    "                   when, 'goto MOMENT', 'info registers'\n"
    "  --snapshots SIZE   memory to take, at most, to go back fast, besides a copy\n"
    "                   of the guest's (default: 1G)\n"
    "  --order NAME     follow this order of steps, fdr, karma or rerun, if the\n"
    "                   recording has several (default: its first)\n"
    "  --qmp SOCK       QEMU answers QMP on this socket\n"
    "  --help           show this text\n"
    "\n"
    "Without --gdb, Ctrl-C or gdb's kill ends it; a debugger that detaches or dies\n"
    "may come back; and ARG... are for QEMU, for experiments.\n"
    "\n"
    "exit status: 0 done (with --gdb, gdb's own); 1 the replay diverged, and where;\n"
    "2 the recording cannot be debugged, or QEMU failed\n";

static bool is_number(const char *text, uint64_t max, uint64_t *value)
{
    return g_ascii_string_to_unsigned(text, 10, 0, max, value, NULL);
}

static bool parse_place(Debug *debug)
{
    static const char checkpoint[] = "checkpoint ";
    uint64_t number;

    if (!debug->at || g_str_equal(debug->at, "start") || g_str_equal(debug->at, "end") ||
        is_number(debug->at, UINT64_MAX, &number)) {
        return true;
    }
    if (!g_str_has_prefix(debug->at, checkpoint) ||
        !is_number(debug->at + strlen(checkpoint), INT_MAX, &number)) {
        return false;
    }
    debug->checkpoint = number;
    return true;
}

/* Return what is wrong with the options, in words, or NULL. */
static const char *check_options(const Debug *debug)
{
    uint64_t port;

    if (debug->port && debug->socket) {
        return "--port or --socket, not both";
    }
    if (debug->with_gdb && (debug->port || debug->socket)) {
        return "--gdb has a socket of its own, not --port or --socket";
    }
    if (debug->ask && (debug->with_gdb || debug->port || debug->socket)) {
        return "--ask is instead of a debugger, not with --gdb, --port or --socket";
    }
    if (debug->vmlinux && !debug->with_gdb) {
        return "--vmlinux is for --gdb: in a gdb of your own, say file FILE";
    }
    if (debug->port && !is_number(debug->port, UINT16_MAX, &port)) {
        return "--port is a number, at most 65535";
    }
    if (debug->snapshots && !parse_size(debug->snapshots)) {
        return "--snapshots: a size, such as 500M";
    }
    if ((debug->socket && !*debug->socket) || (debug->console && !*debug->console) ||
        (debug->qmp && !*debug->qmp)) {
        return "--socket, --console and --qmp need a path";
    }
    return NULL;
}

/* Return false if the command ends here, with exit status *@status. */
static bool parse_arguments(Debug *debug, int argc, char **argv, int *status)
{
    gboolean help = FALSE;
    const GOptionEntry entries[] = {
        { "help", 'h', 0, G_OPTION_ARG_NONE, &help, NULL, NULL },
        { "growing", 0, 0, G_OPTION_ARG_NONE, &debug->growing, NULL, NULL },
        { "at", 0, 0, G_OPTION_ARG_STRING, &debug->at, NULL, NULL },
        { "port", 0, 0, G_OPTION_ARG_STRING, &debug->port, NULL, NULL },
        { "socket", 0, 0, G_OPTION_ARG_FILENAME, &debug->socket, NULL, NULL },
        { "gdb", 0, 0, G_OPTION_ARG_NONE, &debug->with_gdb, NULL, NULL },
        { "vmlinux", 0, 0, G_OPTION_ARG_FILENAME, &debug->vmlinux, NULL, NULL },
        { "console", 0, 0, G_OPTION_ARG_FILENAME, &debug->console, NULL, NULL },
        { "qmp", 0, 0, G_OPTION_ARG_FILENAME, &debug->qmp, NULL, NULL },
        { "snapshots", 0, 0, G_OPTION_ARG_STRING, &debug->snapshots, NULL, NULL },
        { "order", 0, 0, G_OPTION_ARG_STRING, &debug->order, NULL, NULL },
        { "ask", 0, 0, G_OPTION_ARG_STRING_ARRAY, &debug->ask, NULL, NULL },
        G_OPTION_ENTRY_NULL
    };
    const char *objection;

    debug->more = emulator_arguments(&argc, argv);
    debug->gdb_given = take_option_value("--gdb", argc, argv);
    if (!parse_options("debug", entries, &help, usage, &argc, &argv, status)) {
        return false;
    }
    objection = check_options(debug);
    if (objection) {
        *status = usage_error("debug: %s", objection);
    } else if (!parse_place(debug)) {       /* before argc: checkpoint N without quotes */
        *status = usage_error("debug: --at is start, end, a moment or 'checkpoint N' (in quotes), "
                              "not '%s'", debug->at);
    } else if (argc < 2) {
        *status = usage_error("%s", "debug: which recording? Give its directory");
    } else if (argc > 2) {
        *status = usage_error("debug takes one directory, got '%s' too", argv[2]);
    } else {
        debug->directory = argv[1];
        return true;
    }
    return false;
}

/* --- what a session needs --------------------------------------------------- */

static bool check_vmlinux(const Debug *debug, GError **error)
{
    bool is_directory = debug->vmlinux && g_file_test(debug->vmlinux, G_FILE_TEST_IS_DIR);

    if (debug->vmlinux && (is_directory || access(debug->vmlinux, R_OK) < 0)) {
        g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_FAILED, "cannot read --vmlinux %s: %s",
                    debug->vmlinux, g_strerror(is_directory ? EISDIR : errno));
        return false;
    }
    return true;
}

/* Return the directory of the recording as it is seen. */
static const char *seen(const Debug *debug)
{
    return debug->view ? debug->view : debug->directory;
}

/* If the recording is still being made, make a view of it beside it. */
static bool make_view(Debug *debug, GError **error)
{
    g_autoptr(Manifest) manifest = manifest_load(debug->directory, error);
    g_autofree char *path = g_canonicalize_filename(debug->directory, NULL);
    g_autofree char *view = g_strconcat(path, ".view-XXXXXX", NULL);

    if (!manifest || manifest->complete) {
        return manifest;
    }
    if (!g_mkdtemp(view)) {
        g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_FAILED, "cannot create %s: %s", view,
                    g_strerror(errno));
        return false;
    }
    debug->view = g_steal_pointer(&view);
    debug->stop = stop_signals_catch();
    progress_line("copying the logs of %s", debug->directory);
    return growing_view_make(debug->directory, debug->view, debug->stop, &debug->seen, error);
}

/* Return true and @error if a signal came that stop_signals_catch() has caught. */
static bool is_stopped(const Debug *debug, GError **error)
{
    if (debug->stop && *debug->stop) {
        g_set_error(error, GROWING_ERROR, GROWING_ERROR_STOPPED, "stopped");
        return true;
    }
    return false;
}

static bool prepare(Debug *debug, GdbAddress *address, GError **error)
{
    if (debug->growing && !make_view(debug, error)) {
        return false;
    }
    progress_line("checking %s", debug->directory);
    debug->manifest = replay_command_manifest(seen(debug), debug->checkpoint, debug->order,
                                              error);
    if (!debug->manifest || !check_vmlinux(debug, error)) {
        return false;
    }
    if (debug->with_gdb) {
        debug->gdb = gdb_find(debug->gdb_given, error);
        return debug->gdb && gdb_address_private(address, error) &&
               gdb_address_add_commands(address, error);
    }
    if (debug->ask) {
        return gdb_address_private(address, error);
    }
    if (debug->socket) {
        return gdb_address_socket(address, debug->socket, error);
    }
    return gdb_address_port(address, g_ascii_strtoull(debug->port ? debug->port : DEFAULT_PORT,
                                                      NULL, 10), error);
}

/* --- QEMU ------------------------------------------------------------------- */

static char **qemu_command(const Debug *debug, const GdbAddress *address, GError **error)
{
    g_autofree char *serial = debug->console
                                  ? g_strconcat("file:", debug->console, NULL)
                                  : g_strdup(debug->gdb || debug->ask ? "null" : "stdio");
    g_auto(GStrv) command = replay_command_line(debug->manifest, serial,
                                                debug->gdb ? NULL : debug->more, error);
    g_autofree char *chardev = g_strdup_printf("socket,id=reprise-gdb,fd=%d,server=on,wait=off%s",
                                               address->fd, address->is_port ? ",nodelay=on" : "");
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();

    if (!command) {
        return NULL;
    }
    g_strv_builder_addv(builder, (const char **)command);
    g_strv_builder_add_many(builder, "-chardev", chardev, NULL);
    return g_strv_builder_end(builder);
}

/*
 * Return the arguments of recorder-debug as JSON, to be freed by the caller; NULL and @error if the
 * path cannot be sent.
 */
static char *task_arguments(const Debug *debug, GError **error)
{
    Json arguments;

    json_init(&arguments);
    json_open(&arguments, NULL, '{');
    if (debug->at) {
        json_string(&arguments, "at", debug->at);
    }
    if (debug->snapshots) {
        json_u64(&arguments, "snapshot-memory", parse_size(debug->snapshots));
    }
    if (debug->order) {
        json_string(&arguments, "order", debug->order);
    }
    if (!emulator_put_path(&arguments, "directory", seen(debug), error)) {
        return NULL;
    }
    json_close(&arguments, '{');
    return json_finish(&arguments);
}

/* Return "the end", "moment 1500" or "checkpoint 3", to be freed by the caller. */
static char *place_in_words(const Debug *debug)
{
    const char *at = debug->at ? debug->at : "start";

    if (debug->view && g_str_equal(at, "end")) {
        return g_strdup_printf("the end of epoch %" PRIu64 ", moment %" PRIu64, debug->seen.epoch,
                               debug->seen.moment);
    }
    return g_strconcat(g_ascii_isdigit(*at) ? "moment " : *at == 'c' ? "" : "the ", at, NULL);
}

static void show(void *opaque)
{
    const Debug *debug = opaque;
    g_autofree char *place = place_in_words(debug);

    progress_line("going to %s of %s: %.0f s", place, debug->directory,
                  (g_get_monotonic_time() - debug->start) / 1e6);
}

/* Report a divergence as soon as QEMU sends the event, and each divergence once. */
static void note(Debug *debug, const JsonValue *event)
{
    const char *divergence = json_member_string(json_member(event, "data"), "divergence");

    if (g_strcmp0(json_member_string(event, "event"), "RECORDER_DIVERGED") != 0 ||
        (debug->divergence && g_strcmp0(divergence, debug->divergence) == 0)) {
        return;
    }
    g_free(debug->divergence);
    debug->divergence = g_strdup(divergence ? divergence : "unknown");
    progress_clear();
    fprintf(stderr, "reprise: replay diverged: %s\n", debug->divergence);
}

/* Start QEMU's gdbstub: from now on a debugger is answered.  Return false and @error on failure. */
static bool open_gdbstub(Emulator *emulator, GError **error)
{
    g_autoptr(JsonValue) answer = emulator_ask(
        emulator, "human-monitor-command",
        "{\"command-line\": \"gdbserver chardev:reprise-gdb\"}", error);
    const char *said = json_member_string(answer, "return");

    if (answer && said && g_str_has_prefix(said, "Could not")) {
        g_set_error(error, QMP_ERROR, QMP_ERROR_REFUSED, "QEMU's gdbstub does not start");
        return false;
    }
    return answer != NULL;
}

/*
 * Let QEMU go to the wanted moment, then start its gdbstub.  Return false and @error on failure;
 * divergences that QEMU found on the way have been reported.
 */
static bool stand(Debug *debug, Emulator *emulator, const char *arguments, GError **error)
{
    g_autoptr(GError) why = NULL;
    JsonValue *event;

    debug->start = g_get_monotonic_time();
    show(debug);
    if (emulator_execute_showing(emulator, "recorder-debug", arguments, show, debug, &why) &&
        open_gdbstub(emulator, &why)) {
        return true;
    }
    while ((event = emulator_take_event(emulator))) {
        note(debug, event);
        json_value_free(event);
    }
    if (!g_error_matches(why, QMP_ERROR, QMP_ERROR_INTERRUPTED)) {
        emulator_quit(emulator);
    }
    g_propagate_error(error, g_steal_pointer(&why));
    return false;
}

/* --- the session ------------------------------------------------------------ */

static Gdb *start_gdb(const Debug *debug, const GdbAddress *address, Emulator *emulator,
                      GError **error)
{
    g_autofree char *connect = g_strdup_printf("target remote %s", address->remote);
    g_autofree char *vmlinux = debug->vmlinux ? g_canonicalize_filename(debug->vmlinux, NULL)
                                              : NULL;
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    g_auto(GStrv) command = NULL;

    g_strv_builder_add_many(builder, debug->gdb, "-x", address->commands, "-ex", connect, NULL);
    if (vmlinux) {
        g_strv_builder_add(builder, vmlinux);
    }
    if (debug->more) {
        g_strv_builder_addv(builder, (const char **)debug->more);
    }
    command = g_strv_builder_end(builder);
    return gdb_start(command, emulator, error);
}

/*
 * Wait until the user ends the session or QEMU has ended.  With a @gdb, wait for gdb's end even if
 * QEMU has ended, since gdb may still report.  Return gdb's exit status, or STATUS_OK.
 */
static int follow(Debug *debug, Emulator *emulator, Gdb *gdb)
{
    int status = STATUS_OK;

    for (;;) {
        g_autoptr(JsonValue) event = NULL;

        switch (emulator_wait(emulator, gdb ? gdb_deadline(gdb) : INT64_MAX, &event)) {
        case EMULATOR_EVENT:
            note(debug, event);
            break;
        case EMULATOR_ENDED:
            if (!gdb) {
                return status;
            }
            break;
        case EMULATOR_SIGNAL:
            return status;
        case EMULATOR_DEADLINE:
        case EMULATOR_OTHER:
            if (gdb_has_ended(gdb, &status)) {
                return status;
            }
            break;
        }
    }
}

static int report(const Debug *debug, const Emulator *emulator, int gdb_status)
{
    g_autofree char *ending = emulator_ending(emulator);

    if (!emulator_ended_well(emulator)) {
        fprintf(stderr, "reprise: QEMU ended with %s during the session\n", ending);
        return STATUS_USAGE;
    }
    return gdb_status ? gdb_status : debug->divergence ? STATUS_DIVERGED : STATUS_OK;
}

/* Print what QEMU's monitor answers to the commands of --ask, and end QEMU.  Return the status. */
static int ask(Debug *debug, Emulator *emulator)
{
    g_autoptr(GError) error = NULL;

    for (char **command = debug->ask; *command && !error; command++) {
        g_autofree char *arguments = NULL;
        g_autoptr(JsonValue) answer = NULL;
        g_auto(GStrv) lines = NULL;
        Json json;

        json_init(&json);
        json_open(&json, NULL, '{');
        json_string(&json, "command-line", *command);
        json_close(&json, '{');
        arguments = json_finish(&json);
        answer = emulator_ask(emulator, "human-monitor-command", arguments, &error);
        if (answer) {
            lines = g_strsplit(json_member_string(answer, "return"), "\r\n", -1);
        }
        for (char **line = lines; line && *line; line++) {
            /* A line of dots only keeps a waiting gdb from giving up: it is left out. */
            if (!**line || (*line)[strspn(*line, ".")] != '\0') {
                printf("%s%s", *line, line[1] ? "\n" : "");
            }
        }
        fflush(stdout);
    }
    emulator_quit(emulator);
    return error ? input_error(error) : report(debug, emulator, STATUS_OK);
}

static int hold_session(Debug *debug, const GdbAddress *address, Emulator *emulator)
{
    g_autofree char *place = place_in_words(debug);
    g_autoptr(Gdb) gdb = NULL;
    g_autoptr(GError) error = NULL;
    int status;

    if (!debug->gdb) {
        fprintf(stderr, "reprise: %s stands at %s; Ctrl-C ends\n(gdb) target remote %s\n",
                debug->directory, place, address->remote);
    } else if (!(gdb = start_gdb(debug, address, emulator, &error))) {
        emulator_quit(emulator);
        return input_error(error);
    }
    status = follow(debug, emulator, gdb);
    /* gdb ends before QEMU, since gdb may have to detach. */
    g_clear_pointer(&gdb, gdb_free);
    emulator_quit(emulator);
    return report(debug, emulator, status);
}

int run_debug(int argc, char **argv)
{
    g_auto(Debug) debug = { 0 };
    g_auto(GStrv) command = NULL;
    g_autofree char *arguments = NULL;
    g_autoptr(Emulator) emulator = NULL;
    g_auto(GdbAddress) address = GDB_ADDRESS_NONE;
    g_autoptr(GError) error = NULL;
    int status;

    if (!parse_arguments(&debug, argc, argv, &status)) {
        return status;
    }
    if (!prepare(&debug, &address, &error) || is_stopped(&debug, &error) ||
        !(command = qemu_command(&debug, &address, &error)) ||
        !(arguments = task_arguments(&debug, &error)) ||
        !(emulator = emulator_start(command, debug.qmp, false, &error))) {
        progress_clear();
        return input_error(error);
    }
    gdb_address_close(&address);
    if (!stand(&debug, emulator, arguments, &error)) {
        return debug.divergence ? STATUS_DIVERGED : input_error(error);
    }
    if (debug.ask) {
        return ask(&debug, emulator);
    }
    return hold_session(&debug, &address, emulator);
}
