/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `reprise standby`: starts a QEMU with the machine of a guest that is being recorded by `reprise
 * protect`, lets QEMU follow the recording, tells the recorder which output may be seen, and lets
 * the guest go on in its own QEMU when the recorder's is dead.
 *
 * There must never be two of the same guest.  So the standby takes over only if the process at the
 * other end of the recorder's QMP socket is known to be dead, and nobody writes the logs.
 */
#include <fcntl.h>
#include <glib.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "recording/checkpoint-position.h"
#include "recording/epochs.h"
#include "recording/log-block.h"
#include "recording/log-reader.h"
#include "recording/manifest.h"
#include "tool/emulator.h"
#include "tool/guest.h"
#include "tool/progress.h"
#include "tool/tool.h"

/* How often to look for a recording that has not begun, or whether the recorder is dead. */
#define LOOK_US 20000
/* How long a QEMU that has been killed may take to end. */
#define PATIENCE_US (2 * G_USEC_PER_SEC)
/* How many epochs the standby may be behind, in which output is seen already. */
#define MOST_BEHIND 8

typedef struct Standby {
    char *directory;            /* absolute */
    char *primary;              /* QMP socket of the recorder */
    char *qmp;
    char *release;              /* "received" or "verified"; NULL: received */
    char **command;

    Guest *recorder;            /* NULL: it is gone */
    int process;                /* pidfd of the recorder's QEMU; -1: not known */
    bool has_asked;             /* that its guest goes on here */
    int64_t lost_us;            /* since when there is no connection to it */
    bool was_told;              /* the user, that nothing is released any more */
    uint64_t received;          /* the last epoch that the recorder has written */
    uint64_t followed;          /* the last one that was replayed, */
    double lag;                 /* and how long ago it had ended then */
    uint64_t asked;             /* the last one that the recorder was told to release, */
    uint64_t released;          /* and of which its consoles have sent all */
} Standby;

static void standby_clear(Standby *standby)
{
    g_free(standby->directory);
    g_free(standby->primary);
    g_free(standby->qmp);
    g_free(standby->release);
    guest_free(standby->recorder);
    if (standby->process >= 0) {
        close(standby->process);
    }
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Standby, standby_clear)

/* --- the command line ------------------------------------------------------- */

static const char usage[] =
    "usage: reprise standby DIR --primary SOCK [OPTION...] -- QEMU ARG...\n"
    "\n"
    "Follow the guest that reprise protect records in DIR, on this host, and go on\n"
    "with it as soon as its QEMU is dead.  Nothing that anybody has seen is lost.\n"
    "QEMU ARG... is a machine with the same devices, but with sockets of its own for\n"
    "networks and consoles.\n"
    "\n"
    "  --primary SOCK  the QMP socket of the guest's QEMU (reprise protect --qmp)\n"
    "  --release WHEN  when what the guest sends may be seen: received, as soon as\n"
    "                  the logs are written with which this standby can come to that\n"
    "                  point (the default); verified, when it has done so\n"
    "  --qmp SOCK      the standby's QEMU answers QMP on this socket\n"
    "  --help          show this text\n"
    "\n"
    "exit status: 0 the guest ended, here or there; 1 the standby cannot take over,\n"
    "or its replay differs; 2 it cannot be a standby of this guest\n";

/* Return what is wrong with the options, in words, or NULL. */
static const char *check_options(const Standby *standby)
{
    if (!standby->primary) {
        return "--primary: which guest? Give the QMP socket of its QEMU";
    }
    if (standby->release && !g_str_equal(standby->release, "received") &&
        !g_str_equal(standby->release, "verified")) {
        return "--release is received or verified";
    }
    if (!standby->command || !standby->command[0]) {
        return "which machine? Give QEMU's command line after --";
    }
    return NULL;
}

/* Return false if the command ends here, with exit status *@status. */
static bool parse_arguments(Standby *standby, int argc, char **argv, int *status)
{
    gboolean help = FALSE;
    const GOptionEntry entries[] = {
        { "help", 'h', 0, G_OPTION_ARG_NONE, &help, NULL, NULL },
        { "primary", 0, 0, G_OPTION_ARG_FILENAME, &standby->primary, NULL, NULL },
        { "release", 0, 0, G_OPTION_ARG_STRING, &standby->release, NULL, NULL },
        { "qmp", 0, 0, G_OPTION_ARG_FILENAME, &standby->qmp, NULL, NULL },
        G_OPTION_ENTRY_NULL
    };
    const char *objection;

    standby->command = emulator_arguments(&argc, argv);
    if (!parse_options("standby", entries, &help, usage, &argc, &argv, status)) {
        return false;
    }
    objection = check_options(standby);
    if (argc < 2) {
        *status = usage_error("%s", "standby: of which guest? Give the directory of its recording");
    } else if (argc > 2) {
        *status = usage_error("standby takes one directory, got '%s' too", argv[2]);
    } else if (objection) {
        *status = usage_error("standby: %s", objection);
    } else {
        standby->directory = g_canonicalize_filename(argv[1], NULL);
        return true;
    }
    return false;
}

/* --- release ------------------------------------------------------------------ */

/* Return the arguments of recorder-release, to be freed by the caller. */
static char *release_arguments(uint64_t epoch)
{
    return g_strdup_printf("{\"epoch\": %" PRIu64 "}", epoch);
}

/* Tell the recorder up to which epoch its output may be seen.  Its answer is not waited for. */
static void release(Standby *standby)
{
    bool verified = g_strcmp0(standby->release, "verified") == 0;
    uint64_t epoch = verified ? standby->followed
                              : MIN(MAX(standby->received, standby->followed),
                                    standby->followed + MOST_BEHIND);
    g_autofree char *arguments = release_arguments(epoch);

    if (standby->recorder && epoch > standby->asked &&
        guest_send(standby->recorder, "recorder-release", arguments)) {
        standby->asked = epoch;
    }
}

/* --- the recorder ------------------------------------------------------------- */

static LogFileWriter writer_of_logs(const Standby *standby)
{
    g_autofree char *name = log_file_name(1, 0, LOG_ORDER);
    g_autofree char *path = g_build_filename(standby->directory, name, NULL);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    LogFileWriter writer = fd >= 0 ? log_file_writer(fd) : LOG_FILE_WRITER_UNKNOWN;

    if (fd >= 0) {
        close(fd);
    }
    return writer;
}

static bool process_has_ended(const Standby *standby)
{
    struct pollfd process = { .fd = standby->process, .events = POLLIN };

    return poll(&process, 1, 0) == 1;
}

/* Return true if the recorder's QEMU is known to be dead, and its logs have no writer. */
static bool recorder_is_dead(const Standby *standby)
{
    return process_has_ended(standby) && writer_of_logs(standby) == LOG_FILE_HAS_NO_WRITER;
}

/* The connection to the recorder is lost: take over if it is dead, else wait for that. */
static bool take_over(Standby *standby, Emulator *emulator, GError **error)
{
    g_autofree char *arguments = g_strdup_printf("{\"released\": %" PRIu64 "}", standby->released);

    if (standby->has_asked) {
        return true;
    }
    standby->lost_us = standby->lost_us ?: g_get_monotonic_time();
    if (!recorder_is_dead(standby)) {
        if (!standby->was_told && g_get_monotonic_time() - standby->lost_us > PATIENCE_US) {
            progress_clear();
            fprintf(stderr, "reprise: the guest's QEMU no longer answers on %s, but runs: it is "
                    "taken over when it is dead\n", standby->primary);
            standby->was_told = true;
        }
        return true;
    }
    standby->has_asked = true;
    return emulator_execute(emulator, "recorder-take-over", arguments, error);
}

/* Return true if the guest has ended for this reason, not the recording alone. */
static bool is_end_of_guest(const char *reason)
{
    return g_strcmp0(reason, "guest-shutdown") == 0 || g_strcmp0(reason, "guest-panic") == 0 ||
           g_strcmp0(reason, "quit") == 0;
}

/* Say that the guest goes on, but its recording does not.  Return the exit status. */
static int recording_has_ended(const char *reason)
{
    progress_clear();
    fprintf(stderr, "reprise: the recording has ended: %s; the guest goes on without a standby\n",
            reason);
    return STATUS_DIVERGED;
}

/* Return false if the recording has ended early: then the guest goes on without it. */
static bool listen_to_recorder(Standby *standby, int *status)
{
    JsonValue *message;

    while (standby->recorder && (message = guest_take_message(standby->recorder))) {
        g_autoptr(JsonValue) taken = message;
        const JsonValue *data = json_member(message, "data");
        const char *kind = json_member_string(message, "event");

        if (json_member(message, "return")) {
            json_member_u64(json_member(message, "return"), "sent", &standby->released);
        } else if (g_strcmp0(kind, "RECORDER_EPOCH") == 0) {
            json_member_u64(data, "number", &standby->received);
            release(standby);
        } else if (g_strcmp0(kind, "RECORDER_STOPPED") == 0 &&
                   !json_member_bool(data, "complete")) {
            *status = recording_has_ended(json_member_string(data, "reason"));
            return false;
        }
    }
    return true;
}

/* --- the standby -------------------------------------------------------------- */

static void show(void *opaque, const JsonValue *info)
{
    const Standby *standby = opaque;

    progress_line("standing by for %s: %.0f s, epoch %" PRIu64 ", %.2f s behind",
                  standby->directory, json_member_number(info, "seconds"), standby->followed,
                  standby->lag);
}

/* The replay has ended, and with it the standby.  Return the exit status. */
static int report(const Standby *standby, const JsonValue *result)
{
    const char *divergence = json_member_string(result, "divergence");
    g_autoptr(Manifest) manifest = manifest_load(standby->directory, NULL);

    if (!json_member_bool(result, "identical")) {
        fprintf(stderr, "reprise: the standby has ended: %s\n",
                divergence ? divergence : "unknown");
        return STATUS_DIVERGED;
    }
    if (manifest && !is_end_of_guest(manifest->end_reason)) {
        return recording_has_ended(manifest->end_reason);
    }
    fprintf(stderr, "reprise: the guest has ended; it was replayed identically\n");
    return STATUS_OK;
}

/* QEMU has ended.  Return the exit status. */
static int end(const Emulator *emulator, bool is_live)
{
    g_autofree char *ending = emulator_ending(emulator);

    if (is_live && emulator_ended_well(emulator)) {
        return STATUS_OK;
    }
    fprintf(stderr, "reprise: QEMU ended with %s\n", ending);
    return STATUS_DIVERGED;
}

/* Act on an event of the standby's QEMU.  Return false if it ends here, with status *@status. */
static bool act(Standby *standby, const JsonValue *event, bool *is_live, int *status)
{
    const char *kind = json_member_string(event, "event");
    const JsonValue *data = json_member(event, "data");
    uint64_t epoch = 0;

    if (g_strcmp0(kind, "RECORDER_FOLLOWED") == 0) {
        json_member_u64(data, "number", &standby->followed);
        standby->lag = json_member_number(data, "lag");
        release(standby);
    } else if (g_strcmp0(kind, "RECORDER_LIVE") == 0) {
        json_member_u64(data, "epoch", &epoch);
        progress_clear();
        fprintf(stderr, "reprise: the guest's QEMU has died; it goes on here, behind epoch %"
                PRIu64 "\n", epoch);
        *is_live = true;
    } else if (g_strcmp0(kind, "RECORDER_REPLAYED") == 0) {
        *status = report(standby, data);
        return false;
    }
    return true;
}

/* Return the exit status when the guest has ended, here or there. */
static int stand_by(Standby *standby, Emulator *emulator)
{
    bool is_live = false;
    int status;

    for (;;) {
        bool waits = !standby->recorder && !standby->has_asked;
        int64_t deadline = waits ? g_get_monotonic_time() + LOOK_US : INT64_MAX;
        g_autoptr(JsonValue) event = NULL;
        g_autoptr(GError) error = NULL;

        switch (is_live ? emulator_wait(emulator, deadline, &event)
                        : emulator_wait_showing(emulator, deadline, show, standby, &event)) {
        case EMULATOR_EVENT:
            if (!act(standby, event, &is_live, &status)) {
                return status;
            }
            break;
        case EMULATOR_ENDED:
            return end(emulator, is_live);
        case EMULATOR_SIGNAL:
            if (!is_live) {
                fprintf(stderr, "reprise: the standby was ended; nothing that the guest sends is "
                        "seen until there is another one\n");
            }
            return is_live ? STATUS_OK : STATUS_USAGE;
        case EMULATOR_OTHER:
        case EMULATOR_DEADLINE:
            break;
        }
        if (!listen_to_recorder(standby, &status)) {
            return status;
        }
        if (standby->recorder && guest_fd(standby->recorder) < 0) {
            emulator_watch(emulator, -1);
            g_clear_pointer(&standby->recorder, guest_free);
        }
        if (!standby->recorder && !take_over(standby, emulator, &error)) {
            return input_error(error);
        }
    }
}

/*
 * Learn what an earlier standby has released, and how much of that was sent.  It must not come
 * again, and the rest must.
 */
static bool ask_recorder(Standby *standby, GError **error)
{
    g_autoptr(JsonValue) answer = guest_execute(standby->recorder, "query-recorder", NULL, error);
    const JsonValue *info = json_member(answer, "return");
    g_autoptr(JsonValue) again = NULL;
    g_autofree char *arguments = NULL;

    if (!answer) {
        return false;
    }
    if (!json_member_u64(info, "epochs", &standby->received) ||
        !json_member_u64(info, "released", &standby->asked) ||
        g_strcmp0(json_member_string(info, "directory"), standby->directory) != 0) {
        g_set_error(error, QMP_ERROR, QMP_ERROR_REFUSED, "the guest on %s is not protected in %s: "
                    "see reprise protect", standby->primary, standby->directory);
        return false;
    }
    arguments = release_arguments(standby->asked);
    again = guest_execute(standby->recorder, "recorder-release", arguments, error);
    json_member_u64(json_member(again, "return"), "sent", &standby->released);
    return again;
}

/* Connect to the recorder, which makes a recording in the directory. */
static bool find_recorder(Standby *standby, GError **error)
{
    g_autofree char *manifest = g_build_filename(standby->directory, MANIFEST_FILE, NULL);
    GuestAddress address = { .qmp = standby->primary };

    standby->recorder = guest_open(&address, error);
    if (!standby->recorder) {
        return false;
    }
    guest_keep_events(standby->recorder);
    standby->process = guest_process(standby->recorder);
    if (standby->process < 0) {
        g_set_error(error, QMP_ERROR, QMP_ERROR_REFUSED, "cannot tell which process answers on %s, "
                    "so not when it dies", standby->primary);
        return false;
    }
    while (!g_file_test(manifest, G_FILE_TEST_EXISTS) && !process_has_ended(standby)) {
        progress_line("waiting for a recording in %s", standby->directory);
        g_usleep(LOOK_US);
    }
    progress_clear();
    if (!ask_recorder(standby, error)) {
        return false;
    }
    if (writer_of_logs(standby) != LOG_FILE_HAS_WRITER) {
        g_set_error(error, QMP_ERROR, QMP_ERROR_REFUSED, "cannot tell on the file system of %s "
                    "whether the recorder runs: it has no leases", standby->directory);
        return false;
    }
    return true;
}

/* Return the point of the last epoch that was released; NULL if none was, or it is not there. */
static Point *released_point(const Standby *standby, unsigned n_vcpus)
{
    g_autoptr(EpochReader) reader = epoch_reader_open(standby->directory, n_vcpus, NULL);
    g_autoptr(Epoch) epoch = NULL;

    while (reader && (!epoch || epoch->number < standby->released)) {
        g_clear_pointer(&epoch, epoch_free);
        if (epoch_reader_next(reader, &epoch, NULL) != EPOCH_READER_EPOCH) {
            break;
        }
    }
    return epoch && standby->released > 0 ? g_steal_pointer(&epoch->point) : NULL;
}

/*
 * Return the last checkpoint that lies before all that was not released: what the guest has written
 * to its console since then may have to be shown.
 */
static unsigned best_checkpoint(const Standby *standby, const Manifest *manifest)
{
    g_autoptr(Point) released = released_point(standby, manifest->n_vcpus);

    for (unsigned number = manifest->checkpoints->len; released && number-- > 1;) {
        g_autoptr(CheckpointPosition) place = NULL;

        if (checkpoint_position_find(standby->directory, manifest->checkpoints->pdata[number],
                                     false, manifest->n_vcpus, &place, NULL) &&
            place && point_includes(released, place->point)) {
            return number;
        }
    }
    return 0;
}

static char *task_arguments(const Standby *standby, GError **error)
{
    g_autoptr(Manifest) manifest = manifest_load(standby->directory, error);
    Json arguments;

    if (!manifest) {
        return NULL;
    }
    json_init(&arguments);
    json_open(&arguments, NULL, '{');
    json_bool(&arguments, "standby", true);
    json_u64(&arguments, "from", best_checkpoint(standby, manifest));
    if (!emulator_put_path(&arguments, "directory", standby->directory, error)) {
        return NULL;
    }
    json_close(&arguments, '{');
    return json_finish(&arguments);
}

int run_standby(int argc, char **argv)
{
    g_auto(Standby) standby = { .process = -1 };
    g_auto(GStrv) command = NULL;
    g_autofree char *arguments = NULL;
    g_autoptr(Emulator) emulator = NULL;
    g_autoptr(GError) error = NULL;
    int status;

    if (!parse_arguments(&standby, argc, argv, &status)) {
        return status;
    }
    command = emulator_users_command(standby.command);
    if (!find_recorder(&standby, &error) || !(arguments = task_arguments(&standby, &error)) ||
        !(emulator = emulator_start_task(command, standby.qmp, true, "recorder-replay", arguments,
                                         &error))) {
        progress_clear();
        return input_error(error);
    }
    emulator_watch(emulator, guest_fd(standby.recorder));
    status = stand_by(&standby, emulator);
    emulator_quit(emulator);
    return status;
}
