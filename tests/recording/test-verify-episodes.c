/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Faults that `verify` finds in logs of episodes with right checksums.  Each recording has one.
 */
#include <glib.h>
#include <string.h>

#include "recording/log-block.h"
#include "recording/manifest.h"
#include "recording/registers.h"
#include "recording/verify.h"
#include "tests/recording/log-test.h"

enum { N_VCPUS = 2, DMA = N_VCPUS, END = 100 };

typedef struct Fixture {
    char *directory;
    LogWriter *writer;
    LogStream *stream[N_VCPUS + 1];
    Manifest *manifest;
} Fixture;

typedef void WriteEpisodes(Fixture *f);

typedef struct Case {
    const char *name;
    OrderSet orders;
    WriteEpisodes *write;
    uint64_t arcs;
    const char *fault;          /* NULL: there is none */
} Case;

/* Close all blocks, in which times and differences begin anew. */
static void close_blocks(Fixture *f)
{
    g_autoptr(LogPlaces) places = NULL;

    for (unsigned i = 0; i <= N_VCPUS; i++) {
        log_stream_rest(f->stream[i], 0);
    }
    places = log_writer_places(f->writer);
    g_assert_true(log_places_wait(places, NULL));
    for (unsigned i = 0; i <= N_VCPUS; i++) {
        log_stream_resume(f->stream[i]);
    }
}

static void end_vcpu(Fixture *f, unsigned vcpu)
{
    Registers none = { 0 }, before = { 0 };

    registers_log(f->stream[vcpu], END, &before, &none);
    log_event(f->stream[vcpu], LOG_EVENT_END, (Position)END,
              registers_digest(register_set("aarch64"), &none), UINT64_C(0));
    f->manifest->end->at[vcpu] = END;
    f->manifest->register_digests[vcpu] = registers_digest(register_set("aarch64"), &none);
}

static void setup(Fixture *f, const void *data)
{
    const Case *c = data;

    f->directory = test_directory();
    f->writer = log_writer_new(f->directory, N_VCPUS, c->orders, NULL);
    f->manifest = manifest_new(N_VCPUS);
    f->manifest->arch = g_strdup("aarch64");
    f->manifest->ram_size = 4096;
    f->manifest->complete = true;
    f->manifest->arcs = c->arcs;
    f->manifest->end = point_new(N_VCPUS);
    manifest_set_orders(f->manifest, &(Orders) { .set = c->orders });
    for (unsigned i = 0; i <= N_VCPUS; i++) {
        f->stream[i] = log_writer_stream(f->writer, i);
    }
    c->write(f);
    end_vcpu(f, 0);
    end_vcpu(f, 1);
    g_assert_true(log_writer_finish(f->writer, NULL));
}

static void teardown(Fixture *f, G_GNUC_UNUSED const void *data)
{
    manifest_free(f->manifest);
    log_writer_free(f->writer);
    remove_directory(f->directory);
}

/* Check that the logs have exactly one fault, whose text contains @word; NULL: no fault. */
static void expect(Fixture *f, const char *word)
{
    g_auto(Verified) verified = { 0 };

    verify_recording(f->directory, f->manifest, &verified);
    /* The missing checkpoint is always a fault, too. */
    for (unsigned i = 0; verified.faults->len != (word ? 2 : 1) && i < verified.faults->len; i++) {
        g_printerr("%s\n", (char *)verified.faults->pdata[i]);
    }
    g_assert_cmpuint(verified.faults->len, ==, word ? 2 : 1);
    if (word && !strstr(verified.faults->pdata[0], word)) {
        g_error("'%s' expected: %s", word, (char *)verified.faults->pdata[0]);
    }
}

static void test_case(Fixture *f, const void *data)
{
    const Case *c = data;
    g_autoptr(GError) error = NULL;

    expect(f, c->fault);
    /* Replay refuses it, unless it is only about the manifest. */
    if (c->fault && !strstr(c->fault, "arcs")) {
        g_assert_false(verify_for_replay(f->directory, f->manifest, &error));
        g_assert_nonnull(strstr(error->message, c->fault));
    } else {
        verify_for_replay(f->directory, f->manifest, &error);
        g_assert_no_error(error);
    }
}

/* --- Karma --------------------------------------------------------------------------------- */

/* vCPU 0 before vCPU 1 before vCPU 0, with a cut on the way. */
static void karma_sound(Fixture *f)
{
    log_episode(f->stream[0], 10, 0, 1 << 1, NULL, 0);
    log_episode(f->stream[0], 20, 1 << 1, 0, NULL, 0);
    log_episode(f->stream[1], 30, 1 << 0, 1 << 0, NULL, 0);
    log_cut(f->stream[0], RACE_KARMA, 20);
    log_cut(f->stream[1], RACE_KARMA, 30);
    log_cut(f->stream[DMA], RACE_KARMA, 0);
    log_episode(f->stream[0], 20, 0, 1 << 1, NULL, 0);          /* a relay */
    log_episode(f->stream[0], END, 0, 1 << 1, NULL, 0);
    log_episode(f->stream[1], END, 1 << 0, 0, (const uint8_t[]) { 0 }, 1);
}

static void karma_plain(Fixture *f)
{
    log_episode(f->stream[0], END, 0, 0, NULL, 0);
    log_episode(f->stream[1], END, 0, 0, NULL, 0);
}

static void karma_more_cuts(Fixture *f)
{
    log_cut(f->stream[0], RACE_KARMA, 0);
    log_episode(f->stream[0], 7, 0, 0, NULL, 0);
    log_cut(f->stream[0], RACE_KARMA, 7);
    log_cut(f->stream[1], RACE_KARMA, 0);
    log_cut(f->stream[DMA], RACE_KARMA, 0);
    log_episode(f->stream[0], END, 0, 0, NULL, 0);
    log_episode(f->stream[1], END, 0, 0, NULL, 0);
}

static void karma_lost_succ(Fixture *f)
{
    log_episode(f->stream[0], END, 0, 0, NULL, 0);
    log_episode(f->stream[1], 30, 0, 0, NULL, 0);
    log_episode(f->stream[1], END, 1 << 0, 0, NULL, 0);
}

static void karma_lost_again(Fixture *f)
{
    log_episode(f->stream[0], 10, 0, 1 << 1, NULL, 0);
    log_episode(f->stream[0], END, 0, 1 << 1, NULL, 0);
    log_episode(f->stream[1], END, 1 << 0, 0, NULL, 0);
}

/* Sent before the cut, taken behind it. */
static void karma_over_cut(Fixture *f)
{
    log_episode(f->stream[0], 10, 0, 1 << 1, NULL, 0);
    log_cut(f->stream[0], RACE_KARMA, 10);
    log_cut(f->stream[1], RACE_KARMA, 0);
    log_cut(f->stream[DMA], RACE_KARMA, 0);
    log_episode(f->stream[0], END, 0, 0, NULL, 0);
    log_episode(f->stream[1], END, 1 << 0, 0, NULL, 0);
}

static void karma_empty(Fixture *f)
{
    log_episode(f->stream[0], 0, 1 << 1, 0, NULL, 0);
    log_episode(f->stream[0], END, 0, 0, NULL, 0);
    log_episode(f->stream[1], END, 0, 1 << 0, NULL, 0);
}

static void karma_gap(Fixture *f)
{
    log_cut(f->stream[0], RACE_KARMA, 5);
    karma_plain(f);
}

static void karma_circle(Fixture *f)
{
    log_episode(f->stream[0], END, 1 << 1, 1 << 1, NULL, 0);
    log_episode(f->stream[1], END, 1 << 0, 1 << 0, NULL, 0);
}

/* --- Rerun ---------------------------------------------------------------------------------- */

static void rerun_sound(Fixture *f)
{
    log_stamped(f->stream[0], 10, 0);
    log_stamped(f->stream[1], 30, 1);
    log_stamped(f->stream[0], 20, 2);
    log_cut(f->stream[0], RACE_RERUN, 20);
    log_cut(f->stream[1], RACE_RERUN, 30);
    log_cut(f->stream[DMA], RACE_RERUN, 0);
    close_blocks(f);
    log_stamped(f->stream[0], END, 3);
    log_stamped(f->stream[1], END, 2);
}

static void rerun_time(Fixture *f)
{
    log_stamped(f->stream[0], 10, 5);
    close_blocks(f);
    log_stamped(f->stream[0], END, 5);
    log_stamped(f->stream[1], END, 0);
}

/* Of a stream that rested: what follows has a later time. */
static void rerun_empty(Fixture *f)
{
    log_stamped(f->stream[0], END, 5);
    log_stamped(f->stream[1], 0, 0);
    log_stamped(f->stream[1], END, 1);
}

static void rerun_gap(Fixture *f)
{
    log_stamped(f->stream[0], END, 5);
    log_cut(f->stream[1], RACE_RERUN, 6);
    log_stamped(f->stream[1], END, 1);
}

static void rerun_more_cuts(Fixture *f)
{
    log_stamped(f->stream[0], END, 5);
    log_stamped(f->stream[1], END, 1);
    log_cut(f->stream[1], RACE_RERUN, END);
}

/* --- several orders --------------------------------------------------------------------------- */

static void all_sound(Fixture *f)
{
    log_wait(f->stream[1], 5, 0, 10);
    karma_sound(f);
    rerun_sound(f);
}

static void all_but_karma(Fixture *f)
{
    log_wait(f->stream[1], 5, 0, 10);
    karma_circle(f);
    rerun_sound(f);
}

static void no_end(Fixture *f)
{
    log_episode(f->stream[0], END, 0, 0, NULL, 0);
    log_episode(f->stream[1], END - 1, 0, 0, NULL, 0);
}

#define KARMA ORDER_SET(RACE_KARMA)
#define RERUN ORDER_SET(RACE_RERUN)

static const Case cases[] = {
    { "karma/sound", KARMA, karma_sound, 4, NULL },
    { "karma/arcs", KARMA, karma_sound, 5, "its logs have 4 arcs, its manifest says 5" },
    { "karma/more-cuts", KARMA, karma_more_cuts, 0,
      "vcpu-0.karma: it has a cut at position 7 that " },
    { "karma/lost-succ", KARMA, karma_lost_succ, 1,
      "vcpu-0.karma: before position 100: stream 0 sends 0 edges to stream 1, which takes 1" },
    { "karma/lost-again", KARMA, karma_lost_again, 1,
      "vcpu-0.karma: before position 100: stream 0 sends 2 edges to stream 1, which takes 1" },
    { "karma/over-cut", KARMA, karma_over_cut, 1,
      "vcpu-0.karma: before position 10: stream 0 sends 1 edges to stream 1, which takes 0" },
    { "karma/empty", KARMA, karma_empty, 1,
      "episode at position 0: an episode without a step that comes after others" },
    { "karma/gap", KARMA, karma_gap, 0,
      "cut at position 5: steps before a cut that no episode has" },
    { "karma/circle", KARMA, karma_circle, 2, "order karma: waits in a circle: vCPU 0 waits" },
    { "karma/no-end", KARMA, no_end, 0, "the order log goes on after the last episode" },
    { "rerun/sound", RERUN, rerun_sound, 5, NULL },
    { "rerun/arcs", RERUN, rerun_sound, 4, "its logs have 5 arcs, its manifest says 4" },
    { "rerun/time", RERUN, rerun_time, 3,
      "stamped at position 100: a time that is not later than that of the episode before" },
    { "rerun/empty", RERUN, rerun_empty, 3, NULL },
    { "rerun/gap", RERUN, rerun_gap, 2,
      "stamped-cut at position 6: steps before a cut that no episode has" },
    { "rerun/more-cuts", RERUN, rerun_more_cuts, 2,
      "vcpu-1.rerun: it has a cut at position 100 that " },
    { "all/sound", ORDER_SET_ALL, all_sound, 1, NULL },
};

/* Replay by an order does not mind faults of another. */
static void test_one_of_several(Fixture *f, G_GNUC_UNUSED const void *data)
{
    g_autoptr(GError) error = NULL;

    expect(f, "order karma: waits in a circle");
    g_assert_true(verify_for_replay(f->directory, f->manifest, NULL));
    f->manifest->follow = RACE_RERUN;
    g_assert_true(verify_for_replay(f->directory, f->manifest, NULL));
    f->manifest->follow = RACE_KARMA;
    g_assert_false(verify_for_replay(f->directory, f->manifest, &error));
}

/* The manifest and all logs must name the same orders. */
static void test_other_orders(Fixture *f, G_GNUC_UNUSED const void *data)
{
    g_autofree char *path = g_build_filename(f->directory, "vcpu-1.data", NULL);
    g_autofree char *bytes = NULL;
    LogFileHeader header;
    size_t size;

    manifest_set_orders(f->manifest, &(Orders) { .set = KARMA | RERUN });
    expect(f, "its logs have the orders fdr,karma,rerun, its manifest says karma,rerun");
    g_assert_false(verify_for_replay(f->directory, f->manifest, NULL));
    manifest_set_orders(f->manifest, &(Orders) { .set = ORDER_SET_ALL });
    expect(f, NULL);

    g_assert_true(g_file_get_contents(path, &bytes, &size, NULL));
    g_assert_null(log_file_header_get(&header, (uint8_t *)bytes));
    header.incompatible = 0;
    log_file_header_put(&header, (uint8_t *)bytes);
    write_file(path, bytes, size);
    expect(f, "vcpu-1.data: it belongs to a recording of other orders");
}

static const Case several[] = {
    { "all/one-of-several", ORDER_SET_ALL, all_but_karma, 1, NULL },
    { "all/other-orders", ORDER_SET_ALL, all_sound, 1, NULL },
};

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *name = g_strdup_printf("/verify-episodes/%s", cases[i].name);

        g_test_add(name, Fixture, &cases[i], setup, test_case, teardown);
    }
    g_test_add("/verify-episodes/one-of-several", Fixture, &several[0], setup,
               test_one_of_several, teardown);
    g_test_add("/verify-episodes/other-orders", Fixture, &several[1], setup, test_other_orders,
               teardown);
    return g_test_run();
}
