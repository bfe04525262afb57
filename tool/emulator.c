/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A QEMU that the tool starts, talks to over QMP, and ends.
 *
 * QEMU gets one end of a socket pair for QMP.  So there is no path to choose and to remove, no
 * other process can connect, and QEMU's end is noticed.  QEMU's stderr goes through the tool, and
 * is held back until QEMU has accepted its task: a refusal is one line, printed by the tool.
 */
#include "tool/emulator.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "tool/progress.h"
#include "tool/qmp-client.h"

#define QUIT_US (20 * G_USEC_PER_SEC)
#define SHOW_US (G_USEC_PER_SEC / 2)
#define LOOK_MS 50

struct Emulator {
    pid_t pid;                  /* 0: not started */
    int pid_fd;                 /* readable when QEMU has ended; -1: the kernel has no pidfds */
    bool ended;
    bool end_told;              /* emulator_wait() has returned EMULATOR_ENDED */
    int status;                 /* of waitpid() */

    QmpClient *qmp;
    GQueue events;              /* JsonValue *, not yet returned to the caller */
    JsonValue *answer;          /* to the command under way; NULL: none yet */
    GError *trouble;            /* set if QEMU sent something that is not QMP */

    int console_fd;             /* QEMU's stdout; -1: QEMU has the tool's stdout */
    int errors_fd;              /* QEMU's stderr */
    GString *errors;            /* read from @errors_fd and not yet passed on */
    bool greeted;
    bool started;               /* QEMU has answered a command, so its arguments are valid */
    bool accepted;              /* QEMU has accepted its task: its stderr is passed on at once */

    int signal_fd;
    unsigned signals;           /* how many were received */
    unsigned signals_told;      /* @signals when emulator_wait() last returned EMULATOR_SIGNAL */
    int64_t first_signal;       /* when the first signal was received */
    bool interrupts_are_others; /* SIGINT is ignored: emulator_leave_interrupts() */
    sigset_t old_mask;

    int other_fd;               /* of emulator_watch(); -1: none */
    bool other_is_ready;

    bool has_terminal;          /* QEMU sets up the terminal, and cannot reset it if killed */
    struct termios terminal;
};

/* --- starting --------------------------------------------------------------- */

typedef struct ChildSetup {
    int qmp_fd;
    pid_t parent;
    bool own_group;
    const sigset_t *mask;
} ChildSetup;

/*
 * Prepare the child for QEMU; called between fork() and exec().  A Ctrl-C must reach the tool
 * alone, since QEMU would end at once.  So QEMU gets its own process group.  If QEMU reads the
 * terminal, which only the foreground group may, QEMU blocks SIGINT instead.
 */
static void set_up_child(void *opaque)
{
    const ChildSetup *setup = opaque;
    sigset_t mask = *setup->mask;

    if (setup->own_group) {
        setpgid(0, 0);
    } else {
        sigaddset(&mask, SIGINT);
    }
    sigprocmask(SIG_SETMASK, &mask, NULL);
    fcntl(setup->qmp_fd, F_SETFD, 0);
    /* If the tool is killed, QEMU ends in order, and closes the recording. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != setup->parent) {
        _exit(EXIT_FAILURE);
    }
}

static void catch_signals(Emulator *emulator)
{
    sigset_t mask;

    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGHUP);
    sigaddset(&mask, SIGUSR1);
    sigprocmask(SIG_BLOCK, &mask, &emulator->old_mask);
    emulator->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

static bool spawn(Emulator *emulator, char **argv, const char *qmp, bool console_input,
                  GError **error)
{
    GSpawnFlags flags = G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_LEAVE_DESCRIPTORS_OPEN |
                        G_SPAWN_SEARCH_PATH |
                        (console_input ? G_SPAWN_CHILD_INHERITS_STDIN : 0);
    ChildSetup setup = {
        .parent = getpid(),
        .own_group = !emulator->has_terminal,
        .mask = &emulator->old_mask,
    };
    g_auto(GStrv) line = NULL;
    int pair[2];
    bool ok;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        g_set_error(error, QMP_ERROR, QMP_ERROR_CLOSED, "cannot make a socket: %s",
                    g_strerror(errno));
        return false;
    }
    emulator->qmp = qmp_client_new(pair[0]);
    setup.qmp_fd = pair[1];
    line = emulator_command_line(argv, pair[1], qmp);
    ok = g_spawn_async_with_pipes(NULL, line, NULL, flags, set_up_child, &setup, &emulator->pid,
                                  NULL, progress_wants_console() ? &emulator->console_fd : NULL,
                                  &emulator->errors_fd, error);
    close(pair[1]);
    if (!ok) {
        g_prefix_error(error, "cannot start QEMU: ");
        emulator->pid = 0;
        emulator->console_fd = emulator->errors_fd = -1;
        return false;
    }
    fcntl(emulator->errors_fd, F_SETFL, O_NONBLOCK);
    fcntl(emulator->errors_fd, F_SETFD, FD_CLOEXEC);
    if (emulator->console_fd >= 0) {
        fcntl(emulator->console_fd, F_SETFL, O_NONBLOCK);
        fcntl(emulator->console_fd, F_SETFD, FD_CLOEXEC);
    }
    emulator->pid_fd = pidfd_open(emulator->pid, 0);
    return true;
}

/* --- what comes from QEMU --------------------------------------------------- */

static void read_errors(Emulator *emulator)
{
    char bytes[4096];
    ssize_t n;

    while (emulator->errors_fd >= 0 &&
           (n = read(emulator->errors_fd, bytes, sizeof(bytes))) != 0) {
        if (n < 0) {
            return;
        }
        g_string_append_len(emulator->errors, bytes, n);
    }
    if (emulator->errors_fd >= 0) {
        close(emulator->errors_fd);
        emulator->errors_fd = -1;
    }
}

static void pass_errors_on(Emulator *emulator)
{
    if (emulator->errors->len > 0) {
        progress_clear();
    }
    fwrite(emulator->errors->str, 1, emulator->errors->len, stderr);
    g_string_truncate(emulator->errors, 0);
}

static void read_console(Emulator *emulator)
{
    char bytes[4096];
    ssize_t n;

    while (emulator->console_fd >= 0 &&
           (n = read(emulator->console_fd, bytes, sizeof(bytes))) != 0) {
        if (n < 0) {
            return;
        }
        progress_console(bytes, n);
    }
    if (emulator->console_fd >= 0) {
        close(emulator->console_fd);
        emulator->console_fd = -1;
    }
}

static void read_messages(Emulator *emulator)
{
    JsonValue *message;

    qmp_client_receive(emulator->qmp);
    while (!emulator->trouble && (message = qmp_client_next(emulator->qmp, &emulator->trouble))) {
        if (json_member(message, "event")) {
            g_queue_push_tail(&emulator->events, message);
        } else if (json_member(message, "QMP")) {
            emulator->greeted = true;
            json_value_free(message);
        } else {
            json_value_free(emulator->answer);
            emulator->answer = message;
        }
    }
}

static void read_signals(Emulator *emulator)
{
    struct signalfd_siginfo info;

    while (read(emulator->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        int64_t now = g_get_monotonic_time();

        if (info.ssi_signo == SIGUSR1) {
            if (emulator->greeted && !emulator->ended) {        /* SIGUSR1 kills a younger QEMU */
                kill(emulator->pid, SIGUSR1);
            }
            continue;
        }
        if (info.ssi_signo == SIGINT && emulator->interrupts_are_others) {
            continue;
        }
        /*
         * A second signal is from an impatient user, and kills QEMU.  But timeout(1) sends its
         * signal twice in a row.
         */
        if (emulator->signals && now - emulator->first_signal > G_USEC_PER_SEC &&
            !emulator->ended) {
            kill(emulator->pid, SIGKILL);
        }
        if (!emulator->signals) {
            emulator->first_signal = now;
        }
        emulator->signals++;
    }
}

/* Wait for any input until @deadline, read all that has come, and act on signals. */
static void pump(Emulator *emulator, int64_t deadline)
{
    struct pollfd fds[] = {
        { .fd = emulator->other_fd, .events = POLLIN },
        { .fd = emulator->ended ? -1 : emulator->pid_fd, .events = POLLIN },
        { .fd = qmp_client_fd(emulator->qmp), .events = POLLIN },
        { .fd = emulator->errors_fd, .events = POLLIN },
        { .fd = emulator->console_fd, .events = POLLIN },
        { .fd = emulator->signal_fd, .events = POLLIN },
    };
    int64_t left_ms = MAX(0, deadline - g_get_monotonic_time()) / 1000 + 1;
    /* Without a pidfd (an old kernel), QEMU's end is polled for. */
    bool must_look = emulator->pid_fd < 0 && !emulator->ended;

    poll(fds, G_N_ELEMENTS(fds), MIN(left_ms, must_look ? LOOK_MS : G_MAXINT));
    emulator->other_is_ready = fds[0].revents != 0;
    /* Before reading: when QEMU has ended, all that it sent can be read. */
    if (!emulator->ended && waitpid(emulator->pid, &emulator->status, WNOHANG) == emulator->pid) {
        emulator->ended = true;
    }
    read_messages(emulator);
    read_console(emulator);
    read_errors(emulator);
    if (emulator->accepted) {
        pass_errors_on(emulator);
    }
    read_signals(emulator);
}

/* --- the interface ---------------------------------------------------------- */

char *emulator_ending(const Emulator *emulator)
{
    return WIFSIGNALED(emulator->status)
           ? g_strdup_printf("signal %d (%s)", WTERMSIG(emulator->status),
                             g_strsignal(WTERMSIG(emulator->status)))
           : g_strdup_printf("status %d", WEXITSTATUS(emulator->status));
}

/* Set @error to the first line of QEMU's stderr that is no warning, or to how QEMU ended. */
static void set_refusal(Emulator *emulator, GError **error)
{
    g_auto(GStrv) lines = g_strsplit(emulator->errors->str, "\n", -1);
    g_autofree char *ending = emulator_ending(emulator);

    for (char **line = lines; *line; line++) {
        if (**line && !strstr(*line, "warning:")) {
            g_set_error(error, QMP_ERROR, QMP_ERROR_CLOSED, "QEMU does not start: %s", *line);
            return;
        }
    }
    g_set_error(error, QMP_ERROR, QMP_ERROR_CLOSED, "QEMU ended with %s when it was started",
                ending);
}

/*
 * Wait until QEMU has answered, or cannot answer any more.  With a @tick, which is called every
 * SHOW_US, a signal ends the wait, too.
 */
static void await_answer(Emulator *emulator, EmulatorTick *tick, void *opaque)
{
    while (!emulator->answer && !emulator->ended && !emulator->trouble &&
           !(tick && emulator->signals)) {
        int64_t next = tick && progress_shown() ? g_get_monotonic_time() + SHOW_US : INT64_MAX;

        pump(emulator, next);
        if (g_get_monotonic_time() >= next) {
            tick(opaque);
        }
    }
}

static JsonValue *ask(Emulator *emulator, const char *command, const char *arguments,
                      EmulatorTick *tick, void *opaque, GError **error)
{
    g_autoptr(JsonValue) answer = NULL;
    const JsonValue *refusal;

    g_assert(!emulator->answer);
    if (!qmp_client_send(emulator->qmp, command, arguments, error)) {
        return NULL;
    }
    await_answer(emulator, tick, opaque);
    answer = g_steal_pointer(&emulator->answer);
    if (emulator->trouble) {
        g_propagate_error(error, g_error_copy(emulator->trouble));
        return NULL;
    }
    if (!answer && !emulator->ended) {
        g_set_error(error, QMP_ERROR, QMP_ERROR_INTERRUPTED, "interrupted");
        return NULL;
    }
    if (!answer && !emulator->started) {
        set_refusal(emulator, error);
        return NULL;
    }
    if (!answer) {
        g_autofree char *ending = emulator_ending(emulator);

        pass_errors_on(emulator);       /* an assertion, most likely */
        g_set_error(error, QMP_ERROR, QMP_ERROR_CLOSED, "QEMU ended with %s during %s",
                    ending, command);
        return NULL;
    }
    emulator->started = true;
    refusal = json_member(answer, "error");
    if (refusal) {
        const char *why = json_member_string(refusal, "desc");

        g_set_error(error, QMP_ERROR, QMP_ERROR_REFUSED, "%s", why ? why : command);
        return NULL;
    }
    return g_steal_pointer(&answer);
}

JsonValue *emulator_ask(Emulator *emulator, const char *command, const char *arguments,
                        GError **error)
{
    return ask(emulator, command, arguments, NULL, NULL, error);
}

bool emulator_execute(Emulator *emulator, const char *command, const char *arguments,
                      GError **error)
{
    g_autoptr(JsonValue) answer = emulator_ask(emulator, command, arguments, error);

    return answer != NULL;
}

bool emulator_execute_showing(Emulator *emulator, const char *command, const char *arguments,
                              EmulatorTick *tick, void *opaque, GError **error)
{
    g_autoptr(JsonValue) answer = ask(emulator, command, arguments, tick, opaque, error);

    progress_clear();
    return answer != NULL;
}

bool emulator_ended_well(const Emulator *emulator)
{
    return WIFEXITED(emulator->status) && WEXITSTATUS(emulator->status) == EXIT_SUCCESS;
}

bool emulator_put_path(Json *arguments, const char *key, const char *path, GError **error)
{
    g_autofree char *absolute = g_canonicalize_filename(path, NULL);

    if (!g_utf8_validate(absolute, -1, NULL)) {
        g_set_error(error, QMP_ERROR, QMP_ERROR_REFUSED,
                    "the directory's path is not UTF-8: give another one");
        g_free(json_finish(arguments));
        return false;
    }
    json_string(arguments, key, absolute);
    return true;
}

Emulator *emulator_start(char **argv, const char *qmp, bool console_input, GError **error)
{
    g_autoptr(Emulator) emulator = g_new0(Emulator, 1);

    g_queue_init(&emulator->events);
    emulator->errors = g_string_new(NULL);
    emulator->pid_fd = emulator->console_fd = emulator->errors_fd = emulator->signal_fd = -1;
    emulator->other_fd = -1;
    emulator->has_terminal = console_input && tcgetattr(STDIN_FILENO, &emulator->terminal) == 0;
    catch_signals(emulator);
    if (console_input) {
        progress_forbid();
    }
    if (!spawn(emulator, argv, qmp, console_input, error)) {
        return NULL;
    }
    while (!emulator->greeted && !emulator->ended && !emulator->trouble) {
        pump(emulator, INT64_MAX);
    }
    if (emulator->ended) {
        set_refusal(emulator, error);
        return NULL;
    }
    return emulator_execute(emulator, "qmp_capabilities", NULL, error)
           ? g_steal_pointer(&emulator) : NULL;
}

Emulator *emulator_start_task(char **argv, const char *qmp, bool console_input, const char *task,
                              const char *arguments, GError **error)
{
    g_autoptr(Emulator) emulator = emulator_start(argv, qmp, console_input, error);

    if (emulator && !emulator_execute(emulator, task, arguments, error)) {
        emulator_quit(emulator);
        return NULL;
    }
    return g_steal_pointer(&emulator);
}

EmulatorNews emulator_wait_showing(Emulator *emulator, int64_t deadline, EmulatorShow *show,
                                   void *opaque, JsonValue **event)
{
    EmulatorNews news;

    for (;;) {
        int64_t next = progress_shown() ? g_get_monotonic_time() + SHOW_US : INT64_MAX;
        g_autoptr(JsonValue) answer = NULL;

        news = emulator_wait(emulator, MIN(deadline, next), event);
        if (news != EMULATOR_DEADLINE || g_get_monotonic_time() >= deadline) {
            break;
        }
        answer = emulator_ask(emulator, "query-recorder", NULL, NULL);
        if (answer) {
            show(opaque, json_member(answer, "return"));
        }
    }
    progress_clear();
    return news;
}

JsonValue *emulator_take_event(Emulator *emulator)
{
    return g_queue_pop_head(&emulator->events);
}

EmulatorNews emulator_wait(Emulator *emulator, int64_t deadline, JsonValue **event)
{
    emulator->accepted = true;
    pass_errors_on(emulator);
    for (;;) {
        *event = emulator_take_event(emulator);
        if (*event) {
            return EMULATOR_EVENT;
        }
        if (emulator->ended && !emulator->end_told) {
            emulator->end_told = true;
            return EMULATOR_ENDED;
        }
        if (emulator->other_is_ready) {
            emulator->other_is_ready = false;
            return EMULATOR_OTHER;
        }
        if (emulator->signals > emulator->signals_told) {
            emulator->signals_told = emulator->signals;
            return EMULATOR_SIGNAL;
        }
        if (g_get_monotonic_time() >= deadline) {
            return EMULATOR_DEADLINE;
        }
        pump(emulator, deadline);
    }
}

void emulator_watch(Emulator *emulator, int fd)
{
    emulator->other_fd = fd;
}

void emulator_leave_interrupts(Emulator *emulator)
{
    emulator->interrupts_are_others = true;
}

void emulator_restore_signals(const Emulator *emulator)
{
    sigprocmask(SIG_SETMASK, &emulator->old_mask, NULL);
}

void emulator_quit(Emulator *emulator)
{
    int64_t deadline = g_get_monotonic_time() + QUIT_US;

    /* An error is ignored: a QEMU that is ending already no longer listens. */
    qmp_client_send(emulator->qmp, "quit", NULL, NULL);
    while (!emulator->ended && g_get_monotonic_time() < deadline) {
        pump(emulator, deadline);
    }
    if (!emulator->ended) {
        fprintf(stderr, "reprise: QEMU does not end, it is killed\n");
        kill(emulator->pid, SIGKILL);
        while (!emulator->ended) {
            pump(emulator, INT64_MAX);
        }
    }
}

void emulator_free(Emulator *emulator)
{
    if (!emulator) {
        return;
    }
    if (emulator->pid && !emulator->ended) {
        kill(emulator->pid, SIGKILL);
        waitpid(emulator->pid, &emulator->status, 0);
    }
    if (emulator->has_terminal) {
        tcsetattr(STDIN_FILENO, TCSANOW, &emulator->terminal);
    }
    if (emulator->pid_fd >= 0) {
        close(emulator->pid_fd);
    }
    if (emulator->errors_fd >= 0) {
        close(emulator->errors_fd);
    }
    if (emulator->console_fd >= 0) {
        close(emulator->console_fd);
    }
    progress_clear();
    close(emulator->signal_fd);
    emulator_restore_signals(emulator);
    qmp_client_free(emulator->qmp);
    g_queue_clear_full(&emulator->events, (GDestroyNotify)json_value_free);
    json_value_free(emulator->answer);
    g_clear_error(&emulator->trouble);
    g_string_free(emulator->errors, TRUE);
    g_free(emulator);
}
