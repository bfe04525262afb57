/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes a small recording without a guest, with the real writers, for tests of programs that read
 * recordings: make-recording DIR [--cut] [--epochs].  With --cut, the recording is as a killed
 * recorder leaves it.  With --epochs, it has four epochs of 250 events of each vCPU.
 */
#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recording/checkpoint-sums.h"
#include "recording/epochs.h"
#include "recording/log-writer.h"
#include "recording/manifest.h"
#include "recording/ram-digest.h"
#include "recording/ram-image.h"
#include "recording/registers.h"

#define N_VCPUS 2
#define RAM_SIZE (1 << 20)
#define N_EVENTS 1000
#define EPOCH_EVENTS 250

static void check(bool ok, GError *error)
{
    if (!ok) {
        g_printerr("make-recording: %s\n", error ? error->message : "failed");
        exit(1);
    }
}

static char *write_checkpoint(const char *directory, const char *name)
{
    g_autofree char *checkpoint = g_build_filename(directory, name, NULL);
    g_autofree char *path = g_build_filename(checkpoint, RAM_IMAGE_FILE, NULL);
    g_autofree char *cpus = g_build_filename(checkpoint, CHECKPOINT_CPUS, NULL);
    g_autofree char *devices = g_build_filename(checkpoint, CHECKPOINT_DEVICES, NULL);
    const char *const summed[] = { CHECKPOINT_CPUS, CHECKPOINT_DEVICES, NULL };
    g_autofree uint8_t *ram = g_malloc0(RAM_SIZE);
    g_autoptr(RamImageWriter) writer = NULL;
    GError *error = NULL;
    RamDigest digest;

    memset(ram + 4096, 'x', 4096);
    check(g_mkdir(checkpoint, 0777) == 0, NULL);
    writer = ram_image_create(path, &error);
    check(writer && ram_image_add_block(writer, "ram", ram, RAM_SIZE, &error) &&
          ram_image_close(writer, &error), error);
    check(g_file_set_contents(cpus, "registers", -1, &error), error);
    check(g_file_set_contents(devices, "devices", -1, &error), error);
    check(checkpoint_sums_save(checkpoint, summed, &error), error);
    ram_digest_init(&digest);
    ram_digest_add_block(&digest, "ram", ram, RAM_SIZE);
    return ram_digest_format(&digest);
}

/* Return the registers of a vCPU at the end. */
static Registers registers_of(unsigned vcpu)
{
    return (Registers) { .value = { 0xabc, vcpu } };
}

static void write_end(LogStream *stream, unsigned vcpu)
{
    Registers now = registers_of(vcpu), before = { 0 };
    Position position = N_EVENTS * 10 + vcpu;

    registers_log(stream, position, &before, &now);
    log_event(stream, LOG_EVENT_END, position, registers_digest(register_set("aarch64"), &now),
              UINT64_C(2));
}

/* End an epoch behind event @i of all vCPUs, as a recorder does: when the logs are written. */
static void end_epoch(LogWriter *writer, int file, unsigned i)
{
    g_autoptr(Epoch) epoch = epoch_new(N_VCPUS);
    g_autoptr(LogPlaces) places = NULL;
    GError *error = NULL;

    epoch->number = i / EPOCH_EVENTS;
    epoch->time_us = G_GINT64_CONSTANT(1763170000000000) + epoch->number * 100500;
    epoch->ram = g_strnfill(RAM_DIGEST_DIGITS, '0' + epoch->number);
    for (unsigned stream = 0; stream <= N_VCPUS; stream++) {
        log_stream_rest(log_writer_stream(writer, stream), stream < N_VCPUS ? i * 10 : LOG_UNKNOWN);
    }
    places = log_writer_places(writer);
    check(log_places_wait(places, &error), error);
    for (unsigned stream = 0; stream <= N_VCPUS; stream++) {
        for (unsigned substream = LOG_ORDER; substream <= LOG_DATA; substream++) {
            epoch->log_bytes[stream * LOG_SUBSTREAMS + substream] =
                log_place_of(places, stream, substream)->offset;
        }
        log_stream_resume(log_writer_stream(writer, stream));
    }
    for (unsigned vcpu = 0; vcpu < N_VCPUS; vcpu++) {
        epoch->point->at[vcpu] = i * 10;
        epoch->registers[vcpu] = vcpu;
    }
    check(epochs_append(file, epoch, &error), error);
}

static int create_epochs(const char *directory)
{
    int place = open(directory, O_RDONLY | O_DIRECTORY), file;
    GError *error = NULL;

    file = epochs_create(place, directory, &error);
    check(file >= 0, error);
    close(place);
    return file;
}

/* @epochs: a file, or -1. */
static void write_events(LogWriter *writer, int epochs)
{
    for (unsigned i = 1; i <= N_EVENTS; i++) {
        for (unsigned vcpu = 0; vcpu < N_VCPUS; vcpu++) {
            LogStream *stream = log_writer_stream(writer, vcpu);

            log_event(stream, LOG_EVENT_SYSREG, (Position)i * 10, (uint64_t)i);
            log_event(stream, LOG_EVENT_WAIT, (Position)i * 10, (uint64_t)!vcpu, (uint64_t)i * 5);
        }
        if (epochs >= 0 && i % EPOCH_EVENTS == 0) {
            end_epoch(writer, epochs, i);
        }
    }
}

static void write_logs(const char *directory, bool cut, bool with_epochs)
{
    const uint8_t bytes[64] = "what a device wrote";
    GError *error = NULL;
    g_autoptr(LogWriter) writer = log_writer_new(directory, N_VCPUS, ORDER_SET_FDR, &error);
    int epochs = with_epochs ? create_epochs(directory) : -1;

    check(writer, error);
    write_events(writer, epochs);
    for (unsigned vcpu = 0; vcpu < N_VCPUS; vcpu++) {
        LogStream *stream = log_writer_stream(writer, vcpu);

        if (!cut) {
            write_end(stream, vcpu);
        }
        log_stream_boundary(stream);
    }
    log_event_bytes(log_writer_stream(writer, N_VCPUS), LOG_EVENT_DMA_WRITE, 0, 0x1000,
                    bytes, sizeof(bytes));
    log_stream_boundary(log_writer_stream(writer, N_VCPUS));
    check(log_writer_finish(writer, &error), error);
    if (epochs >= 0) {
        close(epochs);
    }
}

static Manifest *describe(void)
{
    Manifest *manifest = manifest_new(N_VCPUS);

    manifest->qemu_version = g_strdup("10.0.2");
    manifest->arch = g_strdup("aarch64");
    manifest->machine = g_strdup("virt-10.0");
    manifest->machine_options = g_strdup("gic-version=2");
    manifest->cpu = g_strdup("cortex-a72,pmu=off");
    manifest->ram_size = RAM_SIZE;
    manifest->console = g_strdup("pl011");
    manifest->console_address = 0x9000000;
    manifest->start = g_strdup(MANIFEST_START_POWER_ON);
    manifest->start_time = 1763170000;
    manifest_add_checkpoint(manifest, "checkpoint-0");
    return manifest;
}

static void describe_end(Manifest *manifest, char *ram_digest)
{
    manifest->complete = true;
    manifest->end_reason = g_strdup("a \"test\" \\ ended");
    manifest->end = point_new(N_VCPUS);
    manifest->seconds = 1.25;
    manifest->ram_digest = ram_digest;
    manifest->arcs = N_VCPUS * N_EVENTS;
    for (unsigned vcpu = 0; vcpu < N_VCPUS; vcpu++) {
        Registers registers = registers_of(vcpu);

        manifest->end->at[vcpu] = N_EVENTS * 10 + vcpu;
        manifest->instructions[vcpu] = N_EVENTS * 9 + vcpu;
        manifest->register_digests[vcpu] = registers_digest(register_set("aarch64"), &registers);
    }
}

int main(int argc, char **argv)
{
    g_autoptr(Manifest) manifest = describe();
    bool cut = false, epochs = false;
    GError *error = NULL;
    char *digest;

    for (int i = 2; i < argc; i++) {
        cut |= g_str_equal(argv[i], "--cut");
        epochs |= g_str_equal(argv[i], "--epochs");
    }
    if (argc != 2 + cut + epochs) {
        g_printerr("usage: make-recording DIR [--cut] [--epochs]\n");
        return 1;
    }
    check(g_mkdir(argv[1], 0777) == 0, NULL);
    digest = write_checkpoint(argv[1], "checkpoint-0");
    write_logs(argv[1], cut, epochs);
    if (cut) {
        g_free(digest);
    } else {
        describe_end(manifest, digest);
    }
    check(manifest_save(manifest, argv[1], &error), error);
    return 0;
}
