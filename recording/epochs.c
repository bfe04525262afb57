/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See epochs.h.  Nothing in the file is trusted; a line that is not whole yet is no error, since a
 * recorder may be writing it, or was killed.
 */
#include "recording/epochs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/summed-text.h"
#include "base/write-all.h"

#define TITLE "reprise epochs 1\n"
#define SUM " crc32c="
#define SUM_DIGITS 8
#define RAM_DIGITS 32
#define MOST_LINE (128 * 1024)
#define READ_BYTES (64 * 1024)

G_DEFINE_QUARK(epochs-error-quark, epochs_error)

static unsigned n_logs(unsigned n_vcpus)
{
    return (n_vcpus + 1) * LOG_SUBSTREAMS;
}

Epoch *epoch_new(unsigned n_vcpus)
{
    Epoch *epoch = g_new0(Epoch, 1);

    epoch->n_vcpus = n_vcpus;
    epoch->point = point_new(n_vcpus);
    epoch->registers = g_new0(uint64_t, n_vcpus);
    epoch->stores = g_new0(uint64_t, n_vcpus);
    epoch->log_bytes = g_new0(uint64_t, n_logs(n_vcpus));
    return epoch;
}

void epoch_free(Epoch *epoch)
{
    if (epoch) {
        point_free(epoch->point);
        g_free(epoch->ram);
        g_free(epoch->registers);
        g_free(epoch->stores);
        g_free(epoch->log_bytes);
        g_free(epoch);
    }
}

bool epoch_has_log_bytes(const Epoch *epoch)
{
    for (unsigned i = 0; i < n_logs(epoch->n_vcpus); i++) {
        if (epoch->log_bytes[i] > 0) {
            return true;
        }
    }
    return false;
}

/* --- writing -------------------------------------------------------------------------- */

int epochs_create(int directory_fd, const char *directory, GError **error)
{
    g_autofree char *path = g_build_filename(directory, EPOCHS_FILE, NULL);
    int fd = openat(directory_fd, EPOCHS_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

    if (fd < 0) {
        summed_text_fail(error, "create", path);
    } else if (!write_all(fd, TITLE, strlen(TITLE))) {
        summed_text_fail(error, "write", path);
        close(fd);
        fd = -1;
    }
    return fd;
}

static void put_list(GString *line, const char *name, const uint64_t *values, unsigned n,
                     const char *format)
{
    g_string_append(line, name);
    for (unsigned i = 0; i < n; i++) {
        g_string_append_c(line, i ? ',' : ' ');
        g_string_append_printf(line, format, values[i]);
    }
}

/* Return the line of @epoch, without checksum and newline. */
static GString *format_epoch(const Epoch *epoch)
{
    g_autofree char *point = point_format(epoch->point);
    GString *line = g_string_new(NULL);

    g_string_append_printf(line, "epoch %" PRIu64 " us %" PRId64 " point %s dma %" PRIu64 " ram %s",
                           epoch->number, epoch->time_us, point, epoch->dma_steps, epoch->ram);
    put_list(line, " registers", epoch->registers, epoch->n_vcpus, "%016" PRIx64);
    put_list(line, " stores", epoch->stores, epoch->n_vcpus, "%016" PRIx64);
    put_list(line, " logs", epoch->log_bytes, n_logs(epoch->n_vcpus), "%" PRIu64);
    return line;
}

bool epochs_append(int fd, const Epoch *epoch, GError **error)
{
    g_autoptr(GString) line = format_epoch(epoch);

    g_string_append_printf(line, SUM "%08" PRIx32 "\n", recording_crc32c(0, line->str, line->len));
    return write_all(fd, line->str, line->len) || summed_text_fail(error, "write", EPOCHS_FILE);
}

/* --- reading --------------------------------------------------------------------------- */

struct EpochReader {
    int fd;
    char *path;
    unsigned n_vcpus;
    GString *text;              /* read, and not yet parsed */
    uint64_t offset;            /* of @text in the file */
    uint64_t line;              /* of the last epoch */
    bool has_title;
    Epoch *last;                /* or NULL */
    GError *error;              /* why the file is bad; then all further reads fail */
};

bool epochs_exist(const char *directory)
{
    g_autofree char *path = g_build_filename(directory, EPOCHS_FILE, NULL);

    return g_file_test(path, G_FILE_TEST_EXISTS);
}

EpochReader *epoch_reader_open(const char *directory, unsigned n_vcpus, GError **error)
{
    g_autoptr(EpochReader) reader = g_new0(EpochReader, 1);

    reader->path = g_build_filename(directory, EPOCHS_FILE, NULL);
    reader->n_vcpus = n_vcpus;
    reader->text = g_string_new(NULL);
    reader->fd = summed_text_open(reader->path, error);
    return reader->fd < 0 ? NULL : g_steal_pointer(&reader);
}

void epoch_reader_free(EpochReader *reader)
{
    if (reader) {
        if (reader->fd >= 0) {
            close(reader->fd);
        }
        g_free(reader->path);
        g_string_free(reader->text, true);
        epoch_free(reader->last);
        g_clear_error(&reader->error);
        g_free(reader);
    }
}

static EpochReaderResult bad(EpochReader *reader, const char *what)
{
    g_set_error(&reader->error, EPOCHS_ERROR, EPOCHS_ERROR_DAMAGED, "%s: byte %" PRIu64 ": %s",
                reader->path, reader->offset, what);
    return EPOCH_READER_BAD;
}

/* Read until there is a whole line.  Return its length without the newline. */
static EpochReaderResult read_line(EpochReader *reader, size_t *length)
{
    for (;;) {
        const char *end = memchr(reader->text->str, '\n', reader->text->len);
        char buffer[READ_BYTES];
        ssize_t got;

        if (end) {
            *length = end - reader->text->str;
            return EPOCH_READER_EPOCH;
        }
        if (reader->text->len > MOST_LINE) {
            return bad(reader, "the line is too long");
        }
        got = pread(reader->fd, buffer, sizeof(buffer), reader->offset + reader->text->len);
        if (got == 0) {
            return EPOCH_READER_END;
        }
        if (got > 0) {
            g_string_append_len(reader->text, buffer, got);
        } else if (errno != EINTR) {
            summed_text_fail(&reader->error, "read", reader->path);
            return EPOCH_READER_BAD;
        }
    }
}

static void drop_line(EpochReader *reader, size_t length)
{
    g_string_erase(reader->text, 0, length + 1);
    reader->offset += length + 1;
}

/* Return true if @line ends with the checksum of what is before, and remove it. */
static bool take_sum(char *line)
{
    size_t length = strlen(line), sum = strlen(SUM) + SUM_DIGITS;
    g_autofree char *right = NULL;

    if (length < sum) {
        return false;
    }
    right = g_strdup_printf(SUM "%08" PRIx32, recording_crc32c(0, line, length - sum));
    if (!g_str_equal(right, line + length - sum)) {
        return false;
    }
    line[length - sum] = '\0';
    return true;
}

static bool take_number(const char *word, unsigned base, uint64_t *value)
{
    return g_ascii_string_to_unsigned(word, base, 0, UINT64_MAX, value, NULL);
}

static bool take_list(const char *word, uint64_t *values, unsigned n, unsigned base)
{
    g_auto(GStrv) words = g_strsplit(word, ",", n + 1);

    if (g_strv_length(words) != n) {
        return false;
    }
    for (unsigned i = 0; i < n; i++) {
        if (!take_number(words[i], base, &values[i])) {
            return false;
        }
    }
    return true;
}

static bool take_ram(const char *word, char **ram)
{
    if (strlen(word) != RAM_DIGITS || strspn(word, "0123456789abcdef") != RAM_DIGITS) {
        return false;
    }
    *ram = g_strdup(word);
    return true;
}

/*
 * Return the epoch of a line without its checksum, or NULL.  There is one line for each epoch: that
 * which epochs_append() writes.
 */
static Epoch *parse(const char *line, unsigned n_vcpus)
{
    static const char *const names[] = {
        "epoch", "us", "point", "dma", "ram", "registers", "stores", "logs",
    };
    g_auto(GStrv) words = g_strsplit(line, " ", 2 * G_N_ELEMENTS(names) + 1);
    g_autoptr(Epoch) epoch = epoch_new(n_vcpus);
    g_autoptr(GString) again = NULL;
    uint64_t time_us;

    if (g_strv_length(words) != 2 * G_N_ELEMENTS(names)) {
        return NULL;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        if (!g_str_equal(words[2 * i], names[i])) {
            return NULL;
        }
    }
    point_free(epoch->point);
    epoch->point = point_parse(words[5], n_vcpus, NULL);
    if (!epoch->point || !take_number(words[1], 10, &epoch->number) ||
        !take_number(words[3], 10, &time_us) || time_us > INT64_MAX ||
        !take_number(words[7], 10, &epoch->dma_steps) || !take_ram(words[9], &epoch->ram) ||
        !take_list(words[11], epoch->registers, n_vcpus, 16) ||
        !take_list(words[13], epoch->stores, n_vcpus, 16) ||
        !take_list(words[15], epoch->log_bytes, n_logs(n_vcpus), 10)) {
        return NULL;
    }
    epoch->time_us = time_us;
    again = format_epoch(epoch);
    return g_str_equal(again->str, line) ? g_steal_pointer(&epoch) : NULL;
}

/* Return true if @epoch can follow on @last. */
static bool follows(const Epoch *epoch, const Epoch *last)
{
    if (!last) {
        return epoch->number == 1;
    }
    for (unsigned i = 0; i < n_logs(epoch->n_vcpus); i++) {
        if (epoch->log_bytes[i] < last->log_bytes[i]) {
            return false;
        }
    }
    return epoch->number == last->number + 1 && epoch->dma_steps >= last->dma_steps &&
           point_includes(epoch->point, last->point);
}

static Epoch *copy(const Epoch *epoch)
{
    Epoch *new = epoch_new(epoch->n_vcpus);

    new->number = epoch->number;
    new->time_us = epoch->time_us;
    new->dma_steps = epoch->dma_steps;
    new->ram = g_strdup(epoch->ram);
    memcpy(new->point->at, epoch->point->at, epoch->n_vcpus * sizeof(Position));
    memcpy(new->registers, epoch->registers, epoch->n_vcpus * sizeof(uint64_t));
    memcpy(new->stores, epoch->stores, epoch->n_vcpus * sizeof(uint64_t));
    memcpy(new->log_bytes, epoch->log_bytes, n_logs(epoch->n_vcpus) * sizeof(uint64_t));
    return new;
}

static EpochReaderResult next(EpochReader *reader, Epoch **epoch)
{
    g_autofree char *line = NULL;
    EpochReaderResult result;
    size_t length;

    result = read_line(reader, &length);
    if (result == EPOCH_READER_EPOCH && !reader->has_title) {
        if (length + 1 != strlen(TITLE) || strncmp(reader->text->str, TITLE, length) != 0) {
            return bad(reader, "this is no list of epochs");
        }
        reader->has_title = true;
        drop_line(reader, length);
        result = read_line(reader, &length);
    }
    if (result != EPOCH_READER_EPOCH) {
        return result;
    }
    line = g_strndup(reader->text->str, length);
    if (strlen(line) != length || !take_sum(line)) {
        return bad(reader, "the line has a wrong checksum");
    }
    *epoch = parse(line, reader->n_vcpus);
    if (!*epoch) {
        return bad(reader, "the line is no epoch of this recording");
    }
    if (!follows(*epoch, reader->last)) {
        g_clear_pointer(epoch, epoch_free);
        return bad(reader, "the epoch does not follow on the one before");
    }
    reader->line = reader->offset;
    drop_line(reader, length);
    epoch_free(reader->last);
    reader->last = copy(*epoch);
    return EPOCH_READER_EPOCH;
}

EpochReaderResult epoch_reader_next(EpochReader *reader, Epoch **epoch, GError **error)
{
    EpochReaderResult result = reader->error ? EPOCH_READER_BAD : next(reader, epoch);

    if (result == EPOCH_READER_BAD) {
        g_propagate_error(error, g_error_copy(reader->error));
    }
    return result;
}

uint64_t epoch_reader_offset(const EpochReader *reader)
{
    return reader->offset;
}

uint64_t epoch_reader_line(const EpochReader *reader)
{
    return reader->line;
}

bool epoch_reader_torn(const EpochReader *reader)
{
    return !reader->has_title || reader->text->len > 0;
}
