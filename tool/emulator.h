/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A QEMU that the tool starts, talks to over QMP, and ends.
 *
 * While there is one, SIGINT, SIGTERM and SIGHUP are news for emulator_wait()
 * instead of the end of the tool; another one, later, kills QEMU.  SIGUSR1 is passed
 * on, and QEMU shows what it does.  One emulator at a time, in a program with one
 * thread.
 */
#ifndef TOOL_EMULATOR_H
#define TOOL_EMULATOR_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "tool/json-reader.h"
#include "tool/json.h"

typedef struct Emulator Emulator;

typedef enum EmulatorNews {
    EMULATOR_EVENT,             /* a QMP event */
    EMULATOR_ENDED,             /* the process is no more; told once */
    EMULATOR_SIGNAL,            /* the user wants to stop */
    EMULATOR_DEADLINE,
    EMULATOR_OTHER,             /* of emulator_watch() */
} EmulatorNews;

/* The file beside the tool's own (or in $REPRISE_QEMU_DIR), NULL if not there. */
char *emulator_find(const char *name);

/* The directory of the tool's own program. */
char *emulator_tool_directory(void);

/*
 * How images/boot starts the stock guest; 0 and NULL are its defaults: aarch64, one vCPU,
 * 512 MiB, a shell.
 */
char **emulator_stock_command(const char *arch, int smp, int mem, const char *run, GError **error);

/* What comes after "--", for QEMU; @argc ends before it.  NULL: there is no "--". */
char **emulator_arguments(int *argc, char **argv);

/* @argv with what emulator_start() adds; for emulator.c. */
char **emulator_command_line(char **argv, int qmp_fd, const char *qmp);

/*
 * Starts QEMU paused.  @argv is its command line, to which -S, a QMP connection
 * of ours and, unless @qmp is NULL, a QMP socket for others are added.  Its
 * stdout is ours; so is its stdin if @console_input.
 */
Emulator *emulator_start(char **argv, const char *qmp, bool console_input, GError **error);

/* The same, and gives it its task, a QMP command; if it refuses, QEMU has ended. */
Emulator *emulator_start_task(char **argv, const char *qmp, bool console_input, const char *task,
                              const char *arguments, GError **error);

/* Kills QEMU if it still runs: call emulator_quit() before. */
void emulator_free(Emulator *emulator);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Emulator, emulator_free)

/* Runs a QMP command; @arguments is a JSON object, or NULL. */
bool emulator_execute(Emulator *emulator, const char *command, const char *arguments,
                      GError **error);

/* The same; returns the answer, of which the member "return" has what was asked for. */
JsonValue *emulator_ask(Emulator *emulator, const char *command, const char *arguments,
                        GError **error);

/*
 * A member of such an object: @path, absolute.  It must be UTF-8, as all JSON; if
 * not, the object is gone.
 */
bool emulator_put_path(Json *arguments, const char *key, const char *path, GError **error);

/*
 * Waits for what comes first.  @deadline is of g_get_monotonic_time(), or
 * INT64_MAX; @event gets the message, with EMULATOR_EVENT.
 */
EmulatorNews emulator_wait(Emulator *emulator, int64_t deadline, JsonValue **event);

/* One that came during a command, or NULL; to be freed. */
JsonValue *emulator_take_event(Emulator *emulator);

/*
 * As emulator_wait(); if there is a terminal, @show gets what query-recorder answers, twice a
 * second, for progress_line().
 */
typedef void EmulatorShow(void *opaque, const JsonValue *info);
EmulatorNews emulator_wait_showing(Emulator *emulator, int64_t deadline, EmulatorShow *show,
                                   void *opaque, JsonValue **event);

/*
 * A QMP command that may take minutes: if there is a terminal, @tick is called twice a second, for
 * progress_line().  A signal is QMP_ERROR_INTERRUPTED; then QEMU is still busy, and emulator_free()
 * ends it.
 */
typedef void EmulatorTick(void *opaque);
bool emulator_execute_showing(Emulator *emulator, const char *command, const char *arguments,
                              EmulatorTick *tick, void *opaque, GError **error);

/* From now on emulator_wait() also waits until @fd can be read; -1: no more. */
void emulator_watch(Emulator *emulator, int fd);

/* From now on a Ctrl-C is for somebody else at the same terminal. */
void emulator_leave_interrupts(Emulator *emulator);

/* In a child of ours that is to run another program: signals as they were. */
void emulator_restore_signals(const Emulator *emulator);

/* Ends QEMU: politely, then not. */
void emulator_quit(Emulator *emulator);

/* How it ended: "status 1", "SIGSEGV". */
char *emulator_ending(const Emulator *emulator);
bool emulator_ended_well(const Emulator *emulator);

#endif
