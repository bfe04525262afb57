/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the commands of the `reprise` tool share.  A command is a function that gets its own name as
 * argv[0] and returns the exit status.  The tool has one thread.
 */
#ifndef TOOL_TOOL_H
#define TOOL_TOOL_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    STATUS_OK = 0,
    STATUS_DIVERGED = 1,        /* or different, or a recording that ended early */
    STATUS_DAMAGED = 1,         /* of verify: the recording is damaged */
    STATUS_USAGE = 2,
};

/* Print the error in one line on stderr.  Return STATUS_USAGE. */
int usage_error(const char *format, const char *what);
int input_error(const GError *error);

/*
 * Parse the options of @command and remove them from @argv.  If an entry has set @help, print
 * @usage.  Return false if the command ends here, with exit status *@status.
 */
bool parse_options(const char *command, const GOptionEntry *entries, const gboolean *help,
                   const char *usage, int *argc, char ***argv, int *status);

/*
 * Return VALUE of the last @option=VALUE in @argv, where @option alone remains; NULL if there is
 * none.  The result points into @argv.  glib's optional values would also take the next argument.
 */
const char *take_option_value(const char *option, int argc, char **argv);

/* Return the length of an epoch, N of --epochs=N, in ms; NULL: the default.  0: it is no length. */
unsigned epoch_length(const char *given);
/* Return SIZE of --hold=SIZE in bytes; NULL: the default.  0: it is no size. */
uint64_t hold_size(const char *given);
/* Return what is wrong with --hold[=@given], in words, or NULL. */
const char *hold_objection(bool has_hold, const char *given, bool has_epochs);

/* Make @path absolute, if it is not NULL. */
void make_absolute(char **path);

/* For sizes in messages. */
#define MIB 1048576.0

/* Return a size such as "500M" in bytes; 0 if @text is no size. */
uint64_t parse_size(const char *text);

/*
 * Check the value of --order, a list of orders to record; NULL: the option was not given.  Return
 * false after an error in one line, with exit status *@status.
 */
bool check_order_list(const char *command, const char *list, int *status);

/* cmd-*.c */
int run_checkpoint(int argc, char **argv);
int run_compare(int argc, char **argv);
int run_convert(int argc, char **argv);
int run_debug(int argc, char **argv);
int run_dump(int argc, char **argv);
int run_info(int argc, char **argv);
int run_live(int argc, char **argv);
int run_pack(int argc, char **argv);
int run_protect(int argc, char **argv);
int run_record(int argc, char **argv);
int run_repair(int argc, char **argv);
int run_replay(int argc, char **argv);
int run_standby(int argc, char **argv);
int run_start(int argc, char **argv);
int run_status(int argc, char **argv);
int run_stop(int argc, char **argv);
int run_unpack(int argc, char **argv);
int run_verify(int argc, char **argv);
int run_xml(int argc, char **argv);

#endif
