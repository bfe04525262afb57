/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For libFuzzer: what reads the files of a recording, and the reader of QEMU's messages, each with
 * any bytes.  -DTARGET=log picks one of the functions below.  A hostile recording can at worst be
 * refused.
 *
 * Checksums are always 0 here (crc32c.c), or no change would get behind them.
 */
#include <glib.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recording/checkpoint-sums.h"
#include "recording/epochs.h"
#include "recording/log-block.h"
#include "recording/log-reader.h"
#include "recording/manifest.h"
#include "recording/pack.h"
#include "recording/checkpoint-position.h"
#include "recording/ram-image.h"
#include "recording/registers.h"
#include "recording/total-order.h"
#include "recording/verify.h"
#include "tool/json-reader.h"
#include "tool/json.h"

#define VCPUS 2
#define RAM_SIZE (1 << 20)

/* In memory, and gone with the process. */
static char directory[64];

static char *put(const char *name, const uint8_t *data, size_t size)
{
    char *path = g_build_filename(directory, name, NULL);
    FILE *file = fopen(path, "wb");

    g_assert_nonnull(file);
    g_assert_cmpuint(fwrite(data, 1, size, file), ==, size);
    fclose(file);
    return path;
}

/* Whatever is refused says why, in one line. */
static void check_refusal(bool ok, GError *error)
{
    g_assert_true(ok == !error);
    g_assert_true(!error || (*error->message && !strchr(error->message, '\n')));
    g_clear_error(&error);
}

static void __attribute__((unused)) fuzz_manifest(const uint8_t *data, size_t size)
{
    g_autofree char *path = put(MANIFEST_FILE, data, size);
    GError *error = NULL;
    g_autoptr(Manifest) manifest = manifest_load(directory, &error);

    check_refusal(manifest, error);
}

static void __attribute__((unused)) fuzz_place(const uint8_t *data, size_t size)
{
    g_autofree char *path = put(CHECKPOINT_POSITION_FILE, data, size);
    GError *error = NULL;
    g_autoptr(CheckpointPosition) place = checkpoint_position_load(path, VCPUS, &error);

    check_refusal(place, error);
}

/* The first byte says which of the logs it is. */
static void __attribute__((unused)) fuzz_log(const uint8_t *data, size_t size)
{
    /* As fuzz.py lists them: logs of episodes come last, of each stream, of Karma and of Rerun. */
    enum { EPISODES = VCPUS * 2 + 1 };
    unsigned which = size ? *data % (EPISODES + 2 * (VCPUS + 1)) : 0;
    unsigned stream = which < EPISODES ? which / 2 : (which - EPISODES) / 2;
    LogSubstream substream = which < EPISODES ? (which % 2 ? LOG_DATA : LOG_ORDER) :
                             (which - EPISODES) % 2 ? LOG_RERUN : LOG_KARMA;
    g_autofree char *name = log_file_name(VCPUS, stream, substream);
    g_autofree char *path = put(name, size ? data + 1 : data, size ? size - 1 : 0);
    GError *error = NULL;
    g_autoptr(LogReader) reader = log_reader_open(directory, VCPUS, stream, substream, &error);
    LogReaderResult result = reader ? LOG_READER_EVENT : LOG_READER_BAD;
    Registers registers = { 0 };
    LogEvent event;

    while (result == LOG_READER_EVENT &&
           (result = log_reader_next(reader, &event, &error)) == LOG_READER_EVENT) {
        g_autofree char *text = log_event_format(&event);

        if (event.kind == LOG_EVENT_REGISTERS) {
            registers_apply(register_set("aarch64"), &registers, event.bytes, event.n_bytes);
        }
    }
    check_refusal(result != LOG_READER_BAD, error);
}

/* --- whole orders -------------------------------------------------------------------- */

/* Write a log of one block with as many of the events in @data as are good. */
static void put_log(unsigned stream, LogSubstream substream, OrderSet orders, const uint8_t *data,
                    size_t size)
{
    g_autofree char *name = log_file_name(VCPUS, stream, substream);
    g_autofree char *path = NULL;
    g_autofree uint8_t *file = g_malloc0(LOG_FILE_HEADER_BYTES + LOG_BLOCK_HEADER_BYTES + size);
    EventCoder coder = { .stream = stream };
    LogBlockHeader block = { .stream = stream, .substream = substream, .flags = LOG_BLOCK_LAST };
    LogCursor cursor;
    LogEvent event;

    event_coder_start_block(&coder);
    log_cursor_init(&cursor, data, size);
    while (!log_cursor_at_end(&cursor)) {
        g_autofree char *wrong = event_get(&coder, &cursor, substream, VCPUS, &event);

        if (wrong) {
            break;
        }
        block.n_events++;
        block.raw_size = block.stored_size = log_cursor_offset(&cursor);
        block.end = event.position;
    }
    log_file_header_put(&(LogFileHeader) {
        .version = LOG_VERSION, .incompatible = log_file_features(orders), .stream = stream,
        .substream = substream, .n_vcpus = VCPUS,
    }, file);
    log_block_header_put(&block, file + LOG_FILE_HEADER_BYTES);
    memcpy(file + LOG_FILE_HEADER_BYTES + LOG_BLOCK_HEADER_BYTES, data, block.raw_size);
    path = put(name, file, LOG_FILE_HEADER_BYTES + LOG_BLOCK_HEADER_BYTES + block.raw_size);
}

/* Return a manifest of the logs, whatever they are.  It is not complete: there are no ENDs. */
static Manifest *describe(OrderSet orders)
{
    Manifest *manifest = manifest_new(VCPUS);

    manifest->ram_size = RAM_SIZE;
    manifest_set_orders(manifest, &(Orders) { .set = orders });
    manifest_add_checkpoint(manifest, "checkpoint-0");
    return manifest;
}

/* Follow the order from its start to its end, if it has one. */
static void follow(const Manifest *manifest)
{
    GError *error = NULL;
    g_autoptr(TotalOrder) order = total_order_open(directory, manifest, 0, &error);
    Run run;

    for (unsigned i = 0; order && !error && i < 1000; i++) {
        if (!total_order_next(order, UINT64_MAX, &run, &error)) {
            break;
        }
    }
    check_refusal(order && !error, error);
}

/* The first byte is the order.  Each stream has a byte for the size of its events, then these. */
static void __attribute__((unused)) fuzz_episodes(const uint8_t *data, size_t size)
{
    RaceOrder order = size && *data % 2 ? RACE_RERUN : RACE_KARMA;
    g_autoptr(Manifest) manifest = describe(ORDER_SET(order));
    GError *error = NULL;
    bool ok;
    size_t at = 1;

    for (unsigned i = 0; i <= VCPUS; i++) {
        size_t n = at < size ? MIN(data[at], size - at - 1) : 0;

        put_log(i, LOG_ORDER, ORDER_SET(order), data, 0);
        if (i < VCPUS) {
            put_log(i, LOG_DATA, ORDER_SET(order), data, 0);
        }
        put_log(i, log_of_order(order), ORDER_SET(order), data + MIN(at + 1, size), n);
        at += n + 1;
    }
    ok = verify_for_replay(directory, manifest, &error);
    check_refusal(ok, error);
    if (ok) {
        follow(manifest);
    }
}

static uint8_t *find_ram(void *ram, G_GNUC_UNUSED const char *name, uint64_t size, bool *zeroed)
{
    *zeroed = false;
    return size == RAM_SIZE ? ram : NULL;
}

static void __attribute__((unused)) fuzz_ram(const uint8_t *data, size_t size)
{
    static uint8_t ram[RAM_SIZE] __attribute__((aligned(64)));
    g_autofree char *path = put(RAM_IMAGE_FILE, data, size);
    GError *error = NULL;
    bool ok = ram_image_check(path, RAM_SIZE, &error);

    check_refusal(ok, error);
    error = NULL;
    ok = ram_image_load_changes(path, find_ram, ram, &error);
    check_refusal(ok, error);
}

static void __attribute__((unused)) fuzz_sums(const uint8_t *data, size_t size)
{
    g_autofree char *path = put(CHECKPOINT_SUMS, data, size);
    g_autofree char *cpus = put(CHECKPOINT_CPUS, (const uint8_t *)"registers", 9);
    GError *error = NULL;
    bool ok = checkpoint_sums_check(directory, &error);

    check_refusal(ok, error);
}

static void __attribute__((unused)) fuzz_epochs(const uint8_t *data, size_t size)
{
    g_autofree char *path = put(EPOCHS_FILE, data, size);
    GError *error = NULL;
    g_autoptr(EpochReader) reader = epoch_reader_open(directory, VCPUS, &error);
    EpochReaderResult result;
    Epoch *epoch = NULL;
    VerifiedEpochs verified;
    bool ok;

    g_assert_nonnull(reader);
    while ((result = epoch_reader_next(reader, &epoch, &error)) == EPOCH_READER_EPOCH) {
        epoch_free(epoch);
    }
    g_assert_cmpuint(epoch_reader_offset(reader), <=, size);
    check_refusal(result != EPOCH_READER_BAD, error);
    error = NULL;
    ok = verify_epochs(directory, VCPUS, NULL, NULL, &verified, &error);
    check_refusal(ok, error);
}

static void __attribute__((unused)) fuzz_pack(const uint8_t *data, size_t size)
{
    static volatile sig_atomic_t stop;
    g_autofree char *path = put("packed", data, size);
    g_autofree char *to = g_build_filename(directory, "unpacked", NULL);
    g_autofree char *remove = g_strdup_printf("rm -rf %s", to);
    GError *error = NULL;
    bool ok = unpack_recording(path, to, &stop, &error);

    check_refusal(ok, error);
    if (ok) {
        g_assert_cmpint(system(remove), ==, 0);
    }
    g_assert_false(g_file_test(to, G_FILE_TEST_EXISTS));
}

/* Return the text of @value, to be freed by the caller. */
static char *write_json(const JsonValue *value)
{
    Json json;

    json_init(&json);
    json_value(&json, NULL, value);
    return json_finish(&json);
}

/* What was read and written is read again as the same. */
static void __attribute__((unused)) fuzz_json(const uint8_t *data, size_t size)
{
    GError *error = NULL;
    g_autoptr(JsonValue) value = json_parse((const char *)data, size, &error);
    g_autoptr(JsonValue) again = NULL;
    g_autofree char *text = NULL, *twice = NULL;
    uint64_t number;

    check_refusal(value, error);
    if (!value) {
        return;
    }
    json_member_u64(value, "n", &number);
    text = write_json(value);
    again = json_parse(text, strlen(text), NULL);
    g_assert_nonnull(again);
    twice = write_json(again);
    g_assert_cmpstr(text, ==, twice);
}

static void clean_up(void)
{
    g_autofree char *command = g_strdup_printf("rm -rf %s", directory);

    g_assert_cmpint(system(command), ==, 0);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(G_GNUC_UNUSED int *argc, G_GNUC_UNUSED char ***argv)
{
    strcpy(directory, "/dev/shm/reprise-fuzz-XXXXXX");
    g_assert_nonnull(mkdtemp(directory));
    atexit(clean_up);
    return 0;
}

#define FUNCTION_(target) fuzz_##target
#define FUNCTION(target) FUNCTION_(target)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FUNCTION(TARGET)(data, size);
    return 0;
}
