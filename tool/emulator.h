/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A QEMU that the tool starts, talks to over QMP, and ends.
 *
 * While an Emulator exists, SIGINT, SIGTERM and SIGHUP do not end the tool: emulator_wait() reports
 * them.  Another signal, more than a second after the first, kills QEMU.  SIGUSR1 is passed on to
 * QEMU, which prints its status.
 *
 * There is one Emulator at a time, in a program with one thread.
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
    EMULATOR_EVENT,             /* a QMP event has come */
    EMULATOR_ENDED,             /* QEMU has ended; reported once */
    EMULATOR_SIGNAL,            /* the user wants to stop */
    EMULATOR_DEADLINE,
    EMULATOR_OTHER,             /* the descriptor of emulator_watch() can be read */
} EmulatorNews;

/*
 * Return the path of program @name beside the tool's own file, or in $REPRISE_QEMU_DIR if that is
 * set; NULL if there is none.  To be freed by the caller.
 */
char *emulator_find(const char *name);

/* Return the directory of the tool's own file, to be freed by the caller. */
char *emulator_tool_directory(void);

/*
 * A guest that images/boot can start.  0 and NULL stand for the defaults: the stock image, aarch64,
 * one vCPU, 512 MiB, a shell.
 */
typedef struct StockGuest {
    char *image;                /* name in build/images, or a path with a slash */
    char *arch;
    int smp;
    int mem;                    /* MiB */
    char *run;
} StockGuest;

void stock_guest_clear(StockGuest *guest);

/*
 * Return the guest's architecture: what the user says, or the host's own; or the other one, if only
 * that has an emulator.
 */
const char *stock_guest_arch(const StockGuest *guest);

/* Return true if the user has said anything about the guest. */
bool stock_guest_is_given(const StockGuest *guest);

/*
 * Return the command line with which images/boot starts the guest, to be freed with g_strfreev();
 * NULL and @error if images/boot fails, for example since there is no such image.
 */
char **emulator_stock_command(const StockGuest *guest, GError **error);

/*
 * Return a copy of the user's command, to be freed with g_strfreev().  A name without a directory,
 * such as "qemu-system-aarch64", means the emulator beside the tool if there is one.
 */
char **emulator_users_command(char **command);

/*
 * Return the arguments after "--" and end *@argc before it; NULL if there is no "--".  The result
 * points into @argv.
 */
char **emulator_arguments(int *argc, char **argv);

/*
 * Return @argv with the options that emulator_start() adds, to be freed with g_strfreev().  For
 * emulator.c only.
 */
char **emulator_command_line(char **argv, int qmp_fd, const char *qmp);

/*
 * Start QEMU paused, and return it; NULL and @error if QEMU does not start.  @argv is its command
 * line, to which -S and a QMP connection for the tool are added, and a QMP socket for other clients
 * unless @qmp is NULL.  QEMU's output goes to the tool's stdout.  QEMU inherits the tool's stdin if
 * @console_input.
 */
Emulator *emulator_start(char **argv, const char *qmp, bool console_input, GError **error);

/*
 * As emulator_start(), and give QEMU its task, a QMP command.  If QEMU refuses, return NULL and
 * @error; QEMU has ended then.
 */
Emulator *emulator_start_task(char **argv, const char *qmp, bool console_input, const char *task,
                              const char *arguments, GError **error);

/* Kill QEMU if it still runs; call emulator_quit() first to end it in order. */
void emulator_free(Emulator *emulator);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Emulator, emulator_free)

/*
 * Run a QMP command and wait for the answer.  @arguments is a JSON object, or NULL.  Return false
 * and @error if QEMU refuses or has ended.
 */
bool emulator_execute(Emulator *emulator, const char *command, const char *arguments,
                      GError **error);

/*
 * As emulator_execute(), and return the answer, to be freed by the caller.  Its member "return"
 * holds the result.
 */
JsonValue *emulator_ask(Emulator *emulator, const char *command, const char *arguments,
                        GError **error);

/*
 * Add @path, made absolute, to the arguments of a command.  If it is not UTF-8, as JSON must be,
 * free @arguments and return false and @error.
 */
bool emulator_put_path(Json *arguments, const char *key, const char *path, GError **error);

/*
 * Wait for the first of the news, until @deadline, a time of g_get_monotonic_time() or INT64_MAX.
 * From the first call on, QEMU's stderr is passed on.  With EMULATOR_EVENT, *@event is the message,
 * to be freed by the caller; else NULL.
 */
EmulatorNews emulator_wait(Emulator *emulator, int64_t deadline, JsonValue **event);

/* Return the next event that came during a command, to be freed by the caller; NULL if none. */
JsonValue *emulator_take_event(Emulator *emulator);

/*
 * As emulator_wait().  If there is a terminal, @show is called twice a second with the answer of
 * query-recorder, to call progress_line().
 */
typedef void EmulatorShow(void *opaque, const JsonValue *info);
EmulatorNews emulator_wait_showing(Emulator *emulator, int64_t deadline, EmulatorShow *show,
                                   void *opaque, JsonValue **event);

/*
 * As emulator_execute(), for a command that may take minutes.  If there is a terminal, @tick is
 * called twice a second, to call progress_line().  A signal ends the wait with
 * QMP_ERROR_INTERRUPTED; then QEMU is still busy, and emulator_free() kills it.
 */
typedef void EmulatorTick(void *opaque);
bool emulator_execute_showing(Emulator *emulator, const char *command, const char *arguments,
                              EmulatorTick *tick, void *opaque, GError **error);

/* Let emulator_wait() also return when @fd can be read; -1: no longer. */
void emulator_watch(Emulator *emulator, int fd);

/* Ignore SIGINT from now on: a Ctrl-C is for another program at the same terminal. */
void emulator_leave_interrupts(Emulator *emulator);

/* Restore the signal mask of before emulator_start(), in a child that will run another program. */
void emulator_restore_signals(const Emulator *emulator);

/* End QEMU with the QMP command quit, and kill it if it has not ended after 20 seconds. */
void emulator_quit(Emulator *emulator);

/*
 * Return how QEMU ended, "status 1" or "signal 11 (Segmentation fault)", to be freed by the caller.
 * For a QEMU that has ended.
 */
char *emulator_ending(const Emulator *emulator);
/* Return true if the exit status is 0. */
bool emulator_ended_well(const Emulator *emulator);

#endif
