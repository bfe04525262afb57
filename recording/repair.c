/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Repairs a recording.  What is lost and what follows from that:
 *
 * - A log is good up to the end of a block; the rest of the file is cut off.
 * - A stream ends where its order log ends.
 * - A stream also ends where its data log ends, at the last input, since the step that
 *   consumed this input may have consumed more.  But a killed recorder has always written
 *   the data that its order log needs (docs/log-format.md, "Cut off"); so this only holds
 *   if the data log was damaged, or is shorter than the recorder left it.
 * - A stream ends where its episodes end, if it has any.
 * - A stream that waits for a lost step, by any order, ends where it waits.
 * - Epochs end at the first that is bad, or that speaks of what is cut off.
 *
 * The repair copies what will be cut off, then saves the manifest with the new end, then
 * truncates the files.  So nothing is lost at any moment, and no replay relies on lost events.
 */
#include "recording/repair.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/write-all.h"
#include "recording/cut.h"
#include "recording/epochs.h"
#include "recording/log-block.h"
#include "recording/log-reader.h"
#include "recording/verify.h"

G_DEFINE_QUARK(repair-error-quark, repair_error)

static void repair_file_free(RepairFile *file)
{
    g_free(file->name);
    g_free(file->why);
    g_free(file);
}

void repair_plan_free(RepairPlan *plan)
{
    if (plan) {
        g_ptr_array_unref(plan->files);
        g_free(plan->checkpoint_fault);
        g_free(plan->reason);
        g_free(plan->log_bytes);
        point_free(plan->cut);
        g_free(plan);
    }
}

static bool io_error(GError **error, const char *verb, const char *path)
{
    g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(errno), "cannot %s %s: %s", verb,
                path, g_strerror(errno));
    return false;
}

/* --- the plan ------------------------------------------------------------------- */

/*
 * Get the size of a log.  Refuse a log that is being written, since its recorder would go on beyond
 * the cut.  Refuse a symbolic link, by which a hostile recording may name another recording's file.
 */
static bool look_at_file(const char *path, uint64_t *size, GError **error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    struct stat st;
    bool ok = false;

    if (fd < 0 || fstat(fd, &st) < 0) {
        io_error(error, "open", path);
    } else if (log_file_writer(fd) == LOG_FILE_HAS_WRITER) {
        g_set_error(error, REPAIR_ERROR, REPAIR_ERROR_BUSY,
                    "%s is being written: stop the recorder first", path);
    } else {
        *size = st.st_size;
        ok = true;
    }
    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

/* Return @message without @path at its start. */
static const char *without_path(const char *message, const char *path)
{
    return g_str_has_prefix(message, path) && g_str_has_prefix(message + strlen(path), ": ")
           ? message + strlen(path) + 2 : message;
}

/* Plan to truncate a file, unless all of it is kept; or to remove it, if nothing is. */
static void plan_file(RepairPlan *plan, const char *name, uint64_t size, uint64_t kept,
                      const char *why)
{
    RepairFile *file;

    if (kept < size || kept == 0) {
        file = g_new0(RepairFile, 1);
        *file = (RepairFile) { g_strdup(name), size, kept, g_strdup(why) };
        g_ptr_array_add(plan->files, file);
    }
}

/* Verify one log, and plan to truncate it if need be.  *@bad: events are lost. */
static bool plan_log(RepairPlan *plan, const char *directory, const Manifest *manifest,
                     unsigned stream, LogSubstream substream, VerifiedLog *log, bool *bad,
                     GError **error)
{
    g_autofree char *name = log_file_name(manifest->n_vcpus, stream, substream);
    g_autofree char *path = g_build_filename(directory, name, NULL);
    g_autoptr(CheckpointPosition) first = verify_first_place(directory, manifest);
    g_autoptr(GError) fault = NULL;
    const char *why;
    uint64_t size = 0;

    if (!look_at_file(path, &size, error)) {
        return false;
    }
    *bad = !verify_log(directory, manifest, first, stream, substream, log, &fault);
    if (log->bytes == 0) {
        g_set_error(error, REPAIR_ERROR, REPAIR_ERROR_HOPELESS,
                    "%s: nothing of this log can be kept", fault->message);
        return false;
    }
    *bad |= log->cut_off && manifest->complete;
    why = fault ? without_path(fault->message, path) : "the log ends early";
    if (*bad && !plan->reason) {
        plan->reason = g_strdup_printf("damaged: %s: %s; repaired", name, why);
    }
    plan->log_bytes[stream * LOG_SUBSTREAMS + substream] = log->bytes;
    plan_file(plan, name, size, log->bytes, why);
    return true;
}

/* Plan for the logs of episodes of a stream, which goes no further than these. */
static bool plan_episodes(RepairPlan *plan, const char *directory, const Manifest *manifest,
                          unsigned stream, Position *limit, GError **error)
{
    for (unsigned i = 0; i < RACE_ORDERS; i++) {
        LogSubstream substream = log_of_order(i);
        VerifiedLog log;
        bool bad;

        if (substream == LOG_ORDER || !orders_has(&manifest->orders, i)) {
            continue;
        }
        if (!plan_log(plan, directory, manifest, stream, substream, &log, &bad, error)) {
            return false;
        }
        plan->needed |= bad;
        if (bad || log.cut_off) {
            limit[stream] = MIN(limit[stream], log.reached);
        }
    }
    return true;
}

/* Plan for all logs.  @limit gets how far each stream can go by its own logs, or CUT_NONE. */
static bool plan_logs(RepairPlan *plan, const char *directory, const Manifest *manifest,
                      Position *limit, GError **error)
{
    for (unsigned stream = 0; stream <= manifest->n_vcpus; stream++) {
        VerifiedLog order, data;
        bool bad;

        if (!plan_log(plan, directory, manifest, stream, LOG_ORDER, &order, &bad, error)) {
            return false;
        }
        plan->needed |= bad;
        limit[stream] = bad || order.cut_off ? order.reached : CUT_NONE;
        if (!plan_episodes(plan, directory, manifest, stream, limit, error)) {
            return false;
        }
        if (stream == manifest->n_vcpus) {
            break;
        }
        if (!plan_log(plan, directory, manifest, stream, LOG_DATA, &data, &bad, error)) {
            return false;
        }
        plan->needed |= bad;
        /* If another log is cut off, too, the data log reaches further: it is written first. */
        if (bad || (data.cut_off && limit[stream] == CUT_NONE)) {
            limit[stream] = MIN(limit[stream], data.reached);
        }
        if (manifest->cut) {
            limit[stream] = MIN(limit[stream], manifest->cut->at[stream]);
        }
    }
    return true;
}

/* Return true if the checkpoint is sound, and what is left of the logs reaches it. */
static bool can_keep(const RepairPlan *plan, const char *directory, const Manifest *manifest,
                     unsigned number, GError **error)
{
    const char *name = manifest->checkpoints->pdata[number];
    g_autoptr(CheckpointPosition) place = NULL;

    if (!verify_checkpoint(directory, name, manifest, error) ||
        !checkpoint_position_find(directory, name, number == 0, manifest->n_vcpus, &place, error)) {
        return false;
    }
    if (place && !point_includes(plan->cut, place->point)) {
        g_set_error(error, REPAIR_ERROR, REPAIR_ERROR_HOPELESS, "%s/%s lies behind the cut",
                    directory, name);
        return false;
    }
    return true;
}

/* Keep checkpoints up to the first that is bad: a checkpoint needs all before it. */
static bool plan_checkpoints(RepairPlan *plan, const char *directory, const Manifest *manifest,
                             GError **error)
{
    g_autoptr(GError) fault = NULL;

    while (plan->n_checkpoints < manifest->checkpoints->len &&
           can_keep(plan, directory, manifest, plan->n_checkpoints, &fault)) {
        plan->n_checkpoints++;
    }
    if (plan->n_checkpoints == 0) {
        g_set_error(error, REPAIR_ERROR, REPAIR_ERROR_HOPELESS,
                    "%s%snothing can be replayed without the checkpoint at its start",
                    fault ? fault->message : directory, fault ? "; " : ": it has none; ");
        return false;
    }
    if (fault) {
        plan->checkpoint_fault = g_strdup(fault->message);
        plan->needed = true;
    }
    return true;
}

static bool same_point(const Point *a, const Point *b)
{
    return point_includes(a, b) && point_includes(b, a);
}

/* Return true if the manifest does not tell the cut of the plan. */
static bool manifest_is_old(const RepairPlan *plan, const Manifest *manifest)
{
    return manifest->complete ? !same_point(plan->cut, manifest->end)
                              : !manifest->cut || !same_point(plan->cut, manifest->cut);
}

static void give_reason(RepairPlan *plan, const Manifest *manifest)
{
    const char *former = manifest->end_reason;

    if (plan->reason) {
        return;
    }
    if (manifest->complete) {
        plan->reason = g_strdup("damaged: not all of it can be replayed; repaired");
    } else if (g_str_has_suffix(former, "; repaired")) {
        plan->reason = g_strdup(former);
    } else {
        plan->reason = g_strdup_printf("%s; repaired", *former ? former : "not finished");
    }
}

/* Keep epochs up to the first that is bad, or that has what is cut off. */
static bool plan_epochs(RepairPlan *plan, const char *directory, const Manifest *manifest,
                        GError **error)
{
    g_autofree char *path = g_build_filename(directory, EPOCHS_FILE, NULL);
    g_autoptr(GError) fault = NULL;
    VerifiedEpochs epochs;
    uint64_t size = 0;

    if (!epochs_exist(directory)) {
        return true;
    }
    if (!look_at_file(path, &size, error)) {
        return false;
    }
    if (!verify_epochs(directory, manifest->n_vcpus, plan->cut, plan->log_bytes, &epochs, &fault) &&
        fault->domain != EPOCHS_ERROR && fault->domain != VERIFY_ERROR) {
        g_propagate_error(error, g_steal_pointer(&fault));
        return false;
    }
    plan_file(plan, EPOCHS_FILE, size, epochs.bytes,
              fault ? without_path(fault->message, path) : "the last line is not whole");
    return true;
}

RepairPlan *repair_plan(const char *directory, const Manifest *manifest, GError **error)
{
    g_autoptr(RepairPlan) plan = g_new0(RepairPlan, 1);
    g_autofree Position *limit = g_new(Position, manifest->n_vcpus + 1);

    plan->files = g_ptr_array_new_with_free_func((GDestroyNotify)repair_file_free);
    plan->log_bytes = g_new0(uint64_t, (manifest->n_vcpus + 1) * LOG_SUBSTREAMS);
    if (!plan_logs(plan, directory, manifest, limit, error) ||
        !(plan->cut = verify_find_cut(directory, manifest->n_vcpus, limit, error)) ||
        !plan_checkpoints(plan, directory, manifest, error)) {
        return NULL;
    }
    plan->needed |= plan->files->len > 0 || manifest_is_old(plan, manifest);
    plan->epochs_alone = !plan->needed;
    if (!plan_epochs(plan, directory, manifest, error)) {
        return NULL;
    }
    plan->needed |= plan->files->len > 0;
    give_reason(plan, manifest);
    return g_steal_pointer(&plan);
}

/* --- executing the plan --------------------------------------------------------- */

static bool copy_bytes(int from, const char *from_path, int to, const char *to_path, uint64_t n,
                       GError **error)
{
    char piece[65536];

    while (n > 0) {
        ssize_t got = read(from, piece, MIN(n, sizeof(piece)));

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            errno = got ? errno : EIO;
            return io_error(error, "read", from_path);
        }
        n -= got;
        if (!write_all(to, piece, got)) {
            return io_error(error, "write", to_path);
        }
    }
    return true;
}

/*
 * Create a new file in the directory of parts that were cut off; files of earlier repairs are kept.
 * Return its descriptor, and its *@path to be freed by the caller; or -1 and @error.
 */
static int create_new(const char *directory, const char *name, char **path, GError **error)
{
    for (unsigned i = 1; ; i++) {
        g_autofree char *number = i > 1 ? g_strdup_printf(".%u", i) : g_strdup("");
        g_autofree char *try = g_strdup_printf("%s/" REPAIR_CUT_OFF "/%s%s", directory, name,
                                               number);
        int fd = open(try, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

        if (fd >= 0) {
            *path = g_steal_pointer(&try);
            return fd;
        }
        if (errno != EEXIST) {
            io_error(error, "create", try);
            return -1;
        }
    }
}

/* Copy @n bytes of the file @name from @offset on to @kept_name, where cut-off parts are kept. */
static bool keep(const char *directory, const char *name, uint64_t offset, uint64_t n,
                 const char *kept_name, GError **error)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);
    g_autofree char *kept = NULL;
    int from = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), to;
    bool ok = true;

    if (from < 0 || lseek(from, offset, SEEK_SET) < 0) {
        ok = io_error(error, "read", path);
    }
    to = ok ? create_new(directory, kept_name, &kept, error) : -1;
    if (to >= 0) {
        ok = copy_bytes(from, path, to, kept, n, error);
        if (ok && fsync(to) < 0) {
            ok = io_error(error, "write", kept);
        }
        if (close(to) < 0 && ok) {
            ok = io_error(error, "write", kept);
        }
        if (!ok) {
            unlink(kept);
        }
    }
    if (from >= 0) {
        close(from);
    }
    return ok && to >= 0;
}

static bool keep_all(const char *directory, const RepairPlan *plan, GError **error)
{
    g_autofree char *place = g_build_filename(directory, REPAIR_CUT_OFF, NULL);
    g_autofree char *manifest = g_build_filename(directory, MANIFEST_FILE, NULL);
    struct stat st;

    if (mkdir(place, 0777) < 0 &&
        (errno != EEXIST || lstat(place, &st) < 0 || !S_ISDIR(st.st_mode))) {
        return io_error(error, "make", place);
    }
    for (unsigned i = 0; i < plan->files->len; i++) {
        const RepairFile *file = plan->files->pdata[i];
        g_autofree char *name = g_strdup_printf("%s.from-%" PRIu64, file->name, file->kept);

        if (!keep(directory, file->name, file->kept, file->size - file->kept, name, error)) {
            return false;
        }
    }
    if (stat(manifest, &st) < 0) {
        return io_error(error, "read", manifest);
    }
    return keep(directory, MANIFEST_FILE, 0, st.st_size, MANIFEST_FILE, error) &&
           (sync_path(place) || io_error(error, "write", place));
}

static bool cut_file(const char *directory, const RepairFile *file, GError **error)
{
    g_autofree char *path = g_build_filename(directory, file->name, NULL);
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    bool ok = fd >= 0 && ftruncate(fd, file->kept) == 0 && fsync(fd) == 0;

    ok = ok || io_error(error, "cut", path);
    if (fd >= 0) {
        close(fd);
    }
    if (ok && file->kept == 0) {        /* epochs without a title: a log keeps its header */
        ok = unlink(path) == 0 || io_error(error, "remove", path);
    }
    return ok;
}

/* Update @manifest, and save it. */
static bool tell_cut(const char *directory, Manifest *manifest, const RepairPlan *plan,
                     GError **error)
{
    manifest->complete = false;
    g_clear_pointer(&manifest->end, point_free);
    g_clear_pointer(&manifest->cut, point_free);
    manifest->cut = point_new(manifest->n_vcpus);
    memcpy(manifest->cut->at, plan->cut->at, manifest->n_vcpus * sizeof(Position));
    g_clear_pointer(&manifest->ram_digest, g_free);
    g_free(manifest->end_reason);
    manifest->end_reason = g_strdup(plan->reason);
    g_ptr_array_set_size(manifest->checkpoints, plan->n_checkpoints);
    return manifest_save(manifest, directory, error);
}

bool repair_do(const char *directory, Manifest *manifest, const RepairPlan *plan,
               GError **error)
{
    if (!keep_all(directory, plan, error) ||
        (!plan->epochs_alone && !tell_cut(directory, manifest, plan, error))) {
        return false;
    }
    for (unsigned i = 0; i < plan->files->len; i++) {
        if (!cut_file(directory, plan->files->pdata[i], error)) {
            return false;
        }
    }
    return true;
}
