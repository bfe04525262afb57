/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What `reprise replay` and `reprise debug` share: whether this build can replay a recording, and
 * the command line of the QEMU that does.
 */
#ifndef TOOL_REPLAY_COMMAND_H
#define TOOL_REPLAY_COMMAND_H

#include <glib.h>

#include "recording/manifest.h"

/*
 * Return the manifest of a recording, to be freed by the caller; NULL and @error if this build
 * cannot replay it, or it has no @checkpoint of this number (0 is always accepted), or no @order of
 * this name (NULL is always accepted).
 */
Manifest *replay_command_manifest(const char *directory, int checkpoint, const char *order,
                                  GError **error);

/*
 * Return the command line of the recorded machine for emulator_start(), to be freed with
 * g_strfreev(); NULL and @error if that QEMU was not built.  @serial is the argument of QEMU's
 * -serial.  @more are the user's arguments, or NULL.
 */
char **replay_command_line(const Manifest *manifest, const char *serial, char **more,
                           GError **error);

#endif
