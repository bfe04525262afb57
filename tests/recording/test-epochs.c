/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file of epochs: what is written is read, also while the file grows; every changed bit is
 * noticed, and a hostile file is refused.
 */
#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "recording/epochs.h"
#include "tests/recording/log-test.h"

#define TITLE "reprise epochs 1\n"
#define RAM "0123456789abcdef0123456789abcdef"

static unsigned n_logs(unsigned n_vcpus)
{
    return (n_vcpus + 1) * LOG_SUBSTREAMS;
}

static uint64_t random_u64(void)
{
    uint64_t high = g_test_rand_int();

    return high << 32 | (uint32_t)g_test_rand_int();
}

/* Return an epoch that can follow on @last, or be the first. */
static Epoch *random_epoch(const Epoch *last, unsigned n_vcpus)
{
    Epoch *epoch = epoch_new(n_vcpus);

    epoch->number = last ? last->number + 1 : 1;
    epoch->time_us = random_u64() >> 1;
    epoch->dma_steps = (last ? last->dma_steps : 0) + g_test_rand_int_range(0, 5);
    epoch->ram = g_strdup_printf("%016" G_GINT64_MODIFIER "x%016" G_GINT64_MODIFIER "x",
                                 random_u64(), random_u64());
    for (unsigned i = 0; i < n_vcpus; i++) {
        epoch->point->at[i] = (last ? last->point->at[i] : 0) + (random_u64() >> 20);
        epoch->registers[i] = random_u64();
        epoch->stores[i] = random_u64();
    }
    for (unsigned i = 0; i < n_logs(n_vcpus); i++) {
        epoch->log_bytes[i] = (last ? last->log_bytes[i] : 0) + (random_u64() >> 20);
    }
    return epoch;
}

static GPtrArray *random_epochs(unsigned n, unsigned n_vcpus)
{
    GPtrArray *epochs = g_ptr_array_new_with_free_func((GDestroyNotify)epoch_free);

    for (unsigned i = 0; i < n; i++) {
        g_ptr_array_add(epochs, random_epoch(i ? epochs->pdata[i - 1] : NULL, n_vcpus));
    }
    return epochs;
}

static char *path_in(const char *directory)
{
    return g_build_filename(directory, EPOCHS_FILE, NULL);
}

/* Write the file as a recorder does. */
static void write_epochs(const char *directory, const GPtrArray *epochs)
{
    g_autoptr(GError) error = NULL;
    int place = open(directory, O_RDONLY | O_DIRECTORY);
    int fd = epochs_create(place, directory, &error);

    g_assert_no_error(error);
    g_assert_cmpint(fd, >=, 0);
    for (unsigned i = 0; i < epochs->len; i++) {
        g_assert_true(epochs_append(fd, epochs->pdata[i], &error));
        g_assert_no_error(error);
    }
    close(fd);
    close(place);
}

static void assert_same(const Epoch *a, const Epoch *b)
{
    g_autofree char *point_a = point_format(a->point);
    g_autofree char *point_b = point_format(b->point);

    g_assert_cmpuint(a->number, ==, b->number);
    g_assert_cmpint(a->time_us, ==, b->time_us);
    g_assert_cmpuint(a->n_vcpus, ==, b->n_vcpus);
    g_assert_cmpuint(a->dma_steps, ==, b->dma_steps);
    g_assert_cmpstr(a->ram, ==, b->ram);
    g_assert_cmpstr(point_a, ==, point_b);
    g_assert_cmpmem(a->registers, a->n_vcpus * 8, b->registers, b->n_vcpus * 8);
    g_assert_cmpmem(a->stores, a->n_vcpus * 8, b->stores, b->n_vcpus * 8);
    g_assert_cmpmem(a->log_bytes, n_logs(a->n_vcpus) * 8, b->log_bytes, n_logs(b->n_vcpus) * 8);
}

static EpochReader *open_reader(const char *directory, unsigned n_vcpus)
{
    g_autoptr(GError) error = NULL;
    EpochReader *reader = epoch_reader_open(directory, n_vcpus, &error);

    g_assert_no_error(error);
    g_assert_nonnull(reader);
    return reader;
}

/* Expect these epochs from @first on. */
static void expect_epochs(EpochReader *reader, const GPtrArray *epochs, unsigned first, unsigned n)
{
    for (unsigned i = first; i < first + n; i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(Epoch) epoch = NULL;

        g_assert_cmpint(epoch_reader_next(reader, &epoch, &error), ==, EPOCH_READER_EPOCH);
        g_assert_no_error(error);
        assert_same(epoch, epochs->pdata[i]);
    }
}

static void expect_end(EpochReader *reader, bool torn)
{
    g_autoptr(GError) error = NULL;
    Epoch *epoch = NULL;

    for (unsigned i = 0; i < 2; i++) {
        EpochReaderResult result = epoch_reader_next(reader, &epoch, &error);

        g_assert_no_error(error);
        g_assert_cmpint(result, ==, EPOCH_READER_END);
        g_assert_null(epoch);
        g_assert_cmpint(epoch_reader_torn(reader), ==, torn);
    }
}

static void expect_error(EpochReader *reader, const char *word)
{
    for (unsigned i = 0; i < 2; i++) {          /* it stays bad */
        g_autoptr(GError) error = NULL;
        Epoch *epoch = NULL;

        g_assert_cmpint(epoch_reader_next(reader, &epoch, &error), ==, EPOCH_READER_BAD);
        g_assert_error(error, EPOCHS_ERROR, EPOCHS_ERROR_DAMAGED);
        g_assert_null(epoch);
        if (!strstr(error->message, word) || !strstr(error->message, "/epochs: byte ") ||
            strchr(error->message, '\n')) {
            g_error("'%s' expected in one line: %s", word, error->message);
        }
    }
}

static void test_round_trip(void)
{
    static const unsigned n_vcpus[] = { 1, 2, 17, RECORDER_MAX_VCPUS };

    for (unsigned i = 0; i < G_N_ELEMENTS(n_vcpus); i++) {
        char *directory = test_directory();
        g_autofree char *path = path_in(directory);
        g_autoptr(GPtrArray) epochs = random_epochs(300 / n_vcpus[i] + 2, n_vcpus[i]);
        g_autoptr(EpochReader) reader = NULL;
        struct stat st;

        g_assert_false(epochs_exist(directory));
        write_epochs(directory, epochs);
        g_assert_true(epochs_exist(directory));
        reader = open_reader(directory, n_vcpus[i]);
        expect_epochs(reader, epochs, 0, epochs->len);
        expect_end(reader, false);
        g_assert_cmpint(stat(path, &st), ==, 0);
        g_assert_cmpuint(epoch_reader_offset(reader), ==, st.st_size);
        remove_directory(directory);
    }
}

/* Limits of the values, and the longest line that there can be. */
static void test_largest(void)
{
    char *directory = test_directory();
    g_autoptr(GPtrArray) epochs = random_epochs(1, RECORDER_MAX_VCPUS);
    g_autoptr(EpochReader) reader = NULL;
    Epoch *epoch = epochs->pdata[0];

    epoch->time_us = INT64_MAX;
    epoch->dma_steps = UINT64_MAX;
    for (unsigned i = 0; i < RECORDER_MAX_VCPUS; i++) {
        epoch->point->at[i] = epoch->registers[i] = epoch->stores[i] = UINT64_MAX;
    }
    for (unsigned i = 0; i < n_logs(RECORDER_MAX_VCPUS); i++) {
        epoch->log_bytes[i] = UINT64_MAX;
    }
    write_epochs(directory, epochs);
    reader = open_reader(directory, RECORDER_MAX_VCPUS);
    expect_epochs(reader, epochs, 0, 1);
    expect_end(reader, false);
    remove_directory(directory);
}

/* A file that grows byte by byte: a line is there when its newline is. */
static void test_grows(void)
{
    char *directory = test_directory();
    g_autofree char *path = path_in(directory);
    g_autoptr(GPtrArray) epochs = random_epochs(3, 2);
    g_autoptr(EpochReader) reader = NULL;
    g_autofree char *text = NULL;
    unsigned n_read = 0;
    size_t length, good = 0;
    int fd;

    write_epochs(directory, epochs);
    g_assert_true(g_file_get_contents(path, &text, &length, NULL));
    fd = open(path, O_WRONLY | O_TRUNC);
    reader = open_reader(directory, 2);
    expect_end(reader, true);
    for (size_t i = 0; i < length; i++) {
        g_assert_cmpint(write(fd, text + i, 1), ==, 1);
        if (text[i] == '\n') {
            if (good > 0) {
                expect_epochs(reader, epochs, n_read++, 1);
            }
            good = i + 1;
        }
        expect_end(reader, i + 1 > good);
        g_assert_cmpuint(epoch_reader_offset(reader), ==, good);
    }
    g_assert_cmpuint(n_read, ==, epochs->len);
    close(fd);
    remove_directory(directory);
}

/* A file that grows by random pieces, of more than a line and of less. */
static void test_grows_fast(void)
{
    char *directory = test_directory();
    g_autofree char *path = path_in(directory);
    g_autoptr(GPtrArray) epochs = random_epochs(2000, 3);
    g_autoptr(EpochReader) reader = NULL;
    g_autofree char *text = NULL;
    unsigned n_read = 0;
    size_t length;
    int fd;

    write_epochs(directory, epochs);
    g_assert_true(g_file_get_contents(path, &text, &length, NULL));
    fd = open(path, O_WRONLY | O_TRUNC);
    reader = open_reader(directory, 3);
    for (size_t done = 0; done < length; ) {
        size_t n = g_test_rand_int_range(1, 50000);
        Epoch *epoch = NULL;

        n = MIN(n, length - done);
        g_assert_cmpint(write(fd, text + done, n), ==, n);
        done += n;
        while (epoch_reader_next(reader, &epoch, NULL) == EPOCH_READER_EPOCH) {
            assert_same(epoch, epochs->pdata[n_read++]);
            g_clear_pointer(&epoch, epoch_free);
        }
    }
    g_assert_cmpuint(n_read, ==, epochs->len);
    expect_end(reader, false);
    close(fd);
    remove_directory(directory);
}

/* Return true if all epochs are read, and no fault is seen. */
static bool reads_whole(const char *directory, unsigned n_epochs)
{
    g_autoptr(EpochReader) reader = open_reader(directory, 2);
    EpochReaderResult result;
    Epoch *epoch = NULL;
    unsigned n = 0;

    while ((result = epoch_reader_next(reader, &epoch, NULL)) == EPOCH_READER_EPOCH) {
        epoch_free(epoch);
        n++;
    }
    g_assert_cmpuint(n, <=, n_epochs);
    return result == EPOCH_READER_END && !epoch_reader_torn(reader) && n == n_epochs;
}

/* A changed bit, a lost byte and a file that is cut off are noticed wherever they are. */
static void test_every_bit(void)
{
    char *directory = test_directory();
    g_autofree char *path = path_in(directory);
    g_autoptr(GPtrArray) epochs = random_epochs(2, 2);
    g_autofree char *text = NULL;
    size_t length;

    write_epochs(directory, epochs);
    g_assert_true(g_file_get_contents(path, &text, &length, NULL));
    for (size_t bit = 0; bit < length * 8; bit++) {
        text[bit / 8] ^= 1 << bit % 8;
        write_file(path, text, length);
        g_assert_false(reads_whole(directory, epochs->len));
        text[bit / 8] ^= 1 << bit % 8;
    }
    for (size_t i = 0; i < length; i++) {
        g_autofree char *less = g_strndup(text, length);

        memmove(less + i, less + i + 1, length - i);
        write_file(path, less, length - 1);
        g_assert_false(reads_whole(directory, epochs->len));
        write_file(path, text, i);
        g_assert_false(reads_whole(directory, epochs->len));
    }
    write_file(path, text, length);
    g_assert_true(reads_whole(directory, epochs->len));
    remove_directory(directory);
}

#define LOGS_1 "9,8,0,0,7,0,0,0"
#define LINE(number, point, dma, logs) \
    "epoch " number " us 5 point " point " dma " dma " ram " RAM " registers 00000000000000ff " \
    "stores 0000000000000001 logs " logs
#define GOOD LINE("1", "0:10", "3", LOGS_1)

static void add_summed(GString *text, const char *line)
{
    g_string_append_printf(text, "%s crc32c=%08x\n", line,
                           recording_crc32c(0, line, strlen(line)));
}

/* Checksums are right. */
static void test_hostile(void)
{
    static const char *const cases[] = {
        "",
        " ",
        "epoch",
        "                ",
        LINE("1", "0:10", "3", LOGS_1) " ",
        LINE("1", "0:10", "3", LOGS_1) " more 1",
        " " LINE("1", "0:10", "3", LOGS_1),
        LINE(" 1", "0:10", "3", LOGS_1),
        LINE("-1", "0:10", "3", LOGS_1),
        LINE("+1", "0:10", "3", LOGS_1),
        LINE("01", "0:10", "3", LOGS_1),
        LINE("0x1", "0:10", "3", LOGS_1),
        LINE("", "0:10", "3", LOGS_1),
        LINE("18446744073709551617", "0:10", "3", LOGS_1),
        LINE("1", "0:10,1:0", "3", LOGS_1),
        LINE("1", "1:10", "3", LOGS_1),
        LINE("1", "0:010", "3", LOGS_1),
        LINE("1", "0:-1", "3", LOGS_1),
        LINE("1", "0:18446744073709551616", "3", LOGS_1),
        LINE("1", "", "3", LOGS_1),
        LINE("1", "0:10", "3.0", LOGS_1),
        LINE("1", "0:10", "3", "9,8,0,0,7,0,0"),
        LINE("1", "0:10", "3", "9,8,0,0,7,0,0,0,0"),
        LINE("1", "0:10", "3", "9,8,0,0,7,0,0,"),
        LINE("1", "0:10", "3", "9,8,0,0,7,0,0,-1"),
        LINE("1", "0:10", "3", "9;8,0,0,7,0,0,0"),
        "epoch 1 us -5 point 0:10 dma 3 ram " RAM " registers 00000000000000ff stores "
        "0000000000000001 logs " LOGS_1,
        "epoch 1 us 9223372036854775808 point 0:10 dma 3 ram " RAM " registers 00000000000000ff "
        "stores 0000000000000001 logs " LOGS_1,
        "epoch 1 us 5 point 0:10 dma 3 ram 0123456789ABCDEF0123456789abcdef registers "
        "00000000000000ff stores 0000000000000001 logs " LOGS_1,
        "epoch 1 us 5 point 0:10 dma 3 ram 0123 registers 00000000000000ff stores "
        "0000000000000001 logs " LOGS_1,
        "epoch 1 us 5 point 0:10 dma 3 ram " RAM " registers ff stores 0000000000000001 logs "
        LOGS_1,
        "epoch 1 us 5 point 0:10 dma 3 ram " RAM " registers 000000000000000ff stores "
        "0000000000000001 logs " LOGS_1,
        "epoch 1 us 5 point 0:10 dma 3 ram " RAM " registers 00000000000000FF stores "
        "0000000000000001 logs " LOGS_1,
        "epoch 1 us 5 point 0:10 dma 3 ram " RAM " stores 00000000000000ff registers "
        "0000000000000001 logs " LOGS_1,
        "EPOCH 1 us 5 point 0:10 dma 3 ram " RAM " registers 00000000000000ff stores "
        "0000000000000001 logs " LOGS_1,
    };
    char *directory = test_directory();
    g_autofree char *path = path_in(directory);

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GString) text = g_string_new(TITLE);
        g_autoptr(EpochReader) reader = NULL;

        add_summed(text, cases[i]);
        write_file(path, text->str, text->len);
        reader = open_reader(directory, 1);
        expect_error(reader, "byte 17: the line is no epoch of this recording");
    }
    remove_directory(directory);
}

/* Each epoch is good by itself. */
static void test_order(void)
{
    static const struct {
        const char *first, *second;
        bool good;
    } cases[] = {
        { GOOD, LINE("2", "0:10", "3", LOGS_1), true },
        { GOOD, LINE("2", "0:11", "4", "9,9,0,0,8,0,0,0"), true },
        { GOOD, LINE("1", "0:10", "3", LOGS_1), false },
        { GOOD, LINE("3", "0:10", "3", LOGS_1), false },
        { GOOD, LINE("0", "0:10", "3", LOGS_1), false },
        { GOOD, LINE("2", "0:9", "3", LOGS_1), false },
        { GOOD, LINE("2", "0:10", "2", LOGS_1), false },
        { GOOD, LINE("2", "0:10", "3", "8,8,0,0,7,0,0,0"), false },
        { GOOD, LINE("2", "0:10", "3", "9,8,0,0,6,0,0,0"), false },
        { GOOD, LINE("2", "0:10", "3", "0,0,0,0,0,0,0,0"), false },
        { LINE("1", "0:10", "3", "0,0,0,0,0,0,0,0"), LINE("2", "0:10", "3", "0,0,0,0,0,0,0,0"),
          true },
    };
    char *directory = test_directory();
    g_autofree char *path = path_in(directory);

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GString) text = g_string_new(TITLE);
        g_autoptr(EpochReader) reader = NULL;
        Epoch *epoch = NULL;
        size_t first;

        add_summed(text, cases[i].first);
        first = text->len;
        add_summed(text, cases[i].second);
        write_file(path, text->str, text->len);
        reader = open_reader(directory, 1);
        g_assert_cmpint(epoch_reader_next(reader, &epoch, NULL), ==, EPOCH_READER_EPOCH);
        g_assert_cmpint(epoch_has_log_bytes(epoch), ==, epoch_log_bytes(epoch, 0, LOG_DATA) == 8);
        g_clear_pointer(&epoch, epoch_free);
        if (cases[i].good) {
            g_assert_cmpint(epoch_reader_next(reader, &epoch, NULL), ==, EPOCH_READER_EPOCH);
            epoch_free(epoch);
            expect_end(reader, false);
        } else {
            expect_error(reader, "the epoch does not follow on the one before");
            g_assert_cmpuint(epoch_reader_offset(reader), ==, first);
        }
    }
    for (unsigned number = 0; number <= 2; number += 2) {
        g_autoptr(GString) text = g_string_new(TITLE);
        g_autoptr(EpochReader) reader = NULL;

        add_summed(text, number ? LINE("2", "0:10", "3", LOGS_1) : LINE("0", "0:10", "3", LOGS_1));
        write_file(path, text->str, text->len);
        reader = open_reader(directory, 1);
        expect_error(reader, "does not follow");
    }
    remove_directory(directory);
}

/* Text that is no line with a checksum. */
static void test_foreign(void)
{
    static const struct {
        const char *text;
        size_t length;
        const char *word;
    } cases[] = {
#define CASE(text, word) { text, sizeof(text) - 1, word }
        CASE("\n", "byte 0: this is no list of epochs"),
        CASE("reprise epochs 2\n", "byte 0: this is no list of epochs"),
        CASE("reprise epochs 1\r\n", "byte 0: this is no list of epochs"),
        CASE("reprise epochs 1 \n", "byte 0: this is no list of epochs"),
        CASE("reprise\0epochs 1\n", "byte 0: this is no list of epochs"),
        CASE(TITLE "\n", "byte 17: the line has a wrong checksum"),
        CASE(TITLE TITLE, "byte 17: the line has a wrong checksum"),
        CASE(TITLE GOOD "\n", "byte 17: the line has a wrong checksum"),
        CASE(TITLE GOOD " crc32c=00000000\n", "byte 17: the line has a wrong checksum"),
        CASE(TITLE " crc32c=0000000\n", "byte 17: the line has a wrong checksum"),
        CASE(TITLE "\0 crc32c=00000000\n", "byte 17: the line has a wrong checksum"),
#undef CASE
    };
    char *directory = test_directory();
    g_autofree char *path = path_in(directory);
    g_autofree char *filler = g_strnfill(1 << 20, '1');

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(EpochReader) reader = NULL;

        write_file(path, cases[i].text, cases[i].length);
        reader = open_reader(directory, 1);
        expect_error(reader, cases[i].word);
    }
    for (unsigned title = 0; title < 2; title++) {
        g_autofree char *text = g_strdup_printf("%s%s", title ? TITLE : "", filler);
        g_autoptr(EpochReader) reader = NULL;

        write_file(path, text, strlen(text));
        reader = open_reader(directory, 1);
        expect_error(reader, "the line is too long");
    }
    remove_directory(directory);
}

/* The recording has another number of vCPUs than the file. */
static void test_vcpus(void)
{
    char *directory = test_directory();
    g_autoptr(GPtrArray) epochs = random_epochs(1, 2);
    g_autoptr(EpochReader) one = NULL;
    g_autoptr(EpochReader) three = NULL;

    write_epochs(directory, epochs);
    one = open_reader(directory, 1);
    expect_error(one, "the line is no epoch of this recording");
    three = open_reader(directory, 3);
    expect_error(three, "the line is no epoch of this recording");
    remove_directory(directory);
}

static void test_files(void)
{
    char *directory = test_directory();
    g_autofree char *path = path_in(directory);
    g_autoptr(GPtrArray) none = random_epochs(0, 2);
    g_autoptr(GError) missing = NULL;
    g_autoptr(GError) fifo = NULL;
    g_autoptr(GError) exists = NULL;
    g_autoptr(GError) full = NULL;
    g_autoptr(EpochReader) reader = NULL;
    g_autoptr(Epoch) epoch = random_epoch(NULL, 2);
    int place = open(directory, O_RDONLY | O_DIRECTORY), fd;

    g_assert_null(epoch_reader_open(directory, 2, &missing));
    g_assert_error(missing, G_FILE_ERROR, G_FILE_ERROR_NOENT);
    g_assert_cmpint(mkfifo(path, 0600), ==, 0);
    g_assert_null(epoch_reader_open(directory, 2, &fifo));
    g_assert_nonnull(strstr(fifo->message, "/epochs: not a regular file"));
    g_unlink(path);

    write_epochs(directory, none);
    reader = open_reader(directory, 2);
    expect_end(reader, false);
    g_assert_cmpint(epochs_create(place, directory, &exists), ==, -1);
    g_assert_error(exists, G_FILE_ERROR, G_FILE_ERROR_EXIST);
    g_assert_nonnull(strstr(exists->message, "cannot create"));
    close(place);

    fd = open("/dev/full", O_WRONLY);
    if (fd >= 0) {
        g_assert_false(epochs_append(fd, epoch, &full));
        g_assert_error(full, G_FILE_ERROR, G_FILE_ERROR_NOSPC);
        close(fd);
    }
    epoch_free(NULL);
    epoch_reader_free(NULL);
    remove_directory(directory);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/epochs/round-trip", test_round_trip);
    g_test_add_func("/epochs/largest", test_largest);
    g_test_add_func("/epochs/grows", test_grows);
    g_test_add_func("/epochs/grows-fast", test_grows_fast);
    g_test_add_func("/epochs/every-bit", test_every_bit);
    g_test_add_func("/epochs/hostile", test_hostile);
    g_test_add_func("/epochs/order", test_order);
    g_test_add_func("/epochs/foreign", test_foreign);
    g_test_add_func("/epochs/vcpus", test_vcpus);
    g_test_add_func("/epochs/files", test_files);
    return g_test_run();
}
