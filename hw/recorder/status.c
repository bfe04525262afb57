/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * SIGUSR1 shows the status of a recording or replay; the monitor formats it.
 */
#include "qemu/osdep.h"
#include "qapi/util.h"
#include "qemu/main-loop.h"

#include <sys/signalfd.h>

#include "hw/recorder/status.h"

void (*recorder_show_status)(void);

void recorder_add_counter(RecorderCounterList ***tail, const char *name, uint64_t value)
{
    RecorderCounter *counter = g_new0(RecorderCounter, 1);

    counter->name = g_strdup(name);
    counter->value = value;
    QAPI_LIST_APPEND(*tail, counter);
}

static void signalled(void *opaque)
{
    struct signalfd_siginfo signal;

    if (read((intptr_t)opaque, &signal, sizeof(signal)) == sizeof(signal)) {
        recorder_show_status();
    }
}

/*
 * Read SIGUSR1 from a signalfd.  QEMU blocks it in all threads (SIG_IPI, which TCG does not use),
 * so the signal stays pending until it is read, and has no effect while the recorder does not
 * listen.
 */
void recorder_listen_to_signal(bool listen)
{
    static int fd = -1;
    struct signalfd_siginfo old;
    sigset_t set;

    if (fd >= 0) {
        qemu_set_fd_handler(fd, NULL, NULL, NULL);
        close(fd);
        fd = -1;
    }
    if (listen) {
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    }
    if (fd >= 0) {
        /* Discard signals that came before. */
        while (read(fd, &old, sizeof(old)) == sizeof(old)) {
        }
        qemu_set_fd_handler(fd, signalled, NULL, (void *)(intptr_t)fd);
    }
}
