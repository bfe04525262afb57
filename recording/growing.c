/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See growing.h.  All that an epoch speaks of is in the files when its line is (epochs.h), and the
 * recorder only appends to them.  So the order in which files are copied does not matter.
 *
 * A flight recorder also drops the start of its logs, while they are copied, and removes
 * checkpoints.  So a recording of which something was dropped is refused.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* copy_file_range() */
#endif
#include "recording/growing.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/summed-text.h"
#include "base/write-all.h"
#include "recording/checkpoint-position.h"
#include "recording/epochs.h"
#include "recording/log-block.h"
#include "recording/log-reader.h"
#include "recording/manifest.h"

#define PIECE (1u << 20)        /* is copied between two looks at @stop */

G_DEFINE_QUARK(growing-error-quark, growing_error)

typedef struct Growing {
    const char *directory;
    const char *to;
    volatile sig_atomic_t *stop;
    Manifest *manifest;
    Epoch *epoch;               /* the last one */
    uint64_t epoch_bytes;       /* of the file of epochs, up to there */
    OrderSet orders;
} Growing;

static void growing_clear(Growing *growing)
{
    manifest_free(growing->manifest);
    epoch_free(growing->epoch);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Growing, growing_clear)

static bool G_GNUC_PRINTF(2, 3) refuse(GError **error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_propagate_error(error, g_error_new_valist(GROWING_ERROR, GROWING_ERROR_REFUSED, format,
                                                arguments));
    va_end(arguments);
    return false;
}

/* --- the epoch --------------------------------------------------------------------------- */

static bool read_last_epoch(Growing *growing, GError **error)
{
    g_autoptr(EpochReader) reader = epoch_reader_open(growing->directory,
                                                      growing->manifest->n_vcpus, error);
    EpochReaderResult result = reader ? EPOCH_READER_EPOCH : EPOCH_READER_BAD;

    while (result == EPOCH_READER_EPOCH) {
        Epoch *epoch = NULL;

        result = epoch_reader_next(reader, &epoch, error);
        if (epoch) {
            epoch_free(growing->epoch);
            growing->epoch = epoch;
            growing->epoch_bytes = epoch_reader_offset(reader);
        }
    }
    return result == EPOCH_READER_END;
}

static bool find_epoch(Growing *growing, GError **error)
{
    if (!epochs_exist(growing->directory)) {
        return refuse(error, "%s has no epochs, up to which it could be seen: record with --epochs",
                      growing->directory);
    }
    if (!read_last_epoch(growing, error)) {
        return false;
    }
    if (!growing->epoch) {
        return refuse(error, "%s has no epoch yet: try again", growing->directory);
    }
    return epoch_has_log_bytes(growing->epoch) ||
           refuse(error, "%s was converted: its epochs do not tell how large the logs were",
                  growing->directory);
}

/* --- logs -------------------------------------------------------------------------------- */

/* Copy at most @n bytes from where both files stand.  Return how many, or -1 and errno. */
static ssize_t copy_some(int from, int to, size_t n)
{
    g_autofree char *bytes = NULL;
    ssize_t got = copy_file_range(from, NULL, to, NULL, n, 0);

    /* Not between these files, or not on this kernel: EXDEV, EINVAL, ENOSYS, EOPNOTSUPP ... */
    if (got > 0 || (got < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO))) {
        return got;
    }
    bytes = g_malloc(n);
    do {
        got = read(from, bytes, n);
    } while (got < 0 && errno == EINTR);
    return got > 0 && !write_all(to, bytes, got) ? -1 : got;
}

static bool copy_bytes(const Growing *growing, int from, int to, const char *path, uint64_t n,
                       GError **error)
{
    while (n > 0) {
        ssize_t got = copy_some(from, to, MIN(n, PIECE));

        if (*growing->stop) {
            g_set_error(error, GROWING_ERROR, GROWING_ERROR_STOPPED, "stopped");
            return false;
        }
        if (got < 0) {
            return summed_text_fail(error, "copy", path);
        }
        if (got == 0) {
            return refuse(error, "%s is truncated: epoch %" PRIu64 " has more of it", path,
                          growing->epoch->number);
        }
        n -= got;
    }
    return true;
}

/* Copy the first @n bytes of a file. */
static bool copy_file(const Growing *growing, const char *name, uint64_t n, GError **error)
{
    g_autofree char *path = g_build_filename(growing->directory, name, NULL);
    g_autofree char *copy = g_build_filename(growing->to, name, NULL);
    int from = summed_text_open(path, error), to;
    bool ok;

    if (from < 0) {
        return false;
    }
    to = open(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    ok = (to >= 0 || summed_text_fail(error, "create", copy)) &&
         copy_bytes(growing, from, to, path, n, error);
    if (to >= 0 && close(to) < 0 && ok) {
        ok = summed_text_fail(error, "write", copy);
    }
    close(from);
    return ok;
}

static bool copy_log(const Growing *growing, unsigned stream, LogSubstream substream,
                     GError **error)
{
    g_autofree char *name = log_file_name(growing->manifest->n_vcpus, stream, substream);

    return copy_file(growing, name, epoch_log_bytes(growing->epoch, stream, substream), error);
}

/* Return false and @error if a block of the log was dropped. */
static bool check_whole(const Growing *growing, unsigned stream, LogSubstream substream,
                        GError **error)
{
    g_autoptr(LogReader) reader = log_reader_open(growing->directory, growing->manifest->n_vcpus,
                                                  stream, substream, error);
    Position reached;

    if (!reader) {
        return false;
    }
    return !log_reader_dropped(reader, &reached) ||
           refuse(error, "%s is a flight recording, whose first part was dropped: it cannot be "
                  "seen before it ends", growing->directory);
}

static bool copy_logs(const Growing *growing, GError **error)
{
    unsigned n_vcpus = growing->manifest->n_vcpus;

    for (unsigned i = 0; i < (n_vcpus + 1) * LOG_SUBSTREAMS; i++) {
        unsigned stream = i / LOG_SUBSTREAMS, substream = i % LOG_SUBSTREAMS;

        if (log_file_exists(n_vcpus, growing->orders, stream, substream) &&
            (!check_whole(growing, stream, substream, error) ||
             !copy_log(growing, stream, substream, error) ||
             !check_whole(growing, stream, substream, error))) {
            return false;
        }
    }
    return true;
}

/* --- checkpoints and manifest ----------------------------------------------------------------- */

/* Return true if the checkpoint lies within the epoch. */
static bool is_within(const Growing *growing, const CheckpointPosition *place)
{
    const Epoch *epoch = growing->epoch;
    unsigned n_vcpus = growing->manifest->n_vcpus;

    for (unsigned i = 0; i < (n_vcpus + 1) * LOG_SUBSTREAMS; i++) {
        if (log_file_exists(n_vcpus, growing->orders, i / LOG_SUBSTREAMS, i % LOG_SUBSTREAMS) &&
            place->logs->place[i].offset > epoch->log_bytes[i]) {
            return false;
        }
    }
    return point_includes(epoch->point, place->point) && place->dma_steps <= epoch->dma_steps;
}

static bool link_checkpoint(const Growing *growing, const char *name, GError **error)
{
    g_autofree char *path = g_canonicalize_filename(growing->directory, NULL);
    g_autofree char *checkpoint = g_build_filename(path, name, NULL);
    g_autofree char *new = g_build_filename(growing->to, name, NULL);

    return symlink(checkpoint, new) == 0 || summed_text_fail(error, "create", new);
}

/* Link the checkpoints up to the first that lies behind the epoch.  The manifest keeps these. */
static bool link_checkpoints(const Growing *growing, GError **error)
{
    GPtrArray *names = growing->manifest->checkpoints;

    for (unsigned i = 0; i < names->len; i++) {
        g_autoptr(CheckpointPosition) place = NULL;

        if (!checkpoint_position_find(growing->directory, names->pdata[i], i == 0,
                                      growing->manifest->n_vcpus, &place, error)) {
            return false;
        }
        if (place && !is_within(growing, place)) {
            g_ptr_array_set_size(names, i);
        } else if (!link_checkpoint(growing, names->pdata[i], error)) {
            return false;
        }
    }
    return true;
}

static bool save_manifest(const Growing *growing, GError **error)
{
    Manifest *manifest = growing->manifest;

    manifest->complete = false;
    g_clear_pointer(&manifest->end, point_free);
    g_clear_pointer(&manifest->cut, point_free);
    g_clear_pointer(&manifest->ram_digest, g_free);
    manifest->cut = point_new(manifest->n_vcpus);
    memcpy(manifest->cut->at, growing->epoch->point->at, manifest->n_vcpus * sizeof(Position));
    g_free(manifest->end_reason);
    manifest->end_reason = g_strdup_printf("seen up to epoch %" PRIu64, growing->epoch->number);
    return manifest_save(manifest, growing->to, error);
}

/* --- the whole ---------------------------------------------------------------------------- */

static uint64_t moment_of(const Epoch *epoch)
{
    uint64_t moment = epoch->dma_steps;

    for (unsigned i = 0; i < epoch->n_vcpus; i++) {
        moment += epoch->point->at[i];
    }
    return moment;
}

bool growing_view_make(const char *directory, const char *to, volatile sig_atomic_t *stop,
                       GrowingView *view, GError **error)
{
    g_auto(Growing) growing = {
        .directory = directory, .to = to, .stop = stop,
        .manifest = manifest_load(directory, error),
        .orders = log_directory_orders(directory),
    };

    /* With the epochs, moments are the same as in the recording (total-order.h). */
    if (!growing.manifest || !find_epoch(&growing, error) || !copy_logs(&growing, error) ||
        !copy_file(&growing, EPOCHS_FILE, growing.epoch_bytes, error) ||
        !link_checkpoints(&growing, error) || !save_manifest(&growing, error)) {
        return false;
    }
    *view = (GrowingView) { growing.epoch->number, moment_of(growing.epoch) };
    return true;
}

void growing_view_remove(const char *to)
{
    g_autoptr(GDir) entries = g_dir_open(to, 0, NULL);
    const char *entry;

    while (entries && (entry = g_dir_read_name(entries))) {
        g_autofree char *path = g_build_filename(to, entry, NULL);

        unlink(path);
    }
    rmdir(to);
}
