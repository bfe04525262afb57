/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What goes on, for people who ask.
 */
#ifndef RECORDER_STATUS_H
#define RECORDER_STATUS_H

#include "qapi/qapi-types-recorder.h"

/* SIGUSR1 shows it, from now on or no more. */
void recorder_listen_to_signal(bool listen);
/* How: the monitor's, which lies above this room. */
extern void (*recorder_show_status)(void);

/* Appends to the list that ends at @tail. */
void recorder_add_counter(RecorderCounterList ***tail, const char *name, uint64_t value);

#endif
