/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Verifies the epochs of a recording: each line, and that the recording has all that an epoch
 * speaks of.  Digests are compared by a replay.
 */
#include <inttypes.h>
#include <sys/stat.h>

#include "base/summed-text.h"
#include "recording/epochs.h"
#include "recording/log-block.h"
#include "recording/total-order.h"
#include "recording/verify.h"

/* Return the name of log @i, to be freed by the caller; NULL if no recording has it. */
static char *log_name(unsigned n_vcpus, unsigned i)
{
    unsigned stream = i / LOG_SUBSTREAMS, substream = i % LOG_SUBSTREAMS;

    return log_file_exists(n_vcpus, ORDER_SET_ALL, stream, substream) ?
           log_file_name(n_vcpus, stream, substream) : NULL;
}

/* Return what is wrong with @epoch, to be freed by the caller; NULL if nothing is. */
static char *fault_of(const Epoch *epoch, const Point *end, const uint64_t *log_bytes)
{
    for (unsigned i = 0; end && i < epoch->n_vcpus; i++) {
        if (epoch->point->at[i] > end->at[i]) {
            return g_strdup_printf("epoch %" PRIu64 " has vCPU %u at %" PRIu64 ", but the recording"
                                   " ends at %" PRIu64, epoch->number, i, epoch->point->at[i],
                                   end->at[i]);
        }
    }
    for (unsigned i = 0; i < (epoch->n_vcpus + 1) * LOG_SUBSTREAMS; i++) {
        if (epoch->log_bytes[i] > log_bytes[i]) {
            g_autofree char *name = log_name(epoch->n_vcpus, i);

            return g_strdup_printf("epoch %" PRIu64 " takes %" PRIu64 " bytes of %s, which has %"
                                   PRIu64, epoch->number, epoch->log_bytes[i],
                                   name ? name : "DMA's data", log_bytes[i]);
        }
    }
    return NULL;
}

/* Return the size of each log's file, 0 if there is none; to be freed by the caller. */
static uint64_t *log_sizes(const char *directory, unsigned n_vcpus)
{
    uint64_t *sizes = g_new0(uint64_t, (n_vcpus + 1) * LOG_SUBSTREAMS);

    for (unsigned i = 0; i < (n_vcpus + 1) * LOG_SUBSTREAMS; i++) {
        g_autofree char *name = log_name(n_vcpus, i);
        g_autofree char *path = g_build_filename(directory, name, NULL);
        struct stat st;

        if (name && stat(path, &st) == 0) {
            sizes[i] = st.st_size;
        }
    }
    return sizes;
}

static bool verify_all(EpochReader *reader, const char *directory, const Point *end,
                       const uint64_t *log_bytes, uint64_t most, VerifiedEpochs *epochs,
                       GError **error)
{
    while (epochs->bytes < most) {
        g_autoptr(Epoch) epoch = NULL;
        EpochReaderResult result = epoch_reader_next(reader, &epoch, error);
        g_autofree char *fault = NULL;

        if (result != EPOCH_READER_EPOCH) {
            epochs->bytes = epoch_reader_offset(reader);
            epochs->cut_off = result == EPOCH_READER_END && epoch_reader_torn(reader);
            return result == EPOCH_READER_END;
        }
        fault = fault_of(epoch, end, log_bytes);
        if (fault) {
            epochs->bytes = epoch_reader_line(reader);
            g_set_error(error, VERIFY_ERROR, VERIFY_ERROR_EPOCH, "%s/" EPOCHS_FILE ": byte %" PRIu64
                        ": %s", directory, epochs->bytes, fault);
            return false;
        }
        epochs->bytes = epoch_reader_offset(reader);
        epochs->n_epochs++;
    }
    return true;
}

bool verify_epochs(const char *directory, unsigned n_vcpus, const Point *end,
                   const uint64_t *log_bytes, VerifiedEpochs *epochs, GError **error)
{
    g_autoptr(EpochReader) reader = epoch_reader_open(directory, n_vcpus, error);
    g_autofree char *path = g_build_filename(directory, EPOCHS_FILE, NULL);
    g_autofree uint64_t *sizes = NULL;
    struct stat st;

    *epochs = (VerifiedEpochs) { 0 };
    if (!reader || stat(path, &st) < 0) {
        return reader ? summed_text_fail(error, "read", path) : false;
    }
    /* A recorder writes the logs of an epoch first, so these have what is in the file by now. */
    epochs->cut_off = st.st_size == 0;
    sizes = log_bytes ? NULL : log_sizes(directory, n_vcpus);
    return verify_all(reader, directory, end, log_bytes ? log_bytes : sizes, st.st_size, epochs,
                      error);
}

bool verify_closed_epochs(const char *directory, const Manifest *manifest, GError **error)
{
    g_autoptr(TotalOrder) order = NULL;
    GError *failure = NULL;
    Run run;

    if (!epochs_exist(directory) || manifest->checkpoints->len == 0) {
        return true;
    }
    order = total_order_open(directory, manifest, 0, error);
    if (!order) {
        return false;
    }
    while (total_order_next(order, UINT64_MAX, &run, &failure)) {
    }
    if (failure) {
        g_propagate_prefixed_error(error, failure, "%s/" EPOCHS_FILE ": ", directory);
        return false;
    }
    return true;
}
