/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `reprise replay`: starts a QEMU with the machine that the recording's manifest describes, lets
 * QEMU replay, and reports whether the replay was identical.
 *
 * The tool reads only the manifest and the position of the checkpoint.  QEMU reads the logs.
 */
#include <glib.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "recording/manifest.h"
#include "recording/checkpoint-position.h"
#include "tool/emulator.h"
#include "tool/guest.h"
#include "tool/progress.h"
#include "tool/replay-command.h"
#include "tool/tool.h"

#define NOT_GIVEN INT_MIN
/* How often to look whether a recording that is to be followed has begun. */
#define LOOK_US 50000
/* Steps of a vCPU between two checks of --paranoid, unless a number is given. */
#define PARANOID_INTERVAL 1000

typedef struct Replay {
    const char *directory;
    char *qmp;
    gboolean pause_at_end;
    char *threads;              /* "single" or "parallel"; NULL: parallel */
    int from;                   /* the number of a checkpoint, or NOT_GIVEN */
    char *until;                /* a moment; NULL: the end */
    char *order;                /* "fdr", "karma" or "rerun"; NULL: the recording's first */
    char *trace;
    char *trace_from;
    char *trace_to;
    int64_t trace_interval;     /* 0: QEMU's default */
    char *watch;                /* the argument of --watch; NULL: nothing is watched */
    uint64_t watch_address;
    uint64_t watch_size;        /* 0: QEMU's default */
    const char *watch_not;      /* "reads" or "writes": not shown; NULL: both are shown */
    gboolean is_paranoid;
    const char *paranoid_given; /* N of --paranoid=N, or NULL */
    uint64_t paranoid;          /* compare copies with memory every so many steps; 0: never */
    gboolean positions;         /* follow Karma's order by positions, for tests */
    gboolean follow;            /* the recording is still being made */
    char *release;              /* a QMP socket of the recorder, or NULL */
    Guest *recorder;            /* told of each epoch that was compared; NULL: nobody is */
    bool was_told;
    uint64_t epoch;             /* the last one that was followed, and how long ago it ended */
    double lag;
    int64_t chaos;              /* a seed, for tests (docs/develop.md); 0: none */
    char **more;                /* arguments for QEMU, after "--"; NULL: none */
    Manifest *manifest;
    CheckpointPosition *place;  /* of checkpoint @from; NULL: the start of the recording */
} Replay;

static void replay_clear(Replay *replay)
{
    g_free(replay->qmp);
    g_free(replay->threads);
    g_free(replay->until);
    g_free(replay->order);
    g_free(replay->trace);
    g_free(replay->trace_from);
    g_free(replay->trace_to);
    g_free(replay->watch);
    g_free(replay->release);
    guest_free(replay->recorder);
    manifest_free(replay->manifest);
    checkpoint_position_free(replay->place);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Replay, replay_clear)

/* --- the command line ------------------------------------------------------- */

static const char usage[] =
    "usage: reprise replay DIR [OPTION...] [-- QEMU-ARG...]\n"
    "\n"
    "Replay a recording: the guest does again what it did, its console output\n"
    "appears again, and all is compared with what was recorded.\n"
    "\n"
    "  --qmp SOCK      QEMU answers QMP on this socket\n"
    "  --pause-at-end  keep the guest, paused at its end, until QEMU is told to quit\n"
    "                  (with --qmp)\n"
    "  --from N        begin at checkpoint N (reprise info lists them); the guest's\n"
    "                  console output before it does not appear\n"
    "  --until MOMENT  end when all vCPUs together have made so many steps, in the\n"
    "                  order of reprise info --at; begins at the best checkpoint\n"
    "  --follow        the recording is still being made, with --epochs: replay it\n"
    "                  as it grows, until it ends, and tell at once if it differs\n"
    "  --release SOCK  with --follow: release the output of each epoch that was\n"
    "                  compared; the recorder, which was started with --hold,\n"
    "                  answers QMP on this socket\n"
    "  --threads single          one vCPU at a time, in an order that is always\n"
    "                  the same; or parallel, which is the default\n"
    "  --order NAME    follow this order of steps, fdr, karma or rerun, if the\n"
    "                  recording has several (default: its first)\n"
    "  --watch ADDRESS[,SIZE[,reads|writes]]    instead of the console output, print\n"
    "                  each access to these bytes of the guest's memory (a physical\n"
    "                  address; 8 bytes by default): vCPU and position, how, where,\n"
    "                  the instruction, and what was there before and after\n"
    "  --trace NEW     log registers in the directory NEW, for reprise compare:\n"
    "  --trace-interval N        every N steps (default: 1000000)\n"
    "  --trace-from, --trace-to POINT    only there (0:1500,1:0)\n"
    "  --paranoid[=N]  for developers, slow: every N steps (1000), compare\n"
    "                  each vCPU's translations and code with memory\n"
    "  --help          show this text\n"
    "\n"
    "QEMU-ARG... is for experiments with QEMU itself: -accel tcg,tb-size=8.\n"
    "\n"
    "A recording whose recorder was killed, or that ended with a full disk, is\n"
    "replayed as far as its logs reach.\n"
    "\n"
    "exit status: 0 replayed identically; 1 diverged, and where; 2 the recording\n"
    "cannot be replayed\n";

/* Parse a decimal number, or a hexadecimal one with 0x.  Return false if @text is none. */
static bool parse_number(const char *text, uint64_t *value)
{
    bool is_hex = g_str_has_prefix(text, "0x");

    return g_ascii_string_to_unsigned(is_hex ? text + 2 : text, is_hex ? 16 : 10, 0, UINT64_MAX,
                                      value, NULL);
}

/* Parse ADDRESS[,SIZE[,reads|writes]].  Return false if @replay->watch has another form. */
static bool parse_watch(Replay *replay)
{
    g_auto(GStrv) parts = g_strsplit(replay->watch, ",", -1);
    unsigned n = g_strv_length(parts);

    if (n < 1 || n > 3 || !parse_number(parts[0], &replay->watch_address) ||
        (n > 1 && (!parse_number(parts[1], &replay->watch_size) || !replay->watch_size))) {
        return false;
    }
    if (n > 2 && g_str_equal(parts[2], "reads")) {
        replay->watch_not = "writes";
    } else if (n > 2 && g_str_equal(parts[2], "writes")) {
        replay->watch_not = "reads";
    } else if (n > 2) {
        return false;
    }
    return true;
}

static bool parse_paranoid(Replay *replay)
{
    if (replay->is_paranoid && !replay->paranoid_given) {
        replay->paranoid = PARANOID_INTERVAL;
    }
    return !replay->paranoid_given ||
           (parse_number(replay->paranoid_given, &replay->paranoid) && replay->paranoid);
}

/* Return false if the command ends here, with exit status *@status. */
static bool parse_arguments(Replay *replay, int argc, char **argv, int *status)
{
    gboolean help = FALSE;
    const GOptionEntry entries[] = {
        { "help", 'h', 0, G_OPTION_ARG_NONE, &help, NULL, NULL },
        { "qmp", 0, 0, G_OPTION_ARG_FILENAME, &replay->qmp, NULL, NULL },
        { "pause-at-end", 0, 0, G_OPTION_ARG_NONE, &replay->pause_at_end, NULL, NULL },
        { "from", 0, 0, G_OPTION_ARG_INT, &replay->from, NULL, NULL },
        { "until", 0, 0, G_OPTION_ARG_STRING, &replay->until, NULL, NULL },
        { "follow", 0, 0, G_OPTION_ARG_NONE, &replay->follow, NULL, NULL },
        { "release", 0, 0, G_OPTION_ARG_FILENAME, &replay->release, NULL, NULL },
        { "threads", 0, 0, G_OPTION_ARG_STRING, &replay->threads, NULL, NULL },
        { "order", 0, 0, G_OPTION_ARG_STRING, &replay->order, NULL, NULL },
        { "watch", 0, 0, G_OPTION_ARG_STRING, &replay->watch, NULL, NULL },
        { "trace", 0, 0, G_OPTION_ARG_FILENAME, &replay->trace, NULL, NULL },
        { "trace-from", 0, 0, G_OPTION_ARG_STRING, &replay->trace_from, NULL, NULL },
        { "trace-to", 0, 0, G_OPTION_ARG_STRING, &replay->trace_to, NULL, NULL },
        { "chaos", 0, 0, G_OPTION_ARG_INT64, &replay->chaos, NULL, NULL },
        { "positions", 0, 0, G_OPTION_ARG_NONE, &replay->positions, NULL, NULL },
        { "trace-interval", 0, 0, G_OPTION_ARG_INT64, &replay->trace_interval, NULL, NULL },
        { "paranoid", 0, 0, G_OPTION_ARG_NONE, &replay->is_paranoid, NULL, NULL },
        G_OPTION_ENTRY_NULL
    };

    replay->more = emulator_arguments(&argc, argv);
    replay->paranoid_given = take_option_value("--paranoid", argc, argv);
    if (!parse_options("replay", entries, &help, usage, &argc, &argv, status)) {
        return false;
    }
    if (argc < 2) {
        *status = usage_error("%s", "replay: which recording? Give its directory");
    } else if (argc > 2) {
        *status = usage_error("replay takes one directory, got '%s' too", argv[2]);
    } else if (replay->pause_at_end && !replay->qmp) {
        *status = usage_error("%s", "replay: --pause-at-end needs --qmp, which is how it is ended");
    } else if (!replay->trace &&
               (replay->trace_from || replay->trace_to || replay->trace_interval)) {
        *status = usage_error("%s", "replay: a trace to where? Give a new directory with --trace");
    } else if (replay->threads && !g_str_equal(replay->threads, "single") &&
               !g_str_equal(replay->threads, "parallel")) {
        *status = usage_error("replay: --threads is single or parallel, not '%s'", replay->threads);
    } else if (replay->from < 0 && replay->from != NOT_GIVEN) {
        *status = usage_error("%s", "replay: --from is the number of a checkpoint");
    } else if (replay->until &&
               !g_ascii_string_to_unsigned(replay->until, 10, 0, UINT64_MAX, NULL, NULL)) {
        *status = usage_error("replay: --until is a number of steps, not '%s'", replay->until);
    } else if (replay->watch && !parse_watch(replay)) {
        *status = usage_error("replay: --watch is ADDRESS[,SIZE[,reads|writes]], as 0x40a00000,8, "
                              "not '%s'", replay->watch);
    } else if (replay->follow && replay->until) {
        *status = usage_error("%s", "replay: --follow ends when the recording does, not --until");
    } else if (replay->release && !replay->follow) {
        *status = usage_error("%s", "replay: --release needs --follow");
    } else if (!parse_paranoid(replay)) {
        *status = usage_error("replay: --paranoid=N is a number of steps, not '%s'",
                              replay->paranoid_given);
    } else if (replay->chaos < 0) {
        *status = usage_error("%s", "replay: --chaos: a seed, at least 1");
    } else if (replay->trace_interval < 0) {
        *status = usage_error("%s", "replay: --trace-interval: at least 1");
    } else {
        replay->directory = argv[1];
        return true;
    }
    return false;
}

/* --- the recording ---------------------------------------------------------- */

static bool find_place(Replay *replay, GError **error)
{
    const GPtrArray *names = replay->manifest->checkpoints;
    unsigned from = MAX(replay->from, 0);

    return names->len == 0 ||
           checkpoint_position_find(replay->directory, names->pdata[from], from == 0,
                                    replay->manifest->n_vcpus, &replay->place, error);
}

/* Wait until there is a recording, if that is to be followed.  Ctrl-C ends the tool here. */
static void wait_for_recording(const Replay *replay)
{
    g_autofree char *path = g_build_filename(replay->directory, MANIFEST_FILE, NULL);

    while (replay->follow && !g_file_test(path, G_FILE_TEST_EXISTS)) {
        progress_line("waiting for a recording in %s", replay->directory);
        g_usleep(LOOK_US);
    }
}

static bool load(Replay *replay, GError **error)
{
    GuestAddress recorder = { .qmp = replay->release };

    wait_for_recording(replay);
    if (replay->release && !(replay->recorder = guest_open(&recorder, error))) {
        return false;
    }
    replay->manifest = replay_command_manifest(replay->directory, MAX(replay->from, 0),
                                               replay->order, error);
    if (!replay->manifest || !find_place(replay, error)) {
        return false;
    }
    progress_line("checking %s and loading its checkpoint", replay->directory);
    return true;
}

/* --- QEMU ------------------------------------------------------------------- */

/*
 * Return what was compared besides the usual, in words: epochs, and what --paranoid compares.  To
 * be freed by the caller.
 */
static char *describe_comparison(const JsonValue *result)
{
    const JsonValue *compared = json_member(result, "compared");
    uint64_t translations, blocks, checks, epochs;
    g_autofree char *of_epochs = json_member_u64(result, "epochs", &epochs) ?
        g_strdup_printf("; %" PRIu64 " epochs compared", epochs) : g_strdup("");

    if (!json_member_u64(compared, "translations", &translations) ||
        !json_member_u64(compared, "blocks", &blocks) ||
        !json_member_u64(compared, "checks", &checks)) {
        return g_steal_pointer(&of_epochs);
    }
    return g_strdup_printf("%s; %" PRIu64 " translations and %" PRIu64 " blocks of code are "
                           "coherent (%" PRIu64 " checks)", of_epochs, translations, blocks,
                           checks);
}

/* The recording that was followed has ended: read how. */
static void load_again(Replay *replay)
{
    Manifest *manifest = replay->follow ? manifest_load(replay->directory, NULL) : NULL;

    if (manifest) {
        manifest_free(replay->manifest);
        replay->manifest = manifest;
    }
}

static int report(const Replay *replay, const JsonValue *result, double seconds)
{
    const char *divergence = json_member_string(result, "divergence");
    const char *cut = json_member_string(result, "cut");
    const char *reason = replay->manifest->end_reason;
    g_autofree char *compared = describe_comparison(result);
    uint64_t steps = 0;

    if (!json_member_bool(result, "identical")) {
        fprintf(stderr, "reprise: replay diverged: %s\n", divergence ? divergence : "unknown");
        return STATUS_DIVERGED;
    }
    if (replay->until) {
        fprintf(stderr, "reprise: replayed up to moment %s, which is at %s, in %.1f s%s\n",
                replay->until, cut, seconds, compared);
        return STATUS_OK;
    }
    if (cut && replay->follow) {
        fprintf(stderr, "reprise: the recorder has died; replayed up to its last epoch, at "
                "position %s, in %.1f s%s\n", cut, seconds, compared);
        return STATUS_OK;
    }
    if (cut) {
        fprintf(stderr, "reprise: replayed up to the cut at position %s in %.1f s; the recording "
                "is not complete%s%s%s\n", cut, seconds, *reason ? ": " : "", reason, compared);
        return STATUS_OK;
    }
    for (unsigned i = 0; i < replay->manifest->n_vcpus; i++) {
        steps += replay->manifest->end->at[i] - (replay->place ? replay->place->point->at[i] : 0);
    }
    fprintf(stderr, "reprise: replayed identically: %" PRIu64 " steps in %.1f s%s\n", steps,
            seconds, compared);
    return STATUS_OK;
}

/* Keep the guest paused for the user's QMP client, until QEMU ends or a signal comes. */
static void stay_paused(const Replay *replay, Emulator *emulator)
{
    EmulatorNews news;

    fprintf(stderr, "reprise: paused at the end, QMP answers on %s\n", replay->qmp);
    do {
        g_autoptr(JsonValue) event = NULL;

        news = emulator_wait(emulator, INT64_MAX, &event);
    } while (news == EMULATOR_EVENT);
}

static void show(void *opaque, const JsonValue *info)
{
    const Replay *replay = opaque;

    if (replay->follow) {
        progress_line("following %s: epoch %" PRIu64 ", %.2f s behind", replay->directory,
                      replay->epoch, replay->lag);
    } else if (json_member(info, "progress")) {
        progress_line("replaying %s: %.1f %%, %.0f s", replay->directory,
                      json_member_number(info, "progress") * 100,
                      json_member_number(info, "seconds"));
    }
}

static bool recording_has_ended(const Replay *replay)
{
    g_autoptr(Manifest) manifest = manifest_load(replay->directory, NULL);

    return manifest && manifest->complete;
}

/* An epoch was compared: let its output be seen. */
static void followed(Replay *replay, const JsonValue *data)
{
    g_autofree char *arguments = NULL;
    g_autoptr(JsonValue) answer = NULL;
    g_autoptr(GError) error = NULL;

    json_member_u64(data, "number", &replay->epoch);
    replay->lag = json_member_number(data, "lag");
    if (!replay->recorder) {
        return;
    }
    arguments = g_strdup_printf("{\"epoch\": %" PRIu64 "}", replay->epoch);
    answer = guest_execute(replay->recorder, "recorder-release", arguments, &error);
    if (answer) {
        replay->was_told = true;
        return;
    }
    /* A recording that has ended has released all by itself. */
    if (!replay->was_told || !recording_has_ended(replay)) {
        progress_clear();
        fprintf(stderr, "reprise: no more is released: %s\n", error->message);
    }
    g_clear_pointer(&replay->recorder, guest_free);
}

static int follow(Replay *replay, Emulator *emulator)
{
    int64_t start = g_get_monotonic_time();
    int status;

    for (;;) {
        g_autoptr(JsonValue) event = NULL;
        g_autofree char *ending = NULL;

        switch (emulator_wait_showing(emulator, INT64_MAX, show, replay, &event)) {
        case EMULATOR_EVENT:
            if (g_strcmp0(json_member_string(event, "event"), "RECORDER_FOLLOWED") == 0) {
                followed(replay, json_member(event, "data"));
            }
            if (g_strcmp0(json_member_string(event, "event"), "RECORDER_REPLAYED") != 0) {
                break;
            }
            load_again(replay);
            status = report(replay, json_member(event, "data"),
                            (g_get_monotonic_time() - start) / 1e6);
            if (replay->pause_at_end) {
                stay_paused(replay, emulator);
            }
            return status;
        case EMULATOR_ENDED:
            ending = emulator_ending(emulator);
            fprintf(stderr, "reprise: QEMU ended with %s during the replay\n", ending);
            return STATUS_USAGE;
        case EMULATOR_SIGNAL:
        case EMULATOR_DEADLINE:
        case EMULATOR_OTHER:
            fprintf(stderr, "reprise: the replay was interrupted\n");
            return STATUS_USAGE;
        }
    }
}

/*
 * Return the arguments of recorder-replay as JSON, to be freed by the caller; NULL and @error if a
 * path cannot be sent.
 */
static char *task_arguments(const Replay *replay, GError **error)
{
    Json arguments;

    json_init(&arguments);
    json_open(&arguments, NULL, '{');
    if (replay->trace) {
        json_open(&arguments, "trace", '{');
        if (!emulator_put_path(&arguments, "directory", replay->trace, error)) {
            return NULL;
        }
        if (replay->trace_interval) {
            json_u64(&arguments, "interval", replay->trace_interval);
        }
        if (replay->trace_from) {
            json_string(&arguments, "from", replay->trace_from);
        }
        if (replay->trace_to) {
            json_string(&arguments, "to", replay->trace_to);
        }
        json_close(&arguments, '{');
    }
    if (replay->watch) {
        json_open(&arguments, "watch", '{');
        json_u64(&arguments, "address", replay->watch_address);
        if (replay->watch_size) {
            json_u64(&arguments, "size", replay->watch_size);
        }
        if (replay->watch_not) {
            json_bool(&arguments, replay->watch_not, false);
        }
        json_close(&arguments, '{');
    }
    if (replay->from >= 0) {
        json_u64(&arguments, "from", replay->from);
    }
    if (replay->until) {
        json_u64(&arguments, "until", g_ascii_strtoull(replay->until, NULL, 10));
    }
    if (replay->paranoid) {
        json_u64(&arguments, "paranoid", replay->paranoid);
    }
    if (replay->follow) {
        json_bool(&arguments, "follow", true);
    }
    if (replay->chaos) {
        json_u64(&arguments, "x-chaos", replay->chaos);
    }
    if (replay->positions) {
        json_bool(&arguments, "x-positions", true);
    }
    if (replay->order) {
        json_string(&arguments, "order", replay->order);
    }
    if (replay->threads) {
        json_string(&arguments, "threads", replay->threads);
    }
    if (!emulator_put_path(&arguments, "directory", replay->directory, error)) {
        return NULL;
    }
    json_close(&arguments, '{');
    return json_finish(&arguments);
}

int run_replay(int argc, char **argv)
{
    g_auto(Replay) replay = { .from = NOT_GIVEN };
    g_auto(GStrv) command = NULL;
    g_autofree char *arguments = NULL;
    g_autoptr(Emulator) emulator = NULL;
    g_autoptr(GError) error = NULL;
    int status;

    if (!parse_arguments(&replay, argc, argv, &status)) {
        return status;
    }
    progress_line("checking %s", replay.directory);
    if (!load(&replay, &error) ||
        !(command = replay_command_line(replay.manifest, replay.watch ? "null" : "stdio",
                                        replay.more, &error)) ||
        !(arguments = task_arguments(&replay, &error)) ||
        !(emulator = emulator_start_task(command, replay.qmp, false, "recorder-replay", arguments,
                                         &error))) {
        progress_clear();
        return input_error(error);
    }
    progress_clear();
    status = follow(&replay, emulator);
    emulator_quit(emulator);
    return status;
}
