/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file `sums` of a checkpoint; docs/log-format.md, "Checkpoints".
 *
 * The file may be damaged or hostile.  A valid one is short, names no file
 * outside of its directory, and has only one form, so that any change is noticed.
 */
#include "recording/checkpoint-sums.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/summed-text.h"
#include "base/write-all.h"
#include "recording/checkpoint-position.h"
#include "recording/ram-image.h"

#define MAX_BYTES   4096        /* of the file */

typedef struct Sum {
    uint64_t size;
    uint32_t crc;
} Sum;

static bool sum_file(const char *path, Sum *sum, GError **error)
{
    int fd = summed_text_open(path, error);
    char piece[16384];
    ssize_t got = -1;

    if (fd < 0) {
        return false;
    }
    *sum = (Sum) { 0 };
    do {
        got = read(fd, piece, sizeof(piece));
        if (got > 0) {
            sum->size += got;
            sum->crc = recording_crc32c(sum->crc, piece, got);
        }
    } while (got > 0 || (got < 0 && errno == EINTR));
    if (got < 0) {
        summed_text_fail(error, "read", path);
    }
    close(fd);
    return got == 0;
}

/* --- writing ------------------------------------------------------------------ */

static void add_line(GString *text, const char *name, const Sum *sum)
{
    g_string_append_printf(text, "%s %" PRIu64 " %08" PRIx32 "\n", name, sum->size, sum->crc);
}

bool checkpoint_sums_save(const char *directory, const char *const *names, GError **error)
{
    g_autofree char *path = g_build_filename(directory, CHECKPOINT_SUMS, NULL);
    g_autoptr(GString) text = g_string_new(NULL);

    for (; *names; names++) {
        g_autofree char *file = g_build_filename(directory, *names, NULL);
        Sum sum;

        if (!sum_file(file, &sum, error)) {
            return false;
        }
        add_line(text, *names, &sum);
    }
    g_assert(text->len < MAX_BYTES / 2);
    return summed_text_create(path, text, false, error);
}

/* --- checking ----------------------------------------------------------------- */

static bool is_name(const char *name)
{
    if (*name == '.' || !*name) {
        return false;
    }
    for (; *name; name++) {
        if (!g_ascii_isalnum(*name) && !strchr("._-", *name)) {
            return false;
        }
    }
    return true;
}

/* "cpus 11325 1a2b3c4d" */
static bool check_line(const char *directory, const char *path, const char *line, GError **error)
{
    g_auto(GStrv) parts = g_strsplit(line, " ", 4);
    g_autofree char *file = NULL;
    guint64 size, crc;
    Sum seen;

    if (g_strv_length(parts) != 3 || !is_name(parts[0]) ||
        !g_ascii_string_to_unsigned(parts[1], 10, 0, UINT64_MAX, &size, NULL) ||
        !g_ascii_string_to_unsigned(parts[2], 16, 0, UINT32_MAX, &crc, NULL)) {
        return summed_text_damaged(error, path, "a line is not NAME SIZE CHECKSUM");
    }
    file = g_build_filename(directory, parts[0], NULL);
    if (!sum_file(file, &seen, error)) {
        return false;
    }
    if (seen.size != size) {
        g_set_error(error, SUMMED_TEXT_ERROR, SUMMED_TEXT_ERROR_DAMAGED,
                    "%s: it is %s: %" PRIu64 " bytes instead of %" PRIu64, file,
                    seen.size < size ? "truncated" : "too long", seen.size, (uint64_t)size);
        return false;
    }
    return seen.crc == crc || summed_text_damaged(error, file, "wrong checksum: it is damaged");
}

bool checkpoint_sums_check(const char *directory, GError **error)
{
    g_autofree char *state = NULL;
    g_autofree char *path = g_build_filename(directory, CHECKPOINT_SUMS, NULL);
    g_autoptr(GString) text = summed_text_read(path, MAX_BYTES, error);
    g_auto(GStrv) lines = NULL;
    bool cpus = false, devices = false;

    if (!text) {
        return false;
    }
    g_string_truncate(text, text->len - 1);     /* a newline: base/summed-text.h */
    lines = g_strsplit(text->str, "\n", -1);
    for (char **line = lines; *line; line++) {
        cpus |= g_str_has_prefix(*line, CHECKPOINT_CPUS " ");
        devices |= g_str_has_prefix(*line, CHECKPOINT_DEVICES " ");
        if (!check_line(directory, path, *line, error)) {
            return false;
        }
    }
    /* Checkpoints that are made while recording have no devices. */
    state = g_build_filename(directory, CHECKPOINT_DEVICES, NULL);
    return (cpus && (devices || !g_file_test(state, G_FILE_TEST_EXISTS))) ||
           summed_text_damaged(error, path,
                               "no sum of " CHECKPOINT_CPUS " or of " CHECKPOINT_DEVICES);
}

/* --- all files -------------------------------------------------------------------- */

bool checkpoint_sync(const char *directory, GError **error)
{
    static const struct { const char *name; bool may_lack; } files[] = {
        { CHECKPOINT_CPUS, false }, { CHECKPOINT_SUMS, false }, { "", false },
        /* Checkpoints that are made while recording have no devices. */
        { CHECKPOINT_DEVICES, true }, { CHECKPOINT_MAP, true }, { CHECKPOINT_ROMS, true },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        g_autofree char *path = g_build_filename(directory, files[i].name, NULL);

        if (!sync_path(path) && (errno != ENOENT || !files[i].may_lack)) {
            return summed_text_fail(error, "write", path);
        }
    }
    return true;
}

void checkpoint_remove(const char *directory)
{
    static const char *const files[] = {
        RAM_IMAGE_FILE, CHECKPOINT_CPUS, CHECKPOINT_DEVICES, CHECKPOINT_MAP, CHECKPOINT_ROMS,
        CHECKPOINT_SUMS, CHECKPOINT_POSITION_FILE, "",
    };

    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        g_autofree char *path = g_build_filename(directory, files[i], NULL);

        remove(path);
    }
}
