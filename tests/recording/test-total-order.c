/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The total order of recordings with random streams that wait for each other, and with checkpoints
 * in the middle; and their critical path.
 */
#include <glib.h>
#include <glib/gstdio.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "recording/checkpoint-position.h"
#include "recording/critical-path.h"
#include "recording/epochs.h"
#include "recording/total-order.h"
#include "recording/verify.h"
#include "tests/recording/log-test.h"

enum { VCPUS = 3, DMA = VCPUS, STREAMS = VCPUS + 1 };
enum { STEPS = 30000, CHECKPOINTS = 3, RECORDINGS = 20 };

typedef struct Wait {
    unsigned stream, source;
    Position position, steps;
} Wait;

typedef struct Recording {
    char *directory;
    Manifest *manifest;
    GArray *waits;              /* as they were logged */
    Position reached[STREAMS];
    Position checkpoint[CHECKPOINTS][STREAMS];
} Recording;

/* --- making a recording ---------------------------------------------------------------- */

static void add_checkpoint(Recording *r, LogWriter *writer, unsigned number)
{
    g_autofree char *name = g_strdup_printf("checkpoint-%u", number);
    g_autofree char *directory = g_build_filename(r->directory, name, NULL);
    g_autofree char *path = g_build_filename(directory, CHECKPOINT_POSITION_FILE, NULL);
    g_autoptr(CheckpointPosition) place = checkpoint_position_new(VCPUS);
    GError *error = NULL;

    memcpy(r->checkpoint[number], r->reached, sizeof(r->reached));
    manifest_add_checkpoint(r->manifest, name);
    g_assert_cmpint(g_mkdir(directory, 0777), ==, 0);
    if (number == 0) {
        return;                 /* the first checkpoint lies at the start, and needs no file */
    }
    for (unsigned i = 0; i < VCPUS; i++) {
        place->point->at[i] = r->reached[i];
        log_stream_rest(log_writer_stream(writer, i), r->reached[i]);
    }
    log_stream_rest(log_writer_stream(writer, DMA), r->reached[DMA]);
    place->dma_steps = r->reached[DMA];
    place->logs = log_writer_places(writer);
    log_places_wait(place->logs, &error);
    g_assert_no_error(error);
    for (unsigned i = 0; i < STREAMS; i++) {
        log_stream_resume(log_writer_stream(writer, i));
    }
    checkpoint_position_save(place, path, &error);
    g_assert_no_error(error);
}

/* Begin a recording without steps.  Return its writer, to be freed by the caller. */
static LogWriter *begin_recording(Recording *r)
{
    LogWriter *writer;

    *r = (Recording) {
        .directory = test_directory(),
        .manifest = manifest_new(VCPUS),
        .waits = g_array_new(false, false, sizeof(Wait)),
    };
    writer = log_writer_new(r->directory, VCPUS, ORDER_SET_FDR, NULL);
    g_assert_nonnull(writer);
    add_checkpoint(r, writer, 0);
    return writer;
}

/* End the recording; each vCPU has made @end[] steps. */
static void end_recording(Recording *r, LogWriter *writer, const Position *end)
{
    g_assert_true(log_writer_finish(writer, NULL));
    r->manifest->complete = true;
    r->manifest->end = point_new(VCPUS);
    memcpy(r->manifest->end->at, end, VCPUS * sizeof(Position));
}

/* Let the next step of @stream wait for a recent step of another stream. */
static void add_wait(Recording *r, LogWriter *writer, GRand *rand, unsigned stream)
{
    Wait wait = {
        .stream = stream,
        .source = (stream + g_rand_int_range(rand, 1, STREAMS)) % STREAMS,
        .position = r->reached[stream],
    };
    uint64_t ago = g_rand_int_range(rand, 0, 20);

    wait.steps = r->reached[wait.source] - MIN(r->reached[wait.source], ago);
    if (wait.steps > 0) {
        log_event(log_writer_stream(writer, stream), LOG_EVENT_WAIT, wait.position,
                  (uint64_t)wait.source, wait.steps);
        g_array_append_val(r->waits, wait);
    }
}

/* --- epochs ------------------------------------------------------------------------------ */

enum { EPOCHS = 8 };

static Position epoch_end[EPOCHS][STREAMS];

static uint64_t moment_of_epoch(unsigned number)
{
    return (number + 1) * (STEPS / EPOCHS) - number * 7;
}

/* Begin the file of epochs.  Return its descriptor, to be closed by the caller. */
static int begin_epochs(const Recording *r)
{
    GError *error = NULL;
    int place = open(r->directory, O_RDONLY | O_DIRECTORY);
    int fd = epochs_create(place, r->directory, &error);

    g_assert_no_error(error);
    close(place);
    return fd;
}

/* Append the epoch that ends where each stream is at @end[]. */
static void append_epoch(int fd, unsigned number, const Position *end)
{
    g_autoptr(Epoch) epoch = epoch_new(VCPUS);
    GError *error = NULL;

    memcpy(epoch->point->at, end, VCPUS * sizeof(Position));
    epoch->dma_steps = end[DMA];
    epoch->number = number + 1;
    epoch->ram = g_strnfill(32, '0');
    epochs_append(fd, epoch, &error);
    g_assert_no_error(error);
}

/* Append the epoch that ends where @order is. */
static void add_epoch(const TotalOrder *order, int fd, unsigned number)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        epoch_end[number][i] = total_order_reached(order, i);
    }
    append_epoch(fd, number, epoch_end[number]);
}

/* Draw a stream.  vCPU 0 makes most steps; vCPU 2 makes none in the first half. */
static unsigned who_is_next(GRand *rand, int step)
{
    unsigned one_of = g_rand_int_range(rand, 0, 100);

    return one_of < 3 ? DMA : one_of < 10 && step > STEPS / 2 ? 2 : one_of < 30 ? 1 : 0;
}

static void make_recording(Recording *r, uint32_t seed)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    g_autoptr(LogWriter) writer = begin_recording(r);

    for (int step = 0; step < STEPS; step++) {
        unsigned stream = who_is_next(rand, step);

        if (step > 0 && step % (STEPS / CHECKPOINTS) == 0) {
            add_checkpoint(r, writer, step / (STEPS / CHECKPOINTS));
        }
        if (g_rand_int_range(rand, 0, 10) == 0) {
            add_wait(r, writer, rand, stream);
        }
        if (stream == DMA) {
            log_event(log_writer_stream(writer, DMA), LOG_EVENT_STEP, r->reached[DMA]);
        }
        r->reached[stream]++;
    }
    end_recording(r, writer, r->reached);
}

static void recording_clear(Recording *r)
{
    remove_directory(r->directory);
    manifest_free(r->manifest);
    g_array_unref(r->waits);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Recording, recording_clear)

/* --- tests ----------------------------------------------------------------------------- */

static TotalOrder *open_order(const Recording *r, unsigned checkpoint)
{
    GError *error = NULL;
    TotalOrder *order = total_order_open(r->directory, r->manifest, checkpoint, &error);

    g_assert_no_error(error);
    return order;
}

/* Return all runs from a checkpoint on, each of at most @most steps; to be freed by the caller. */
static GArray *runs_from(const Recording *r, unsigned checkpoint, uint64_t most)
{
    g_autoptr(TotalOrder) order = open_order(r, checkpoint);
    GArray *runs = g_array_new(false, false, sizeof(Run));
    GError *error = NULL;
    Run run;

    while (total_order_next(order, most, &run, &error)) {
        g_array_append_val(runs, run);
    }
    g_assert_no_error(error);
    return runs;
}

static void test_all_steps_in_order(void)
{
    for (uint32_t seed = 0; seed < RECORDINGS; seed++) {
        g_auto(Recording) r = { 0 };
        g_autoptr(GArray) runs = NULL;
        Position reached[STREAMS] = { 0 };

        make_recording(&r, seed);
        runs = runs_from(&r, 0, UINT64_MAX);
        for (unsigned i = 0; i < runs->len; i++) {
            const Run *run = &g_array_index(runs, Run, i);

            g_assert_cmpuint(run->from, ==, reached[run->stream]);
            g_assert_cmpuint(run->to, >, run->from);
            for (unsigned j = 0; j < r.waits->len; j++) {
                const Wait *wait = &g_array_index(r.waits, Wait, j);

                if (wait->stream == run->stream && wait->position >= run->from &&
                    wait->position < run->to) {
                    g_assert_cmpuint(reached[wait->source], >=, wait->steps);
                }
            }
            reached[run->stream] = run->to;
        }
        g_assert_cmpmem(reached, sizeof(reached), r.reached, sizeof(r.reached));
    }
}

static bool is_at(const TotalOrder *order, const Position *reached)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        if (total_order_reached(order, i) != reached[i]) {
            return false;
        }
    }
    return true;
}

static void count(void *opaque)
{
    ++*(unsigned *)opaque;
}

/* The order passes the points of all checkpoints, and is the same from each of them on. */
static void test_checkpoints_lie_on_it(void)
{
    g_auto(Recording) r = { 0 };
    g_autoptr(TotalOrder) order = NULL;
    unsigned passed = 0;
    Run run;

    make_recording(&r, 1000);
    order = open_order(&r, 0);
    do {
        passed += passed < CHECKPOINTS && is_at(order, r.checkpoint[passed]);
    } while (total_order_next(order, UINT64_MAX, &run, NULL));
    g_assert_cmpuint(passed, ==, CHECKPOINTS);
    g_assert_cmpuint(total_order_moment(order), ==, STEPS);

    for (unsigned i = 0; i < CHECKPOINTS; i++) {
        g_autoptr(GArray) all = runs_from(&r, 0, UINT64_MAX);
        g_autoptr(GArray) later = runs_from(&r, i, UINT64_MAX);

        g_assert_cmpuint(later->len, <=, all->len);
        g_assert_cmpmem(later->data, later->len * sizeof(Run),
                        all->data + (all->len - later->len) * sizeof(Run),
                        later->len * sizeof(Run));
    }
}

/*
 * With epochs, the order passes the end of each, also from a checkpoint on, and tells of it; up to
 * there it is what it is in a recording that ends there.
 */
static void test_epochs_lie_on_it(void)
{
    g_auto(Recording) r = { 0 };
    g_autoptr(TotalOrder) plain = NULL;
    GError *error = NULL;
    int fd;

    make_recording(&r, 3000);
    /* Any moment will do: it is closed under the waits, but is no epoch of the pace. */
    plain = open_order(&r, 0);
    fd = begin_epochs(&r);
    for (unsigned i = 0; i < EPOCHS; i++) {
        g_assert_true(total_order_follow(plain, moment_of_epoch(i), &error));
        add_epoch(plain, fd, i);
    }
    close(fd);

    for (unsigned checkpoint = 0; checkpoint < CHECKPOINTS; checkpoint++) {
        g_autoptr(TotalOrder) order = open_order(&r, checkpoint);
        unsigned told = 0, passed = 0, ahead = 0;
        Run run;

        total_order_on_wait(order, NULL, &told);
        total_order_on_epoch(order, count, &told);
        for (unsigned i = 0; i < EPOCHS; i++) {
            ahead += moment_of_epoch(i) > total_order_moment(order);
        }
        do {
            for (unsigned i = 0; i < EPOCHS; i++) {
                passed += is_at(order, epoch_end[i]);
            }
        } while (total_order_next(order, UINT64_MAX, &run, &error));
        g_assert_no_error(error);
        g_assert_cmpuint(passed, ==, ahead);
        g_assert_cmpuint(told, ==, ahead);
        g_assert_cmpuint(total_order_moment(order), ==, STEPS);
    }

    /* The last one may lie behind the last event of a log, which tells no more then. */
    for (unsigned i = 0; i < EPOCHS - 1; i++) {
        g_autoptr(TotalOrder) whole = open_order(&r, 0);
        g_autoptr(TotalOrder) part = NULL;
        Run run, same;

        r.manifest->complete = false;
        r.manifest->cut = point_new(VCPUS);
        memcpy(r.manifest->cut->at, epoch_end[i], VCPUS * sizeof(Position));
        part = open_order(&r, 0);
        while (total_order_moment(whole) < moment_of_epoch(i)) {
            g_assert_true(total_order_next(whole, 1, &run, &error));
            g_assert_true(total_order_next(part, 1, &same, &error));
            g_assert_cmpuint(same.stream, ==, run.stream);
            g_assert_cmpuint(same.to, ==, run.to);
        }
        g_assert_no_error(error);
        g_clear_pointer(&r.manifest->cut, point_free);
        r.manifest->complete = true;
    }
}

/* A moment is the same point, however it is reached. */
static void test_moments(void)
{
    g_auto(Recording) r = { 0 };
    g_autoptr(TotalOrder) slow = NULL;
    GError *error = NULL;
    Run run;

    make_recording(&r, 2000);
    slow = open_order(&r, 0);
    for (;;) {
        g_autoptr(TotalOrder) there =
            total_order_open_at(r.directory, r.manifest, total_order_moment(slow), &error);

        g_assert_no_error(error);
        g_assert_cmpuint(total_order_moment(there), ==, total_order_moment(slow));
        for (unsigned i = 0; i < STREAMS; i++) {
            g_assert_cmpuint(total_order_reached(there, i), ==, total_order_reached(slow, i));
        }
        for (int i = 0; i < 200; i++) {
            if (!total_order_next(slow, 1, &run, &error)) {
                g_assert_no_error(error);
                return;
            }
            g_assert_cmpuint(run.to, ==, run.from + 1);
        }
    }
}

/* A copy yields the same runs as the original, and finds the moment of each step. */
static void test_copy(void)
{
    g_auto(Recording) r = { 0 };
    g_autoptr(TotalOrder) order = NULL;
    GError *error = NULL;
    Run run;

    make_recording(&r, 3000);
    order = open_order(&r, 0);
    for (unsigned i = 0; total_order_next(order, 37, &run, &error); i++) {
        g_autoptr(TotalOrder) copy = total_order_copy(order);
        g_autoptr(TotalOrder) finder = total_order_copy(copy);
        uint64_t moment = 0;
        Run again;

        g_assert_cmpuint(total_order_size(copy), >, sizeof(Run));
        if (i % 10 || !total_order_next(copy, 1, &again, &error)) {
            continue;
        }
        g_assert_true(total_order_find(finder, again.stream, again.from, &moment, &error));
        g_assert_cmpuint(moment, ==, total_order_moment(order));
        /* The copy moves independently of the original. */
        g_assert_false(total_order_follow(copy, UINT64_MAX, &error));
        g_assert_cmpuint(total_order_moment(copy), ==, STEPS);
        g_assert_false(total_order_find(finder, again.stream, again.from, &moment, &error));
        g_assert_no_error(error);
    }
    g_assert_no_error(error);
    g_assert_cmpuint(total_order_moment(order), ==, STEPS);
}

/* Without waits, all vCPUs have always made the same part of their steps. */
static void test_pace(void)
{
    g_auto(Recording) r = { 0 };
    g_autoptr(LogWriter) writer = begin_recording(&r);
    g_autoptr(TotalOrder) order = NULL;
    const Position end[VCPUS] = { 1000000000, 1000000, 0 };
    Run run;

    end_recording(&r, writer, end);
    order = open_order(&r, 0);
    while (total_order_next(order, UINT64_MAX, &run, NULL)) {
        double part = total_order_reached(order, 0) / 1e9;

        g_assert_cmpfloat_with_epsilon(total_order_reached(order, 1) / 1e6, part, 1e-4);
    }
    g_assert_cmpuint(total_order_moment(order), ==, end[0] + end[1]);
}

static void test_outside(void)
{
    g_auto(Recording) r = { 0 };
    g_autoptr(GError) error = NULL;

    make_recording(&r, 3000);
    g_assert_null(total_order_open_at(r.directory, r.manifest, STEPS + 1, &error));
    g_assert_error(error, TOTAL_ORDER_ERROR, TOTAL_ORDER_ERROR_OUTSIDE);
    g_clear_error(&error);
    g_assert_null(total_order_open(r.directory, r.manifest, CHECKPOINTS, &error));
    g_assert_error(error, TOTAL_ORDER_ERROR, TOTAL_ORDER_ERROR_OUTSIDE);
}

/* Two vCPUs have made 100 steps each, but no order satisfies their waits. */
static void expect_refusal(Recording *r, LogWriter *writer, const char *why)
{
    g_autoptr(TotalOrder) order = NULL;
    g_autoptr(GError) error = NULL;
    const Position end[VCPUS] = { 100, 100, 0 };
    Run run;

    end_recording(r, writer, end);
    order = open_order(r, 0);
    while (total_order_next(order, UINT64_MAX, &run, &error)) {
    }
    g_assert_error(error, TOTAL_ORDER_ERROR, TOTAL_ORDER_ERROR_NONE);
    if (!strstr(error->message, why)) {
        g_error("'%s' expected: %s", why, error->message);
    }
}

/* Two streams that wait for each other are refused; the search ends. */
static void test_circle(void)
{
    g_auto(Recording) r = { 0 };
    g_autoptr(LogWriter) writer = begin_recording(&r);

    log_event(log_writer_stream(writer, 0), LOG_EVENT_WAIT, (Position)10, UINT64_C(1),
              UINT64_C(21));
    log_event(log_writer_stream(writer, 1), LOG_EVENT_WAIT, (Position)20, UINT64_C(0),
              UINT64_C(11));
    expect_refusal(&r, writer, "waits in a circle");
}

/* So is a wait for a step that the log of the other stream does not have. */
static void test_ends_too_early(void)
{
    g_auto(Recording) r = { 0 };
    g_autoptr(LogWriter) writer = begin_recording(&r);

    log_event(log_writer_stream(writer, DMA), LOG_EVENT_STEP, (Position)0);
    log_event(log_writer_stream(writer, 1), LOG_EVENT_WAIT, (Position)20, (uint64_t)DMA,
              UINT64_C(2));
    expect_refusal(&r, writer, "ends before step 2");
}

/* Add an epoch that ends at @end[] to a recording whose vCPU 1 waits for step 50 of vCPU 0. */
static void expect_bad_epoch(const Position *end, const char *why)
{
    g_auto(Recording) r = { 0 };
    g_autoptr(LogWriter) writer = begin_recording(&r);
    g_autoptr(GError) error = NULL;
    int fd = begin_epochs(&r);

    append_epoch(fd, 0, end);
    close(fd);
    log_event(log_writer_stream(writer, DMA), LOG_EVENT_STEP, (Position)0);
    log_event(log_writer_stream(writer, 1), LOG_EVENT_WAIT, (Position)20, UINT64_C(0),
              UINT64_C(50));
    expect_refusal(&r, writer, why);
    g_assert_false(verify_closed_epochs(r.directory, r.manifest, &error));
    g_assert_nonnull(strstr(error->message, why));
}

/* An epoch that no replay could end is refused; the search for its end ends. */
static void test_bad_epochs(void)
{
    expect_bad_epoch((const Position[]) { 49, 21, 0, 1 }, "does not come first");
    expect_bad_epoch((const Position[]) { 60, 30, 0, 2 }, "epoch 1 has 2");
}

/* --- the critical path --------------------------------------------------------------------- */

static CriticalPath critical_path(const Recording *r)
{
    GError *error = NULL;
    CriticalPath path;

    g_assert_true(critical_path_find(r->directory, r->manifest, &path, &error));
    g_assert_no_error(error);
    return path;
}

/* Return the length of the longest chain, found step by step. */
static uint64_t longest_chain(const Recording *r)
{
    g_autoptr(GArray) steps = runs_from(r, 0, 1);
    uint64_t *ended[STREAMS], longest = 0;

    for (unsigned i = 0; i < STREAMS; i++) {
        ended[i] = g_new0(uint64_t, r->reached[i] + 1);
    }
    for (unsigned i = 0; i < steps->len; i++) {
        const Run *step = &g_array_index(steps, Run, i);
        uint64_t begins = ended[step->stream][step->from];

        for (unsigned j = 0; j < r->waits->len; j++) {
            const Wait *wait = &g_array_index(r->waits, Wait, j);

            if (wait->stream == step->stream && wait->position == step->from) {
                begins = MAX(begins, ended[wait->source][wait->steps]);
            }
        }
        ended[step->stream][step->to] = begins + 1;
        longest = MAX(longest, begins + 1);
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        g_free(ended[i]);
    }
    return longest;
}

static void test_critical_path(void)
{
    for (uint32_t seed = 4000; seed < 4003; seed++) {
        g_auto(Recording) r = { 0 };
        CriticalPath path;

        make_recording(&r, seed);
        path = critical_path(&r);
        g_assert_cmpuint(path.steps, ==, STEPS);
        g_assert_cmpuint(path.longest, ==, longest_chain(&r));
        g_assert_cmpuint(path.longest, <, path.steps);
    }
}

/* vCPU 1 makes its last 80 steps after the first 50 of vCPU 0.  vCPU 2 is on its own. */
static void test_critical_path_of_one_wait(void)
{
    g_auto(Recording) r = { 0 };
    g_autoptr(LogWriter) writer = begin_recording(&r);
    const Position end[VCPUS] = { 100, 100, 10 };
    CriticalPath path;

    log_event(log_writer_stream(writer, 1), LOG_EVENT_WAIT, (Position)20, UINT64_C(0),
              UINT64_C(50));
    end_recording(&r, writer, end);
    path = critical_path(&r);
    g_assert_cmpuint(path.steps, ==, 210);
    g_assert_cmpuint(path.longest, ==, 130);
}

static void test_critical_path_of_a_circle(void)
{
    g_auto(Recording) r = { 0 };
    g_autoptr(LogWriter) writer = begin_recording(&r);
    g_autoptr(GError) error = NULL;
    const Position end[VCPUS] = { 100, 100, 0 };
    CriticalPath path;

    log_event(log_writer_stream(writer, 0), LOG_EVENT_WAIT, (Position)10, UINT64_C(1),
              UINT64_C(21));
    log_event(log_writer_stream(writer, 1), LOG_EVENT_WAIT, (Position)20, UINT64_C(0),
              UINT64_C(11));
    end_recording(&r, writer, end);
    g_assert_false(critical_path_find(r.directory, r.manifest, &path, &error));
    g_assert_error(error, TOTAL_ORDER_ERROR, TOTAL_ORDER_ERROR_NONE);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/total-order/all-steps", test_all_steps_in_order);
    g_test_add_func("/total-order/checkpoints", test_checkpoints_lie_on_it);
    g_test_add_func("/total-order/epochs", test_epochs_lie_on_it);
    g_test_add_func("/total-order/moments", test_moments);
    g_test_add_func("/total-order/copy", test_copy);
    g_test_add_func("/total-order/pace", test_pace);
    g_test_add_func("/total-order/outside", test_outside);
    g_test_add_func("/total-order/circle", test_circle);
    g_test_add_func("/total-order/ends-too-early", test_ends_too_early);
    g_test_add_func("/total-order/bad-epochs", test_bad_epochs);
    g_test_add_func("/critical-path/random", test_critical_path);
    g_test_add_func("/critical-path/one-wait", test_critical_path_of_one_wait);
    g_test_add_func("/critical-path/circle", test_critical_path_of_a_circle);
    return g_test_run();
}
