/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The status of a recording or replay, shown on request.  Main thread, BQL held.
 */
#ifndef RECORDER_STATUS_H
#define RECORDER_STATUS_H

#include "qapi/qapi-types-recorder.h"

/* Show the status whenever SIGUSR1 arrives, or stop doing so. */
void recorder_listen_to_signal(bool listen);
/* Shows the status.  Set by the monitor, which lies in a directory above this one. */
extern void (*recorder_show_status)(void);

/* Append a counter to the list that ends at *@tail, and advance *@tail. */
void recorder_add_counter(RecorderCounterList ***tail, const char *name, uint64_t value);

#endif
