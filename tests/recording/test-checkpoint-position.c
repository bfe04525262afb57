/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Positions of checkpoints: a log that is read from such a position yields what was logged after
 * it.  The file of a position is loaded as it was saved, and refused if it was changed.
 */
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "recording/log-reader.h"
#include "recording/checkpoint-position.h"
#include "recording/log-block.h"

#define VCPUS 2

static char *directory;
static char *path;

/* --- logs ------------------------------------------------------------------------ */

static void log_some(LogStream *stream, Position *position, unsigned n)
{
    log_stream_resume(stream);
    for (unsigned i = 0; i < n; i++) {
        log_event(stream, LOG_EVENT_WAKE, *position);
        log_event(stream, LOG_EVENT_SYSREG, *position, (uint64_t)i);
        *position += g_test_rand_int_range(1, 1000);
    }
    log_stream_rest(stream, *position);
}

/* Check that a log, read from @places or from its start, has @n events from @first on. */
static void check_from(LogPlaces *places, LogSubstream substream, unsigned vcpu, unsigned n,
                       Position first)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(LogReader) reader =
        places ? log_reader_open_at(directory, VCPUS, vcpu, substream,
                                    log_place_of(places, vcpu, substream), &error)
               : log_reader_open(directory, VCPUS, vcpu, substream, &error);
    LogEvent event;
    unsigned seen = 0;

    g_assert_no_error(error);
    while (log_reader_next(reader, &event, &error) == LOG_READER_EVENT) {
        if (event.kind == LOG_EVENT_MARK) {
            continue;
        }
        g_assert_true(seen || event.position == first);
        seen++;
    }
    g_assert_no_error(error);
    g_assert_false(log_reader_cut_off(reader));
    g_assert_cmpuint(seen, ==, n);
}

static const char *const names[] = {
    "vcpu-0.order", "vcpu-0.data", "vcpu-1.order", "vcpu-1.data", "dma.order",
};

static void remove_logs(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *log = g_build_filename(directory, names[i], NULL);

        g_unlink(log);
    }
}

static uint64_t bytes_on_disk(const char *name)
{
    g_autofree char *log = g_build_filename(directory, name, NULL);
    GStatBuf status;

    g_assert_cmpint(g_stat(log, &status), ==, 0);
    return status.st_blocks * 512;
}

/* Return the sizes of all logs, including the parts that were dropped. */
static uint64_t bytes_written(void)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *log = g_build_filename(directory, names[i], NULL);
        GStatBuf status;

        g_assert_cmpint(g_stat(log, &status), ==, 0);
        bytes += status.st_size;
    }
    return bytes;
}

/* Write logs, and read them from a position in the middle.  @drop: drop what lies before it. */
static void write_and_read(bool drop)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(LogWriter) writer = NULL;
    g_autoptr(LogPlaces) places = NULL;
    Position position[VCPUS] = { 0 }, first[VCPUS], reached[VCPUS + 1] = { 0 };
    const unsigned before[VCPUS] = { 30000, 0 }, after[VCPUS] = { 5, 20000 };

    remove_logs();
    writer = log_writer_new(directory, VCPUS, ORDER_SET_FDR, &error);
    g_assert_no_error(error);
    for (unsigned i = 0; i <= VCPUS; i++) {
        log_stream_rest(log_writer_stream(writer, i), 0);
    }
    for (unsigned i = 0; i < VCPUS; i++) {
        log_some(log_writer_stream(writer, i), &position[i], before[i]);
        first[i] = position[i];
    }
    places = log_writer_places(writer);
    for (unsigned i = 0; i < VCPUS; i++) {
        log_some(log_writer_stream(writer, i), &position[i], after[i]);
    }
    log_places_wait(places, &error);
    g_assert_no_error(error);
    if (drop && !log_writer_can_drop(writer, &error)) {
        g_test_skip("no holes can be punched into files here");
        return;
    }
    if (drop) {
        memcpy(reached, first, sizeof(first));
        log_writer_drop(writer, places, reached);
    }
    log_writer_finish(writer, &error);
    g_assert_no_error(error);
    for (unsigned i = 0; i < VCPUS; i++) {
        check_from(places, LOG_ORDER, i, after[i], first[i]);
        check_from(places, LOG_DATA, i, after[i], first[i]);
        check_from(NULL, LOG_ORDER, i, drop ? after[i] : before[i] + after[i], drop ? first[i] : 0);
        check_from(NULL, LOG_DATA, i, drop ? after[i] : before[i] + after[i], drop ? first[i] : 0);
    }
    if (drop) {
        g_autoptr(LogReader) reader = log_reader_open(directory, VCPUS, 0, LOG_ORDER, &error);
        Position at;

        g_assert_true(log_reader_dropped(reader, &at));
        g_assert_cmpuint(at, ==, first[0]);
        g_assert_cmpuint(bytes_on_disk("vcpu-0.order"), <, 20000);
        g_assert_cmpuint(log_writer_stored(writer), <, bytes_written() / 2);
    }
}

static void test_logs(void)
{
    write_and_read(false);
}

static void test_dropped(void)
{
    write_and_read(true);
}

/* A change of any bit of the block that replaces the dropped ones is noticed. */
static void test_dropped_damage(void)
{
    g_autofree char *log = g_build_filename(directory, "vcpu-0.order", NULL);
    g_autofree char *text = NULL;
    size_t length;

    write_and_read(true);
    g_assert_true(g_file_get_contents(log, &text, &length, NULL));
    for (unsigned bit = 32 * 8; bit < (32 + 52 + 16) * 8; bit++) {
        g_autoptr(LogReader) reader = NULL;
        g_autoptr(GError) error = NULL;
        LogEvent event;

        text[bit / 8] ^= 1 << bit % 8;
        g_assert_true(g_file_set_contents_full(log, text, length, G_FILE_SET_CONTENTS_NONE, 0644,
                                               NULL));
        reader = log_reader_open(directory, VCPUS, 0, LOG_ORDER, &error);
        g_assert_true(!reader || log_reader_next(reader, &event, &error) == LOG_READER_BAD);
        g_assert_nonnull(error);
        text[bit / 8] ^= 1 << bit % 8;
    }
}

/* --- the file ---------------------------------------------------------------------- */

static CheckpointPosition *random_place(unsigned n_vcpus, OrderSet episodes)
{
    CheckpointPosition *place = checkpoint_position_new(n_vcpus);
    unsigned n = (n_vcpus + 1) * LOG_SUBSTREAMS;

    place->logs = g_malloc0(sizeof(*place->logs) + n * sizeof(place->logs->place[0]));
    place->logs->n_streams = n_vcpus + 1;
    place->dma_steps = g_test_rand_int();
    place->logs->episodes = episodes;
    for (unsigned i = 0; i < n; i++) {
        if (log_file_exists(n_vcpus, episodes, i / LOG_SUBSTREAMS, i % LOG_SUBSTREAMS)) {
            place->logs->place[i] = (LogPlace) { g_test_rand_int(), g_test_rand_int(), i };
        }
    }
    for (unsigned i = 0; i < n_vcpus; i++) {
        place->point->at[i] = g_test_rand_int();
        place->stores[i] = UINT64_MAX - i;
        for (unsigned j = 0; j < REGISTERS_MOST; j++) {
            place->logged[i].value[j] = (uint64_t)g_test_rand_int() << j % 33;
        }
    }
    return place;
}

static void save(const CheckpointPosition *place)
{
    g_autoptr(GError) error = NULL;

    g_unlink(path);
    checkpoint_position_save(place, path, &error);
    g_assert_no_error(error);
}

static void round_trip(OrderSet episodes)
{
    for (unsigned n = 1; n <= 4; n++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(CheckpointPosition) place = random_place(n, episodes);
        g_autoptr(CheckpointPosition) loaded = NULL;

        save(place);
        loaded = checkpoint_position_load(path, n, &error);
        g_assert_no_error(error);
        g_assert_cmpuint(loaded->dma_steps, ==, place->dma_steps);
        g_assert_cmpint(loaded->logs->episodes, ==, episodes);
        g_assert_cmpmem(loaded->point->at, n * sizeof(Position), place->point->at,
                        n * sizeof(Position));
        g_assert_cmpmem(loaded->stores, n * sizeof(uint64_t), place->stores, n * sizeof(uint64_t));
        g_assert_cmpmem(loaded->logged, n * sizeof(Registers), place->logged,
                        n * sizeof(Registers));
        g_assert_cmpmem(loaded->logs->place, (n + 1) * LOG_SUBSTREAMS * sizeof(LogPlace),
                        place->logs->place, (n + 1) * LOG_SUBSTREAMS * sizeof(LogPlace));
    }
}

static void test_round_trip(void)
{
    round_trip(0);
    round_trip(ORDER_SET(RACE_KARMA));
    round_trip(ORDER_SET(RACE_RERUN));
    round_trip(ORDER_SET_EPISODES);
}

static void refuse(const char *text, size_t length, unsigned n_vcpus)
{
    g_autoptr(GError) error = NULL;

    /* Not synced, since this is done thousands of times. */
    g_file_set_contents_full(path, text, length, G_FILE_SET_CONTENTS_NONE, 0644, &error);
    g_assert_no_error(error);
    g_assert_null(checkpoint_position_load(path, n_vcpus, &error));
    g_assert_error(error, SUMMED_TEXT_ERROR, SUMMED_TEXT_ERROR_DAMAGED);
}

static void test_damage(void)
{
    g_autoptr(CheckpointPosition) place = random_place(2, 0);
    g_autofree char *text = NULL;
    size_t length;

    save(place);
    g_assert_true(g_file_get_contents(path, &text, &length, NULL));
    for (unsigned i = 0; i < 2000; i++) {
        size_t at = g_test_rand_int_range(0, length);
        char was = text[at];

        text[at] ^= 1 << g_test_rand_int_range(0, 8);
        refuse(text, length, 2);
        text[at] = was;
        refuse(text, at, 2);
    }
    refuse(text, length, 1);
    refuse(text, length, 3);
}

/* Wrong contents with right checksums are refused. */
static void test_hostile(void)
{
    static const struct { const char *from, *to; } changes[] = {
        { "reprise place 1", "reprise place 2" },
        { "point 0:", "point 1:" },
        { "dma ", "dma -" },
        { "dma ", "dma 99999999999999999999" },
        { "vcpu-0.order offset ", "vcpu-1.order offset " },
        { " block ", " block  " },
        { " start ", " start x" },
        { "stores ", "stores g" },
        { "registers ", "registers 1 " },
    };
    g_autoptr(CheckpointPosition) place = random_place(2, 0);
    g_autofree char *text = NULL;

    save(place);
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    *strstr(text, "crc32c=") = '\0';
    for (unsigned i = 0; i < G_N_ELEMENTS(changes); i++) {
        g_autoptr(GString) changed = g_string_new(text);

        g_assert_cmpuint(g_string_replace(changed, changes[i].from, changes[i].to, 1), ==, 1);
        g_string_append_printf(changed, "crc32c=%08x\n",
                               recording_crc32c(0, changed->str, changed->len));
        refuse(changed->str, changed->len, 2);
    }
}

static void test_missing(void)
{
    g_autoptr(GError) error = NULL;

    g_unlink(path);
    g_assert_null(checkpoint_position_load(path, 1, &error));
    g_assert_error(error, G_FILE_ERROR, G_FILE_ERROR_NOENT);
    g_clear_error(&error);
    g_assert_null(checkpoint_position_load(directory, 1, &error));
    g_assert_error(error, SUMMED_TEXT_ERROR, SUMMED_TEXT_ERROR_DAMAGED);
}

/* A file that is larger than memory is not read to its end. */
static void test_huge(void)
{
    g_autoptr(GError) error = NULL;

    g_assert_true(g_file_set_contents(path, "", 0, NULL));
    g_assert_cmpint(truncate(path, (off_t)1 << 42), ==, 0);
    g_assert_null(checkpoint_position_load(path, 1, &error));
    g_assert_error(error, SUMMED_TEXT_ERROR, SUMMED_TEXT_ERROR_DAMAGED);
    g_unlink(path);
}

int main(int argc, char **argv)
{
    int status;

    g_test_init(&argc, &argv, NULL);
    directory = g_dir_make_tmp("test-place-XXXXXX", NULL);
    path = g_build_filename(directory, CHECKPOINT_POSITION_FILE, NULL);
    g_test_add_func("/place/logs", test_logs);
    g_test_add_func("/place/dropped", test_dropped);
    g_test_add_func("/place/dropped-damage", test_dropped_damage);
    g_test_add_func("/place/round-trip", test_round_trip);
    g_test_add_func("/place/damage", test_damage);
    g_test_add_func("/place/hostile", test_hostile);
    g_test_add_func("/place/missing", test_missing);
    g_test_add_func("/place/huge", test_huge);
    status = g_test_run();
    if (status == 0) {
        g_autofree char *command = g_strdup_printf("rm -r %s", directory);

        g_assert_cmpint(system(command), ==, 0);
    }
    g_free(directory);
    g_free(path);
    return status;
}
