/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Faults that `verify` finds in recordings with right checksums.  Each recording has one fault.
 */
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>

#include "recording/checkpoint-sums.h"
#include "recording/manifest.h"
#include "recording/ram-image.h"
#include "recording/registers.h"
#include "recording/verify.h"
#include "tests/recording/log-test.h"

enum { N_VCPUS = 2, DMA = N_VCPUS, RAM_SIZE = 8192, END = 100 };

typedef struct Fixture {
    char *directory;
    LogWriter *writer;
    LogStream *stream[N_VCPUS + 1];
    Manifest *manifest;
    Registers registers[N_VCPUS];
} Fixture;

static void setup(Fixture *f, G_GNUC_UNUSED const void *data)
{
    f->directory = test_directory();
    f->writer = log_writer_new(f->directory, N_VCPUS, ORDER_SET_FDR, NULL);
    for (unsigned i = 0; i <= N_VCPUS; i++) {
        f->stream[i] = log_writer_stream(f->writer, i);
    }
    f->manifest = manifest_new(N_VCPUS);
    f->manifest->arch = g_strdup("aarch64");
    f->manifest->ram_size = RAM_SIZE;
    f->manifest->complete = true;
    f->manifest->end = point_new(N_VCPUS);
}

static void teardown(Fixture *f, G_GNUC_UNUSED const void *data)
{
    manifest_free(f->manifest);
    log_writer_free(f->writer);
    remove_directory(f->directory);
}

static void wait_at(Fixture *f, unsigned stream, Position position, unsigned source,
                    uint64_t steps)
{
    log_event(f->stream[stream], LOG_EVENT_WAIT, position, (uint64_t)source, steps);
    f->manifest->arcs++;
}

static void dma_write(Fixture *f, Position position, uint64_t address)
{
    log_event_bytes(f->stream[DMA], LOG_EVENT_DMA_WRITE, position, address, "bytes", 5);
}

static uint64_t log_registers(Fixture *f, unsigned vcpu, Position position)
{
    Registers now = { .value = { position, vcpu } };

    registers_log(f->stream[vcpu], position, &f->registers[vcpu], &now);
    return registers_digest(register_set("aarch64"), &now);
}

static void end_vcpu(Fixture *f, unsigned vcpu)
{
    uint64_t digest = log_registers(f, vcpu, END);

    log_event(f->stream[vcpu], LOG_EVENT_END, (Position)END, digest, UINT64_C(0));
    f->manifest->end->at[vcpu] = END;
    f->manifest->register_digests[vcpu] = digest;
}

static void finish(Fixture *f)
{
    g_autoptr(GError) error = NULL;

    g_assert_true(log_writer_finish(f->writer, &error));
}

static void end_all(Fixture *f)
{
    end_vcpu(f, 0);
    end_vcpu(f, 1);
    finish(f);
}

/* Check that the logs have exactly one fault, whose text contains @word; NULL: no fault. */
static void expect(Fixture *f, const char *word)
{
    g_auto(Verified) verified = { 0 };

    verify_recording(f->directory, f->manifest, &verified);
    /* The missing checkpoint is always a fault, too. */
    g_assert_cmpuint(verified.faults->len, ==, word ? 2 : 1);
    g_assert_nonnull(strstr(verified.faults->pdata[verified.faults->len - 1], "no checkpoint"));
    if (word && !strstr(verified.faults->pdata[0], word)) {
        g_error("'%s' expected: %s", word, (char *)verified.faults->pdata[0]);
    }
}

static void expect_point(Fixture *f, Position first, Position second)
{
    g_auto(Verified) verified = { 0 };

    verify_recording(f->directory, f->manifest, &verified);
    g_assert_cmpuint(verified.faults->len, ==, 1);
    g_assert_true(verified.cut_off);
    g_assert_cmpuint(verified.reached->at[0], ==, first);
    g_assert_cmpuint(verified.reached->at[1], ==, second);
}

/* --- waits ------------------------------------------------------------------------ */

static void test_sound(Fixture *f, G_GNUC_UNUSED const void *data)
{
    g_auto(Verified) verified = { 0 };

    wait_at(f, 0, 10, 1, 20);
    wait_at(f, 1, 20, 0, 5);
    log_event(f->stream[1], LOG_EVENT_WAKE, UINT64_C(20));
    wait_at(f, DMA, 0, 1, 21);
    dma_write(f, 0, RAM_SIZE - 5);
    wait_at(f, 0, 30, DMA, 1);
    log_event(f->stream[0], LOG_EVENT_DIGEST, UINT64_C(40), log_registers(f, 0, 40), UINT64_C(1));
    end_all(f);
    expect(f, NULL);
    verify_recording(f->directory, f->manifest, &verified);
    g_assert_cmpuint(verified.arcs, ==, 4);
    g_assert_cmpuint(verified.reached->at[0], ==, END);
    g_assert_false(verified.cut_off);
}

static void test_no_source(Fixture *f, G_GNUC_UNUSED const void *data)
{
    wait_at(f, 0, 10, 1, END + 1);
    end_all(f);
    expect(f, "vCPU 0 waits at position 10 for step 101 of vCPU 1, whose log ends at 100");
}

static void test_circle(Fixture *f, G_GNUC_UNUSED const void *data)
{
    wait_at(f, 0, 10, 1, 21);
    wait_at(f, 1, 20, DMA, 1);
    wait_at(f, DMA, 0, 0, 11);
    dma_write(f, 0, 0);
    end_all(f);
    expect(f, "waits in a circle: vCPU 0 waits at position 10 for step 21 of vCPU 1; vCPU 1 "
           "waits at position 20 for step 1 of DMA; DMA waits at position 0 for step 11 of vCPU 0");
}

static void test_circle_of_one(Fixture *f, G_GNUC_UNUSED const void *data)
{
    wait_at(f, 0, 10, 0, 11);
    end_all(f);
    expect(f, "circle");
}

/* Waits of DMA behind a cut do not matter. */
static void test_circle_behind_the_cut(Fixture *f, G_GNUC_UNUSED const void *data)
{
    wait_at(f, DMA, 0, DMA, 1);
    dma_write(f, 0, 0);
    wait_at(f, 0, 10, DMA, 1);
    end_all(f);
    expect(f, "circle");
    f->manifest->complete = false;
    f->manifest->cut = point_new(N_VCPUS);
    f->manifest->cut->at[0] = 10;
    f->manifest->cut->at[1] = END;
    expect_point(f, 10, END);
    f->manifest->cut->at[0] = 11;
    expect(f, "circle");
}

static void test_cut_off(Fixture *f, G_GNUC_UNUSED const void *data)
{
    f->manifest->complete = false;
    g_clear_pointer(&f->manifest->end, point_free);
    wait_at(f, 0, 10, 1, 30);
    log_event(f->stream[0], LOG_EVENT_WAKE, UINT64_C(50));
    log_event(f->stream[1], LOG_EVENT_WAKE, UINT64_C(20));
    for (unsigned i = 0; i <= N_VCPUS; i++) {
        log_stream_rest(f->stream[i], 0);
    }
    wait_for_tick();
    g_clear_pointer(&f->writer, log_writer_free);
    expect_point(f, 10, 21);
    /* The manifest gives the cut. */
    f->manifest->cut = point_new(N_VCPUS);
    f->manifest->cut->at[0] = 7;
    f->manifest->cut->at[1] = 20;
    expect_point(f, 7, 20);
    f->manifest->complete = true;
    g_clear_pointer(&f->manifest->cut, point_free);
    f->manifest->end = point_new(N_VCPUS);
    {
        g_auto(Verified) verified = { 0 };

        verify_recording(f->directory, f->manifest, &verified);
        g_assert_cmpuint(verified.faults->len, ==, 6);      /* five logs and the checkpoint */
        g_assert_nonnull(strstr(verified.faults->pdata[0], "vcpu-0.order: byte "));
        g_assert_nonnull(strstr(verified.faults->pdata[0], "it is truncated"));
    }
}

/* --- impossible events ------------------------------------------------------------ */

static void test_log(Fixture *f, const void *data)
{
    const char *what = data;

    if (g_str_equal(what, "steps of DMA")) {
        dma_write(f, 1, 0);
    } else if (g_str_equal(what, "DMA to where no memory is")) {
        dma_write(f, 0, RAM_SIZE - 4);
    } else if (g_str_equal(what, "that DMA does not have")) {
        log_event(f->stream[DMA], LOG_EVENT_WAKE, UINT64_C(0));
    } else if (g_str_equal(what, "that a vCPU does not have")) {
        log_event_bytes(f->stream[0], LOG_EVENT_DMA_WRITE, 3, 0, "x", 1);
    } else if (g_str_equal(what, "a step that has ended")) {
        log_event(f->stream[0], LOG_EVENT_WAKE, UINT64_C(3));
        log_event(f->stream[0], LOG_EVENT_WAKE, UINT64_C(3));
    } else if (g_str_equal(what, "a flag to where no memory is")) {
        log_event(f->stream[0], LOG_EVENT_ACCESS_FLAG, UINT64_C(3), UINT64_MAX, UINT64_C(1));
    } else if (g_str_equal(what, "without its registers")) {
        log_registers(f, 0, 3);
        log_event(f->stream[0], LOG_EVENT_DIGEST, UINT64_C(4), UINT64_C(0), UINT64_C(0));
    } else if (g_str_equal(what, "do not agree")) {
        log_registers(f, 0, 3);
        log_event(f->stream[0], LOG_EVENT_DIGEST, UINT64_C(3), UINT64_C(1), UINT64_C(0));
    } else if (g_str_equal(what, "does not have")) {
        log_event_bytes(f->stream[0], LOG_EVENT_REGISTERS, 3, 1, "\xff\x7f\x01", 3);
    } else if (g_str_equal(what, "after the end")) {
        end_vcpu(f, 0);
    } else {
        g_assert_not_reached();
    }
    end_all(f);
    expect(f, what);
}

static void test_end(Fixture *f, const void *data)
{
    const char *what = data;

    if (g_str_equal(what, "vcpu-1.order: it has no end")) {
        end_vcpu(f, 0);
        finish(f);
    } else if (g_str_equal(what, "vcpu-0.data: its last event is at position 101")) {
        log_event(f->stream[0], LOG_EVENT_SYSREG, (Position)END + 1, UINT64_C(0));
        end_all(f);
    } else {
        end_all(f);
        if (g_str_equal(what, "the manifest says that the recording ends at 99")) {
            f->manifest->end->at[1] = 99;
        } else if (g_str_equal(what, "digest of registers at the end")) {
            f->manifest->register_digests[1] ^= 1;
        } else if (g_str_equal(what, "0 arcs, its manifest says 1")) {
            f->manifest->arcs = 1;
        } else {
            g_assert_not_reached();
        }
    }
    expect(f, what);
}

/* --- checkpoints -------------------------------------------------------------------- */

static void test_checkpoint(void)
{
    const char *const names[] = { CHECKPOINT_CPUS, CHECKPOINT_DEVICES, NULL };
    char *directory = test_directory();
    g_autofree char *cpus = g_build_filename(directory, CHECKPOINT_CPUS, NULL);
    g_autofree char *devices = g_build_filename(directory, CHECKPOINT_DEVICES, NULL);
    g_autofree char *path = g_build_filename(directory, RAM_IMAGE_FILE, NULL);
    g_autofree uint64_t *ram = g_malloc0(RAM_SIZE);
    g_autoptr(RamImageWriter) writer = ram_image_create(path, NULL);
    g_autoptr(Manifest) manifest = manifest_new(1);
    g_autoptr(GError) error = NULL;
    g_autofree uint8_t *bytes = NULL;
    size_t size;

    manifest->ram_size = RAM_SIZE;
    ram[1] = 1;
    g_assert_true(ram_image_add_block(writer, "ram", (uint8_t *)ram, RAM_SIZE, NULL) &&
                  ram_image_close(writer, NULL));
    write_file(cpus, "registers", 9);
    write_file(devices, "devices", 7);
    g_assert_true(checkpoint_sums_save(directory, names, NULL));
    g_assert_true(verify_checkpoint(directory, "", manifest, &error));
    g_assert_no_error(error);

    manifest->ram_size *= 2;
    g_assert_false(verify_checkpoint(directory, "", manifest, &error));
    g_assert_error(error, RAM_IMAGE_ERROR, RAM_IMAGE_ERROR_REFUSED);
    manifest->ram_size /= 2;
    g_assert_true(g_file_get_contents(path, (char **)&bytes, &size, NULL));
    for (size_t bit = 0; bit < size * 8; bit++) {
        g_clear_error(&error);
        bytes[bit / 8] ^= 1 << bit % 8;
        write_file(path, bytes, size);
        g_assert_false(verify_checkpoint(directory, "", manifest, &error));
        bytes[bit / 8] ^= 1 << bit % 8;
    }
    remove_directory(directory);
}

#define ADD(name, data, test) g_test_add("/verify/" name, Fixture, data, setup, test, teardown)

int main(int argc, char **argv)
{
    static const char *const logs[] = {
        "steps of DMA", "DMA to where no memory is", "that DMA does not have",
        "that a vCPU does not have", "a step that has ended", "a flag to where no memory is",
        "without its registers", "do not agree", "does not have", "after the end",
    };
    static const char *const ends[] = {
        "vcpu-1.order: it has no end", "vcpu-0.data: its last event is at position 101",
        "the manifest says that the recording ends at 99", "digest of registers at the end",
        "0 arcs, its manifest says 1",
    };

    g_test_init(&argc, &argv, NULL);
    ADD("sound", NULL, test_sound);
    ADD("no-source", NULL, test_no_source);
    ADD("circle", NULL, test_circle);
    ADD("circle-of-one", NULL, test_circle_of_one);
    ADD("circle-behind-the-cut", NULL, test_circle_behind_the_cut);
    ADD("cut-off", NULL, test_cut_off);
    for (size_t i = 0; i < G_N_ELEMENTS(logs); i++) {
        g_autofree char *name = g_strdup_printf("/verify/log/%s", logs[i]);

        g_test_add(name, Fixture, logs[i], setup, test_log, teardown);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(ends); i++) {
        g_autofree char *name = g_strdup_printf("/verify/end/%s", ends[i]);

        g_test_add(name, Fixture, ends[i], setup, test_end, teardown);
    }
    g_test_add_func("/verify/checkpoint", test_checkpoint);
    return g_test_run();
}
