/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finds the QEMU to start, and completes its command line.
 */
#include "tool/emulator.h"

#include <string.h>
#include <sys/wait.h>

char *emulator_tool_directory(void)
{
    g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);

    return g_path_get_dirname(self ? self : "build/bin/reprise");
}

char *emulator_find(const char *name)
{
    const char *given = g_getenv("REPRISE_QEMU_DIR");
    g_autofree char *directory = given && *given ? g_strdup(given) : emulator_tool_directory();
    g_autofree char *path = g_build_filename(directory, name, NULL);

    return g_file_test(path, G_FILE_TEST_IS_EXECUTABLE) ? g_steal_pointer(&path) : NULL;
}

void stock_guest_clear(StockGuest *guest)
{
    g_free(guest->image);
    g_free(guest->arch);
    g_free(guest->run);
}

#ifdef __x86_64__
#define HOST_ARCH   "x86_64"
#define OTHER_ARCH  "aarch64"
#else
#define HOST_ARCH   "aarch64"
#define OTHER_ARCH  "x86_64"
#endif

const char *stock_guest_arch(const StockGuest *guest)
{
    g_autofree char *own = emulator_find("qemu-system-" HOST_ARCH);
    g_autofree char *other = emulator_find("qemu-system-" OTHER_ARCH);

    if (guest->arch) {
        return guest->arch;
    }
    return own || !other ? HOST_ARCH : OTHER_ARCH;
}

bool stock_guest_is_given(const StockGuest *guest)
{
    return guest->image || guest->arch || guest->smp || guest->mem || guest->run;
}

char **emulator_stock_command(const StockGuest *guest, GError **error)
{
    g_autofree char *tool = emulator_tool_directory();
    g_autofree char *boot = g_build_filename(tool, "..", "..", "images", "boot", NULL);
    g_autofree char *smp_text = g_strdup_printf("%d", guest->smp ? guest->smp : 1);
    g_autofree char *mem_text = g_strdup_printf("%d", guest->mem ? guest->mem : 512);
    const char *argv[] = {
        boot, "--print", "--image", guest->image ? guest->image : "stock",
        "--arch", stock_guest_arch(guest), "--smp", smp_text, "--mem", mem_text,
        guest->run ? "--run" : NULL, guest->run, NULL
    };
    g_autofree char *output = NULL, *errors = NULL;
    char **command;
    int status;

    if (!g_spawn_sync(NULL, (char **)argv, NULL, 0, NULL, NULL, &output, &errors, &status,
                      error)) {
        return NULL;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        g_set_error(error, G_SPAWN_ERROR, G_SPAWN_ERROR_FAILED, "%s",
                    *errors ? g_strchomp(errors) : "images/boot failed");
        return NULL;
    }
    return g_shell_parse_argv(output, NULL, &command, error) ? command : NULL;
}

char **emulator_users_command(char **given)
{
    char **command = g_strdupv(given);
    char *ours = strchr(command[0], '/') ? NULL : emulator_find(command[0]);

    if (ours) {
        g_free(command[0]);
        command[0] = ours;
    }
    return command;
}

char **emulator_arguments(int *argc, char **argv)
{
    for (int i = 1; i < *argc; i++) {
        if (g_str_equal(argv[i], "--")) {
            *argc = i;
            return &argv[i + 1];
        }
    }
    return NULL;
}

char **emulator_command_line(char **argv, int qmp_fd, const char *qmp)
{
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    g_autofree char *chardev = g_strdup_printf("socket,id=reprise-qmp,fd=%d", qmp_fd);

    g_strv_builder_addv(builder, (const char **)argv);
    g_strv_builder_add_many(builder, "-S", "-chardev", chardev,
                            "-mon", "chardev=reprise-qmp,mode=control", NULL);
    if (qmp) {
        g_auto(GStrv) parts = g_strsplit(qmp, ",", -1);
        g_autofree char *path = g_strjoinv(",,", parts);        /* as QEMU quotes it */
        g_autofree char *option = g_strdup_printf("unix:%s,server=on,wait=off", path);

        g_strv_builder_add_many(builder, "-qmp", option, NULL);
    }
    return g_strv_builder_end(builder);
}
