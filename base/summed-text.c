/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See summed-text.h.
 */
#include "base/summed-text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/write-all.h"

#define SUM_KEY     "crc32c="
#define SUM_LINE    (strlen(SUM_KEY) + 8 + 1)

G_DEFINE_QUARK(summed-text-error-quark, summed_text_error)

bool summed_text_fail(GError **error, const char *verb, const char *path)
{
    g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(errno), "cannot %s %s: %s", verb,
                path, g_strerror(errno));
    return false;
}

bool summed_text_damaged(GError **error, const char *path, const char *what)
{
    g_set_error(error, SUMMED_TEXT_ERROR, SUMMED_TEXT_ERROR_DAMAGED, "%s: %s", path, what);
    return false;
}

void summed_text_add_sum(GString *text)
{
    g_string_append_printf(text, SUM_KEY "%08x\n", recording_crc32c(0, text->str, text->len));
}

/* --- writing ---------------------------------------------------------------- */

bool summed_text_create(const char *path, GString *text, bool sync, GError **error)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    bool ok;

    if (fd < 0) {
        return summed_text_fail(error, "create", path);
    }
    summed_text_add_sum(text);
    ok = (write_all(fd, text->str, text->len) && (!sync || fsync(fd) == 0)) ||
         summed_text_fail(error, "write", path);
    if (close(fd) < 0 && ok) {
        ok = summed_text_fail(error, "write", path);
    }
    return ok;
}

/* --- reading ---------------------------------------------------------------- */

int summed_text_open(const char *path, GError **error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        summed_text_fail(error, "open", path);
    } else if (!S_ISREG(st.st_mode)) {
        summed_text_damaged(error, path, "not a regular file");
    } else {
        return fd;
    }
    if (fd >= 0) {
        close(fd);
    }
    return -1;
}

static bool read_some(int fd, const char *path, size_t most, GString *text, GError **error)
{
    for (;;) {
        char piece[4096];
        ssize_t n = read(fd, piece, sizeof(piece));

        if (n < 0 && errno != EINTR) {
            return summed_text_fail(error, "read", path);
        }
        if (n == 0) {
            return true;
        }
        g_string_append_len(text, piece, MAX(n, 0));
        if (text->len > most) {
            return summed_text_damaged(error, path, "too long");
        }
    }
}

/* Remove the checksum line from @text, if it is there and right. */
static SummedTextSum take_sum(GString *text)
{
    g_autoptr(GString) right = NULL;
    size_t length;

    if (text->len <= SUM_LINE) {
        return SUMMED_TEXT_WITHOUT;
    }
    length = text->len - SUM_LINE;
    if (!g_str_has_prefix(text->str + length, SUM_KEY) || text->str[length - 1] != '\n') {
        return SUMMED_TEXT_WITHOUT;
    }
    right = g_string_new_len(text->str, length);
    summed_text_add_sum(right);
    if (!g_string_equal(right, text)) {
        return SUMMED_TEXT_WRONG;
    }
    g_string_truncate(text, length);
    return SUMMED_TEXT_RIGHT;
}

GString *summed_text_read_any(const char *path, size_t most, SummedTextSum *sum, GError **error)
{
    g_autoptr(GString) text = g_string_new(NULL);
    int fd = summed_text_open(path, error);
    bool ok;

    if (fd < 0) {
        return NULL;
    }
    ok = read_some(fd, path, most, text, error);
    close(fd);
    if (!ok) {
        return NULL;
    }
    *sum = take_sum(text);
    return g_steal_pointer(&text);
}

GString *summed_text_read(const char *path, size_t most, GError **error)
{
    SummedTextSum sum;
    g_autoptr(GString) text = summed_text_read_any(path, most, &sum, error);

    if (text && (sum != SUMMED_TEXT_RIGHT || strlen(text->str) != text->len)) {
        summed_text_damaged(error, path, "wrong checksum: it is damaged or cut off");
        return NULL;
    }
    return g_steal_pointer(&text);
}
