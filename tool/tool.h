/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the commands of the `reprise` tool share.  A command is a function that
 * gets its own name as argv[0] and returns the exit status.
 */
#ifndef TOOL_TOOL_H
#define TOOL_TOOL_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    STATUS_OK = 0,
    STATUS_DIVERGED = 1,        /* or different, or a recording that ended early */
    STATUS_DAMAGED = 1,         /* of verify: the recording is */
    STATUS_USAGE = 2,
};

/* Say it in one line on stderr; the status to return. */
int usage_error(const char *format, const char *what);
int input_error(const GError *error);

/*
 * Options of @command, which are taken out of @argv; --help sets @help, and shows
 * @usage.  False if @status is to be returned.
 */
bool parse_options(const char *command, const GOptionEntry *entries, const gboolean *help,
                   const char *usage, int *argc, char ***argv, int *status);

/*
 * The value of @option=VALUE, which is taken out of @argv; NULL: there is none.  glib's optional
 * values would take the next argument for it.
 */
const char *take_option_value(const char *option, int argc, char **argv);

/* "500M" in bytes; 0 if it is no size. */
uint64_t parse_size(const char *text);

/* cmd-*.c */
int run_checkpoint(int argc, char **argv);
int run_compare(int argc, char **argv);
int run_debug(int argc, char **argv);
int run_dump(int argc, char **argv);
int run_info(int argc, char **argv);
int run_pack(int argc, char **argv);
int run_record(int argc, char **argv);
int run_repair(int argc, char **argv);
int run_replay(int argc, char **argv);
int run_start(int argc, char **argv);
int run_status(int argc, char **argv);
int run_stop(int argc, char **argv);
int run_unpack(int argc, char **argv);
int run_verify(int argc, char **argv);
int run_xml(int argc, char **argv);

#endif
