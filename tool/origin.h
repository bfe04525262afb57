/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How the QEMU of a recording was started, which is needed to let the guest go on: `reprise live`,
 * and `reprise record --continue`.
 *
 * A recording may come from anybody.  So what it says is run only if the user asks for that, and is
 * shown before.
 */
#ifndef TOOL_ORIGIN_H
#define TOOL_ORIGIN_H

#include <glib.h>

#include "tool/emulator.h"

/* What to go on from, and how.  The caller frees @directory. */
typedef struct Origin {
    char *directory;            /* the recording, absolute */
    int from;                   /* the number of a checkpoint; ORIGIN_LAST: the last one */
    gboolean as_recorded;       /* start QEMU as it was started for the recording */
    char **command;             /* the user's QEMU, after "--", or NULL */
} Origin;

#define ORIGIN_LAST G_MININT

/* Return what is wrong with the options, in words, or NULL. */
const char *origin_objection(const Origin *origin);

/*
 * Return QEMU's command line, to be freed with g_strfreev(); NULL and @error if there is none.  The
 * tool has changed to the recorded directory then, if that command is used.
 */
char **origin_command(const Origin *origin, GError **error);

/* Print the recorded command, as a shell takes it.  Return the exit status. */
int origin_print(const Origin *origin);

/* Bring @emulator, which has not run, to the checkpoint. */
bool origin_load(const Origin *origin, Emulator *emulator, GError **error);

#endif
