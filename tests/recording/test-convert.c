/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Recordings of random guests are converted to other orders, and those again.  Each order of each
 * result orders all conflicts of the guest.
 */
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "recording/checkpoint-position.h"
#include "recording/convert.h"
#include "recording/critical-path.h"
#include "recording/episode-path.h"
#include "recording/registers.h"
#include "recording/verify.h"
#include "tests/protocol/model/random.h"
#include "tests/recording/log-test.h"
#include "tests/recording/order-test.h"

enum { SEEDS = 60, SLOW_SEEDS = 1000 };

static const ConvertHooks no_hooks;

/* --- what a recording has besides logs ------------------------------------------------------ */

/* Write a checkpoint with a file of its own, and with a place unless it is the first. */
static void write_checkpoint(Recording *r, Manifest *manifest, unsigned number)
{
    g_autofree char *name = g_strdup_printf("checkpoint-%u", number);
    g_autofree char *directory = g_build_filename(r->directory, name, NULL);
    g_autofree char *ram = g_build_filename(directory, "ram", NULL);
    g_autofree char *path = g_build_filename(directory, CHECKPOINT_POSITION_FILE, NULL);
    g_autoptr(CheckpointPosition) position = checkpoint_position_new(r->n_vcpus);
    LogPlaces *places = number > 0 ? r->places[number - 1] : NULL;
    GError *error = NULL;

    g_assert_cmpint(g_mkdir(directory, 0777), ==, 0);
    g_assert_true(g_file_set_contents(ram, name, -1, NULL));
    manifest_add_checkpoint(manifest, name);
    if (!places) {
        return;
    }
    for (unsigned i = 0; i < r->n_vcpus; i++) {
        position->point->at[i] = log_place_of(places, i, log_of_order(r->order))->start;
        position->stores[i] = number;
    }
    position->dma_steps = log_place_of(places, r->n_vcpus, log_of_order(r->order))->start;
    position->logs = places;
    checkpoint_position_save(position, path, &error);
    g_assert_no_error(error);
    position->logs = NULL;
}

static Manifest *describe(const Recording *r)
{
    Manifest *manifest = manifest_new(r->n_vcpus);

    manifest->qemu_version = g_strdup("10.0.2");
    manifest->arch = g_strdup("aarch64");
    manifest->machine = g_strdup("virt-10.0");
    manifest->cpu = g_strdup("cortex-a72");
    manifest->ram_size = 4096;
    manifest->start = g_strdup(MANIFEST_START_POWER_ON);
    manifest_set_orders(manifest, &(Orders) {
        .set = ORDER_SET(r->order) | (r->with_fdr ? ORDER_SET_FDR : 0),
    });
    manifest->follow = r->order;
    return manifest;
}

static void describe_end(const Recording *r, Manifest *manifest)
{
    manifest->complete = true;
    manifest->ram_digest = g_strnfill(32, '0');
    manifest->end = point_new(r->n_vcpus);
    memcpy(manifest->end->at, r->guest->end, r->n_vcpus * sizeof(Position));
}

/* Make a whole recording of the logs. */
static Manifest *write_rest(Recording *r, bool complete)
{
    Manifest *manifest = describe(r);
    GError *error = NULL;

    for (unsigned i = 0; i <= r->n_cuts; i++) {
        write_checkpoint(r, manifest, i);
    }
    if (complete) {
        describe_end(r, manifest);
    }
    manifest_save(manifest, r->directory, &error);
    g_assert_no_error(error);
    return manifest;
}

/* --- converting ------------------------------------------------------------------------------ */

static Orders random_orders(uint64_t *random)
{
    static const uint64_t max[] = { 0, 1, 2, 5, 16384 };
    Orders orders = { .set = 1 + random_below(random, ORDER_SET_ALL) };

    for (unsigned i = RACE_KARMA; i < RACE_ORDERS; i++) {
        orders.max[i] = orders_has(&orders, i) ? max[random_below(random, G_N_ELEMENTS(max))] : 0;
    }
    return orders;
}

/* Return the new recording, which is @r but for directory, order and places. */
static Recording convert(const Recording *r, const Manifest *manifest, const Orders *orders)
{
    Recording new = *r;
    GError *error = NULL;

    new.directory = test_directory();
    convert_recording(r->directory, manifest, new.directory, orders, &no_hooks, &error);
    g_assert_no_error(error);
    return new;
}

/* No episode is longer than it may be. */
static void check_lengths(const Recording *r, const Orders *orders)
{
    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        g_autoptr(LogReader) reader = log_reader_open(r->directory, r->n_vcpus, i,
                                                      log_of_order(r->order), NULL);
        Position at = 0;
        LogEvent event;

        while (r->order != RACE_FDR && orders->max[r->order] &&
               log_reader_next(reader, &event, NULL) == LOG_READER_EVENT) {
            g_assert_cmpuint(event.position - at, <=, orders->max[r->order]);
            at = event.position;
        }
    }
}

/* Add the episodes of a stream up to its next cut to its order's path. */
static void add_to_path(const Recording *r, unsigned stream, LogReader *reader, Position *at,
                        KarmaPath *karma, RerunPath *rerun)
{
    LogEvent event;

    while (log_reader_next(reader, &event, NULL) == LOG_READER_EVENT &&
           !log_event_is_cut(event.kind)) {
        if (r->order == RACE_KARMA) {
            KarmaClosed e = { .begin = *at, .end = event.position, .pred = event.value[0],
                              .succ = event.value[1] };

            for (size_t k = 0; k < event.n_bytes; k++) {
                e.again[event.bytes[k]]++;
            }
            karma_path_add(karma, stream, &e);
        } else {
            rerun_path_add(rerun, &(RerunClosed) { *at, event.position, event.value[0] });
        }
        *at = event.position;
    }
}

/* The critical path that is found by waits is that of the episodes. */
static void check_critical_path(const Recording *r, const Manifest *manifest)
{
    g_autoptr(KarmaPath) karma = karma_path_new(r->n_vcpus + 1);
    g_autoptr(RerunPath) rerun = rerun_path_new();
    Position at[GUEST_STREAMS] = { 0 };
    LogReader *reader[GUEST_STREAMS];
    Manifest by = *manifest;
    CriticalPath path;

    by.follow = r->order;
    g_assert_true(critical_path_find(r->directory, &by, &path, NULL));
    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        reader[i] = log_reader_open(r->directory, r->n_vcpus, i, log_of_order(r->order), NULL);
    }
    for (unsigned cuts = 0; cuts <= r->n_cuts; cuts++) {
        for (unsigned i = 0; i <= r->n_vcpus; i++) {
            add_to_path(r, i, reader[i], &at[i], karma, rerun);
        }
        g_assert_true(karma_path_meet(karma));
        rerun_path_meet(rerun);
    }
    for (unsigned i = 0; i <= r->n_vcpus; i++) {
        log_reader_free(reader[i]);
    }
    g_assert_cmpuint(path.longest, ==, r->order == RACE_KARMA ? karma_path_longest(karma)
                                                              : rerun_path_idealised(rerun));
}

/* The place of each checkpoint is one, and all else of it is as it was. */
static void check_checkpoints(const Recording *r, const Manifest *manifest)
{
    for (unsigned i = 0; i < manifest->checkpoints->len; i++) {
        const char *name = manifest->checkpoints->pdata[i];
        g_autofree char *ram = g_build_filename(r->directory, name, "ram", NULL);
        g_autoptr(CheckpointPosition) position = NULL;
        g_autofree char *text = NULL;
        Events events = { 0 };
        Recording from = *r;

        g_assert_true(g_file_get_contents(ram, &text, NULL, NULL));
        g_assert_cmpstr(text, ==, name);
        g_assert_true(checkpoint_position_find(r->directory, name, i == 0, r->n_vcpus, &position,
                                               NULL));
        if (position) {
            g_assert_cmpuint(position->stores[0], ==, i);
            events_read(&events, &from, position->logs);
            for (unsigned k = 0; k < r->n_vcpus; k++) {
                g_assert_cmpuint(event_at(&events, k, 0)->position, >=, position->point->at[k]);
            }
            events_clear(&events);
        }
    }
}

/* Check each order of a new recording. */
static void check_orders(Recording *r, const Orders *orders)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(Manifest) manifest = manifest_load(r->directory, &error);
    g_autofree char *wanted = orders_format(orders);
    g_autofree char *got = NULL;

    g_assert_no_error(error);
    got = orders_format(&manifest->orders);
    g_assert_cmpstr(got, ==, wanted);
    for (unsigned i = 0; i < RACE_ORDERS; i++) {
        Events events = { 0 };

        if (orders_has(orders, i)) {
            r->order = i;
            check_whole(r, &events);
            check_total_order(r);
            check_lengths(r, orders);
            check_checkpoints(r, manifest);
            if (i != RACE_FDR) {
                check_critical_path(r, manifest);
            }
            events_clear(&events);
        }
    }
}

/* The manifest has the right number of arcs, and all else that verify checks is right. */
static void check_verified(const Recording *r)
{
    g_autoptr(Manifest) manifest = manifest_load(r->directory, NULL);
    g_auto(Verified) verified = { 0 };

    verify_recording(r->directory, manifest, &verified);
    for (unsigned i = 0; i < verified.faults->len; i++) {
        const char *fault = verified.faults->pdata[i];

        /* There is no real checkpoint, nor are there registers at the end. */
        if (!strstr(fault, "checkpoint-") && !strstr(fault, "digest of registers")) {
            g_error("%s", fault);
        }
    }
}

static void test_random(const void *data)
{
    for (uint64_t seed = 1; seed <= (g_test_slow() ? SLOW_SEEDS : SEEDS); seed++) {
        g_autoptr(GuestRecord) guest = guest_record(GPOINTER_TO_INT(data), seed);
        g_autoptr(Manifest) manifest = NULL, again = NULL;
        Recording r, first, second;
        Orders orders;

        recording_init(&r, guest, seed);
        manifest = write_rest(&r, true);
        orders = random_orders(&r.random);
        first = convert(&r, manifest, &orders);
        /* Waits that are there for nothing are copied. */
        first.with_fdr = false;
        if (!(r.with_fdr && orders_has(&orders, RACE_FDR))) {
            check_orders(&first, &orders);
            check_verified(&first);
        }

        again = manifest_load(first.directory, NULL);
        again->follow = order_set_first(again->orders.set & ORDER_SET_EPISODES ?
                                        again->orders.set & ORDER_SET_EPISODES : ORDER_SET_FDR);
        if (!(r.with_fdr && again->follow == RACE_FDR)) {
            orders = random_orders(&r.random);
            orders.set &= r.with_fdr ? ORDER_SET_EPISODES : ORDER_SET_ALL;
            orders.set |= orders.set ? 0 : ORDER_SET(RACE_KARMA);
            second = convert(&first, again, &orders);
            check_orders(&second, &orders);
            check_verified(&second);
            remove_directory(second.directory);
        }
        remove_directory(first.directory);
        recording_clear(&r);
    }
}

/* --- recordings that are not complete --------------------------------------------------------- */

/* Cut a log off at a random byte behind its header. */
static void cut_off(Recording *r, unsigned stream)
{
    g_autofree char *name = stream == r->n_vcpus ? g_strdup("dma") :
                            g_strdup_printf("vcpu-%u", stream);
    g_autofree char *path = g_strdup_printf("%s/%s.%s", r->directory, name, order_name(r->order));
    GStatBuf st;

    g_assert_cmpint(g_stat(path, &st), ==, 0);
    g_assert_cmpint(truncate(path, 32 + random_below(&r->random, st.st_size - 32)), ==, 0);
}

/* What can be replayed of a recording that is cut off can be replayed when it is converted. */
static void test_cut_off(void)
{
    unsigned converted = 0;

    for (uint64_t seed = 2; seed <= SEEDS; seed += 2) {
        g_autoptr(GuestRecord) guest = guest_record(GUEST_KARMA, seed);
        g_autoptr(Manifest) manifest = NULL, made = NULL;
        g_autoptr(GError) error = NULL;
        g_auto(Verified) before = { 0 }, after = { 0 };
        g_autofree char *to = NULL;
        Recording r;
        Orders orders;

        recording_init(&r, guest, seed);
        manifest = write_rest(&r, false);
        cut_off(&r, random_below(&r.random, r.n_vcpus + 1));
        verify_recording(r.directory, manifest, &before);
        orders = random_orders(&r.random);
        to = g_strdup_printf("%s-new", r.directory);
        if (convert_recording(r.directory, manifest, to, &orders, &no_hooks, &error)) {
            made = manifest_load(to, NULL);
            g_assert_false(made->complete);
            verify_recording(to, made, &after);
            g_assert_nonnull(after.reached);
            g_assert_cmpmem(after.reached->at, r.n_vcpus * sizeof(Position), before.reached->at,
                            r.n_vcpus * sizeof(Position));
            remove_directory(g_steal_pointer(&to));
            converted++;
        } else {
            /* A checkpoint lies behind the cut. */
            g_assert_nonnull(strstr(error->message, "reprise repair"));
            g_assert_false(g_file_test(to, G_FILE_TEST_EXISTS));
        }
        recording_clear(&r);
    }
    g_assert_cmpuint(converted, >, 0);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void test_refused(void)
{
    g_autoptr(GuestRecord) guest = guest_record(GUEST_KARMA, 2);
    g_autoptr(Manifest) manifest = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *ram = NULL, *inside = NULL;
    Orders orders = { .set = ORDER_SET(RACE_RERUN) };
    volatile sig_atomic_t stop = 1;
    ConvertHooks hooks = { .stop = &stop };
    Recording r;
    char *to = test_directory();

    recording_init(&r, guest, 2);
    manifest = write_rest(&r, true);
    g_assert_false(convert_recording(r.directory, manifest, r.directory, &orders, &no_hooks,
                                     &error));
    g_assert_nonnull(strstr(error->message, "exists already: give a new or empty directory"));
    g_clear_error(&error);

    g_assert_false(convert_recording(r.directory, manifest, to, &orders, &hooks, &error));
    g_assert_error(error, CONVERT_ERROR, CONVERT_ERROR_STOPPED);
    g_clear_error(&error);
    inside = g_build_filename(to, "missing", "new", NULL);
    g_assert_false(convert_recording(r.directory, manifest, inside, &orders, &no_hooks, &error));
    g_assert_error(error, G_FILE_ERROR, G_FILE_ERROR_NOENT);
    g_clear_error(&error);
    /* The directory is as it was, and nothing is beside it. */
    g_assert_cmpint(g_rmdir(to), ==, 0);

    manifest->follow = RACE_FDR;
    g_assert_false(convert_recording(r.directory, manifest, to, &orders, &no_hooks, &error));
    g_assert_nonnull(strstr(error->message, "was not recorded with the order fdr: it has karma"));
    g_assert_false(g_file_test(to, G_FILE_TEST_EXISTS));
    g_free(to);
    recording_clear(&r);
}

/* Move the point of checkpoint 1 of a vCPU, but not its place in the logs. */
static void move_checkpoint(const Recording *r, int steps)
{
    g_autofree char *path = g_build_filename(r->directory, "checkpoint-1",
                                             CHECKPOINT_POSITION_FILE, NULL);
    g_autoptr(CheckpointPosition) position = checkpoint_position_load(path, r->n_vcpus, NULL);

    position->point->at[0] += MAX(steps, -(int)position->point->at[0]);
    g_assert_cmpint(g_unlink(path), ==, 0);
    g_assert_true(checkpoint_position_save(position, path, NULL));
}

/* Write the logs of a vCPU that makes 10 steps, with a checkpoint behind the sixth. */
static void write_ten_steps(Recording *r)
{
    g_autoptr(LogWriter) writer = log_writer_new(r->directory, 1, ORDER_SET_FDR, NULL);
    LogStream *vcpu = log_writer_stream(writer, 0), *dma = log_writer_stream(writer, 1);
    Registers none = { 0 }, before = { 0 };

    log_event(vcpu, LOG_EVENT_DROP, (Position)5, (uint64_t)0);
    log_stream_rest(vcpu, 6);
    log_stream_rest(dma, 0);
    r->places[0] = log_writer_places(writer);
    g_assert_true(log_places_wait(r->places[0], NULL));
    log_stream_resume(vcpu);
    log_stream_resume(dma);
    log_event(vcpu, LOG_EVENT_DROP, (Position)7, (uint64_t)0);
    registers_log(vcpu, 10, &before, &none);
    log_event(vcpu, LOG_EVENT_END, (Position)10, registers_digest(register_set("aarch64"), &none),
              (uint64_t)0);
    g_assert_true(log_writer_finish(writer, NULL));
}

/* A checkpoint that lies elsewhere than its place in the logs is refused. */
static void test_hostile_place(void)
{
    g_autofree GuestRecord *guest = g_new0(GuestRecord, 1);
    Recording r = { .guest = guest, .directory = test_directory(), .n_vcpus = 1, .n_cuts = 1,
                    .order = RACE_FDR };
    Orders all = { .set = ORDER_SET_ALL };
    g_autoptr(Manifest) manifest = NULL;
    g_autoptr(GError) error = NULL;

    guest->end[0] = 10;
    write_ten_steps(&r);
    manifest = write_rest(&r, true);
    remove_directory(convert(&r, manifest, &all).directory);
    for (int steps = 1; steps <= 3; steps += 2) {
        char *to = test_directory();

        move_checkpoint(&r, steps);     /* to 7, which is still before the next event; to 10 */
        g_assert_cmpint(convert_recording(r.directory, manifest, to, &all, &no_hooks, &error), ==,
                        steps == 1);
        remove_directory(to);
    }
    g_assert_nonnull(strstr(error->message, "a checkpoint does not lie where its place"));
    recording_clear(&r);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/convert/karma", GINT_TO_POINTER(GUEST_KARMA), test_random);
    g_test_add_data_func("/convert/rerun", GINT_TO_POINTER(GUEST_RERUN), test_random);
    g_test_add_func("/convert/cut-off", test_cut_off);
    g_test_add_func("/convert/refused", test_refused);
    g_test_add_func("/convert/hostile-place", test_hostile_place);
    return g_test_run();
}
