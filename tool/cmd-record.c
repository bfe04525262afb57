/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `reprise record`: starts the stock guest or the user's, records it from power-on, and ends when
 * the guest ends.  `reprise protect` does the same with the options that a standby needs.
 *
 * images/boot prints the command line of the stock guest.  The recorder in QEMU does the rest.  The
 * tool reads the outcome from the manifest that the recorder leaves.
 */
#include <glib.h>
#include <glib/gstdio.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/disk-usage.h"
#include "recording/manifest.h"
#include "tool/emulator.h"
#include "tool/origin.h"
#include "tool/progress.h"
#include "tool/tool.h"

typedef struct Record {
    const char *command;        /* "record" or "protect" */
    bool standby;               /* another QEMU can take over: `reprise protect` */
    char *directory;            /* absolute */
    char *given;                /* as the user wrote it */
    StockGuest guest;
    double timeout;
    char *max_size;
    char *order;                /* a list; NULL: QEMU's default */
    char *qmp;
    int64_t digest_interval;    /* 0: QEMU's default */
    double checkpoint_interval; /* in seconds; 0: only the first checkpoint */
    double keep_seconds;        /* 0: keep all */
    gboolean has_hold;
    const char *hold_given;     /* SIZE of --hold=SIZE, or NULL */
    gboolean has_epochs;
    const char *epochs_given;   /* N of --epochs=N, or NULL */
    gboolean live;              /* the guest can go on from each checkpoint */
    Origin origin;              /* what to go on from; no directory: nothing */
    gboolean slow_path;
    int64_t chaos;              /* a seed, for tests (docs/develop.md); 0: none */

    /* How the recording ended, as far as known. */
    char *reason;               /* from QEMU's RECORDER_STOPPED; NULL: none came */
    const char *stopper;        /* why the tool stopped the recording; NULL: the tool did not */
} Record;

static void record_clear(Record *record)
{
    g_free(record->directory);
    g_free(record->given);
    stock_guest_clear(&record->guest);
    g_free(record->max_size);
    g_free(record->order);
    g_free(record->qmp);
    g_free(record->origin.directory);
    g_free(record->reason);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Record, record_clear)

/* --- the command line ------------------------------------------------------- */

#define EXIT_STATUS \
    "exit status: 0 recorded completely; 1 the recording ended early, and why;\n" \
    "2 nothing was recorded\n"

static const char record_usage[] =
    "usage: reprise record -o DIR [OPTION...] [-- QEMU ARG...]\n"
    "\n"
    "Record a guest from power-on until it ends, or until Ctrl-C or --timeout:\n"
    "the stock guest of images/boot, or the one that QEMU ARG... starts.\n"
    "\n"
    "  -o, --output DIR  where to put the recording: a new or empty directory\n"
    "  --image NAME      instead of the stock guest's, an image that images/build\n"
    "                    made: its name in build/images, or its path\n"
    "  --arch A          the stock guest's architecture (default: the host's)\n"
    "  --smp N           its vCPUs (default: 1)\n"
    "  --mem MiB         its memory (default: 512)\n"
    "  --run CMD         what it runs (default: a shell; Ctrl-A X ends it)\n"
    "  --timeout S       stop the recording and the guest after so many seconds\n"
    "  --max-size SIZE   the same, when the recording has so many bytes on disk\n"
    "                    (suffixes K, M, G)\n"
    "  --qmp SOCK        QEMU answers QMP on this socket; when the recording ends,\n"
    "                    the guest goes on\n"
    "  --checkpoint-interval S   make a checkpoint every S seconds, where replay can\n"
    "                    begin (default: only at the start)\n"
    "  --keep-seconds S  keep the last S seconds only, in bounded space, until the\n"
    "                    recording is stopped or the guest ends or panics\n"
    "  --epochs[=MS]     every MS milliseconds (200), keep a digest of all memory,\n"
    "                    with which a replay is compared there; the recording can be\n"
    "                    replayed while it is being made (reprise replay --follow)\n"
    "  --hold[=SIZE]     hold what the guest sends over networks and consoles until\n"
    "                    its epoch is released (reprise replay --follow --release);\n"
    "                    the guest pauses while more than SIZE (64M) is held\n"
    "  --live            save the state of devices in each checkpoint, so that the\n"
    "                    guest can go on from there (reprise live)\n"
    "  --continue DIR    record a guest that goes on from a checkpoint of DIR, made\n"
    "                    with --live; QEMU ARG... has the same devices\n"
    "  --from N          which one (default: the last)\n"
    "  --as-recorded     start QEMU as it was started for DIR (reprise live --print)\n"
    "  --order LIST      how the order of steps is recorded: fdr (the default),\n"
    "                    karma[:N], rerun[:N], or several, separated by commas;\n"
    "                    N: most steps of an episode (default: 16384; 0: any)\n"
    "  --digest-interval N   log registers every N steps (default: 1000000), to find\n"
    "                    where a replay goes astray\n"
    "  --slow-path       see every access to memory, as on a host whose code\n"
    "                    generator has no test for it; for tests\n"
    "  --help            show this text\n"
    "\n"
    EXIT_STATUS;

static const char protect_usage[] =
    "usage: reprise protect -o DIR --qmp SOCK [OPTION...] [-- QEMU ARG...]\n"
    "\n"
    "Record a guest as reprise record does, so that a standby can follow it, and go\n"
    "on with it when this QEMU dies: reprise standby DIR --primary SOCK.  What the\n"
    "guest sends is held until the standby can come to that point.  Without a\n"
    "standby nothing is ever sent.\n"
    "\n"
    "Options are those of reprise record (see there).  These are always on:\n"
    "\n"
    "  --epochs[=MS]   an epoch ends after MS milliseconds (200) at the latest,\n"
    "                  after 50 if the guest has sent something\n"
    "  --hold[=SIZE]   the guest pauses while more than SIZE (64M) is held\n"
    "  --live          each epoch has the state of devices, too\n"
    "  --help          show this text\n"
    "\n"
    EXIT_STATUS;

/* Return what is wrong with the options, in words, or NULL. */
static const char *check_options(const Record *record)
{
    const char *objection;

    if (record->standby && !record->qmp) {
        return "--qmp SOCK: the standby needs it";
    }

    if (!record->given || !*record->given) {
        return "where to? Give a new directory with -o";
    }
    if (record->origin.directory && stock_guest_is_given(&record->guest)) {
        return "--image, --arch, --smp, --mem, --run are for the stock guest, not --continue";
    }
    if (!record->origin.directory &&
        (record->origin.from != ORIGIN_LAST || record->origin.as_recorded)) {
        return "--from and --as-recorded: of which recording? Give --continue DIR";
    }
    if (record->origin.command && stock_guest_is_given(&record->guest)) {
        return "--image, --arch, --smp, --mem and --run are for the stock guest, not with -- QEMU";
    }
    if (record->origin.command && !record->origin.command[0]) {
        return "no QEMU after --";
    }
    if (record->guest.smp < 0 || record->guest.mem < 0) {
        return "--smp and --mem: at least 1";
    }
    if (record->digest_interval < 0) {
        return "--digest-interval: at least 1";
    }
    if (record->chaos < 0) {
        return "--chaos: a seed, at least 1";
    }
    if (!(record->checkpoint_interval >= 0)) {
        return "--checkpoint-interval: seconds, more than 0";
    }
    if (!(record->keep_seconds >= 0)) {
        return "--keep-seconds: more than 0";
    }
    if (record->epochs_given && !epoch_length(record->epochs_given)) {
        return "--epochs=MS: milliseconds, at least 1";
    }
    if ((objection = hold_objection(record->has_hold, record->hold_given, record->has_epochs))) {
        return objection;
    }
    if (!(record->timeout >= 0)) {
        return "--timeout: more than 0";
    }
    if (record->max_size && !parse_size(record->max_size)) {
        return "--max-size: a size, such as 500M";
    }
    return record->origin.directory ? origin_objection(&record->origin) : NULL;
}

/* Return false if the command ends here, with exit status *@status. */
static bool parse_arguments(Record *record, int argc, char **argv, int *status)
{
    gboolean help = FALSE;
    const GOptionEntry entries[] = {
        { "help", 'h', 0, G_OPTION_ARG_NONE, &help, NULL, NULL },
        { "output", 'o', 0, G_OPTION_ARG_FILENAME, &record->given, NULL, NULL },
        { "image", 0, 0, G_OPTION_ARG_FILENAME, &record->guest.image, NULL, NULL },
        { "arch", 0, 0, G_OPTION_ARG_STRING, &record->guest.arch, NULL, NULL },
        { "smp", 0, 0, G_OPTION_ARG_INT, &record->guest.smp, NULL, NULL },
        { "mem", 0, 0, G_OPTION_ARG_INT, &record->guest.mem, NULL, NULL },
        { "run", 0, 0, G_OPTION_ARG_STRING, &record->guest.run, NULL, NULL },
        { "timeout", 0, 0, G_OPTION_ARG_DOUBLE, &record->timeout, NULL, NULL },
        { "max-size", 0, 0, G_OPTION_ARG_STRING, &record->max_size, NULL, NULL },
        { "qmp", 0, 0, G_OPTION_ARG_FILENAME, &record->qmp, NULL, NULL },
        { "checkpoint-interval", 0, 0, G_OPTION_ARG_DOUBLE, &record->checkpoint_interval, NULL,
          NULL },
        { "keep-seconds", 0, 0, G_OPTION_ARG_DOUBLE, &record->keep_seconds, NULL, NULL },
        { "epochs", 0, 0, G_OPTION_ARG_NONE, &record->has_epochs, NULL, NULL },
        { "hold", 0, 0, G_OPTION_ARG_NONE, &record->has_hold, NULL, NULL },
        { "live", 0, 0, G_OPTION_ARG_NONE, &record->live, NULL, NULL },
        { "continue", 0, 0, G_OPTION_ARG_FILENAME, &record->origin.directory, NULL, NULL },
        { "from", 0, 0, G_OPTION_ARG_INT, &record->origin.from, NULL, NULL },
        { "as-recorded", 0, 0, G_OPTION_ARG_NONE, &record->origin.as_recorded, NULL, NULL },
        { "order", 0, 0, G_OPTION_ARG_STRING, &record->order, NULL, NULL },
        { "digest-interval", 0, 0, G_OPTION_ARG_INT64, &record->digest_interval, NULL, NULL },
        { "slow-path", 0, 0, G_OPTION_ARG_NONE, &record->slow_path, NULL, NULL },
        { "chaos", 0, 0, G_OPTION_ARG_INT64, &record->chaos, NULL, NULL },
        G_OPTION_ENTRY_NULL
    };
    const char *objection;

    record->origin.command = emulator_arguments(&argc, argv);
    record->epochs_given = take_option_value("--epochs", argc, argv);
    record->hold_given = take_option_value("--hold", argc, argv);
    if (!parse_options(record->command, entries, &help,
                       record->standby ? protect_usage : record_usage, &argc, &argv, status)) {
        return false;
    }
    if (record->standby) {
        record->has_epochs = record->has_hold = record->live = true;
    }
    objection = argc > 1 ? "unexpected argument" : check_options(record);
    if (objection) {
        g_autofree char *given = argc > 1 ? g_strdup_printf(" '%s'", argv[1]) : g_strdup("");
        g_autofree char *text = g_strdup_printf("%s: %s%s", record->command, objection, given);

        *status = usage_error("%s", text);
        return false;
    }
    if (!check_order_list(record->command, record->order, status)) {
        return false;
    }
    record->directory = g_canonicalize_filename(record->given, NULL);
    /* QEMU may be started in another directory. */
    make_absolute(&record->qmp);
    make_absolute(&record->origin.directory);
    return true;
}

static char **guest_command(const Record *record, GError **error)
{
    if (record->origin.directory) {
        return origin_command(&record->origin, error);
    }
    return record->origin.command ? emulator_users_command(record->origin.command)
                           : emulator_stock_command(&record->guest, error);
}

/* --- recording -------------------------------------------------------------- */

static void warn_of_low_disk(const Record *record, const JsonValue *event)
{
    uint64_t free;

    if (g_strcmp0(json_member_string(event, "event"), "RECORDER_LOW_DISK_SPACE") == 0 &&
        json_member_u64(json_member(event, "data"), "free-bytes", &free)) {
        fprintf(stderr, "reprise: the disk that %s is on has only %.1f MiB left\n", record->given,
                free / MIB);
    }
}

/*
 * Return true if @event tells the end of this recording, and keep its reason.  With --qmp, another
 * client may have started another recording.
 */
static bool has_stopped(Record *record, const JsonValue *event)
{
    const JsonValue *data = json_member(event, "data");

    if (g_strcmp0(json_member_string(event, "event"), "RECORDER_STOPPED") != 0 ||
        g_strcmp0(json_member_string(data, "directory"), record->directory) != 0) {
        return false;
    }
    g_free(record->reason);
    record->reason = g_strdup(json_member_string(data, "reason"));
    return true;
}

static void show(void *opaque, const JsonValue *info)
{
    const Record *record = opaque;
    uint64_t stored = 0, rate = 0;

    if (g_strcmp0(json_member_string(info, "directory"), record->directory) == 0) {
        json_member_u64(info, "stored-bytes", &stored);
        json_member_u64(info, "rate", &rate);
        progress_line("recording %s: %.0f s, %.1f MiB, %.1f MiB/s", record->given,
                      json_member_number(info, "seconds"), stored / MIB, rate / MIB);
    }
}

/* Show progress and act on events until QEMU has ended. */
static void follow(Record *record, Emulator *emulator)
{
    int64_t deadline = record->timeout > 0
                       ? g_get_monotonic_time() + (int64_t)MIN(record->timeout * 1e6, 1e15)
                       : INT64_MAX;
    bool recording = true;

    for (;;) {
        g_autoptr(JsonValue) event = NULL;

        switch (emulator_wait_showing(emulator, deadline, show, record, &event)) {
        case EMULATOR_EVENT:
            warn_of_low_disk(record, event);
            if (has_stopped(record, event)) {
                recording = false;
                /* With --qmp the guest goes on, since the user may want to inspect it. */
                if (!record->qmp) {
                    emulator_quit(emulator);
                }
            }
            break;
        case EMULATOR_ENDED:
            return;
        case EMULATOR_SIGNAL:
        case EMULATOR_DEADLINE:
        case EMULATOR_OTHER:
            if (recording) {
                record->stopper = g_get_monotonic_time() >= deadline ? "--timeout" : "a signal";
                progress_line("ending the recording");
                /* Paused, so that no console output appears that was not recorded. */
                emulator_execute(emulator, "recorder-stop", "{\"pause\": true}", NULL);
            }
            emulator_quit(emulator);
            break;
        }
    }
}

/* Print the outcome of the recording.  Return the exit status. */
static int report(const Record *record, const Emulator *emulator)
{
    g_autoptr(Manifest) manifest = manifest_load(record->directory, NULL);
    uint64_t instructions = 0;

    if (!manifest || !manifest->end) {
        g_autofree char *ending = emulator_ending(emulator);

        /* QEMU has sent a reason if only the manifest could not be written. */
        fprintf(stderr, "reprise: %s was cut off: %s%s\n", record->given,
                record->reason ? record->reason : "QEMU ended with ",
                record->reason ? "" : ending);
        return STATUS_DIVERGED;
    }
    if (!manifest->complete) {
        fprintf(stderr, "reprise: %s ended early: %s\n", record->given, manifest->end_reason);
        return STATUS_DIVERGED;
    }
    for (unsigned i = 0; i < manifest->n_vcpus; i++) {
        instructions += manifest->instructions[i];
    }
    fprintf(stderr, "reprise: recorded %s: %.1f MiB, %.1f s, %" PRIu64 " instructions, %s%s\n",
            record->given, disk_usage(record->directory) / MIB, manifest->seconds,
            instructions, record->stopper ? "stopped by " : "",
            record->stopper ? record->stopper : manifest->end_reason);
    return STATUS_OK;
}

/*
 * Return the arguments of recorder-start as JSON, to be freed by the caller; NULL and @error if the
 * path cannot be sent.
 */
static char *task_arguments(const Record *record, GError **error)
{
    Json arguments;

    json_init(&arguments);
    json_open(&arguments, NULL, '{');
    if (record->checkpoint_interval) {
        json_double(&arguments, "checkpoint-interval", record->checkpoint_interval);
    }
    if (record->keep_seconds) {
        json_double(&arguments, "keep-seconds", record->keep_seconds);
    }
    if (record->has_epochs) {
        json_u64(&arguments, "epochs", epoch_length(record->epochs_given));
    }
    if (record->has_hold) {
        json_u64(&arguments, "hold", hold_size(record->hold_given));
    }
    if (record->live) {
        json_bool(&arguments, "live-checkpoints", true);
    }
    if (record->standby) {
        json_bool(&arguments, "standby", true);
    }
    if (record->order) {
        json_string(&arguments, "protocol", record->order);
    }
    if (record->digest_interval) {
        json_u64(&arguments, "digest-interval", record->digest_interval);
    }
    if (record->max_size) {
        json_u64(&arguments, "max-bytes", parse_size(record->max_size));
    }
    if (record->slow_path) {
        json_bool(&arguments, "slow-path", true);
    }
    if (record->chaos) {
        json_u64(&arguments, "x-chaos", record->chaos);
    }
    if (!emulator_put_path(&arguments, "directory", record->directory, error)) {
        return NULL;
    }
    json_close(&arguments, '{');
    return json_finish(&arguments);
}

static int record_guest(bool standby, int argc, char **argv)
{
    g_auto(Record) record = {
        .command = standby ? "protect" : "record", .standby = standby, .origin.from = ORIGIN_LAST,
    };
    g_auto(GStrv) command = NULL;
    g_autofree char *arguments = NULL;
    g_autoptr(Emulator) emulator = NULL;
    g_autoptr(GError) error = NULL;
    int status;

    if (!parse_arguments(&record, argc, argv, &status)) {
        return status;
    }
    command = guest_command(&record, &error);
    if (!command || !(arguments = task_arguments(&record, &error)) ||
        !(emulator = emulator_start(command, record.qmp, !record.guest.run, &error))) {
        return input_error(error);
    }
    if ((record.origin.directory && !origin_load(&record.origin, emulator, &error)) ||
        !emulator_execute(emulator, "recorder-start", arguments, &error) ||
        !emulator_execute(emulator, "cont", NULL, &error)) {
        emulator_quit(emulator);
        return input_error(error);
    }
    follow(&record, emulator);
    return report(&record, emulator);
}

int run_record(int argc, char **argv)
{
    return record_guest(false, argc, argv);
}

int run_protect(int argc, char **argv)
{
    return record_guest(true, argc, argv);
}
