/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Repairs of recordings that were damaged anywhere: the result is sound, its cut is the largest
 * that the good blocks allow, no byte is lost, and a second repair has nothing to do.
 */
#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "recording/checkpoint-sums.h"
#include "recording/cut.h"
#include "recording/log-block.h"
#include "recording/ram-image.h"
#include "recording/registers.h"
#include "recording/repair.h"
#include "recording/verify.h"
#include "tests/recording/log-test.h"

enum { N_VCPUS = 3, DMA = N_VCPUS, RAM_SIZE = 4096, N_STEPS = 3000 };

#define CHECKPOINT "checkpoint-0"

static void remove_in(const char *directory, const char *name)
{
    char *path = g_build_filename(directory, name, NULL);

    if (g_file_test(path, G_FILE_TEST_IS_DIR)) {
        remove_directory(path);
    } else {
        g_free(path);
    }
}

static void remove_recording(char *directory)
{
    remove_in(directory, CHECKPOINT);
    remove_in(directory, REPAIR_CUT_OFF);
    remove_directory(directory);
}

static void write_checkpoint(const char *directory)
{
    const char *const names[] = { CHECKPOINT_CPUS, CHECKPOINT_DEVICES, NULL };
    g_autofree char *checkpoint = g_build_filename(directory, CHECKPOINT, NULL);
    g_autofree char *cpus = g_build_filename(checkpoint, CHECKPOINT_CPUS, NULL);
    g_autofree char *devices = g_build_filename(checkpoint, CHECKPOINT_DEVICES, NULL);
    g_autofree char *path = g_build_filename(checkpoint, RAM_IMAGE_FILE, NULL);
    g_autofree uint8_t *ram = g_malloc0(RAM_SIZE);
    g_autoptr(RamImageWriter) writer = NULL;

    g_assert_cmpint(g_mkdir(checkpoint, 0777), ==, 0);
    writer = ram_image_create(path, NULL);
    g_assert_true(ram_image_add_block(writer, "ram", ram, RAM_SIZE, NULL) &&
                  ram_image_close(writer, NULL));
    write_file(cpus, "registers", 9);
    write_file(devices, "devices", 7);
    g_assert_true(checkpoint_sums_save(checkpoint, names, NULL));
}

static Manifest *describe(void)
{
    Manifest *manifest = manifest_new(N_VCPUS);

    manifest->qemu_version = g_strdup("10.0.2");
    manifest->arch = g_strdup("aarch64");
    manifest->machine = g_strdup("virt-10.0");
    manifest->cpu = g_strdup("cortex-a72,pmu=off");
    manifest->ram_size = RAM_SIZE;
    manifest->start = g_strdup(MANIFEST_START_POWER_ON);
    manifest_add_checkpoint(manifest, CHECKPOINT);
    return manifest;
}

/* Write steps in many blocks, some of which wait for another stream. */
static void write_steps(LogWriter *writer, Position *position, uint64_t *arcs)
{
    g_autofree uint8_t *bytes = g_malloc0(RAM_SIZE);

    for (unsigned step = 0; step < N_STEPS; step++) {
        unsigned i = g_test_rand_int_range(0, N_VCPUS + 1);
        unsigned source = g_test_rand_int_range(0, N_VCPUS + 1);
        LogStream *stream = log_writer_stream(writer, i);

        if (source != i && g_test_rand_int_range(0, 5) == 0) {
            log_event(stream, LOG_EVENT_WAIT, position[i], (uint64_t)source, position[source]);
            ++*arcs;
        }
        if (i == DMA) {
            for (unsigned at = 0; at < RAM_SIZE; at++) {
                bytes[at] = g_test_rand_int();
            }
            log_event_bytes(stream, LOG_EVENT_DMA_WRITE, position[i], 0, bytes, RAM_SIZE);
        } else {
            for (unsigned input = 0; input < 100; input++) {
                log_event(stream, LOG_EVENT_SYSREG, position[i], (uint64_t)g_test_rand_int());
            }
            log_event(stream, LOG_EVENT_WAKE, position[i]);
        }
        position[i]++;
        log_stream_boundary(stream);
    }
}

static char *make_recording(void)
{
    char *directory = test_directory();
    g_autoptr(Manifest) manifest = describe();
    g_autoptr(LogWriter) writer = log_writer_new(directory, N_VCPUS, ORDER_SET_FDR, NULL);
    Position position[N_VCPUS + 1] = { 0 };
    g_autoptr(GError) error = NULL;

    manifest->complete = true;
    manifest->ram_digest = g_strnfill(32, '0');
    manifest->end = point_new(N_VCPUS);
    write_steps(writer, position, &manifest->arcs);
    for (unsigned i = 0; i < N_VCPUS; i++) {
        LogStream *stream = log_writer_stream(writer, i);
        Registers none = { 0 }, now = { .value = { i } };

        registers_log(stream, position[i], &none, &now);
        manifest->end->at[i] = position[i];
        manifest->register_digests[i] = registers_digest(register_set("aarch64"), &now);
        log_event(stream, LOG_EVENT_END, position[i], manifest->register_digests[i], UINT64_C(0));
    }
    g_assert_true(log_writer_finish(writer, &error));
    g_assert_true(manifest_save(manifest, directory, &error));
    write_checkpoint(directory);
    return directory;
}

/* --- damage -------------------------------------------------------------------- */

typedef struct Damage {
    char *path;                 /* of the damaged file */
    char *bytes;                /* its contents before the damage */
    size_t size;
} Damage;

static void damage(Damage *damage, const char *directory, unsigned log, uint64_t from)
{
    g_autofree char *name = log_file_name(N_VCPUS, log / 2, log % 2);
    g_autofree char *bad = NULL;
    size_t at;

    damage->path = g_build_filename(directory, name, NULL);
    g_assert_true(g_file_get_contents(damage->path, &damage->bytes, &damage->size, NULL));
    at = g_test_rand_int_range(from, damage->size);
    if (g_test_rand_bit()) {
        bad = g_memdup2(damage->bytes, damage->size);
        bad[at] ^= 1 << g_test_rand_int_range(0, 8);
        write_file(damage->path, bad, damage->size);
    } else {
        g_assert_cmpint(truncate(damage->path, at), ==, 0);
    }
}

static void damage_clear(Damage *damage)
{
    g_free(damage->path);
    g_free(damage->bytes);
}

/* --- checks of a repair ---------------------------------------------------------- */

static RepairPlan *plan_for(const char *directory, Manifest **manifest)
{
    g_autoptr(GError) error = NULL;
    RepairPlan *plan;

    *manifest = manifest_load(directory, &error);
    g_assert_no_error(error);
    plan = repair_plan(directory, *manifest, &error);
    g_assert_no_error(error);
    return plan;
}

/* The kept part and the part that was cut off are together the file before the repair. */
static void check_nothing_is_lost(const char *directory, const RepairPlan *plan,
                                  const Damage *damage)
{
    for (unsigned i = 0; i < plan->files->len; i++) {
        const RepairFile *file = plan->files->pdata[i];
        g_autofree char *path = g_build_filename(directory, file->name, NULL);
        g_autofree char *cut_off = g_strdup_printf("%s/" REPAIR_CUT_OFF "/%s.from-%"
                                                   G_GUINT64_FORMAT, directory, file->name,
                                                   file->kept);
        g_autofree char *kept = NULL;
        g_autofree char *rest = NULL;
        size_t n_kept, n_rest, differ = 0;

        g_assert_cmpstr(path, ==, damage->path);
        g_assert_true(g_file_get_contents(path, &kept, &n_kept, NULL));
        g_assert_true(g_file_get_contents(cut_off, &rest, &n_rest, NULL));
        g_assert_cmpuint(n_kept, ==, file->kept);
        g_assert_cmpuint(n_kept + n_rest, ==, file->size);
        g_assert_cmpmem(kept, n_kept, damage->bytes, n_kept);
        for (size_t at = 0; at < n_rest; at++) {
            differ += rest[at] != damage->bytes[n_kept + at];
        }
        g_assert_cmpuint(differ, <=, 1);
    }
}

/* Check that the recording is sound up to @cut.  @by_logs: the logs alone determine the cut. */
static void check_sound(const char *directory, const Point *cut, bool by_logs)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(Manifest) manifest = manifest_load(directory, &error);
    g_auto(Verified) verified = { 0 };
    g_autofree Position *found = NULL;

    g_assert_no_error(error);
    g_assert_false(manifest->complete);
    verify_recording(directory, manifest, &verified);
    if (verified.faults->len) {
        g_error("not sound: %s", (char *)verified.faults->pdata[0]);
    }
    /* The repair, verify and replay agree on the cut. */
    found = cut_find(directory, N_VCPUS, by_logs ? NULL : manifest->cut, &error);
    g_assert_no_error(error);
    for (unsigned i = 0; i < N_VCPUS; i++) {
        g_assert_cmpuint(verified.reached->at[i], ==, cut->at[i]);
        g_assert_cmpuint(manifest->cut->at[i], ==, cut->at[i]);
        g_assert_true(found[i] == CUT_NONE || found[i] == cut->at[i]);
    }
}

static void test_damage_anywhere(void)
{
    char *directory = make_recording();
    g_autofree char *manifest_path = g_build_filename(directory, MANIFEST_FILE, NULL);
    g_autofree char *before = NULL;

    g_assert_true(g_file_get_contents(manifest_path, &before, NULL, NULL));
    for (unsigned round = 0; round < 60; round++) {
        Damage one;
        g_autoptr(Manifest) manifest = NULL;
        g_autoptr(Manifest) now = NULL;
        g_autoptr(RepairPlan) plan = NULL;
        g_autoptr(RepairPlan) again = NULL;
        g_autoptr(GError) error = NULL;

        unsigned log = g_test_rand_int_range(0, N_VCPUS * 2 + 1);

        damage(&one, directory, log, LOG_FILE_HEADER_BYTES);
        plan = plan_for(directory, &manifest);
        g_assert_true(plan->needed);
        g_assert_true(point_includes(manifest->end, plan->cut));
        g_assert_true(repair_do(directory, manifest, plan, &error));
        g_assert_no_error(error);
        check_nothing_is_lost(directory, plan, &one);
        check_sound(directory, plan->cut, log % 2 == LOG_ORDER);
        again = plan_for(directory, &now);
        g_assert_false(again->needed);

        write_file(one.path, one.bytes, one.size);
        write_file(manifest_path, before, strlen(before));
        remove_in(directory, REPAIR_CUT_OFF);
        damage_clear(&one);
    }
    remove_recording(directory);
}

/* The last input of a truncated data log is not trusted; the last step of an order log is. */
static void test_where(void)
{
    char *directory = make_recording();
    g_autofree char *path = g_build_filename(directory, "vcpu-0.data", NULL);
    g_autoptr(LogReader) reader = NULL;
    g_autoptr(Manifest) manifest = NULL;
    g_autoptr(RepairPlan) plan = NULL;
    LogEvent event;
    Position last = 0;

    g_assert_cmpint(truncate(path, 100000), ==, 0);
    reader = log_reader_open(directory, N_VCPUS, 0, LOG_DATA, NULL);
    while (log_reader_next(reader, &event, NULL) == LOG_READER_EVENT) {
        last = event.position;
    }
    g_assert_cmpuint(last, >, 0);
    plan = plan_for(directory, &manifest);
    g_assert_cmpuint(plan->cut->at[0], <=, last);
    g_assert_cmpuint(plan->files->len, ==, 1);
    g_assert_nonnull(strstr(plan->reason, "vcpu-0.data"));
    remove_recording(directory);
}

static void test_nothing_to_do(void)
{
    char *directory = make_recording();
    g_autoptr(Manifest) manifest = NULL;
    g_autoptr(RepairPlan) plan = plan_for(directory, &manifest);

    g_assert_false(plan->needed);
    g_assert_true(point_includes(plan->cut, manifest->end));
    remove_recording(directory);
}

static void expect_hopeless(const char *directory, int code, const char *word)
{
    g_autoptr(Manifest) manifest = manifest_load(directory, NULL);
    g_autoptr(GError) error = NULL;

    g_assert_null(repair_plan(directory, manifest, &error));
    if (code >= 0) {
        g_assert_error(error, REPAIR_ERROR, code);
    }
    if (!strstr(error->message, word) || strchr(error->message, '\n')) {
        g_error("'%s' expected in one line: %s", word, error->message);
    }
}

static void test_hopeless(void)
{
    char *directory = make_recording();
    g_autofree char *order = g_build_filename(directory, "vcpu-1.order", NULL);
    g_autofree char *cpus = g_build_filename(directory, CHECKPOINT, CHECKPOINT_CPUS, NULL);
    g_autofree char *bytes = NULL;
    size_t size;
    int fd;

    g_assert_true(g_file_get_contents(order, &bytes, &size, NULL));
    bytes[9] ^= 1;
    write_file(order, bytes, size);
    expect_hopeless(directory, REPAIR_ERROR_HOPELESS, "vcpu-1.order");
    g_assert_cmpint(truncate(order, 5), ==, 0);
    expect_hopeless(directory, REPAIR_ERROR_HOPELESS, "vcpu-1.order");
    g_unlink(order);
    expect_hopeless(directory, -1, "vcpu-1.order: No such file");
    bytes[9] ^= 1;
    write_file(order, bytes, size);

    /* A recorder still writes the log. */
    fd = open(order, O_WRONLY | O_APPEND);
    expect_hopeless(directory, REPAIR_ERROR_BUSY, "being written");
    close(fd);

    write_file(cpus, "registerS", 9);
    expect_hopeless(directory, REPAIR_ERROR_HOPELESS, "checkpoint-0/cpus");
    remove_recording(directory);
}

/* The recorder was killed: everything that is on disk is good. */
static void test_killed(void)
{
    char *directory = test_directory();
    g_autoptr(Manifest) manifest = describe();
    g_autoptr(Manifest) loaded = NULL;
    g_autoptr(RepairPlan) plan = NULL;
    g_autoptr(RepairPlan) again = NULL;
    LogWriter *writer = log_writer_new(directory, N_VCPUS, ORDER_SET_FDR, NULL);
    Position position[N_VCPUS + 1] = { 0 };
    uint64_t arcs = 0;

    write_steps(writer, position, &arcs);
    for (unsigned i = 0; i <= N_VCPUS; i++) {
        log_stream_rest(log_writer_stream(writer, i), 0);
    }
    wait_for_tick();
    log_writer_free(writer);
    write_checkpoint(directory);
    g_assert_true(manifest_save(manifest, directory, NULL));

    plan = plan_for(directory, &loaded);
    g_assert_true(plan->needed);
    for (unsigned i = 0; i < N_VCPUS; i++) {
        g_assert_cmpuint(plan->cut->at[i], ==, position[i]);
    }
    g_assert_cmpstr(plan->reason, ==, "not finished; repaired");
    g_assert_true(repair_do(directory, loaded, plan, NULL));
    check_sound(directory, plan->cut, true);
    g_clear_pointer(&loaded, manifest_free);
    again = plan_for(directory, &loaded);
    g_assert_false(again->needed);
    remove_recording(directory);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/repair/damage-anywhere", test_damage_anywhere);
    g_test_add_func("/repair/where", test_where);
    g_test_add_func("/repair/nothing-to-do", test_nothing_to_do);
    g_test_add_func("/repair/hopeless", test_hopeless);
    g_test_add_func("/repair/killed", test_killed);
    return g_test_run();
}
