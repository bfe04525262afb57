/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Signals that end the tool, for commands that remove what they began before they end.
 */
#ifndef TOOL_STOP_SIGNALS_H
#define TOOL_STOP_SIGNALS_H

#include <signal.h>

/*
 * Turn SIGINT, SIGTERM and SIGHUP into a flag, and return it.  From then on, a file that exceeds
 * the size limit is an error of write(), not a signal.
 */
volatile sig_atomic_t *stop_signals_catch(void);

#endif
