/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A line on the terminal that tells how far long work is, and goes away.
 *
 * It is shown on stderr if that is a terminal.  The guest's console may be on the same
 * terminal: then its output comes through progress_console(), and the line is shown only
 * while the cursor is at the start of one, so that nothing of the guest's is lost.
 */
#ifndef TOOL_PROGRESS_H
#define TOOL_PROGRESS_H

#include <glib.h>
#include <stdbool.h>

/* The guest talks with the terminal itself: no line from now on. */
void progress_forbid(void);

/* Must the console's output come through progress_console()? */
bool progress_wants_console(void);
void progress_console(const char *bytes, size_t n);

/* Is there anybody to see it? */
bool progress_shown(void);
/* Shows this instead of what was shown. */
void progress_line(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* Before anything else is written to the terminal. */
void progress_clear(void);

#endif
