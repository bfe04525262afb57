/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See convert.h.  From one checkpoint to the next, first the order of steps is followed and its
 * episodes are logged; then the other events are copied.  A new log continues behind a checkpoint
 * at another byte, so that each checkpoint gets a new place.
 *
 * Everything is made beside the new recording, and renamed to it when it is complete.
 */
#include "recording/convert.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/write-all.h"
#include "recording/checkpoint-position.h"
#include "recording/cut.h"
#include "recording/episode-maker.h"
#include "recording/epochs.h"
#include "recording/log-block.h"
#include "recording/log-reader.h"
#include "recording/total-order.h"
#include "recording/verify.h"

G_DEFINE_QUARK(convert-error-quark, convert_error)

/* A wait of the followed order, for the new order log. */
typedef struct Wait {
    Position position;
    unsigned source;
    Position steps;
} Wait;

typedef struct Convert {
    const char *directory;
    const Manifest *manifest;
    const Orders *orders;
    const ConvertHooks *hooks;
    char *place;                /* where the new recording is made */
    bool made;                  /* that directory was made */
    unsigned n_streams;
    bool copies_waits;          /* WAITs and MARKs are those of the source */
    LogReader **reader;         /* stream * LOG_SUBSTREAMS + substream: order and data */
    TotalOrder *order;
    LogWriter *writer;
    EpisodeMaker *maker;
    GArray **waits;             /* of Wait, for each stream, in this interval */
    Position *last;             /* of each stream's order log: where its last event lies */
    bool goes_back;             /* an event lies before that */
    bool too_many;              /* an episode would have too many edges */
    uint64_t n_waits;           /* that were logged */
} Convert;

static bool io_error(GError **error, const char *verb, const char *path)
{
    g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(errno), "cannot %s %s: %s", verb,
                path, g_strerror(errno));
    return false;
}

static bool G_GNUC_PRINTF(2, 3) refuse(GError **error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_propagate_error(error, g_error_new_valist(CONVERT_ERROR, CONVERT_ERROR_REFUSED, format,
                                                arguments));
    va_end(arguments);
    return false;
}

static LogStream *stream_of(const Convert *convert, unsigned stream)
{
    return log_writer_stream(convert->writer, stream);
}

/* --- following the order -------------------------------------------------------------------- */

static void on_wait(unsigned waiter, Position position, unsigned source, Position steps,
                    void *opaque)
{
    Convert *convert = opaque;
    Wait wait = { position, source, steps };

    convert->too_many |= !episode_maker_wait(convert->maker, waiter, source, steps);
    if (orders_has(convert->orders, RACE_FDR) && !convert->copies_waits && steps > 0) {
        g_array_append_val(convert->waits[waiter], wait);
    }
}

/* A replay stands still there, so no edge may lead over it, as over a checkpoint. */
static void on_epoch(void *opaque)
{
    Convert *convert = opaque;

    episode_maker_meet(convert->maker, true);
}

/* Return how many steps a complete recording has, but for those of DMA; 0: unknown. */
static uint64_t n_steps(const Manifest *manifest)
{
    uint64_t n = 0;

    for (unsigned i = 0; manifest->complete && i < manifest->n_vcpus; i++) {
        n += manifest->end->at[i];
    }
    return n;
}

/* Tell how far the conversion is.  Return false and @error if it is to be stopped. */
static bool report(const Convert *convert, GError **error)
{
    const ConvertHooks *hooks = convert->hooks;

    if (hooks->progress) {
        hooks->progress(total_order_moment(convert->order), n_steps(convert->manifest));
    }
    if (hooks->stop && *hooks->stop) {
        g_set_error(error, CONVERT_ERROR, CONVERT_ERROR_STOPPED, "stopped");
        return false;
    }
    return true;
}

/* Follow the order up to @moment, or to the end. */
static bool follow(Convert *convert, uint64_t moment, GError **error)
{
    GError *failure = NULL;
    Run run;

    while (total_order_moment(convert->order) < moment &&
           total_order_next(convert->order, moment - total_order_moment(convert->order), &run,
                            &failure)) {
        episode_maker_advance(convert->maker, run.stream, run.to);
        if (!log_stream_boundary(stream_of(convert, run.stream)) || convert->too_many) {
            break;              /* log_writer_finish() says why, or the caller */
        }
        if (!report(convert, error)) {
            return false;
        }
    }
    if (failure) {
        g_propagate_error(error, failure);
        return false;
    }
    return !convert->too_many ||
           refuse(error, "%s has too many waits at one position", convert->directory);
}

/* --- copying ---------------------------------------------------------------------------------- */

/* Log an event of the order log.  A hostile checkpoint may lie elsewhere than its place says. */
static void log_in_order(Convert *convert, unsigned stream, const LogEvent *event)
{
    if (event->position < convert->last[stream]) {
        convert->goes_back = true;
        return;
    }
    convert->last[stream] = event->position;
    convert->n_waits += event->kind == LOG_EVENT_WAIT;
    log_event_again(stream_of(convert, stream), event);
}

/* Log the waits of a stream up to @position, which come before all other events there. */
static void log_waits(Convert *convert, unsigned stream, Position position)
{
    GArray *waits = convert->waits[stream];
    unsigned n = 0;

    for (; n < waits->len && g_array_index(waits, Wait, n).position <= position; n++) {
        const Wait *wait = &g_array_index(waits, Wait, n);

        log_in_order(convert, stream, &(LogEvent) {
            .kind = LOG_EVENT_WAIT, .position = wait->position,
            .value = { wait->source, wait->steps },
        });
    }
    g_array_remove_range(waits, 0, n);
}

static void copy_event(Convert *convert, unsigned stream, const LogEvent *event)
{
    bool is_of_fdr = event->kind == LOG_EVENT_WAIT || event->kind == LOG_EVENT_MARK;

    if (is_of_fdr && !convert->copies_waits) {
        return;
    }
    log_waits(convert, stream, event->position);
    log_in_order(convert, stream, event);
}

/*
 * Copy a log up to the byte @offset, where a block begins, and up to the events before @limit.
 * Return false and @error if it cannot be read.
 */
static bool copy_log(Convert *convert, unsigned stream, LogSubstream substream, uint64_t offset,
                     Position limit, GError **error)
{
    LogReader *reader = convert->reader[stream * LOG_SUBSTREAMS + substream];
    LogReaderResult result = LOG_READER_EVENT;
    LogEvent event;

    while (reader && log_reader_totals(reader)->good_bytes < offset &&
           (result = log_reader_next(reader, &event, error)) == LOG_READER_EVENT &&
           event.position < limit) {
        if (substream == LOG_ORDER) {
            copy_event(convert, stream, &event);
        } else {
            log_event_again(stream_of(convert, stream), &event);
        }
        if (!log_stream_boundary(stream_of(convert, stream))) {
            break;
        }
    }
    return result != LOG_READER_BAD;
}

/* Copy the logs of all streams up to @next; NULL: to the end. */
static bool copy_logs(Convert *convert, CheckpointPosition *next, GError **error)
{
    bool all = next || convert->manifest->complete;

    for (unsigned i = 0; i < convert->n_streams; i++) {
        Position limit = all ? UINT64_MAX : total_order_reached(convert->order, i);

        for (unsigned j = LOG_ORDER; j <= LOG_DATA; j++) {
            uint64_t offset = next ? log_place_of(next->logs, i, j)->offset : UINT64_MAX;

            if (!copy_log(convert, i, j, offset, limit, error)) {
                return false;
            }
        }
        log_waits(convert, i, UINT64_MAX);
    }
    return !convert->goes_back ||
           refuse(error, "%s: a checkpoint does not lie where its place in the logs is",
                  convert->directory);
}

/* --- checkpoints ------------------------------------------------------------------------------ */

static bool copy_bytes(const char *from, const char *to, GError **error)
{
    g_autofree char *bytes = g_malloc(1 << 16);
    int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), out = -1;
    ssize_t got = in >= 0 ? 0 : -1;
    bool ok = in >= 0;

    if (ok) {
        out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        ok = out >= 0;
    }
    while (ok && (got = read(in, bytes, 1 << 16)) > 0) {
        ok = write_all(out, bytes, got);
    }
    ok = (ok && got == 0 && fsync(out) == 0) || io_error(error, "copy", from);
    if (in >= 0) {
        close(in);
    }
    if (out >= 0) {
        close(out);
    }
    return ok;
}

/* Link or copy the plain files of a checkpoint, but for its place. */
static bool copy_checkpoint(const Convert *convert, const char *name, GError **error)
{
    g_autofree char *from = g_build_filename(convert->directory, name, NULL);
    g_autofree char *to = g_build_filename(convert->place, name, NULL);
    g_autoptr(GDir) files = g_dir_open(from, 0, error);
    const char *file;

    if (!files) {
        return false;
    }
    if (mkdir(to, 0777) < 0) {
        return io_error(error, "make", to);
    }
    while ((file = g_dir_read_name(files))) {
        g_autofree char *old = g_build_filename(from, file, NULL);
        g_autofree char *new = g_build_filename(to, file, NULL);
        struct stat st;

        if (g_str_equal(file, CHECKPOINT_POSITION_FILE) || lstat(old, &st) < 0 ||
            !S_ISREG(st.st_mode)) {
            continue;
        }
        if (link(old, new) < 0 && !copy_bytes(old, new, error)) {
            return false;
        }
    }
    return sync_path(to) || io_error(error, "write", to);
}

static bool copy_checkpoints(const Convert *convert, GError **error)
{
    for (unsigned i = 0; i < convert->manifest->checkpoints->len; i++) {
        if (!copy_checkpoint(convert, convert->manifest->checkpoints->pdata[i], error)) {
            return false;
        }
    }
    return true;
}

/* Let all streams rest, and return where their logs go on; NULL and @error on failure. */
static LogPlaces *settle(Convert *convert, GError **error)
{
    g_autoptr(LogPlaces) places = NULL;

    for (unsigned i = 0; i < convert->n_streams; i++) {
        Position reached = total_order_reached(convert->order, i);

        log_stream_rest(stream_of(convert, i), reached);
        convert->last[i] = MAX(convert->last[i], i + 1 < convert->n_streams ? reached : 0);
    }
    places = log_writer_places(convert->writer);
    return log_places_wait(places, error) ? g_steal_pointer(&places) : NULL;
}

static void go_on(Convert *convert)
{
    for (unsigned i = 0; i < convert->n_streams; i++) {
        log_stream_resume(stream_of(convert, i));
    }
}

/* Write the place of a checkpoint, which is that of the source but for the logs. */
static bool save_place(Convert *convert, const char *name, CheckpointPosition *position,
                       GError **error)
{
    g_autofree char *path = g_build_filename(convert->place, name, CHECKPOINT_POSITION_FILE, NULL);
    LogPlaces *places = settle(convert, error);

    if (!places) {
        return false;
    }
    log_places_free(position->logs);
    position->logs = places;
    go_on(convert);
    return checkpoint_position_save(position, path, error);
}

/* --- epochs ----------------------------------------------------------------------------------- */

/* Return true if the new recording reaches the end of @epoch. */
static bool is_reached(const Convert *convert, const Epoch *epoch)
{
    for (unsigned i = 0; i < epoch->n_vcpus; i++) {
        if (epoch->point->at[i] > total_order_reached(convert->order, i)) {
            return false;
        }
    }
    return epoch->dma_steps <= total_order_reached(convert->order, epoch->n_vcpus);
}

/* Append the epochs of the source to the file @to.  Their logs are others, of unknown sizes. */
static bool copy_epochs_to(const Convert *convert, int to, GError **error)
{
    g_autoptr(EpochReader) reader = epoch_reader_open(convert->directory, convert->n_streams - 1,
                                                      error);

    while (reader) {
        g_autoptr(Epoch) epoch = NULL;
        EpochReaderResult result = epoch_reader_next(reader, &epoch, error);

        if (result != EPOCH_READER_EPOCH || !is_reached(convert, epoch)) {
            return result != EPOCH_READER_BAD;
        }
        memset(epoch->log_bytes, 0,
               convert->n_streams * LOG_SUBSTREAMS * sizeof(*epoch->log_bytes));
        if (!epochs_append(to, epoch, error)) {
            return false;
        }
    }
    return false;
}

static bool copy_epochs(const Convert *convert, GError **error)
{
    int place, to;
    bool ok;

    if (!epochs_exist(convert->directory)) {
        return true;
    }
    place = open(convert->place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    to = place >= 0 ? epochs_create(place, convert->place, error) : -1;
    ok = (place >= 0 || io_error(error, "open", convert->place)) && to >= 0 &&
         copy_epochs_to(convert, to, error) &&
         (fsync(to) == 0 || io_error(error, "write", convert->place));
    if (to >= 0) {
        close(to);
    }
    if (place >= 0) {
        close(place);
    }
    return ok;
}

/* --- the whole -------------------------------------------------------------------------------- */

static uint64_t moment_of(const CheckpointPosition *position)
{
    uint64_t moment = position->dma_steps;

    for (unsigned i = 0; i < position->n_vcpus; i++) {
        moment += position->point->at[i];
    }
    return moment;
}

/* Convert the steps from a checkpoint to checkpoint @number, which follows it. */
static bool convert_interval(Convert *convert, unsigned number, GError **error)
{
    const char *name = convert->manifest->checkpoints->pdata[number];
    g_autoptr(CheckpointPosition) next = NULL;

    if (!checkpoint_position_find(convert->directory, name, false, convert->manifest->n_vcpus,
                                  &next, error) ||
        !follow(convert, moment_of(next), error)) {
        return false;
    }
    episode_maker_meet(convert->maker, true);
    return copy_logs(convert, next, error) && save_place(convert, name, next, error);
}

/*
 * Convert the steps behind the last checkpoint.  The logs of a recording that is cut off stay so.
 * But a cut tells that there are no more episodes, on which others of Rerun might have to wait.
 */
static bool convert_last_interval(Convert *convert, GError **error)
{
    g_autoptr(LogPlaces) places = NULL;

    if (!follow(convert, UINT64_MAX, error)) {
        return false;
    }
    episode_maker_meet(convert->maker, !convert->manifest->complete);
    if (!copy_logs(convert, NULL, error)) {
        return false;
    }
    if (convert->manifest->complete) {
        return log_writer_finish(convert->writer, error);
    }
    places = settle(convert, error);
    return places != NULL;
}

static bool convert_logs(Convert *convert, GError **error)
{
    for (unsigned i = 1; i < convert->manifest->checkpoints->len; i++) {
        if (!convert_interval(convert, i, error)) {
            return false;
        }
    }
    return convert_last_interval(convert, error);
}

static uint64_t count_arcs(const Convert *convert)
{
    RaceOrder first = orders_first(convert->orders);

    return first == RACE_FDR ? convert->n_waits : episode_maker_arcs(convert->maker, first);
}

/* Save the manifest of the source, with what is new. */
static bool save_manifest(const Convert *convert, GError **error)
{
    g_autoptr(Manifest) manifest = manifest_load(convert->directory, error);

    if (!manifest) {
        return false;
    }
    manifest_set_orders(manifest, convert->orders);
    manifest->arcs = count_arcs(convert);
    if (!manifest->complete) {
        g_clear_pointer(&manifest->cut, point_free);
        manifest->cut = point_new(manifest->n_vcpus);
        for (unsigned i = 0; i < manifest->n_vcpus; i++) {
            manifest->cut->at[i] = total_order_reached(convert->order, i);
        }
    }
    return manifest_save(manifest, convert->place, error);
}

/* Verify what was made, by each order. */
static bool check_result(const Convert *convert, GError **error)
{
    g_autoptr(Manifest) manifest = manifest_load(convert->place, error);

    for (unsigned i = 0; manifest && i < RACE_ORDERS; i++) {
        manifest->follow = i;
        if (orders_has(&manifest->orders, i) &&
            !verify_for_replay(convert->place, manifest, error)) {
            return false;
        }
    }
    return manifest != NULL;
}

static bool open_source(Convert *convert, GError **error)
{
    for (unsigned i = 0; i < convert->n_streams * LOG_SUBSTREAMS; i++) {
        unsigned stream = i / LOG_SUBSTREAMS, substream = i % LOG_SUBSTREAMS;
        Position reached;

        /* FDR has order and data logs alone. */
        if (!log_file_exists(convert->n_streams - 1, ORDER_SET_FDR, stream, substream)) {
            continue;
        }
        convert->reader[i] = log_reader_open(convert->directory, convert->n_streams - 1, stream,
                                             substream, error);
        if (!convert->reader[i]) {
            return false;
        }
        if (log_reader_dropped(convert->reader[i], &reached)) {
            return refuse(error, "%s is a flight recording, whose first part was dropped: it "
                          "cannot be converted", convert->directory);
        }
    }
    return true;
}

/*
 * Refuse a recording that is not complete if what is left of its logs does not reach a checkpoint.
 */
static bool check_checkpoints(const Convert *convert, GError **error)
{
    const Manifest *manifest = convert->manifest;
    g_autofree Position *cut = cut_find_ends(convert->directory, manifest->n_vcpus, manifest->cut,
                                             error);

    for (unsigned i = 0; cut && i < manifest->checkpoints->len; i++) {
        const char *name = manifest->checkpoints->pdata[i];
        g_autoptr(CheckpointPosition) place = NULL;

        if (!checkpoint_position_find(convert->directory, name, i == 0, manifest->n_vcpus, &place,
                                      error)) {
            return false;
        }
        for (unsigned k = 0; place && k < manifest->n_vcpus; k++) {
            if (place->point->at[k] > cut[k]) {
                return refuse(error, "%s/%s lies behind the end of the logs: reprise repair "
                              "leaves it out", convert->directory, name);
            }
        }
    }
    return cut != NULL;
}

/* Refuse what cannot be converted, before anything is made. */
static bool check_source(const Convert *convert, GError **error)
{
    const Manifest *manifest = convert->manifest;

    if (manifest->checkpoints->len == 0) {
        return refuse(error, "%s has no checkpoint, at which it would begin", convert->directory);
    }
    if (convert->orders->set & ORDER_SET_EPISODES && convert->n_streams > LOG_EPISODE_STREAMS) {
        return refuse(error, "%s has %u vCPUs: karma and rerun have at most %u",
                      convert->directory, manifest->n_vcpus, LOG_EPISODE_STREAMS - 1);
    }
    return verify_for_replay(convert->directory, manifest, error) &&
           (manifest->complete || check_checkpoints(convert, error));
}

static bool make(Convert *convert, GError **error)
{
    convert->order = total_order_open(convert->directory, convert->manifest, 0, error);
    if (!convert->order || !open_source(convert, error)) {
        return false;
    }
    if (mkdir(convert->place, 0777) < 0) {
        return io_error(error, "make", convert->place);
    }
    convert->made = true;
    convert->writer = log_writer_new(convert->place, convert->n_streams - 1, convert->orders->set,
                                     error);
    if (!convert->writer) {
        return false;
    }
    convert->maker = episode_maker_new(convert->n_streams, convert->orders, convert->writer);
    total_order_on_wait(convert->order, on_wait, convert);
    total_order_on_epoch(convert->order, on_epoch, convert);
    if (!copy_checkpoints(convert, error) || !convert_logs(convert, error) ||
        !copy_epochs(convert, error) || !save_manifest(convert, error)) {
        return false;
    }
    g_clear_pointer(&convert->maker, episode_maker_free);
    g_clear_pointer(&convert->writer, log_writer_free);
    return check_result(convert, error);
}

/* Remove the directory @path and what was made in it: files, and directories of files. */
static void remove_made(const char *path)
{
    g_autoptr(GDir) entries = g_dir_open(path, 0, NULL);
    const char *entry;

    while (entries && (entry = g_dir_read_name(entries))) {
        g_autofree char *name = g_build_filename(path, entry, NULL);
        struct stat st;

        if (lstat(name, &st) == 0 && S_ISDIR(st.st_mode)) {
            remove_made(name);
        } else {
            unlink(name);
        }
    }
    rmdir(path);
}

static void convert_clear(Convert *convert)
{
    for (unsigned i = 0; i < convert->n_streams * LOG_SUBSTREAMS; i++) {
        log_reader_free(convert->reader[i]);
    }
    for (unsigned i = 0; i < convert->n_streams; i++) {
        g_array_unref(convert->waits[i]);
    }
    g_free(convert->reader);
    g_free(convert->waits);
    g_free(convert->last);
    episode_maker_free(convert->maker);
    log_writer_free(convert->writer);
    total_order_free(convert->order);
    g_free(convert->place);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Convert, convert_clear)

/* Return true if @directory does not exist, or is empty. */
static bool is_free(const char *directory, GError **error)
{
    g_autoptr(GDir) entries = NULL;
    struct stat st;

    if (lstat(directory, &st) < 0) {
        return errno == ENOENT || io_error(error, "make", directory);
    }
    entries = S_ISDIR(st.st_mode) ? g_dir_open(directory, 0, error) : NULL;
    if (S_ISDIR(st.st_mode) && !entries) {
        return false;
    }
    return (entries && !g_dir_read_name(entries)) ||
           refuse(error, "%s exists already: give a new or empty directory", directory);
}

/* Return a name beside @directory, in the same file system, to be freed by the caller. */
static char *name_beside(const char *directory)
{
    size_t length = strlen(directory);

    while (length > 1 && directory[length - 1] == '/') {
        length--;
    }
    return g_strdup_printf("%.*s.converting-%d", (int)length, directory, (int)getpid());
}

bool convert_recording(const char *directory, const Manifest *manifest, const char *to,
                       const Orders *orders, const ConvertHooks *hooks, GError **error)
{
    unsigned n = manifest->n_vcpus + 1;
    g_auto(Convert) convert = {
        .directory = directory, .manifest = manifest, .orders = orders, .hooks = hooks,
        .place = name_beside(to), .n_streams = n,
        .copies_waits = orders_has(orders, RACE_FDR) && orders_has(&manifest->orders, RACE_FDR),
        .reader = g_new0(LogReader *, n * LOG_SUBSTREAMS), .waits = g_new0(GArray *, n),
        .last = g_new0(Position, n),
    };

    for (unsigned i = 0; i < n; i++) {
        convert.waits[i] = g_array_new(false, false, sizeof(Wait));
    }
    if (!is_free(to, error) || !check_source(&convert, error)) {
        return false;
    }
    if (make(&convert, error) &&
        (rename(convert.place, to) == 0 || io_error(error, "make", to))) {
        return true;
    }
    if (convert.made) {
        remove_made(convert.place);
    }
    return false;
}
