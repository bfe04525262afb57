/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The address at which a debugger reaches QEMU's gdbstub, and a gdb that the tool starts.
 */
#include "tool/gdb.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "tool/unix-socket.h"

#define LOOK_US (G_USEC_PER_SEC / 20)
#define END_US (5 * G_USEC_PER_SEC)

struct Gdb {
    pid_t pid;
    int pid_fd;                 /* readable when gdb has ended; -1: the kernel has no pidfds */
    bool ended;
    int status;                 /* of waitpid() */
    Emulator *emulator;
    struct sigaction old_quit;
    bool has_terminal;          /* gdb sets up the terminal, and cannot reset it if killed */
    struct termios terminal;
};

/* --- the address ------------------------------------------------------------ */

static bool cannot_listen(GError **error, uint16_t port)
{
    int why = errno;

    g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(why), "port %u %s%s%s", port,
                why == EADDRINUSE ? "is in use: give another one with --port (0: any), or --socket"
                                  : "of 127.0.0.1 cannot be used: ",
                why == EADDRINUSE ? "" : g_strerror(why),
                why == EACCES ? " (those from 1024 on are for everybody)" : "");
    return false;
}

bool gdb_address_port(GdbAddress *address, uint16_t port, GError **error)
{
    struct sockaddr_in name = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    socklen_t length = sizeof(name);
    int yes = 1;

    address->is_port = true;
    address->fd = socket(AF_INET, SOCK_STREAM, 0);
    /* Closed connections of former debuggers do not block the port; a listening process does. */
    setsockopt(address->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(address->fd, (struct sockaddr *)&name, length) < 0 || listen(address->fd, 1) < 0 ||
        getsockname(address->fd, (struct sockaddr *)&name, &length) < 0) {
        return cannot_listen(error, port);
    }
    address->remote = g_strdup_printf("127.0.0.1:%u", ntohs(name.sin_port));
    return true;
}

bool gdb_address_socket(GdbAddress *address, const char *path, GError **error)
{
    struct stat info;

    /* Absolute, so that gdb may be started in any directory. */
    address->remote = g_canonicalize_filename(path, NULL);
    address->fd = unix_socket_listen(address->remote, error);
    if (address->fd < 0) {
        return false;
    }
    if (lstat(address->remote, &info) == 0) {
        address->path = g_strdup(address->remote);
        address->device = info.st_dev;
        address->inode = info.st_ino;
    }
    return true;
}

bool gdb_address_private(GdbAddress *address, GError **error)
{
    g_autofree char *path = NULL;

    address->directory = g_dir_make_tmp("reprise-gdb-XXXXXX", error);
    if (!address->directory) {
        return false;
    }
    path = g_build_filename(address->directory, "gdb", NULL);
    return gdb_address_socket(address, path, error);
}

/*
 * Commands of gdb that wrap those of QEMU's monitor.  They take gdb's expressions, and flush gdb's
 * caches after a move, which gdb does not notice.
 */
static const char commands[] =
    "define goto\n"
    "  if $argc == 2\n"
    "    monitor goto $arg0 $arg1\n"
    "  else\n"
    "    monitor goto $arg0\n"
    "  end\n"
    "  maintenance flush register-cache\n"
    "  maintenance flush dcache\n"
    "  frame\n"
    "end\n"
    "document goto\n"
    "Go to a moment of the recording: a number, start, end, or checkpoint N.\n"
    "end\n"
    "define when\n"
    "  monitor when\n"
    "end\n"
    "document when\n"
    "The moment of the recording, to come back there with goto.\n"
    "end\n"
    "define last-write\n"
    "  if $argc == 2\n"
    "    eval \"monitor last-write %lu %d\", (unsigned long)($arg0), $arg1\n"
    "  else\n"
    "    eval \"monitor last-write %lu\", (unsigned long)($arg0)\n"
    "  end\n"
    "end\n"
    "document last-write\n"
    "Who wrote to an address last, before now: last-write &variable [SIZE]\n"
    "end\n"
    "define who\n"
    "  eval \"monitor who %lu\", (unsigned long)($arg0)\n"
    "end\n"
    "document who\n"
    "Who accesses the 64 bytes around an address, around now: who &variable\n"
    "end\n";

/* A command that changes how gdb decodes instructions.  Arguments: two paths of descriptions. */
static const char bits_command[] =
    "define bits\n"
    "  if $arg0 == 16\n"
    "    set osabi none\n"
    "    set tdesc filename %s\n"
    "  else\n"
    "    if $arg0 == 32\n"
    "      set osabi none\n"
    "      set tdesc filename %s\n"
    "    else\n"
    "      if $arg0 == 64\n"
    "        unset tdesc filename\n"
    "        set osabi auto\n"
    "      else\n"
    "        echo Say bits 16, bits 32 or bits 64.\\n\n"
    "      end\n"
    "    end\n"
    "  end\n"
    "end\n"
    "document bits\n"
    "Decode the code of an x86 guest as that of 16, 32 or 64 bits: bits 16 for real mode.\n"
    "end\n";

/* The registers of QEMU's description of x86_64, in its order: X(bits, type, names). */
#define X86_REGISTERS(X) \
    X(64, "int64", "eax ebx ecx edx esi edi ebp esp r8 r9 r10 r11 r12 r13 r14 r15 eip") \
    X(32, "int32", "eflags cs ss ds es fs gs") \
    X(64, "int64", "fs_base gs_base k_gs_base cr0 cr2 cr3 cr4 cr8 efer") \
    X(80, "i387_ext", "st0 st1 st2 st3 st4 st5 st6 st7") \
    X(32, "int32", "fctrl fstat ftag fiseg fioff foseg fooff fop") \
    X(128, "uint128", "xmm0 xmm1 xmm2 xmm3 xmm4 xmm5 xmm6 xmm7 xmm8 xmm9 xmm10 xmm11 xmm12 xmm13 " \
                      "xmm14 xmm15") \
    X(32, "int32", "mxcsr")

static void describe_registers(GString *text, int bits, const char *type, const char *names)
{
    g_auto(GStrv) list = g_strsplit(names, " ", -1);

    for (char **name = list; *name; name++) {
        g_string_append_printf(text, "<reg name=\"%s\" bitsize=\"%d\" type=\"%s\"/>\n", *name,
                               bits, type);
    }
}

/*
 * Write a description of an x86_64 guest as a machine of @architecture, with the registers that
 * QEMU sends.  gdb takes it instead of QEMU's, while it refuses to change the architecture alone.
 */
static bool write_description(const char *path, const char *architecture, GError **error)
{
    g_autoptr(GString) text = g_string_new("<?xml version=\"1.0\"?>\n"
                                           "<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n");

    g_string_append_printf(text, "<target><architecture>%s</architecture>\n"
                           "<feature name=\"org.gnu.gdb.i386.core\">\n", architecture);
#define X(bits, type, names) describe_registers(text, bits, type, names);
    X86_REGISTERS(X)
#undef X
    g_string_append(text, "</feature></target>\n");
    return g_file_set_contents(path, text->str, text->len, error);
}

bool gdb_address_add_commands(GdbAddress *address, GError **error)
{
    g_autofree char *bits = NULL, *all = NULL;

    address->commands = g_build_filename(address->directory, "commands", NULL);
    address->x86_16 = g_build_filename(address->directory, "16.xml", NULL);
    address->x86_32 = g_build_filename(address->directory, "32.xml", NULL);
    bits = g_strdup_printf(bits_command, address->x86_16, address->x86_32);
    all = g_strconcat(commands, bits, NULL);
    return write_description(address->x86_16, "i8086", error) &&
           write_description(address->x86_32, "i386", error) &&
           g_file_set_contents(address->commands, all, -1, error);
}

/* Remove a file, if it was made. */
static void remove_file(char *path)
{
    if (path) {
        unlink(path);
    }
    g_free(path);
}

void gdb_address_close(GdbAddress *address)
{
    if (address->fd >= 0) {
        close(address->fd);
        address->fd = -1;
    }
}

void gdb_address_clear(GdbAddress *address)
{
    struct stat info;

    gdb_address_close(address);
    /* Another process may have replaced the socket. */
    if (address->path && lstat(address->path, &info) == 0 && info.st_dev == address->device &&
        info.st_ino == address->inode) {
        unlink(address->path);
    }
    remove_file(address->commands);
    remove_file(address->x86_16);
    remove_file(address->x86_32);
    if (address->directory) {
        rmdir(address->directory);
    }
    g_free(address->path);
    g_free(address->directory);
    g_free(address->remote);
}

/* --- a gdb that the tool starts --------------------------------------------- */

char *gdb_find(const char *given, GError **error)
{
    char *program = g_find_program_in_path(given ? given : "gdb-multiarch");

    if (!program && given) {
        g_set_error(error, G_SPAWN_ERROR, G_SPAWN_ERROR_NOENT, "there is no program %s", given);
    } else if (!program && !(program = g_find_program_in_path("gdb"))) {
        g_set_error(error, G_SPAWN_ERROR, G_SPAWN_ERROR_NOENT,
                    "there is no gdb here: install gdb-multiarch, or name one with --gdb=PROGRAM");
    }
    return program;
}

/* Prepare the child for gdb; called between fork() and exec(). */
static void set_up_child(void *opaque)
{
    emulator_restore_signals(opaque);
    /* If the tool is killed, QEMU ends too, and the shell takes the terminal back. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
}

Gdb *gdb_start(char **argv, Emulator *emulator, GError **error)
{
    const struct sigaction ignore = { .sa_handler = SIG_IGN };
    g_autofree Gdb *gdb = g_new0(Gdb, 1);

    gdb->emulator = emulator;
    gdb->has_terminal = tcgetattr(STDIN_FILENO, &gdb->terminal) == 0;
    if (!g_spawn_async(NULL, argv, NULL, G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_CHILD_INHERITS_STDIN,
                       set_up_child, emulator, &gdb->pid, error)) {
        g_prefix_error(error, "cannot start gdb: ");
        return NULL;
    }
    gdb->pid_fd = pidfd_open(gdb->pid, 0);
    /* A Ctrl-C or Ctrl-\ reaches the whole foreground process group, and is meant for gdb. */
    emulator_leave_interrupts(emulator);
    sigaction(SIGQUIT, &ignore, &gdb->old_quit);
    emulator_watch(emulator, gdb->pid_fd);
    return g_steal_pointer(&gdb);
}

int64_t gdb_deadline(const Gdb *gdb)
{
    return gdb->pid_fd < 0 ? g_get_monotonic_time() + LOOK_US : INT64_MAX;
}

bool gdb_has_ended(Gdb *gdb, int *status)
{
    if (!gdb->ended) {
        gdb->ended = waitpid(gdb->pid, &gdb->status, WNOHANG) == gdb->pid;
    }
    if (gdb->ended) {
        *status = WIFSIGNALED(gdb->status) ? 128 + WTERMSIG(gdb->status)
                                           : WEXITSTATUS(gdb->status);
    }
    return gdb->ended;
}

/*
 * End gdb in order, so that it can save its history and reset the terminal; kill it after END_US.
 */
static void end(Gdb *gdb)
{
    int64_t deadline = g_get_monotonic_time() + END_US;
    int status;

    kill(gdb->pid, SIGTERM);
    while (!gdb_has_ended(gdb, &status) && g_get_monotonic_time() < deadline) {
        g_usleep(LOOK_US);
    }
    if (!gdb->ended) {
        kill(gdb->pid, SIGKILL);
        waitpid(gdb->pid, &gdb->status, 0);
    }
}

void gdb_free(Gdb *gdb)
{
    int status;

    if (!gdb) {
        return;
    }
    if (!gdb_has_ended(gdb, &status)) {
        end(gdb);
    }
    if (gdb->has_terminal && WIFSIGNALED(gdb->status)) {
        tcsetattr(STDIN_FILENO, TCSANOW, &gdb->terminal);
    }
    emulator_watch(gdb->emulator, -1);
    sigaction(SIGQUIT, &gdb->old_quit, NULL);
    if (gdb->pid_fd >= 0) {
        close(gdb->pid_fd);
    }
    g_free(gdb);
}
