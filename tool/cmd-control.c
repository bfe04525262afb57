/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `reprise start`, `stop`, `status`, `checkpoint`: control the recorder of a guest that runs
 * already, in a QEMU that the tool did not start.  Each sends one or two QMP commands.  The guest
 * goes on even if the tool is killed.
 */
#include <glib.h>
#include <inttypes.h>
#include <stdio.h>

#include "tool/emulator.h"
#include "tool/guest.h"
#include "tool/json.h"
#include "tool/progress.h"
#include "tool/tool.h"

/* Options of all four commands. */
typedef struct Control {
    GuestAddress address;
    char *directory;            /* start */
    char *max_size;             /* start; NULL: no limit */
    double max_seconds;         /* start; 0: no limit */
    char *order;                /* start: a list; NULL: QEMU's default */
    int64_t digest_interval;    /* start; 0: QEMU's default */
    gboolean pause;             /* stop */
    double checkpoint_interval; /* start, in seconds; 0: only the first checkpoint */
    double keep_seconds;        /* start; 0: keep all */
    gboolean has_hold;          /* start */
    const char *hold_given;     /* start: SIZE of --hold=SIZE, or NULL */
    gboolean has_epochs;        /* start */
    const char *epochs_given;   /* start: N of --epochs=N, or NULL */
    gboolean live;              /* start */
    gboolean json;              /* status */
} Control;

static void control_clear(Control *control)
{
    g_free(control->address.qmp);
    g_free(control->address.domain);
    g_free(control->address.connect);
    g_free(control->directory);
    g_free(control->max_size);
    g_free(control->order);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Control, control_clear)

/* --- the command lines -------------------------------------------------------- */

#define WHICH_GUEST \
    "Which guest:\n" \
    "\n" \
    "  --qmp SOCK        the QEMU that answers QMP on this socket, started with\n" \
    "                    -qmp unix:SOCK,server=on,wait=off\n" \
    "  --domain NAME     the one that libvirt calls so\n" \
    "  --connect URI     of libvirt (default: libvirt's own, mostly qemu:///system)\n"

static const char start_usage[] =
    "usage: reprise start (--qmp SOCK | --domain NAME) -o DIR [OPTION...]\n"
    "\n"
    "Start to record a guest that runs.  It pauses while its state is saved.\n"
    "\n"
    WHICH_GUEST
    "\n"
    "  -o, --output DIR  where to put the recording: a new or empty directory that\n"
    "                    QEMU may write to, on its host\n"
    "  --max-size SIZE   end the recording when it has so many bytes on disk\n"
    "                    (suffixes K, M, G)\n"
    "  --max-seconds S   end it after so long\n"
    "  --checkpoint-interval S   make a checkpoint every S seconds, where replay can\n"
    "                    begin\n"
    "  --keep-seconds S  keep the last S seconds only, in bounded space\n"
    "  --epochs[=MS]     every MS milliseconds (200), keep a digest of all memory,\n"
    "                    with which a replay is compared there; the recording can be\n"
    "                    replayed while it is being made (reprise replay --follow)\n"
    "  --hold[=SIZE]     hold what the guest sends over networks and consoles until\n"
    "                    its epoch is released (reprise replay --follow --release);\n"
    "                    the guest pauses while more than SIZE (64M) is held\n"
    "  --live            save the state of devices in each checkpoint, so that the\n"
    "                    guest can go on from there (reprise live)\n"
    "  --order LIST      how the order of steps is recorded: fdr (the default),\n"
    "                    karma[:N], rerun[:N], or several, separated by commas;\n"
    "                    N: most steps of an episode (default: 16384; 0: any)\n"
    "  --digest-interval N   log registers every N steps (default: 1000000)\n"
    "  --help            show this text\n"
    "\n"
    "exit status: 0 it is being recorded; 2 it is not, and why\n";

static const char stop_usage[] =
    "usage: reprise stop (--qmp SOCK | --domain NAME) [--pause]\n"
    "\n"
    "End the recording of a guest that runs, and say what became of it.\n"
    "\n"
    WHICH_GUEST
    "\n"
    "  --pause           leave the guest paused; otherwise it goes on\n"
    "  --help            show this text\n"
    "\n"
    "exit status: 0 the recording is complete; 1 something went wrong at its end,\n"
    "and what; 2 nothing was being recorded, or the guest cannot be reached\n";

static const char status_usage[] =
    "usage: reprise status (--qmp SOCK | --domain NAME) [--json]\n"
    "\n"
    "Show what the recorder of a guest does: where it is, how large the recording\n"
    "is and how fast it grows; or how the last one ended.\n"
    "\n"
    WHICH_GUEST
    "\n"
    "  --json            all that query-recorder of QMP answers\n"
    "  --help            show this text\n"
    "\n"
    "exit status: 0; 2 the guest cannot be reached\n";

static const char checkpoint_usage[] =
    "usage: reprise checkpoint (--qmp SOCK | --domain NAME)\n"
    "\n"
    "Add a checkpoint to the recording that is being made, from which a replay can\n"
    "start.\n"
    "\n"
    WHICH_GUEST
    "\n"
    "  --help            show this text\n"
    "\n"
    "exit status: 0 it is there; 2 it is not, and why\n";

static const GOptionEntry *const no_more = &(const GOptionEntry) G_OPTION_ENTRY_NULL;

/* Return false if the command ends here, with exit status *@status. */
static bool parse(Control *control, const char *name, const char *usage, const GOptionEntry *more,
                  int argc, char **argv, int *status)
{
    gboolean help = FALSE;
    GuestAddress *address = &control->address;
    const GOptionEntry common[] = {
        { "help", 'h', 0, G_OPTION_ARG_NONE, &help, NULL, NULL },
        { "qmp", 0, 0, G_OPTION_ARG_FILENAME, &address->qmp, NULL, NULL },
        { "domain", 0, 0, G_OPTION_ARG_STRING, &address->domain, NULL, NULL },
        { "connect", 0, 0, G_OPTION_ARG_STRING, &address->connect, NULL, NULL },
    };
    g_autoptr(GArray) entries = g_array_new(TRUE, FALSE, sizeof(GOptionEntry));
    g_autofree char *what = NULL;

    g_array_append_vals(entries, common, G_N_ELEMENTS(common));
    for (; more->long_name; more++) {
        g_array_append_val(entries, *more);
    }
    if (!parse_options(name, (const GOptionEntry *)entries->data, &help, usage, &argc, &argv,
                       status)) {
        return false;
    }
    if (argc > 1) {
        what = g_strdup_printf("%s: unexpected argument '%s'", name, argv[1]);
    } else if (!address->qmp == !address->domain) {
        what = g_strdup_printf("%s: which guest? Give --qmp SOCK or --domain NAME", name);
    } else if (address->connect && !address->domain) {
        what = g_strdup_printf("%s: --connect is for --domain", name);
    }
    if (what) {
        *status = usage_error("%s", what);
        return false;
    }
    return true;
}

/* --- start -------------------------------------------------------------------- */

/*
 * Return the arguments of recorder-start as JSON, to be freed by the caller; NULL and @error if the
 * path cannot be sent.
 */
static char *start_arguments(const Control *control, GError **error)
{
    Json arguments;

    json_init(&arguments);
    json_open(&arguments, NULL, '{');
    if (control->order) {
        json_string(&arguments, "protocol", control->order);
    }
    if (control->digest_interval) {
        json_u64(&arguments, "digest-interval", control->digest_interval);
    }
    if (control->max_size) {
        json_u64(&arguments, "max-bytes", parse_size(control->max_size));
    }
    if (control->max_seconds > 0) {
        json_double(&arguments, "max-seconds", control->max_seconds);
    }
    if (control->checkpoint_interval > 0) {
        json_double(&arguments, "checkpoint-interval", control->checkpoint_interval);
    }
    if (control->keep_seconds > 0) {
        json_double(&arguments, "keep-seconds", control->keep_seconds);
    }
    if (control->has_epochs) {
        json_u64(&arguments, "epochs", epoch_length(control->epochs_given));
    }
    if (control->has_hold) {
        json_u64(&arguments, "hold", hold_size(control->hold_given));
    }
    if (control->live) {
        json_bool(&arguments, "live-checkpoints", true);
    }
    if (!emulator_put_path(&arguments, "directory", control->directory, error)) {
        return NULL;
    }
    json_close(&arguments, '{');
    return json_finish(&arguments);
}

int run_start(int argc, char **argv)
{
    g_auto(Control) control = { 0 };
    const GOptionEntry more[] = {
        { "output", 'o', 0, G_OPTION_ARG_FILENAME, &control.directory, NULL, NULL },
        { "max-size", 0, 0, G_OPTION_ARG_STRING, &control.max_size, NULL, NULL },
        { "max-seconds", 0, 0, G_OPTION_ARG_DOUBLE, &control.max_seconds, NULL, NULL },
        { "checkpoint-interval", 0, 0, G_OPTION_ARG_DOUBLE, &control.checkpoint_interval, NULL,
          NULL },
        { "keep-seconds", 0, 0, G_OPTION_ARG_DOUBLE, &control.keep_seconds, NULL, NULL },
        { "epochs", 0, 0, G_OPTION_ARG_NONE, &control.has_epochs, NULL, NULL },
        { "hold", 0, 0, G_OPTION_ARG_NONE, &control.has_hold, NULL, NULL },
        { "live", 0, 0, G_OPTION_ARG_NONE, &control.live, NULL, NULL },
        { "order", 0, 0, G_OPTION_ARG_STRING, &control.order, NULL, NULL },
        { "digest-interval", 0, 0, G_OPTION_ARG_INT64, &control.digest_interval, NULL, NULL },
        G_OPTION_ENTRY_NULL
    };
    g_autofree char *arguments = NULL;
    g_autoptr(Guest) guest = NULL;
    g_autoptr(JsonValue) answer = NULL;
    g_autoptr(GError) error = NULL;
    const char *objection;
    int status;

    control.epochs_given = take_option_value("--epochs", argc, argv);
    control.hold_given = take_option_value("--hold", argc, argv);
    if (!parse(&control, "start", start_usage, more, argc, argv, &status)) {
        return status;
    }
    if (!control.directory || !*control.directory) {
        return usage_error("%s", "start: where to? Give a new directory with -o");
    }
    if (control.max_size && !parse_size(control.max_size)) {
        return usage_error("start: --max-size '%s' is no size, such as 500M", control.max_size);
    }
    if (control.epochs_given && !epoch_length(control.epochs_given)) {
        return usage_error("start: --epochs=MS: milliseconds, not '%s'", control.epochs_given);
    }
    objection = hold_objection(control.has_hold, control.hold_given, control.has_epochs);
    if (objection) {
        return usage_error("start: %s", objection);
    }
    if (!check_order_list("start", control.order, &status)) {
        return status;
    }
    if (!(control.max_seconds >= 0) || control.digest_interval < 0 ||
        !(control.checkpoint_interval >= 0) || !(control.keep_seconds >= 0)) {
        return usage_error("%s", "start: --max-seconds, --digest-interval, --checkpoint-interval "
                           "and --keep-seconds: more than 0");
    }
    progress_line("saving the state of the guest in %s", control.directory);
    if (!(arguments = start_arguments(&control, &error)) ||
        !(guest = guest_open(&control.address, &error)) ||
        !(answer = guest_execute(guest, "recorder-start", arguments, &error))) {
        progress_clear();
        return input_error(error);
    }
    progress_clear();
    fprintf(stderr, "reprise: recording in %s\n", control.directory);
    return STATUS_OK;
}

/* --- stop --------------------------------------------------------------------- */

int run_stop(int argc, char **argv)
{
    g_auto(Control) control = { 0 };
    const GOptionEntry more[] = {
        { "pause", 0, 0, G_OPTION_ARG_NONE, &control.pause, NULL, NULL },
        G_OPTION_ENTRY_NULL
    };
    g_autoptr(Guest) guest = NULL;
    g_autoptr(JsonValue) answer = NULL, after = NULL;
    g_autoptr(GError) error = NULL;
    const JsonValue *last;
    const char *reason, *directory;
    int status;

    if (!parse(&control, "stop", stop_usage, more, argc, argv, &status)) {
        return status;
    }
    progress_line("ending the recording");
    if (!(guest = guest_open(&control.address, &error)) ||
        !(answer = guest_execute(guest, "recorder-stop",
                                 control.pause ? "{\"pause\": true}" : NULL, &error)) ||
        !(after = guest_execute(guest, "query-recorder", NULL, &error))) {
        progress_clear();
        return input_error(error);
    }
    progress_clear();
    last = json_member(json_member(after, "return"), "last-recording");
    reason = json_member_string(last, "reason");
    directory = json_member_string(last, "directory");
    if (!json_member_bool(last, "complete")) {
        fprintf(stderr, "reprise: %s ended early: %s\n", directory ? directory : "the recording",
                reason ? reason : "unknown");
        return STATUS_DIVERGED;
    }
    fprintf(stderr, "reprise: recorded %s\n", directory);
    return STATUS_OK;
}

/* --- status ------------------------------------------------------------------- */

static void print_vcpus(const JsonValue *vcpus)
{
    for (guint i = 0; vcpus && vcpus->kind == JSON_ARRAY && i < vcpus->items->len; i++) {
        const JsonValue *vcpu = g_ptr_array_index(vcpus->items, i);
        const char *state = json_member_string(vcpu, "state");
        const char *waits = json_member_string(vcpu, "waits-for");
        uint64_t number = i, position;

        json_member_u64(vcpu, "vcpu", &number);
        printf("  vCPU %" PRIu64, number);
        if (json_member_u64(vcpu, "position", &position)) {
            printf(" at %" PRIu64, position);
        }
        printf(": %s%s%s\n", state ? state : "?", waits ? ", waits for " : "",
               waits ? waits : "");
    }
}

static void print_size(const JsonValue *info, uint64_t stored)
{
    uint64_t bytes, rate = 0;

    json_member_u64(info, "rate", &rate);
    printf("  %.1f MiB on disk, %.1f MiB more per second", stored / MIB, rate / MIB);
    if (json_member_u64(info, "free-bytes", &bytes)) {
        printf(", %.0f MiB free", bytes / MIB);
    }
    if (json_member_u64(info, "max-bytes", &bytes)) {
        printf(", ends at %.1f MiB", bytes / MIB);
    }
    if (json_member(info, "max-seconds")) {
        printf(", ends after %g s", json_member_number(info, "max-seconds"));
    }
    printf("\n");
}

static void print_status(const JsonValue *info)
{
    const char *state = json_member_string(info, "state");
    const char *directory = json_member_string(info, "directory");
    const JsonValue *last = json_member(info, "last-recording");
    uint64_t stored;

    if (!directory) {
        printf("%s\n", state ? state : "?");
    } else {
        printf("%s %s for %.1f s", state ? state : "?", directory,
               json_member_number(info, "seconds"));
        if (json_member(info, "progress")) {
            printf(", %.1f %% done", json_member_number(info, "progress") * 100);
        }
        printf("\n");
    }
    if (json_member_u64(info, "stored-bytes", &stored)) {
        print_size(info, stored);
    }
    print_vcpus(json_member(info, "vcpus"));
    if (last) {
        const char *where = json_member_string(last, "directory");
        const char *reason = json_member_string(last, "reason");

        printf("  the last recording, %s, %s: %s\n", where ? where : "?",
               json_member_bool(last, "complete") ? "is complete" : "ended early",
               reason ? reason : "?");
    }
}

int run_status(int argc, char **argv)
{
    g_auto(Control) control = { 0 };
    const GOptionEntry more[] = {
        { "json", 0, 0, G_OPTION_ARG_NONE, &control.json, NULL, NULL },
        G_OPTION_ENTRY_NULL
    };
    g_autoptr(Guest) guest = NULL;
    g_autoptr(JsonValue) answer = NULL;
    g_autoptr(GError) error = NULL;
    const JsonValue *info;
    int status;

    if (!parse(&control, "status", status_usage, more, argc, argv, &status)) {
        return status;
    }
    if (!(guest = guest_open(&control.address, &error)) ||
        !(answer = guest_execute(guest, "query-recorder", NULL, &error))) {
        return input_error(error);
    }
    info = json_member(answer, "return");
    if (info && control.json) {
        g_autofree char *text = NULL;
        Json json;

        json_init(&json);
        json_value(&json, NULL, info);
        text = json_finish(&json);
        fputs(text, stdout);
    } else {
        print_status(info);
    }
    return STATUS_OK;
}

/* --- checkpoint --------------------------------------------------------------- */

int run_checkpoint(int argc, char **argv)
{
    g_auto(Control) control = { 0 };
    g_autoptr(Guest) guest = NULL;
    g_autoptr(JsonValue) answer = NULL;
    g_autoptr(GError) error = NULL;
    int status;

    if (!parse(&control, "checkpoint", checkpoint_usage, no_more, argc, argv, &status)) {
        return status;
    }
    if (!(guest = guest_open(&control.address, &error))) {
        return input_error(error);
    }
    answer = guest_execute(guest, "recorder-checkpoint", NULL, &error);
    if (!answer) {
        return input_error(error);
    }
    fprintf(stderr, "reprise: the guest goes on, and %s is being written\n",
            json_member_string(json_member(answer, "return"), "name"));
    return STATUS_OK;
}
