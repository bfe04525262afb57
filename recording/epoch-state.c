/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See epoch-state.h.
 */
#include "recording/epoch-state.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/summed-text.h"
#include "base/write-all.h"

/* The header: 8 bytes of magic, the number of the epoch, and the checksum of both and the state. */
#define MAGIC "REprSta1"
#define MAGIC_BYTES 8
#define SUM_AT 16
#define HEADER_BYTES 20

static char *file_name(uint64_t number)
{
    return g_strdup_printf("epoch-%" PRIu64, number);
}

static void put_header(uint8_t header[HEADER_BYTES], uint64_t number, const void *state, size_t n)
{
    uint64_t number_le = GUINT64_TO_LE(number);
    uint32_t sum;

    memcpy(header, MAGIC, MAGIC_BYTES);
    memcpy(header + MAGIC_BYTES, &number_le, sizeof(number_le));
    sum = recording_crc32c(0, header, SUM_AT);
    sum = GUINT32_TO_LE(recording_crc32c(sum, state, n));
    memcpy(header + SUM_AT, &sum, sizeof(sum));
}

bool epoch_state_write(int directory_fd, const char *directory, uint64_t number,
                       const GByteArray *state, GError **error)
{
    g_autofree char *name = file_name(number);
    g_autofree char *path = g_build_filename(directory, name, NULL);
    int fd = openat(directory_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    uint8_t header[HEADER_BYTES];
    bool written;

    if (fd < 0) {
        return summed_text_fail(error, "create", path);
    }
    put_header(header, number, state->data, state->len);
    written = write_all(fd, header, HEADER_BYTES) && write_all(fd, state->data, state->len);
    if (!written) {
        summed_text_fail(error, "write", path);
    }
    close(fd);
    return written;
}

void epoch_state_remove(int directory_fd, uint64_t number)
{
    g_autofree char *name = file_name(number);

    unlinkat(directory_fd, name, 0);
}

/* Read all of @fd, with the header. */
static GByteArray *read_file(int fd, const char *path, GError **error)
{
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    struct stat st;
    size_t n = 0;

    if (fstat(fd, &st) < 0) {
        summed_text_fail(error, "read", path);
        return NULL;
    }
    if (st.st_size < HEADER_BYTES || st.st_size > EPOCH_STATE_MOST_BYTES) {
        summed_text_damaged(error, path, "it has another size than a state of devices");
        return NULL;
    }
    g_byte_array_set_size(bytes, st.st_size);
    while (n < bytes->len) {
        ssize_t got = read(fd, bytes->data + n, bytes->len - n);

        if (got < 0) {
            summed_text_fail(error, "read", path);
            return NULL;
        }
        if (got == 0) {
            summed_text_damaged(error, path, "it is truncated");
            return NULL;
        }
        n += got;
    }
    return g_steal_pointer(&bytes);
}

GByteArray *epoch_state_read(const char *directory, uint64_t number, GError **error)
{
    g_autofree char *name = file_name(number);
    g_autofree char *path = g_build_filename(directory, name, NULL);
    g_autoptr(GByteArray) bytes = NULL;
    uint8_t header[HEADER_BYTES];
    int fd = summed_text_open(path, error);

    if (fd < 0) {
        return NULL;
    }
    bytes = read_file(fd, path, error);
    close(fd);
    if (!bytes) {
        return NULL;
    }
    put_header(header, number, bytes->data + HEADER_BYTES, bytes->len - HEADER_BYTES);
    if (memcmp(header, bytes->data, HEADER_BYTES) != 0) {
        summed_text_damaged(error, path, "its checksum is wrong");
        return NULL;
    }
    g_byte_array_remove_range(bytes, 0, HEADER_BYTES);
    return g_steal_pointer(&bytes);
}
