/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The `reprise` command line: one table of commands, each a name, a function
 * and a line of help.
 *
 * Exit status: 0 success; 1 diverged, different, or a recording that ended early or is
 * damaged; 2 unusable input or usage.
 */
#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/version.h"
#include "recording/log-format.h"
#include "recording/orders.h"
#include "tool/tool.h"

#define DEFAULT_EPOCH_MS 200
#define DEFAULT_HOLD "64M"

typedef struct Command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} Command;

static int run_help(int argc, char **argv);
static int run_version(int argc, char **argv);

static const Command commands[] = {
    { "checkpoint", run_checkpoint, "add a checkpoint to the recording of a running guest" },
    { "compare", run_compare, "find the first difference between recording and traces" },
    { "convert", run_convert, "make a recording of the same execution with other orders" },
    { "debug", run_debug, "debug a recording with gdb, forwards and backwards" },
    { "dump", run_dump, "print the events of a recording's logs" },
    { "help", run_help, "show this text, or that of a command" },
    { "info", run_info, "show what a recording is of, and its size" },
    { "live", run_live, "let a recorded guest go on from a checkpoint" },
    { "pack", run_pack, "put a recording into one file, to be sent to somebody" },
    { "protect", run_protect, "record a guest whose standby takes over when it dies" },
    { "record", run_record, "record a guest until it ends or is stopped" },
    { "repair", run_repair, "cut a damaged recording to what can be replayed" },
    { "replay", run_replay, "replay a recording, and say if it was the same run" },
    { "standby", run_standby, "follow a protected guest, and take over when it dies" },
    { "start", run_start, "start to record a guest that runs (QMP or libvirt)" },
    { "status", run_status, "show what the recorder of a running guest does" },
    { "stop", run_stop, "end the recording of a running guest" },
    { "unpack", run_unpack, "make a recording from such a file" },
    { "verify", run_verify, "check a recording for damage, without replaying it" },
    { "version", run_version, "show the version, log format and patch level" },
    { "xml", run_xml, "print a domain definition for libvirt" },
};

int usage_error(const char *format, const char *what)
{
    fprintf(stderr, "reprise: ");
    fprintf(stderr, format, what);
    fprintf(stderr, "; see reprise --help\n");
    return STATUS_USAGE;
}

int input_error(const GError *error)
{
    fflush(stdout);
    fprintf(stderr, "reprise: %s\n", error->message);
    return STATUS_USAGE;
}

bool parse_options(const char *command, const GOptionEntry *entries, const gboolean *help,
                   const char *usage, int *argc, char ***argv, int *status)
{
    g_autoptr(GOptionContext) context = g_option_context_new(NULL);
    g_autoptr(GError) error = NULL;

    g_option_context_add_main_entries(context, entries, NULL);
    g_option_context_set_help_enabled(context, FALSE);
    if (!g_option_context_parse(context, argc, argv, &error)) {
        g_autofree char *what = g_strdup_printf("%s: %s", command, error->message);

        *status = usage_error("%s", what);
        return false;
    }
    if (*help) {
        fputs(usage, stdout);
        *status = STATUS_OK;
        return false;
    }
    return true;
}

const char *take_option_value(const char *option, int argc, char **argv)
{
    size_t length = strlen(option);
    const char *value = NULL;

    for (int i = 1; i < argc; i++) {
        if (g_str_has_prefix(argv[i], option) && argv[i][length] == '=') {
            value = argv[i] + length + 1;
            argv[i] = (char *)option;
        }
    }
    return value;
}

unsigned epoch_length(const char *given)
{
    uint64_t length;

    if (!given) {
        return DEFAULT_EPOCH_MS;
    }
    return g_ascii_string_to_unsigned(given, 10, 1, G_MAXINT32, &length, NULL) ? length : 0;
}

uint64_t hold_size(const char *given)
{
    return parse_size(given ?: DEFAULT_HOLD);
}

const char *hold_objection(bool has_hold, const char *given, bool has_epochs)
{
    return has_hold && !has_epochs ? "--hold: output is released by epoch, so give --epochs, too" :
           !hold_size(given) ? "--hold=SIZE: a size, such as 64M" : NULL;
}

void make_absolute(char **path)
{
    char *given = *path;

    if (given) {
        *path = g_canonicalize_filename(given, NULL);
        g_free(given);
    }
}

uint64_t parse_size(const char *text)
{
    static const char suffixes[] = "KMGT";
    char *end;
    uint64_t value = g_ascii_strtoull(text, &end, 10);
    const char *suffix = *end ? strchr(suffixes, g_ascii_toupper(*end)) : NULL;
    unsigned shift = suffix ? 10 * (suffix - suffixes + 1) : 0;

    if (!g_ascii_isdigit(*text) || (*end && !suffix) || (suffix && end[1]) ||
        value > UINT64_MAX >> shift) {
        return 0;
    }
    return value << shift;
}

bool check_order_list(const char *command, const char *list, int *status)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *format = g_strdup_printf("%s: --order: %%s", command);
    Orders orders;

    if (!list || orders_parse(list, &orders, &error)) {
        return true;
    }
    *status = usage_error(format, error->message);
    return false;
}

static const Command *find_command(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        if (g_str_equal(name, commands[i].name)) {
            return &commands[i];
        }
    }
    return NULL;
}

static int run_help_of(const char *name)
{
    const Command *command = find_command(name);
    char *argv[] = { (char *)name, (char *)"--help", NULL };

    return command ? command->run(2, argv) : usage_error("unknown command '%s'", name);
}

static int run_help(int argc, char **argv)
{
    if (argc > 2) {
        return usage_error("help takes one command, got '%s' too", argv[2]);
    }
    if (argc > 1 && !g_str_equal(argv[1], "--help")) {
        return run_help_of(argv[1]);
    }
    printf("usage: reprise COMMAND [ARG...]\n"
           "\n"
           "Record a whole multi-processor guest while its vCPUs run in parallel,\n"
           "and replay it exactly.\n"
           "\n"
           "commands:\n");
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        printf("  %-10s %s\n", commands[i].name, commands[i].help);
    }
    printf("\n"
           "reprise help COMMAND tells more.  A guest that is to be recorded must be\n"
           "aarch64 or x86_64, with up to 16 vCPUs.\n"
           "\n"
           "exit status: 0 success; 1 a replay diverged, recordings differ, or a recording\n"
           "ended early or is damaged; 2 unusable input or usage, or a guest that cannot\n"
           "be reached\n");
    return STATUS_OK;
}

static int run_version(int argc, char **argv)
{
    if (argc == 2 && g_str_equal(argv[1], "--help")) {
        printf("usage: reprise version\n"
               "\n"
               "Show the version of Reprise, of its log format, and of its patches to QEMU; a\n"
               "recording is replayed by a build of the same ones.\n"
               "\n"
               "exit status: 0\n");
        return STATUS_OK;
    }
    if (argc > 1) {
        return usage_error("version takes no argument, got '%s'", argv[1]);
    }
    printf("reprise %s (log format %d, QEMU patches %s)\n",
           reprise_version(), LOG_VERSION, reprise_patch_level());
    return STATUS_OK;
}

static int run(int argc, char **argv)
{
    const Command *command;
    const char *name;

    if (argc < 2) {
        return usage_error("%s", "no command given");
    }
    name = argv[1];
    if (g_str_equal(name, "--help") || g_str_equal(name, "-h")) {
        name = "help";
    } else if (g_str_equal(name, "--version") || g_str_equal(name, "-V")) {
        name = "version";
    }
    command = find_command(name);
    return command ? command->run(argc - 1, argv + 1) : usage_error("unknown command '%s'", name);
}

int main(int argc, char **argv)
{
    int status = run(argc, argv);
    bool was_lost = ferror(stdout);

    /* A full disk or a closed pipe is no success, even if later writes succeeded. */
    if (fflush(stdout) != 0 || was_lost) {
        fprintf(stderr, "reprise: cannot write the output: %s\n",
                was_lost ? "some of it was lost" : strerror(errno));
        return STATUS_USAGE;
    }
    return status;
}
