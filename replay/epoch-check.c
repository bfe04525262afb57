/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A replay with epochs goes leg by leg: all vCPUs run in parallel to where they were at the end of
 * the next epoch, and stand still there.  Positions, registers, device stores and memory are
 * compared with the recorded ones.  Memory is compared by a digest to which only the pages count
 * that were written in this leg; so it is right even if recorder and player do not agree on which
 * pages these are.
 *
 * A replay that follows a recording reads no log beyond the end of an epoch that the recorder has
 * written.  All logs up to there are in their files, and the cut is closed under the arcs.  So the
 * follower never waits for what is not there yet.  It looks for the next epoch at intervals, and
 * ends when the recorder has ended.
 *
 * Main thread, BQL held.
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "hw/core/cpu.h"
#include "qapi/qapi-events-recorder-replay.h"
#include "system/cpus.h"
#include "system/runstate.h"

#include "hw/recorder/epochs.h"
#include "hw/recorder/machine-state.h"
#include "hw/recorder/recorder.h"
#include "recording/epochs.h"
#include "recording/log-reader.h"
#include "replay/epoch-check.h"
#include "replay/player-internal.h"
#include "replay/standby.h"

/* How often a follower looks for the next epoch. */
#define LOOK_MS 5
/* How often it looks whether the recorder has died, if there is none. */
#define LOOKS_FOR_RECORDER 100

static struct {
    EpochReader *reader;        /* NULL: there is nothing to be compared */
    bool follow;
    bool takes_over;            /* a standby, as soon as no epoch is left */
    uint64_t released;          /* the last epoch whose output was */
    RamDigestTracker *digest;
    Position *end;              /* where all streams stop behind the last epoch, as a cut */
    Epoch *epoch;               /* at which the present leg ends; NULL: none */
    Epoch *same;                /* the last one that was compared, or NULL */
    uint64_t n_compared;
    unsigned n_looks;           /* since the last epoch came */
    QEMUTimer *timer;           /* of a follower */
    QEMUBH *arrived;
} check;

uint64_t epoch_check_compared(void)
{
    return check.n_compared;
}

uint64_t epoch_check_current(void)
{
    return check.epoch ? check.epoch->number : 0;
}

/* --- comparing --------------------------------------------------------------------------- */

static void G_GNUC_PRINTF(1, 2) differs(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    player.divergence = g_strdup_vprintf(format, ap);
    va_end(ap);
}

static void compare_vcpu(CPUState *cpu, const Epoch *epoch)
{
    unsigned i = cpu->cpu_index;
    RecorderVcpu *v = cpu->recorder;
    uint64_t registers = recorder_register_digest(cpu);

    if (recorder_position(cpu) != epoch->point->at[i]) {
        differs("vCPU %u: expected position %" PRIu64 ", seen %" PRIu64, i, epoch->point->at[i],
                recorder_position(cpu));
    } else if (registers != epoch->registers[i]) {
        differs("vCPU %u at position %" PRIu64 ": expected register digest %016" PRIx64
                ", seen %016" PRIx64, i, epoch->point->at[i], epoch->registers[i], registers);
    } else if (v->store_hash != epoch->stores[i]) {
        differs("vCPU %u at position %" PRIu64 ": expected device store hash %016" PRIx64
                ", seen %016" PRIx64, i, epoch->point->at[i], epoch->stores[i], v->store_hash);
    }
}

static void compare_memory(const Epoch *epoch)
{
    uint64_t n_changed;
    g_autofree uint64_t *changed = machine_state_take_bits(MACHINE_STATE_EPOCHS, &n_changed);
    g_autofree char *digest = NULL;

    ram_digest_update(check.digest, changed);
    digest = ram_digest_tracked(check.digest);
    if (!player.divergence && !g_str_equal(digest, epoch->ram)) {
        differs("expected RAM digest %s, seen %s", epoch->ram, digest);
    }
}

/*
 * REPRISE_EPOCH_FAULT, in the environment, names an epoch and a byte of main memory, which is
 * spoiled there, so that tests can see the comparison fail.
 */
static void spoil(const Epoch *epoch)
{
    const char *fault = g_getenv("REPRISE_EPOCH_FAULT");
    uint64_t number, offset, size;
    const uint8_t *ram = machine_state_ram(&size);

    if (fault && sscanf(fault, "%" SCNu64 ":%" SCNu64, &number, &offset) == 2 &&
        number == epoch->number && offset < size) {
        uint8_t wrong = ~ram[offset];

        machine_state_write_ram(offset, &wrong, 1);
    }
}

static void compare(const Epoch *epoch)
{
    CPUState *cpu;

    spoil(epoch);
    CPU_FOREACH(cpu) {
        if (!player.divergence) {
            compare_vcpu(cpu, epoch);
        }
    }
    if (!player.divergence && player.dma.steps != epoch->dma_steps) {
        differs("DMA: expected position %" PRIu64 ", seen %" PRIu64, epoch->dma_steps,
                player.dma.steps);
    }
    compare_memory(epoch);
}

/* Say in which epoch the replay has diverged. */
static void say_where(void)
{
    g_autofree char *what = player.divergence;
    g_autofree char *from = check.same ? point_format(check.same->point) : g_strdup("the start");
    g_autofree char *to = point_format(check.epoch->point);

    player.divergence = g_strdup_printf("in epoch %" PRIu64 " (from %s to %s): %s",
                                        check.epoch->number, from, to, what);
}

/* --- going on ------------------------------------------------------------------------------ */

/* Return where the vCPU stops behind the last epoch. */
static Position end_of(unsigned vcpu)
{
    const Point *end = player.manifest->end;

    return end ? MIN(end->at[vcpu], check.end[vcpu]) : check.end[vcpu];
}

/* Read epochs until one lies ahead.  Return as epoch_reader_next() does. */
static EpochReaderResult next_epoch(Epoch **epoch, GError **error)
{
    for (;;) {
        EpochReaderResult result = epoch_reader_next(check.reader, epoch, error);
        bool is_ahead = false, is_behind = false;
        CPUState *cpu;

        if (result != EPOCH_READER_EPOCH) {
            return result;
        }
        CPU_FOREACH(cpu) {
            Position at = (*epoch)->point->at[cpu->cpu_index];

            is_ahead |= at > end_of(cpu->cpu_index);
            is_behind |= at < recorder_position(cpu);
        }
        is_ahead |= (*epoch)->dma_steps > check.end[player.manifest->n_vcpus];
        is_behind |= (*epoch)->dma_steps < player.dma.steps;
        if (is_ahead) {
            g_clear_pointer(epoch, epoch_free);
            return EPOCH_READER_END;
        }
        if (!is_behind) {
            return EPOCH_READER_EPOCH;
        }
        g_clear_pointer(epoch, epoch_free);     /* replay began at a later checkpoint */
    }
}

static void resume(void)
{
    if (runstate_is_running()) {
        resume_all_vcpus();
    }
}

static void go_to(Epoch *epoch)
{
    unsigned n = epoch->n_vcpus;
    g_autofree Position *cut = g_new(Position, n + 1);

    epoch_free(check.epoch);
    check.epoch = epoch;
    check.n_looks = 0;
    memcpy(cut, epoch->point->at, n * sizeof(Position));
    cut[n] = epoch->dma_steps;
    if (check.follow) {
        player_read_on(epoch->log_bytes);
    }
    if (player.divergence) {            /* a log is bad */
        say_where();
        player_end();
        return;
    }
    player_set_cut(cut);
    resume();
}

static void fail(const char *why)
{
    player.divergence = g_strdup(why);
    player_end();
}

/* Behind the last epoch the replay goes on as if there were none. */
static void go_to_end(void)
{
    if (check.follow) {
        player_read_on(NULL);
    }
    if (player.divergence) {            /* a log is bad */
        player_end();
        return;
    }
    player.arrived = NULL;
    player_set_cut(check.end);
    g_clear_pointer(&check.epoch, epoch_free);
    resume();
}

/* Take the manifest of the recording if that is complete by now.  Return true if it is. */
static bool recording_is_complete(void)
{
    g_autoptr(Manifest) manifest = manifest_load(player.recording, NULL);

    if (player.manifest->complete) {
        return true;
    }
    if (!manifest || !manifest->complete || manifest->n_vcpus != player.manifest->n_vcpus) {
        return false;
    }
    manifest->follow = player.manifest->follow;
    manifest_free(player.manifest);
    player.manifest = g_steal_pointer(&manifest);
    return true;
}

/*
 * Return true if the recorder is known to have no log open any more.  Look only now and then.  A
 * standby is told of it.
 */
static bool recorder_has_gone(void)
{
    return !player.standby && ++check.n_looks % LOOKS_FOR_RECORDER == 0 &&
           log_reader_writer(order_reader_log(player.order, 0)) == LOG_FILE_HAS_NO_WRITER;
}

/* All vCPUs are at the end of the last epoch, paused. */
static void take_over(void)
{
    if (check.same) {
        standby_go_live(check.same->number, check.released);
    } else {
        fail("cannot take over: the recorder has died before an epoch was replayed");
    }
}

/*
 * Go on to the next epoch, or to the end.  A recorder writes its last epoch, completes the manifest
 * and closes the logs, in this order.  So a follower looks at them in the opposite order: behind a
 * recorder that has ended it finds all epochs.
 */
static void go_on(void)
{
    bool has_gone = check.follow && recorder_has_gone();
    bool is_complete = !check.follow || recording_is_complete();
    g_autoptr(GError) error = NULL;
    Epoch *epoch = NULL;

    switch (next_epoch(&epoch, &error)) {
    case EPOCH_READER_EPOCH:
        go_to(epoch);
        break;
    case EPOCH_READER_END:
        if (is_complete) {
            go_to_end();
        } else if (check.takes_over) {
            take_over();
        } else if (has_gone) {
            player.cut_off = true;
            player_end();
        } else {
            timer_mod(check.timer, qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + LOOK_MS);
        }
        break;
    case EPOCH_READER_BAD:
        fail(error->message);
        break;
    }
}

/* The user may have paused the guest and resumed it meanwhile, and with it the vCPUs. */
static void look_again(void *opaque)
{
    pause_all_vcpus();
    go_on();
}

bool epoch_check_take_over(uint64_t released, Error **errp)
{
    LogFileWriter writer;

    if (!recorder_replaying() || !player.standby) {
        error_setg(errp, "this is no standby");
        return false;
    }
    writer = log_reader_writer(order_reader_log(player.order, 0));
    if (writer != LOG_FILE_HAS_NO_WRITER) {
        error_setg(errp, writer == LOG_FILE_HAS_WRITER
                   ? "the recorder still runs: end its QEMU first"
                   : "cannot tell whether the recorder still runs: its file system has no leases");
        return false;
    }
    check.takes_over = true;
    check.released = released;
    return true;
}

/* --- legs ------------------------------------------------------------------------------------ */

/* The leg has ended: all vCPUs are where they should be, or one has diverged. */
static void end_leg(void *opaque)
{
    if (!check.reader || !player.arrived) {
        return;
    }
    pause_all_vcpus();
    player_arrive();
    if (check.epoch && !player.divergence) {
        compare(check.epoch);
    }
    if (player.divergence) {
        if (check.epoch) {
            say_where();
        }
        player_end();
        return;
    }
    if (check.epoch) {
        check.n_compared++;
        if (check.follow) {
            qapi_event_send_recorder_followed(check.epoch->number, (g_get_real_time() -
                                              check.epoch->time_us) / 1e6);
        }
        epoch_free(check.same);
        check.same = g_steal_pointer(&check.epoch);
    }
    go_on();
}

/* PlayerOptions.arrived.  Any thread. */
static void arrived(void)
{
    qemu_bh_schedule(check.arrived);
}

/* --- opening and closing ---------------------------------------------------------------------- */

/* Read all epochs once.  Return false and @error if one is bad, or cannot be followed. */
static bool are_good(const char *directory, bool follow, GError **error)
{
    g_autoptr(EpochReader) reader = epoch_reader_open(directory, player.manifest->n_vcpus, error);
    EpochReaderResult result = reader ? EPOCH_READER_EPOCH : EPOCH_READER_BAD;

    while (result == EPOCH_READER_EPOCH) {
        g_autoptr(Epoch) epoch = NULL;

        result = epoch_reader_next(reader, &epoch, error);
        if (follow && epoch && !epoch_has_log_bytes(epoch)) {
            g_set_error(error, EPOCHS_ERROR, EPOCHS_ERROR_DAMAGED, "%s was converted, so it is "
                        "complete: replay it without following it", directory);
            return false;
        }
    }
    return result == EPOCH_READER_END;
}

bool epoch_check_open(const char *directory, bool follow, Error **errp)
{
    g_autoptr(GError) error = NULL;
    uint64_t unwanted;

    check.n_compared = 0;
    if (!epochs_exist(directory)) {
        if (follow) {
            error_setg(errp, "%s has no epochs to follow: record with --epochs", directory);
        }
        return !follow;
    }
    if (are_good(directory, follow, &error)) {
        check.reader = epoch_reader_open(directory, player.manifest->n_vcpus, &error);
    }
    if (!check.reader) {
        error_setg(errp, "%s", error->message);
        return false;
    }
    check.follow = follow;
    check.takes_over = false;
    check.digest = machine_state_track_digest();
    g_free(machine_state_take_bits(MACHINE_STATE_EPOCHS, &unwanted));
    return true;
}

void epoch_check_begin(void)
{
    unsigned n = player.manifest->n_vcpus;
    g_autofree Position *here = g_new(Position, n + 1);
    CPUState *cpu;

    if (!check.reader) {
        return;
    }
    check.end = g_new(Position, n + 1);
    CPU_FOREACH(cpu) {
        check.end[cpu->cpu_index] = cpu->recorder->replay->cut;
        here[cpu->cpu_index] = recorder_position(cpu);
    }
    check.end[n] = player.dma.cut;
    here[n] = player.dma.steps;
    check.timer = timer_new_ms(QEMU_CLOCK_REALTIME, look_again, NULL);
    check.arrived = qemu_bh_new(end_leg, NULL);
    player.arrived = arrived;
    player_set_cut(here);
}

void epoch_check_close(void)
{
    g_clear_pointer(&check.timer, timer_free);
    g_clear_pointer(&check.arrived, qemu_bh_delete);
    g_clear_pointer(&check.reader, epoch_reader_free);
    g_clear_pointer(&check.digest, ram_digest_tracker_free);
    g_clear_pointer(&check.epoch, epoch_free);
    g_clear_pointer(&check.same, epoch_free);
    g_clear_pointer(&check.end, g_free);
}
