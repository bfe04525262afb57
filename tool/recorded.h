/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A recording that a QEMU is to replay: whether this build can, and which QEMU for it.
 */
#ifndef MONITOR_RECORDED_H
#define MONITOR_RECORDED_H

#include <glib.h>

#include "recording/manifest.h"

/* Its manifest, if it can be replayed from @checkpoint on (0: any). */
Manifest *recorded_load(const char *directory, int checkpoint, GError **error);

/*
 * The machine that it was, for emulator_start().  @serial is where its console goes, in the words
 * of QEMU's -serial; @more are arguments of the user's, or NULL.
 */
char **recorded_command(const Manifest *manifest, const char *serial, char **more, GError **error);

#endif
