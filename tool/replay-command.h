/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A recording that a QEMU is to replay: whether this build can, and which QEMU for it.
 */
#ifndef TOOL_REPLAY_COMMAND_H
#define TOOL_REPLAY_COMMAND_H

#include <glib.h>

#include "recording/manifest.h"

/* Its manifest, if it can be replayed from @checkpoint on (0: any). */
Manifest *replay_command_manifest(const char *directory, int checkpoint, GError **error);

/*
 * The machine that it was, for emulator_start().  @serial is where its console goes, in the words
 * of QEMU's -serial; @more are arguments of the user's, or NULL.
 */
char **replay_command_line(const Manifest *manifest, const char *serial, char **more,
                           GError **error);

#endif
