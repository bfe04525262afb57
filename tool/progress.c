/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A line on the terminal that shows the progress of long work.
 */
#include "tool/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool forbidden;
static bool drawn;
static bool in_line;            /* the console has begun a line on the terminal */

void progress_forbid(void)
{
    progress_clear();
    forbidden = true;
}

bool progress_shown(void)
{
    const char *terminal = g_getenv("TERM");

    return !forbidden && isatty(STDERR_FILENO) && g_strcmp0(terminal, "dumb") != 0;
}

bool progress_wants_console(void)
{
    return progress_shown() && isatty(STDOUT_FILENO);
}

void progress_console(const char *bytes, size_t n)
{
    progress_clear();
    fwrite(bytes, 1, n, stdout);
    fflush(stdout);
    in_line = n ? bytes[n - 1] != '\n' && bytes[n - 1] != '\r' : in_line;
}

/* Return the longest text that does not wrap.  Of a wrapped line, half could not be erased. */
static int columns(void)
{
    struct winsize size;

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
}

void progress_line(const char *format, ...)
{
    g_autofree char *text = NULL;
    va_list args;

    if (!progress_shown() || in_line) {
        return;
    }
    va_start(args, format);
    text = g_strdup_vprintf(format, args);
    va_end(args);
    /* Bytes are counted, not characters, so text with many non-ASCII characters is cut short. */
    if (strlen(text) > (size_t)columns()) {
        text[columns()] = '\0';
        *(char *)g_utf8_find_prev_char(text, text + strlen(text)) = '\0';
    }
    fprintf(stderr, "\r%s\033[K", text);
    fflush(stderr);
    drawn = true;
}

void progress_clear(void)
{
    if (drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        drawn = false;
    }
}
