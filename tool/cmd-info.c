/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `reprise info`: shows what was recorded, how the recording ended and how large it is, from its
 * manifest and its logs.  The output is a table for people, or JSON for programs, whose keys never
 * change (docs/guide-recordings.md lists them).
 *
 * All logs are read to their end, since only the events tell how many bytes each kind takes.  So a
 * damaged log is noticed.
 */
#include <glib.h>
#include <glib/gstdio.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "recording/epochs.h"
#include "recording/log-block.h"
#include "recording/log-reader.h"
#include "recording/manifest.h"
#include "recording/checkpoint-position.h"
#include "recording/ram-image.h"
#include "recording/total-order.h"
#include "recording/verify.h"
#include "tool/json.h"
#include "tool/order-info.h"
#include "tool/tool.h"

/* The kinds of bytes: the accounts of the logs, and checkpoints. */
enum { KIND_CHECKPOINT = LOG_ACCOUNTS, KINDS };

typedef struct Info {
    const char *directory;
    Manifest *manifest;
    uint64_t raw[KINDS];        /* bytes of content */
    uint64_t stored[KINDS];     /* bytes on disk */
    uint64_t events;
    bool cut_off;               /* at least one log is cut off */
    Point *logged;              /* the position of each vCPU's last event */
    GPtrArray *points;          /* of char *: the points of the checkpoints */
    OrderInfo order[RACE_ORDERS];       /* of the orders that it has */
    const char *follow;         /* the order that the user wants; or NULL */
    bool has_epochs;
    GArray *epochs;             /* of int64_t: when each ended, in microseconds */
} Info;

static void info_clear(Info *info)
{
    manifest_free(info->manifest);
    point_free(info->logged);
    g_clear_pointer(&info->points, g_ptr_array_unref);
    g_clear_pointer(&info->epochs, g_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Info, info_clear)

static const char *kind_name(unsigned kind)
{
    return kind == KIND_CHECKPOINT ? "checkpoint" : log_account_name(kind);
}

static bool is_shown(const Info *info, unsigned kind)
{
    return kind == KIND_CHECKPOINT ||
           log_account_is_shown(kind, info->manifest->orders.set, info->raw[kind]);
}

static uint64_t sum(const uint64_t bytes[KINDS])
{
    uint64_t total = 0;

    for (unsigned i = 0; i < KINDS; i++) {
        total += bytes[i];
    }
    return total;
}

/* Return true if the manifest says so, and no log is cut off. */
static bool is_complete(const Info *info)
{
    return info->manifest->complete && !info->cut_off;
}

/* --------------------------------- collecting ------------------------------- */

/*
 * Add one log.  The kinds share its compressed blocks, so the bytes on disk are split in proportion
 * to the bytes of content.  The rounding error goes to the largest kind.
 */
static void add_log(Info *info, const LogTotals *totals)
{
    uint64_t left = totals->stored_bytes;
    int largest = 0;

    for (int i = 0; i < LOG_ACCOUNTS; i++) {
        double part = totals->raw_bytes ? (double)totals->account_bytes[i] / totals->raw_bytes : 0;
        uint64_t stored = MIN((uint64_t)(part * totals->stored_bytes), left);

        info->raw[i] += totals->account_bytes[i];
        info->stored[i] += stored;
        left -= stored;
        if (totals->account_bytes[i] > totals->account_bytes[largest]) {
            largest = i;
        }
    }
    info->stored[largest] += left;
    info->events += totals->events;
    info->cut_off |= totals->cut_off;
}

static bool read_logs(Info *info, GError **error)
{
    unsigned n_vcpus = info->manifest->n_vcpus;
    OrderSet orders = log_directory_orders(info->directory);

    info->logged = point_new(n_vcpus);
    for (unsigned stream = 0; stream <= n_vcpus; stream++) {
        for (int log = 0; log < LOG_SUBSTREAMS; log++) {
            LogTotals totals = { 0 };

            if (!log_file_exists(n_vcpus, orders, stream, log)) {
                continue;
            }
            if (!log_totals_read(info->directory, n_vcpus, stream, log, &totals, error)) {
                return false;
            }
            add_log(info, &totals);
            if (stream < n_vcpus) {
                info->logged->at[stream] = MAX(info->logged->at[stream], totals.last);
            }
        }
    }
    return true;
}

/*
 * Append the point of checkpoint @name.  The first checkpoint may have no position file: then it
 * lies at the start of the recording.
 */
static bool read_place(Info *info, const char *name, GError **error)
{
    g_autoptr(CheckpointPosition) place = NULL;

    if (!checkpoint_position_find(info->directory, name, info->points->len == 0,
                                  info->manifest->n_vcpus, &place, error)) {
        return false;
    }
    if (!place) {
        place = checkpoint_position_new(info->manifest->n_vcpus);
    }
    g_ptr_array_add(info->points, point_format(place->point));
    return true;
}

static bool read_checkpoint(Info *info, const char *name, GError **error)
{
    g_autofree char *directory = g_build_filename(info->directory, name, NULL);
    g_autofree char *ram = g_build_filename(directory, RAM_IMAGE_FILE, NULL);
    g_autoptr(GDir) entries = g_dir_open(directory, 0, NULL);
    uint64_t stored = 0, stored_ram = 0, raw_ram;
    const char *entry;

    if (!entries) {
        g_set_error(error, MANIFEST_ERROR, MANIFEST_ERROR_INVALID,
                    "%s: checkpoint '%s' is missing", info->directory, name);
        return false;
    }
    while ((entry = g_dir_read_name(entries))) {
        g_autofree char *path = g_build_filename(directory, entry, NULL);
        GStatBuf st;

        if (g_lstat(path, &st) == 0 && S_ISREG(st.st_mode)) {
            stored += st.st_size;
            if (g_str_equal(entry, RAM_IMAGE_FILE)) {
                stored_ram = st.st_size;
            }
        }
    }
    if (!ram_image_raw_size(ram, &raw_ram, error) || !read_place(info, name, error)) {
        return false;
    }
    if (info->points->len > 1) {
        raw_ram = stored_ram;       /* a later checkpoint holds only the pages that changed */
    }
    info->stored[KIND_CHECKPOINT] += stored;
    info->raw[KIND_CHECKPOINT] += stored - stored_ram + raw_ram;
    return true;
}

/*
 * Return the first checkpoint and the positions at which the logs begin, as text that is only
 * compared.  To be freed by the caller.
 */
static char *beginning(const char *directory)
{
    g_autoptr(Manifest) manifest = manifest_load(directory, NULL);
    GString *words = g_string_new(NULL);
    OrderSet orders = log_directory_orders(directory);

    if (manifest && manifest->checkpoints->len > 0) {
        g_string_append(words, manifest->checkpoints->pdata[0]);
    }
    for (unsigned i = 0; manifest && i < (manifest->n_vcpus + 1) * LOG_SUBSTREAMS; i++) {
        unsigned stream = i / LOG_SUBSTREAMS, log = i % LOG_SUBSTREAMS;
        g_autoptr(LogReader) reader =
            log_file_exists(manifest->n_vcpus, orders, stream, log) ?
            log_reader_open(directory, manifest->n_vcpus, stream, log, NULL) : NULL;
        Position reached = 0;

        if (reader && log_reader_dropped(reader, &reached)) {
            g_string_append_printf(words, " %" PRIu64, reached);
        }
    }
    return g_string_free(words, false);
}

/* Load the manifest, and follow the order of this name, unless it is NULL. */
static Manifest *load(const char *directory, const char *follow, GError **error)
{
    g_autoptr(Manifest) manifest = manifest_load(directory, error);

    return manifest && (!follow || manifest_follow(manifest, directory, follow, error))
           ? g_steal_pointer(&manifest) : NULL;
}

static bool read_epochs(Info *info, GError **error)
{
    g_autoptr(EpochReader) reader = NULL;

    info->epochs = g_array_new(false, false, sizeof(int64_t));
    info->has_epochs = epochs_exist(info->directory);
    if (!info->has_epochs) {
        return true;
    }
    reader = epoch_reader_open(info->directory, info->manifest->n_vcpus, error);
    while (reader) {
        g_autoptr(Epoch) epoch = NULL;
        EpochReaderResult result = epoch_reader_next(reader, &epoch, error);

        if (result != EPOCH_READER_EPOCH) {
            return result == EPOCH_READER_END;
        }
        g_array_append_val(info->epochs, epoch->time_us);
    }
    return false;
}

static int by_length(gconstpointer a, gconstpointer b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

/*
 * Get the median of the times from the end of an epoch to that of the next.  Return false if there
 * are less than two epochs.
 */
static bool median_epoch(const Info *info, double *ms)
{
    g_autoptr(GArray) lengths = g_array_new(false, false, sizeof(int64_t));

    for (unsigned i = 1; i < info->epochs->len; i++) {
        int64_t length = g_array_index(info->epochs, int64_t, i) -
                         g_array_index(info->epochs, int64_t, i - 1);

        g_array_append_val(lengths, length);
    }
    if (lengths->len == 0) {
        return false;
    }
    g_array_sort(lengths, by_length);
    *ms = g_array_index(lengths, int64_t, lengths->len / 2) / 1000.0;
    return true;
}

static bool collect_once(Info *info, GError **error)
{
    info->manifest = load(info->directory, info->follow, error);
    if (!info->manifest || !read_logs(info, error)) {
        return false;
    }
    info->points = g_ptr_array_new_with_free_func(g_free);
    for (unsigned i = 0; i < info->manifest->checkpoints->len; i++) {
        if (!read_checkpoint(info, info->manifest->checkpoints->pdata[i], error)) {
            return false;
        }
    }
    return read_epochs(info, error);
}

/*
 * Return the bytes of an order in the logs per 1000 steps; 0 if there are none.  Without FDR, what
 * is left under "race" belongs to each other order.
 */
static double race_bytes(const Info *info, RaceOrder order)
{
    bool has_fdr = orders_has(&info->manifest->orders, RACE_FDR);
    uint64_t bytes = order == RACE_FDR || !has_fdr ? info->raw[LOG_ACCOUNT_RACE] : 0;
    uint64_t steps = 0;

    bytes += order == RACE_KARMA ? info->raw[LOG_ACCOUNT_KARMA] :
             order == RACE_RERUN ? info->raw[LOG_ACCOUNT_RERUN] : 0;
    for (unsigned i = 0; i < info->manifest->n_vcpus; i++) {
        steps += info->manifest->end ? info->manifest->instructions[i] : info->logged->at[i];
    }
    return steps ? bytes * 1000.0 / steps : 0;
}

static bool read_orders(Info *info, GError **error)
{
    for (unsigned i = 0; i < RACE_ORDERS; i++) {
        info->order[i].race_bytes = race_bytes(info, i);
    }
    return order_info_read(info->directory, info->manifest, info->order, error);
}

/*
 * Collect all of @info, or return false and @error.  A flight recorder may drop the start of its
 * logs while they are read.  Then what was read is inconsistent, and everything is read again.
 */
static bool collect(Info *info, GError **error)
{
    g_autofree char *begins = beginning(info->directory);

    for (;;) {
        g_autofree char *before = g_steal_pointer(&begins);
        g_autoptr(GError) failure = NULL;

        if (collect_once(info, &failure) && read_orders(info, &failure)) {
            return true;
        }
        begins = beginning(info->directory);
        if (g_str_equal(begins, before)) {
            g_propagate_error(error, g_steal_pointer(&failure));
            return false;
        }
        info_clear(info);
        *info = (Info) { .directory = info->directory, .follow = info->follow };
    }
}

/* ---------------------------------- for programs ---------------------------- */

static void json_end(Json *json, const Manifest *manifest)
{
    g_autofree char *point = manifest->end ? point_format(manifest->end) : NULL;
    g_autofree char *cut = manifest->cut ? point_format(manifest->cut) : NULL;

    json_string(json, "end_point", point);
    json_string(json, "cut", cut);
    if (!manifest->end) {
        json_null(json, "end_digest");
        json_null(json, "seconds");
        json_null(json, "instructions");
        json_null(json, "arcs");
        return;
    }
    json_open(json, "end_digest", '{');
    json_string(json, "ram", manifest->ram_digest);
    json_open(json, "registers", '[');
    for (unsigned i = 0; i < manifest->n_vcpus; i++) {
        g_autofree char *digest = g_strdup_printf("%016" PRIx64, manifest->register_digests[i]);
        json_string(json, NULL, digest);
    }
    json_close(json, '[');
    json_close(json, '{');
    json_double(json, "seconds", manifest->seconds);
    json_open(json, "instructions", '[');
    for (unsigned i = 0; i < manifest->n_vcpus; i++) {
        json_u64(json, NULL, manifest->instructions[i]);
    }
    json_close(json, '[');
    json_u64(json, "arcs", manifest->arcs);
}

static void json_bytes(Json *json, const char *key, uint64_t raw, uint64_t stored)
{
    json_open(json, key, '{');
    json_u64(json, "raw", raw);
    json_u64(json, "stored", stored);
    json_close(json, '{');
}

static void json_epochs(Json *json, const Info *info)
{
    double ms;

    if (!info->has_epochs) {
        json_null(json, "epochs");
        return;
    }
    json_open(json, "epochs", '{');
    json_u64(json, "number", info->epochs->len);
    if (median_epoch(info, &ms)) {
        json_double(json, "median_ms", ms);
    } else {
        json_null(json, "median_ms");
    }
    json_close(json, '{');
}

static void print_json(const Info *info)
{
    const Manifest *manifest = info->manifest;
    g_autofree char *logged = point_format(info->logged);
    g_autofree char *text = NULL;
    Json json;

    json_init(&json);
    json_open(&json, NULL, '{');
    json_string(&json, "directory", info->directory);
    json_bool(&json, "complete", is_complete(info));
    json_bool(&json, "replayable", manifest_check_replayable(manifest, NULL));
    json_u64(&json, "vcpus", manifest->n_vcpus);
    json_string(&json, "end_reason", manifest->end_reason);
    json_end(&json, manifest);
    json_string(&json, "logged_to", logged);
    json_u64(&json, "log_events", info->events);
    order_info_json(&json, manifest, info->order);
    json_open(&json, "log_bytes", '{');
    for (unsigned i = 0; i < KINDS; i++) {
        if (is_shown(info, i)) {
            json_bytes(&json, kind_name(i), info->raw[i], info->stored[i]);
        }
    }
    json_bytes(&json, "total", sum(info->raw), sum(info->stored));
    json_close(&json, '{');
    json_open(&json, "checkpoints", '[');
    for (unsigned i = 0; i < manifest->checkpoints->len; i++) {
        json_string(&json, NULL, manifest->checkpoints->pdata[i]);
    }
    json_close(&json, '[');
    json_open(&json, "checkpoint_points", '[');
    for (unsigned i = 0; i < info->points->len; i++) {
        json_string(&json, NULL, info->points->pdata[i]);
    }
    json_close(&json, '[');
    json_epochs(&json, info);
    json_string(&json, "arch", manifest->arch);
    json_string(&json, "machine", manifest->machine);
    json_string(&json, "machine_options", manifest->machine_options);
    json_string(&json, "cpu", manifest->cpu);
    json_u64(&json, "ram_bytes", manifest->ram_size);
    json_string(&json, "console", manifest->console);
    json_u64(&json, "console_address", manifest->console_address);
    json_string(&json, "start", manifest->start);
    json_u64(&json, "start_time", manifest->start_time);
    json_bool(&json, "live", manifest->live);
    json_u64(&json, "log_version", manifest->log_version);
    json_string(&json, "reprise_version", manifest->reprise_version);
    json_string(&json, "patch_level", manifest->patch_level);
    json_string(&json, "qemu_version", manifest->qemu_version);
    json_close(&json, '{');
    text = json_finish(&json);
    fputs(text, stdout);
}

/* ----------------------------------- for people ----------------------------- */

static void row(const char *name, const char *format, ...) G_GNUC_PRINTF(2, 3);
static void row(const char *name, const char *format, ...)
{
    va_list args;

    printf("%-14s ", name);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

/* Return "1.5 GiB", to be freed by the caller.  g_format_size() would use a no-break space. */
static char *short_size(uint64_t bytes)
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
    double size = bytes;
    unsigned unit = 0;

    for (; size >= 1024 && unit + 1 < G_N_ELEMENTS(units); unit++) {
        size /= 1024;
    }
    return g_strdup_printf(unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
}

static void print_size(const char *name, uint64_t raw, uint64_t stored)
{
    g_autofree char *big = short_size(stored);

    printf("  %-12s %15" PRIu64 " %15" PRIu64 "  %s\n", name, raw, stored, big);
}

static void print_end(const Manifest *manifest)
{
    g_autofree char *point = NULL;

    if (!manifest->end) {
        return;
    }
    point = point_format(manifest->end);
    row("end", "%s, after %.3f s", point, manifest->seconds);
    row("end digest", "RAM %s", *manifest->ram_digest ? manifest->ram_digest : "unknown");
    row("arcs", "%" PRIu64, manifest->arcs);
    printf("\n  %-12s %15s  %s\n", "vCPU", "instructions", "end digest of registers");
    for (unsigned i = 0; i < manifest->n_vcpus; i++) {
        printf("  %-12u %15" PRIu64 "  %016" PRIx64 "\n", i, manifest->instructions[i],
               manifest->register_digests[i]);
    }
}

static void print_epochs(const Info *info)
{
    double ms;

    if (median_epoch(info, &ms)) {
        row("epochs", "%u, median %.1f ms", info->epochs->len, ms);
    } else if (info->has_epochs) {
        row("epochs", "%u", info->epochs->len);
    }
}

static void print_table(const Info *info)
{
    const Manifest *manifest = info->manifest;
    g_autofree char *ram = short_size(manifest->ram_size);
    g_autofree char *logged = point_format(info->logged);
    g_autoptr(GError) why = NULL;

    row("recording", "%s", info->directory);
    row("made by", "reprise %s, QEMU %s, patches %s", manifest->reprise_version,
        manifest->qemu_version, manifest->patch_level);
    row("machine", "%s %s%s%s", manifest->arch, manifest->machine,
        *manifest->machine_options ? "," : "", manifest->machine_options);
    row("cpu", "%u x %s", manifest->n_vcpus, manifest->cpu);
    row("ram", "%s", ram);
    row("started", "%s", manifest->start);
    if (manifest->live) {
        row("goes live", "%s", "yes, from each checkpoint: reprise live");
    }
    row("complete", "%s%s%s", is_complete(info) ? "yes" : "no",
        *manifest->end_reason ? ", " : "", manifest->end_reason);
    row("replayable", "%s", manifest_check_replayable(manifest, &why) ? "yes" : why->message);
    if (!is_complete(info)) {
        row("logged to", "%s", logged);
    }
    if (manifest->cut) {
        g_autofree char *cut = point_format(manifest->cut);

        row("cut", "%s", cut);
    }
    order_info_print(manifest, info->order, row);
    print_epochs(info);
    print_end(manifest);

    printf("\n  %-12s %s\n", "checkpoint", "position");
    for (unsigned i = 0; i < info->points->len; i++) {
        printf("  %-12u %s\n", i, (const char *)info->points->pdata[i]);
    }
    printf("\n  %-12s %15s %15s\n", "bytes", "content", "stored");
    for (unsigned i = 0; i < KINDS; i++) {
        if (is_shown(info, i)) {
            print_size(kind_name(i), info->raw[i], info->stored[i]);
        }
    }
    print_size("total", sum(info->raw), sum(info->stored));
}

/* ----------------------------------- a moment ------------------------------- */

static int show_moment(const char *directory, const char *follow, const char *text, bool json)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(Manifest) manifest = NULL;
    g_autoptr(TotalOrder) order = NULL;
    g_autoptr(Point) point = NULL;
    g_autofree char *words = NULL;
    uint64_t moment;

    if (!g_ascii_string_to_unsigned(text, 10, 0, UINT64_MAX, &moment, NULL)) {
        return usage_error("info: --at is a number of steps, not '%s'", text);
    }
    manifest = load(directory, follow, &error);
    if (!manifest || !verify_for_replay(directory, manifest, &error)) {
        return input_error(error);
    }
    order = total_order_open_at(directory, manifest, moment, &error);
    if (!order) {
        return input_error(error);
    }
    point = point_new(manifest->n_vcpus);
    for (unsigned i = 0; i < manifest->n_vcpus; i++) {
        point->at[i] = total_order_reached(order, i);
    }
    words = point_format(point);
    if (json) {
        g_autofree char *made = NULL;
        Json members;

        json_init(&members);
        json_open(&members, NULL, '{');
        json_u64(&members, "moment", moment);
        json_string(&members, "point", words);
        json_u64(&members, "dma", total_order_reached(order, manifest->n_vcpus));
        json_close(&members, '{');
        made = json_finish(&members);
        fputs(made, stdout);
    } else {
        printf("moment %" PRIu64 ": %s, DMA at %" PRIu64 "\n", moment, words,
               total_order_reached(order, manifest->n_vcpus));
    }
    return STATUS_OK;
}

static const char usage[] =
    "usage: reprise info [--json] [--at MOMENT] [--order NAME] DIR\n"
    "\n"
    "Show what a recording is of, how it ended, whether it can be replayed by this\n"
    "build, and what takes how much space.\n"
    "\n"
    "  --json          the same, and more, for programs\n"
    "  --at MOMENT     instead: where all vCPUs are when so many steps have been\n"
    "                  made by all together, in one order that is always the same\n"
    "  --order NAME    follow this order of steps: fdr, karma or rerun; by default\n"
    "                  the first of these that the recording has\n"
    "  --help          show this text\n"
    "\n"
    "exit status: 0; 2 it cannot be read\n";

int run_info(int argc, char **argv)
{
    g_auto(Info) info = { 0 };
    g_autoptr(GError) error = NULL;
    const char *at = NULL;
    bool json = false;

    for (int i = 1; i < argc; i++) {
        if (g_str_equal(argv[i], "--json")) {
            json = true;
        } else if (g_str_equal(argv[i], "--at")) {
            at = argv[++i];
            if (!at) {
                return usage_error("%s", "info: --at needs a number of steps");
            }
        } else if (g_str_equal(argv[i], "--order")) {
            info.follow = argv[++i];
            if (!info.follow) {
                return usage_error("%s", "info: --order needs a name: fdr, karma or rerun");
            }
        } else if (g_str_equal(argv[i], "--help") || g_str_equal(argv[i], "-h")) {
            fputs(usage, stdout);
            return STATUS_OK;
        } else if (argv[i][0] == '-' && argv[i][1]) {
            return usage_error("info: unknown option '%s'", argv[i]);
        } else if (info.directory) {
            return usage_error("info takes one directory, got '%s' too", argv[i]);
        } else {
            info.directory = argv[i];
        }
    }
    if (!info.directory) {
        return usage_error("%s", "info: which recording? Give its directory");
    }
    if (at) {
        return show_moment(info.directory, info.follow, at, json);
    }
    if (!collect(&info, &error)) {
        return input_error(error);
    }
    if (json) {
        print_json(&info);
    } else {
        print_table(&info);
    }
    return STATUS_OK;
}
