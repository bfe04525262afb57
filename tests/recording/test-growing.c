/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Views of a recording while it is made: each is a sound recording up to its epoch, whatever the
 * recorder writes meanwhile, and the recording stays as it is.
 */
#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recording/checkpoint-position.h"
#include "recording/checkpoint-sums.h"
#include "recording/cut.h"
#include "recording/epochs.h"
#include "recording/growing.h"
#include "recording/log-block.h"
#include "recording/manifest.h"
#include "recording/ram-image.h"
#include "recording/verify.h"
#include "tests/recording/log-test.h"

enum { N_VCPUS = 2, DMA = N_VCPUS, RAM_SIZE = 4096 };

static volatile sig_atomic_t never;

typedef struct Fixture {
    char *directory;
    LogWriter *writer;
    Manifest *manifest;
    OrderSet orders;
    Position position[N_VCPUS + 1];
    int epochs;                 /* the file */
    uint64_t n_epochs;
} Fixture;

static LogStream *stream_of(Fixture *f, unsigned stream)
{
    return log_writer_stream(f->writer, stream);
}

/* --- a recorder ------------------------------------------------------------------------ */

static void setup(Fixture *f, gconstpointer orders)
{
    g_autoptr(GError) error = NULL;
    int place;

    *f = (Fixture) { .directory = test_directory(), .orders = GPOINTER_TO_UINT(orders) };
    f->writer = log_writer_new(f->directory, N_VCPUS, f->orders, &error);
    g_assert_no_error(error);
    f->manifest = manifest_new(N_VCPUS);
    f->manifest->qemu_version = g_strdup("10.0.2");
    f->manifest->arch = g_strdup("aarch64");
    f->manifest->machine = g_strdup("virt-10.0");
    f->manifest->cpu = g_strdup("cortex-a72,pmu=off");
    f->manifest->ram_size = RAM_SIZE;
    f->manifest->start = g_strdup(MANIFEST_START_POWER_ON);
    manifest_set_orders(f->manifest, &(Orders) { .set = f->orders });
    place = open(f->directory, O_RDONLY | O_DIRECTORY);
    f->epochs = epochs_create(place, f->directory, &error);
    g_assert_no_error(error);
    close(place);
}

static void teardown(Fixture *f, G_GNUC_UNUSED gconstpointer orders)
{
    for (unsigned i = 0; i < f->manifest->checkpoints->len; i++) {
        remove_directory(g_build_filename(f->directory, f->manifest->checkpoints->pdata[i], NULL));
    }
    close(f->epochs);
    log_writer_free(f->writer);
    manifest_free(f->manifest);
    remove_directory(f->directory);
}

static void make_steps(Fixture *f, unsigned n)
{
    g_autofree uint8_t *bytes = g_malloc0(RAM_SIZE);

    for (unsigned step = 0; step < n; step++) {
        unsigned i = g_test_rand_int_range(0, N_VCPUS + 1), source = (i + 1) % (N_VCPUS + 1);

        if (f->orders == ORDER_SET_FDR && g_test_rand_int_range(0, 4) == 0) {
            log_event(stream_of(f, i), LOG_EVENT_WAIT, f->position[i], (uint64_t)source,
                      f->position[source]);
        }
        if (i == DMA) {
            for (unsigned at = 0; at < RAM_SIZE; at++) {
                bytes[at] = g_test_rand_int();
            }
            log_event_bytes(stream_of(f, i), LOG_EVENT_DMA_WRITE, f->position[i], 0, bytes,
                            RAM_SIZE);
        } else {
            log_event(stream_of(f, i), LOG_EVENT_SYSREG, f->position[i],
                      (uint64_t)g_test_rand_int());
            log_event(stream_of(f, i), LOG_EVENT_WAKE, f->position[i]);
        }
        f->position[i]++;
        log_stream_boundary(stream_of(f, i));
    }
}

/* Let all streams rest at a barrier, and return where the logs go on. */
static LogPlaces *settle(Fixture *f)
{
    g_autoptr(GError) error = NULL;
    LogPlaces *places;

    for (unsigned i = 0; i <= N_VCPUS; i++) {
        if (f->orders & ORDER_SET(RACE_KARMA)) {
            log_episode(stream_of(f, i), f->position[i], 0, 0, NULL, 0);
            log_cut(stream_of(f, i), RACE_KARMA, f->position[i]);
        }
        log_stream_rest(stream_of(f, i), f->position[i]);
    }
    places = log_writer_places(f->writer);
    g_assert_true(log_places_wait(places, &error));
    for (unsigned i = 0; i <= N_VCPUS; i++) {
        log_stream_resume(stream_of(f, i));
    }
    return places;
}

static void add_checkpoint(Fixture *f)
{
    const char *const names[] = { CHECKPOINT_CPUS, NULL };
    g_autofree char *name = g_strdup_printf("checkpoint-%u", f->manifest->checkpoints->len);
    g_autofree char *checkpoint = g_build_filename(f->directory, name, NULL);
    g_autofree char *cpus = g_build_filename(checkpoint, CHECKPOINT_CPUS, NULL);
    g_autofree char *path = g_build_filename(checkpoint, RAM_IMAGE_FILE, NULL);
    g_autofree char *place = g_build_filename(checkpoint, CHECKPOINT_POSITION_FILE, NULL);
    g_autofree uint8_t *ram = g_malloc0(RAM_SIZE);
    g_autoptr(RamImageWriter) writer = NULL;

    g_assert_cmpint(g_mkdir(checkpoint, 0777), ==, 0);
    writer = ram_image_create(path, NULL);
    g_assert_true(ram_image_add_block(writer, "ram", ram, RAM_SIZE, NULL) &&
                  ram_image_close(writer, NULL));
    write_file(cpus, "registers", 9);
    g_assert_true(checkpoint_sums_save(checkpoint, names, NULL));
    if (f->manifest->checkpoints->len > 0) {
        g_autoptr(CheckpointPosition) position = checkpoint_position_new(N_VCPUS);

        position->logs = settle(f);
        position->dma_steps = f->position[DMA];
        memcpy(position->point->at, f->position, N_VCPUS * sizeof(Position));
        g_assert_true(checkpoint_position_save(position, place, NULL));
    }
    manifest_add_checkpoint(f->manifest, name);
    g_assert_true(manifest_save(f->manifest, f->directory, NULL));
}

/* @with_sizes: false, as in a recording that was converted. */
static void end_epoch(Fixture *f, bool with_sizes)
{
    g_autoptr(Epoch) epoch = epoch_new(N_VCPUS);
    g_autoptr(LogPlaces) places = settle(f);

    epoch->number = ++f->n_epochs;
    epoch->ram = g_strnfill(32, '0');
    epoch->dma_steps = f->position[DMA];
    memcpy(epoch->point->at, f->position, N_VCPUS * sizeof(Position));
    for (unsigned i = 0; with_sizes && i < (N_VCPUS + 1) * LOG_SUBSTREAMS; i++) {
        epoch->log_bytes[i] = places->place[i].offset;
    }
    g_assert_true(epochs_append(f->epochs, epoch, NULL));
}

/* --- views ------------------------------------------------------------------------------- */

static bool make_view(Fixture *f, const char *to, GrowingView *view, GError **error)
{
    return growing_view_make(f->directory, to, &never, view, error);
}

static void check_prefix(Fixture *f, const char *view, const char *name)
{
    g_autofree char *old = g_build_filename(f->directory, name, NULL);
    g_autofree char *new = g_build_filename(view, name, NULL);
    g_autofree char *whole = NULL;
    g_autofree char *part = NULL;
    size_t n_whole, n_part;

    g_assert_true(g_file_get_contents(old, &whole, &n_whole, NULL));
    g_assert_true(g_file_get_contents(new, &part, &n_part, NULL));
    g_assert_cmpuint(n_part, <=, n_whole);
    g_assert_cmpmem(whole, n_part, part, n_part);
}

/* Check that the view is a sound recording with these checkpoints, up to @position alone. */
static void check_view(Fixture *f, const char *view, unsigned n_checkpoints,
                       const Position *position)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(Manifest) manifest = manifest_load(view, &error);
    g_auto(Verified) verified = { 0 };
    g_autofree Position *cut = NULL;
    VerifiedEpochs epochs;

    g_assert_no_error(error);
    g_assert_false(manifest->complete);
    g_assert_cmpuint(manifest->checkpoints->len, ==, n_checkpoints);
    verify_recording(view, manifest, &verified);
    if (verified.faults->len) {
        g_error("not sound: %s", (char *)verified.faults->pdata[0]);
    }
    check_prefix(f, view, EPOCHS_FILE);
    g_assert_true(verify_epochs(view, N_VCPUS, manifest->cut, NULL, &epochs, &error));
    g_assert_cmpuint(epochs.n_epochs, ==, f->n_epochs);
    cut = cut_find_ends(view, N_VCPUS, manifest->cut, &error);
    g_assert_no_error(error);
    for (unsigned i = 0; i <= N_VCPUS; i++) {
        g_assert_cmpuint(cut[i], ==, position[i]);
        for (unsigned j = 0; j < LOG_SUBSTREAMS; j++) {
            if (log_file_exists(N_VCPUS, f->orders, i, j)) {
                g_autofree char *name = log_file_name(N_VCPUS, i, j);

                check_prefix(f, view, name);
            }
        }
    }
    for (unsigned i = 0; i < N_VCPUS; i++) {
        g_assert_cmpuint(manifest->cut->at[i], ==, position[i]);
        g_assert_cmpuint(verified.reached->at[i], ==, position[i]);
    }
}

static void test_views(Fixture *f, G_GNUC_UNUSED gconstpointer orders)
{
    add_checkpoint(f);
    for (unsigned round = 1; round <= 8; round++) {
        char *view = test_directory();
        g_autoptr(GError) error = NULL;
        Position position[N_VCPUS + 1];
        GrowingView made;

        make_steps(f, g_test_rand_int_range(1, 400));
        if (round % 3 == 0) {
            add_checkpoint(f);
        }
        make_steps(f, g_test_rand_int_range(0, 100));
        end_epoch(f, true);
        memcpy(position, f->position, sizeof(position));

        /* What comes later is not in the view. */
        make_steps(f, g_test_rand_int_range(0, 400));
        if (round == 7) {
            add_checkpoint(f);
        }
        g_assert_true(make_view(f, view, &made, &error));
        g_assert_no_error(error);
        g_assert_cmpuint(made.epoch, ==, round);
        g_assert_cmpuint(made.moment, ==, position[0] + position[1] + position[DMA]);
        check_view(f, view, 1 + round / 3 + (round == 8), position);
        growing_view_remove(view);
        g_assert_false(g_file_test(view, G_FILE_TEST_EXISTS));
        g_free(view);
    }
    for (unsigned i = 0; i < f->manifest->checkpoints->len; i++) {
        g_assert_true(verify_checkpoint(f->directory, f->manifest->checkpoints->pdata[i],
                                        f->manifest, NULL));
    }
}

/* --- refusals ------------------------------------------------------------------------------ */

static void expect_refusal(Fixture *f, const char *word)
{
    g_autofree char *view = test_directory();
    g_autoptr(GError) error = NULL;
    GrowingView made;

    g_assert_false(make_view(f, view, &made, &error));
    if (!strstr(error->message, word) || strchr(error->message, '\n')) {
        g_error("'%s' expected in one line: %s", word, error->message);
    }
    growing_view_remove(view);
    g_assert_false(g_file_test(view, G_FILE_TEST_EXISTS));
}

static void test_refusals(Fixture *f, G_GNUC_UNUSED gconstpointer orders)
{
    g_autofree char *epochs = g_build_filename(f->directory, EPOCHS_FILE, NULL);
    g_autofree char *log = g_build_filename(f->directory, "vcpu-0.data", NULL);
    g_autofree char *elsewhere = g_build_filename(f->directory, "elsewhere", NULL);
    g_autofree char *view = test_directory();
    g_autoptr(GError) error = NULL;
    volatile sig_atomic_t stop = 1;
    GrowingView made;

    expect_refusal(f, "no manifest");
    add_checkpoint(f);
    expect_refusal(f, "has no epoch yet");
    g_rename(epochs, elsewhere);
    expect_refusal(f, "has no epochs, up to which it could be seen: record with --epochs");
    g_rename(elsewhere, epochs);
    make_steps(f, 100);
    end_epoch(f, true);

    g_assert_false(growing_view_make(f->directory, view, &stop, &made, &error));
    g_assert_error(error, GROWING_ERROR, GROWING_ERROR_STOPPED);
    growing_view_remove(view);

    g_rename(log, elsewhere);
    expect_refusal(f, "cannot open ");
    write_file(log, "", 0);
    expect_refusal(f, "/vcpu-0.data");
    g_unlink(log);
    g_rename(elsewhere, log);
    g_assert_cmpint(truncate(log, 40), ==, 0);
    expect_refusal(f, "/vcpu-0.data is truncated: epoch 1 has more of it");
    g_assert_cmpint(write(f->epochs, "nonsense\n", 9), ==, 9);
    expect_refusal(f, "the line has a wrong checksum");
}

static void test_converted(Fixture *f, G_GNUC_UNUSED gconstpointer orders)
{
    add_checkpoint(f);
    end_epoch(f, false);
    expect_refusal(f, "its epochs do not tell how large the logs were");
}

static void test_dropped(Fixture *f, G_GNUC_UNUSED gconstpointer orders)
{
    g_autoptr(LogPlaces) places = NULL;
    g_autoptr(GError) error = NULL;

    add_checkpoint(f);
    if (!log_writer_can_drop(f->writer, &error)) {
        g_test_skip(error->message);
        return;
    }
    make_steps(f, 1000);
    places = settle(f);
    log_writer_drop(f->writer, places, f->position);
    make_steps(f, 100);
    end_epoch(f, true);
    expect_refusal(f, "is a flight recording, whose first part was dropped");
}

#define ADD(name, orders, test) \
    g_test_add("/growing/" name, Fixture, GUINT_TO_POINTER(orders), setup, test, teardown)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("views", ORDER_SET_FDR, test_views);
    ADD("views-karma", ORDER_SET(RACE_KARMA), test_views);
    ADD("refusals", ORDER_SET_FDR, test_refusals);
    ADD("converted", ORDER_SET_FDR, test_converted);
    ADD("dropped", ORDER_SET_FDR, test_dropped);
    return g_test_run();
}
