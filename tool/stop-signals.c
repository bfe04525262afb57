/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See stop-signals.h.
 */
#include "tool/stop-signals.h"

#include <glib.h>

static volatile sig_atomic_t stop;

static void on_signal(G_GNUC_UNUSED int number)
{
    stop = 1;
}

volatile sig_atomic_t *stop_signals_catch(void)
{
    const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = on_signal };

    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++) {
        sigaction(numbers[i], &action, NULL);
    }
    signal(SIGXFSZ, SIG_IGN);
    return &stop;
}
