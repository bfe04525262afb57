/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A line on the terminal that shows the progress of long work, and is erased afterwards.
 *
 * The line is shown on stderr if that is a terminal.  The guest's console may be on the same
 * terminal.  Then the console's output goes through progress_console(), and the progress line is
 * shown only while the cursor is at the start of a line, so that no output of the guest is lost.
 * For a program with one thread.
 */
#ifndef TOOL_PROGRESS_H
#define TOOL_PROGRESS_H

#include <glib.h>
#include <stdbool.h>

/* Show no line from now on, since the guest uses the terminal itself. */
void progress_forbid(void);

/* Return true if the console's output must go through progress_console(). */
bool progress_wants_console(void);
/* Write output of the guest's console to stdout. */
void progress_console(const char *bytes, size_t n);

/* Return true if progress_line() may show a line: stderr is a terminal that can erase it. */
bool progress_shown(void);
/* Show this line instead of the last one. */
void progress_line(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* Erase the line, before anything else is written to the terminal. */
void progress_clear(void);

#endif
