/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Verifies a whole recording: its logs one by one, each against the end in the manifest, then
 * their order, then the checkpoints, then the epochs.  All faults are collected, so that the user
 * sees before a repair all that is lost; but nothing is concluded from a log that is bad.
 */
#include "recording/verify.h"

#include <inttypes.h>

#include "recording/checkpoint-sums.h"
#include "recording/cut.h"
#include "recording/epochs.h"
#include "recording/log-block.h"
#include "recording/log-reader.h"
#include "recording/checkpoint-position.h"
#include "recording/ram-image.h"

G_DEFINE_QUARK(verify-error-quark, verify_error)

void verified_clear(Verified *verified)
{
    g_clear_pointer(&verified->faults, g_ptr_array_unref);
    g_clear_pointer(&verified->reached, point_free);
}

static void fault(Verified *verified, const char *format, ...) G_GNUC_PRINTF(2, 3);
static void fault(Verified *verified, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    g_ptr_array_add(verified->faults, g_strdup_vprintf(format, args));
    va_end(args);
}

/* Add a fault.  Takes ownership of @error. */
static void fault_error(Verified *verified, GError *error)
{
    fault(verified, "%s", error->message);
    g_error_free(error);
}

/* --- logs ----------------------------------------------------------------------- */

/* The fault of a file that is cut off though the recording is complete. */
#define TRUNCATED "%s/%s: byte %" PRIu64 ": it is truncated: it ends here, and the manifest says " \
                  "that the recording is complete"

/* Compare a log with the end in the manifest, which holds for both logs of a vCPU. */
static void check_end(const char *directory, const Manifest *manifest, unsigned stream,
                      LogSubstream substream, const VerifiedLog *log, Verified *verified)
{
    g_autofree char *name = log_file_name(manifest->n_vcpus, stream, substream);
    bool is_order = substream == LOG_ORDER && stream < manifest->n_vcpus;
    Position end;

    if (log->cut_off && manifest->complete) {
        fault(verified, TRUNCATED, directory, name, log->bytes);
        return;
    }
    if (is_order && manifest->complete && !log->has_end) {
        fault(verified, "%s/%s: it has no end, though the recording is complete", directory, name);
        return;
    }
    if (!manifest->end || stream == manifest->n_vcpus) {
        return;
    }
    end = manifest->end->at[stream];
    if (log->last > end || (log->has_end && log->last != end)) {
        fault(verified, "%s/%s: its last event is at position %" PRIu64 ", the manifest says that "
              "the recording ends at %" PRIu64, directory, name, log->last, end);
    } else if (log->has_end && log->end_registers != manifest->register_digests[stream]) {
        fault(verified, "%s/%s: the digest of registers at the end is %016" PRIx64
              ", the manifest says %016" PRIx64, directory, name, log->end_registers,
              manifest->register_digests[stream]);
    }
}

/* A position that cannot be read is a fault of the checkpoint, not of the logs. */
CheckpointPosition *verify_first_place(const char *directory, const Manifest *manifest)
{
    CheckpointPosition *first = NULL;

    if (manifest->checkpoints->len > 0) {
        checkpoint_position_find(directory, manifest->checkpoints->pdata[0], true,
                                 manifest->n_vcpus, &first, NULL);
    }
    return first;
}

/* Return the orders of which nothing can be concluded if a log is bad. */
static OrderSet spoiled_by(LogSubstream substream)
{
    OrderSet spoiled = 0;

    for (unsigned i = 0; i < RACE_ORDERS; i++) {
        spoiled |= substream == LOG_ORDER || substream == log_of_order(i) ? ORDER_SET(i) : 0;
    }
    return spoiled;
}

/* Check all logs.  Return the orders whose logs are good. */
static OrderSet check_logs(const char *directory, const Manifest *manifest, Verified *verified)
{
    g_autoptr(CheckpointPosition) first = verify_first_place(directory, manifest);
    OrderSet orders = log_directory_orders(directory), good = orders;
    LogSubstream counted = log_of_order(order_set_first(orders));

    for (unsigned stream = 0; stream <= manifest->n_vcpus; stream++) {
        for (unsigned substream = 0; substream < LOG_SUBSTREAMS; substream++) {
            GError *error = NULL;
            VerifiedLog log;

            if (!log_file_exists(manifest->n_vcpus, orders, stream, substream)) {
                continue;
            }
            if (!verify_log(directory, manifest, first, stream, substream, &log, &error)) {
                fault_error(verified, error);
                good &= ~spoiled_by(substream);
                continue;
            }
            check_end(directory, manifest, stream, substream, &log, verified);
            verified->events += log.events;
            verified->arcs += substream == counted ? log.arcs : 0;
            verified->dropped |= log.dropped;
        }
    }
    return good;
}

/* Return true if the manifest names the orders that the logs have. */
static bool check_orders(const char *directory, const Manifest *manifest, GError **error)
{
    OrderSet orders = log_directory_orders(directory);
    g_autofree char *logged = NULL;
    g_autofree char *said = NULL;

    if (orders == manifest->orders.set) {
        return true;
    }
    logged = order_set_format(orders);
    said = order_set_format(manifest->orders.set);
    g_set_error(error, VERIFY_ERROR, VERIFY_ERROR_LOG,
                "%s: its logs have the orders %s, its manifest says %s", directory, logged, said);
    return false;
}

/* Check one order.  @error names it, unless it is FDR's. */
static Point *check_order(const char *directory, const Manifest *manifest, RaceOrder order,
                          GError **error)
{
    Point *reached = verify_episodes(directory, manifest->n_vcpus, order, error) ?
                     verify_order(directory, manifest->n_vcpus, order, manifest->cut, error) : NULL;

    if (!reached) {
        g_prefix_error(error, "%s%s%s", order == RACE_FDR ? "" : "order ",
                       order == RACE_FDR ? "" : order_name(order), order == RACE_FDR ? "" : ": ");
    }
    return reached;
}

/* Return the point that can be reached by each order of a sound recording. */
static Point *reached_by_all(const char *directory, const Manifest *manifest)
{
    g_autofree Position *limit = g_new(Position, manifest->n_vcpus + 1);

    for (unsigned i = 0; i <= manifest->n_vcpus; i++) {
        limit[i] = manifest->cut && i < manifest->n_vcpus ? manifest->cut->at[i] : CUT_NONE;
    }
    return verify_find_cut(directory, manifest->n_vcpus, limit, NULL);
}

static void check_arcs(const char *directory, const Manifest *manifest, Verified *verified)
{
    if (manifest->complete && verified->faults->len == 0 && !verified->dropped &&
        verified->arcs != manifest->arcs) {
        fault(verified, "%s: its logs have %" PRIu64 " arcs, its manifest says %" PRIu64, directory,
              verified->arcs, manifest->arcs);
    }
}

/* Check the orders in @good, whose logs are good. */
static void check_all_orders(const char *directory, const Manifest *manifest, OrderSet good,
                             Verified *verified)
{
    GError *error = NULL;
    bool all_good = good == log_directory_orders(directory);

    for (unsigned i = 0; i < RACE_ORDERS; i++) {
        g_autoptr(Point) reached = NULL;

        if (!order_set_has(good, i)) {
            continue;
        }
        reached = check_order(directory, manifest, i, &error);
        if (!reached) {
            fault(verified, "%s: %s", directory, error->message);
            g_clear_error(&error);
            all_good = false;
        } else if (!verified->reached) {
            verified->reached = g_steal_pointer(&reached);
        }
    }
    if (!all_good) {
        g_clear_pointer(&verified->reached, point_free);
    } else if (verified->cut_off && good != (good & -good)) {
        point_free(verified->reached);
        verified->reached = reached_by_all(directory, manifest);
    }
    check_arcs(directory, manifest, verified);
}

/* Check a log that replay needs, by the order that it follows. */
static bool check_log_for_replay(const char *directory, const Manifest *manifest,
                                 const CheckpointPosition *first, unsigned stream,
                                 LogSubstream substream, GError **error)
{
    g_autofree char *name = NULL;
    VerifiedLog log;

    if (!verify_log(directory, manifest, first, stream, substream, &log, error)) {
        return false;
    }
    if (log.cut_off && manifest->complete) {
        name = log_file_name(manifest->n_vcpus, stream, substream);
        g_set_error(error, VERIFY_ERROR, VERIFY_ERROR_TRUNCATED, TRUNCATED, directory, name,
                    log.bytes);
        return false;
    }
    return true;
}

bool verify_for_replay(const char *directory, const Manifest *manifest, GError **error)
{
    g_autoptr(CheckpointPosition) first = verify_first_place(directory, manifest);
    g_autoptr(Point) reached = NULL;

    if (!check_orders(directory, manifest, error)) {
        return false;
    }
    for (unsigned i = 0; i < (manifest->n_vcpus + 1) * LOG_SUBSTREAMS; i++) {
        unsigned stream = i / LOG_SUBSTREAMS, substream = i % LOG_SUBSTREAMS;

        if (log_file_exists(manifest->n_vcpus, ORDER_SET(manifest->follow), stream, substream) &&
            !check_log_for_replay(directory, manifest, first, stream, substream, error)) {
            return false;
        }
    }
    reached = check_order(directory, manifest, manifest->follow, error);
    return reached && verify_closed_epochs(directory, manifest, error);
}

/* --- checkpoints ---------------------------------------------------------------- */

/* Check that a block begins at each place.  What follows was checked with the rest of the log. */
static bool check_place(const char *directory, const char *name, bool is_first,
                        const Manifest *manifest, GError **error)
{
    g_autoptr(CheckpointPosition) place = NULL;

    if (!checkpoint_position_find(directory, name, is_first, manifest->n_vcpus, &place, error)) {
        return false;
    }
    if (place && place->logs->episodes != (manifest->orders.set & ORDER_SET_EPISODES)) {
        g_set_error(error, VERIFY_ERROR, VERIFY_ERROR_LOG,
                    "%s/%s/%s: it names logs of other orders than the recording has", directory,
                    name, CHECKPOINT_POSITION_FILE);
        return false;
    }
    for (unsigned i = 0; place && i <= manifest->n_vcpus; i++) {
        for (int j = 0; j < LOG_SUBSTREAMS; j++) {
            g_autoptr(LogReader) reader = NULL;
            LogEvent event;

            if (!log_file_exists(manifest->n_vcpus, place->logs->episodes, i, j)) {
                continue;
            }
            reader = log_reader_open_at(directory, manifest->n_vcpus, i, j,
                                        log_place_of(place->logs, i, j), error);
            if (!reader || log_reader_next(reader, &event, error) == LOG_READER_BAD) {
                g_prefix_error(error, "%s/%s: ", name, CHECKPOINT_POSITION_FILE);
                return false;
            }
        }
    }
    return true;
}

bool verify_checkpoint(const char *directory, const char *name, const Manifest *manifest,
                       GError **error)
{
    g_autofree char *checkpoint = g_build_filename(directory, name, NULL);
    g_autofree char *ram = g_build_filename(checkpoint, RAM_IMAGE_FILE, NULL);
    bool is_first = manifest->checkpoints->len == 0 ||
                    g_str_equal(name, manifest->checkpoints->pdata[0]);

    return checkpoint_sums_check(checkpoint, error) &&
           ram_image_check(ram, manifest->ram_size, error) &&
           check_place(directory, name, is_first, manifest, error);
}

static void check_checkpoints(const char *directory, const Manifest *manifest,
                              Verified *verified)
{
    if (manifest->checkpoints->len == 0) {
        fault(verified, "%s: it has no checkpoint, from which replay would start", directory);
    }
    for (unsigned i = 0; i < manifest->checkpoints->len; i++) {
        GError *error = NULL;

        if (!verify_checkpoint(directory, manifest->checkpoints->pdata[i], manifest, &error)) {
            fault_error(verified, error);
        }
    }
}

/* --- epochs --------------------------------------------------------------------- */

static void check_epochs(const char *directory, const Manifest *manifest, Verified *verified)
{
    const Point *end = manifest->complete ? manifest->end : manifest->cut;
    VerifiedEpochs epochs;
    GError *error = NULL;

    if (!epochs_exist(directory)) {
        return;
    }
    if (!verify_epochs(directory, manifest->n_vcpus, end, NULL, &epochs, &error)) {
        fault_error(verified, error);
    } else if (epochs.cut_off && manifest->complete) {
        fault(verified, TRUNCATED, directory, EPOCHS_FILE, epochs.bytes);
    }
    /* By each order, if that is good. */
    for (unsigned i = 0; i < RACE_ORDERS && verified->faults->len == 0; i++) {
        Manifest by = *manifest;

        by.follow = i;
        if (orders_has(&manifest->orders, i) && !verify_closed_epochs(directory, &by, &error)) {
            fault_error(verified, error);
        }
    }
}

void verify_recording(const char *directory, const Manifest *manifest, Verified *verified)
{
    GError *error = NULL;
    OrderSet good;

    *verified = (Verified) {
        .faults = g_ptr_array_new_with_free_func(g_free),
        .cut_off = !manifest->complete,
    };
    good = check_logs(directory, manifest, verified);
    if (check_orders(directory, manifest, &error)) {
        check_all_orders(directory, manifest, good, verified);
    } else {
        fault_error(verified, error);
    }
    check_checkpoints(directory, manifest, verified);
    check_epochs(directory, manifest, verified);
}
