/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Start and end of a replay.  Main thread with the BQL held, and all vCPUs stopped except in
 * player_query().  Functions that are given to run_on_cpu() run in the vCPU thread.
 */
#include "qemu/osdep.h"
#include "exec/cputlb.h"
#include "hw/boards.h"
#include "hw/core/cpu.h"
#include "qapi/clone-visitor.h"
#include "qapi/error.h"
#include "qapi/qapi-events-recorder-replay.h"
#include "qapi/qapi-visit-recorder-replay.h"
#include "system/cpus.h"
#include "system/runstate.h"

#include "hw/recorder/blocker.h"
#include "hw/recorder/machine-state.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/replay-port.h"
#include "hw/recorder/status.h"
#include "hw/recorder/translations.h"
#include "hw/recorder/vcpu.h"
#include "protocol/chaos.h"
#include "protocol/sphere.h"
#include "recording/checkpoint-position.h"
#include "recording/cut.h"
#include "recording/log-reader.h"
#include "recording/manifest.h"
#include "recording/order-reader.h"
#include "recording/position.h"
#include "recording/replay-end.h"
#include "replay/digest-trace.h"
#include "replay/epoch-check.h"
#include "replay/paranoid.h"
#include "replay/player-internal.h"
#include "replay/standby.h"
#include "replay/watch-log.h"

static void attach_vcpu(CPUState *cpu, run_on_cpu_data data)
{
    RecorderVcpu **v = data.host_ptr;

    v[cpu->cpu_index]->translations.made = recorder_translations_new();
    recorder_vcpu_attach(cpu, v[cpu->cpu_index]);
}

RecorderVcpu *player_new_vcpu(void)
{
    RecorderVcpu *v = g_new0(RecorderVcpu, 1);

    v->alone = player.manifest->n_vcpus == 1;
    v->digest_due = UINT64_MAX;
    v->replay = g_new0(ReplayingVcpu, 1);
    return v;
}

void player_close_vcpu(RecorderVcpu *v)
{
    if (v) {
        log_reader_free(v->replay->data);
        g_free(v->replay->kept);
        g_free(v->replay);
        recorder_vcpu_free(v);
    }
}

static void detach_vcpu(CPUState *cpu, run_on_cpu_data data)
{
    player_close_vcpu(recorder_vcpu_detach(cpu));
}

/*
 * Open the order of all streams at checkpoint @place; NULL: at the start.  Karma's is followed by
 * wake-ups.
 */
static bool open_order(const char *directory, const CheckpointPosition *place,
                       const PlayerOptions *options, GError **error)
{
    unsigned n = player.manifest->n_vcpus;
    RaceOrder order = player.manifest->follow;

    player.order = order_reader_open(directory, n, order, place ? place->logs : NULL, error);
    for (unsigned i = 0; player.order && options->follow && i <= n; i++) {
        order_reader_bound(player.order, i, 0);
    }
    if (player.order && order == RACE_KARMA && !options->by_positions) {
        player.wakes = wake_ups_new(n + 1);
        order_reader_use_wake_ups(player.order);
    }
    return player.order != NULL;
}

/* Open the data log of a vCPU at checkpoint @place; NULL: at the start. */
static LogReader *open_data(const char *directory, unsigned vcpu, const CheckpointPosition *place,
                            GError **error)
{
    unsigned n = player.manifest->n_vcpus;

    return place ? log_reader_open_at(directory, n, vcpu, LOG_DATA,
                                      log_place_of(place->logs, vcpu, LOG_DATA), error)
                 : log_reader_open(directory, n, vcpu, LOG_DATA, error);
}

/*
 * Return a new vCPU that replays from @place to @cut.  If it is to @follow a recorder, it reads
 * nothing yet.  Return NULL and set @errp on failure.
 */
static RecorderVcpu *open_vcpu(const char *directory, unsigned vcpu,
                               const CheckpointPosition *place, Position cut, bool follow,
                               Error **errp)
{
    g_autoptr(GError) error = NULL;
    RecorderVcpu *v = player_new_vcpu();
    ReplayingVcpu *r = v->replay;

    r->data = open_data(directory, vcpu, place, &error);
    if (r->data && follow) {
        log_reader_bound(r->data, 0);
    }
    if (place) {
        v->base = r->same_at = place->point->at[vcpu];
        v->store_hash = place->stores[vcpu];
        r->expected = place->logged[vcpu];
    }
    r->read = r->next_input = (LogEvent) { .kind = LOG_EVENT_KINDS, .position = UINT64_MAX };
    if (!r->data || player_read_order(vcpu, &r->read, &error) == LOG_READER_BAD ||
        log_reader_next(r->data, &r->next_input, &error) == LOG_READER_BAD) {
        error_setg(errp, "%s", error->message);
        player_close_vcpu(v);
        return NULL;
    }
    r->cut = cut;
    player_stop_at_cut(v);
    return v;
}

/* Free what an earlier replay, or one that failed to start, has left. */
static void forget_recording(void)
{
    ParanoidCounts unwanted;

    paranoid_end(&unwanted);
    epoch_check_close();
    standby_close();
    g_clear_pointer(&player.recording, g_free);
    g_clear_pointer(&player.manifest, manifest_free);
    g_clear_pointer(&player.schedule, schedule_free);
    digest_trace_drop();
    watch_log_end();
    g_clear_pointer(&player.order, order_reader_free);
    g_clear_pointer(&player.wakes, wake_ups_free);
    g_clear_pointer(&player.dma.kept, g_free);
    g_clear_pointer(&player.divergence, g_free);
    g_clear_pointer(&player.goal, point_free);
    player.arrived = NULL;
    player.diverged_at.known = false;
    player.furthest = 0;
    player.dma.steps = 0;
}

/*
 * Return the position of checkpoint @number, which the caller frees.  Return NULL without an error
 * if that is the start of the recording.
 */
static CheckpointPosition *find_checkpoint(const char *directory, unsigned number, GError **error)
{
    CheckpointPosition *place;

    if (number >= player.manifest->checkpoints->len) {
        g_set_error(error, MANIFEST_ERROR, MANIFEST_ERROR_INVALID,
                    player.manifest->checkpoints->len ? "%s has no checkpoint %u: its last is %u" :
                    "%s is not complete: it has no checkpoint",
                    directory, number, player.manifest->checkpoints->len - 1);
        return NULL;
    }
    checkpoint_position_find(directory, player.manifest->checkpoints->pdata[number], number == 0,
                             player.manifest->n_vcpus, &place, error);
    return place;
}

/*
 * Set player.goal: the end in the manifest, or @cut if that is before.  If a vCPU has neither, the
 * goal is not known, and NULL.
 */
static void set_goal(const Position *cut)
{
    bool known = player.manifest->end || cut;

    player.goal = known ? point_new(player.manifest->n_vcpus) : NULL;
    for (unsigned i = 0; player.goal && i < player.manifest->n_vcpus; i++) {
        Position end = player.manifest->end ? player.manifest->end->at[i] : CUT_NONE;

        player.goal->at[i] = cut ? MIN(cut[i], end) : end;
        known &= player.goal->at[i] != CUT_NONE;
    }
    if (!known) {
        g_clear_pointer(&player.goal, point_free);
    }
}

/*
 * Open the manifest and all logs, and find where replay begins (*@from) and ends.  The machine is
 * not changed, so a failure leaves it as it was.  Then the caller frees those @v that are set.
 */
static bool open_recording(const char *directory, const PlayerOptions *options, unsigned *from,
                           RecorderVcpu *v[], Error **errp)
{
    const uint64_t *until = options->has_until ? &options->until : NULL;
    g_autoptr(GError) error = NULL;
    g_autofree Position *cut = NULL;
    g_autoptr(CheckpointPosition) place = NULL;
    unsigned n;

    player.manifest = manifest_load(directory, &error);
    if (!player.manifest || !manifest_check_replayable(player.manifest, &error) ||
        !manifest_follow(player.manifest, directory, options->order, &error)) {
        error_setg(errp, "%s", error->message);
        return false;
    }
    n = player.manifest->n_vcpus;
    if (n > SPHERE_MAX_VCPUS) {
        error_setg(errp, "the recording has %u vCPUs; Reprise replays at most %u", n,
                   SPHERE_MAX_VCPUS);
        return false;
    }
    if (n != MACHINE(qdev_get_machine())->smp.cpus) {
        error_setg(errp, "the recording has %u vCPUs, and this machine %u", n,
                   MACHINE(qdev_get_machine())->smp.cpus);
        return false;
    }
    *from = options->has_from ? options->from :
            replay_end_checkpoint(directory, player.manifest, until);
    place = find_checkpoint(directory, *from, &error);
    if (!error && options->follow && player.manifest->follow != RACE_FDR) {
        error_setg(errp, "only recordings in the order of FDR can be followed: record with "
                   "--order fdr");
        return false;
    }
    if (!error && !options->follow) {
        cut = replay_end_find(directory, player.manifest, place, until, &error);
    }
    player.stops_early = options->has_until || options->arrived;
    player.dma.next = (LogEvent) { .kind = LOG_EVENT_KINDS, .position = UINT64_MAX };
    if (error || !open_order(directory, place, options, &error) ||
        player_read_order(n, &player.dma.next, &error) == LOG_READER_BAD) {
        error_setg(errp, "%s", error->message);
        return false;
    }
    player.dma.steps = place ? place->dma_steps : 0;
    player.dma.cut = cut ? cut[n] : CUT_NONE;
    player.cut_off = player.dma.cut != CUT_NONE;
    set_goal(cut);
    for (unsigned i = 0; i < n; i++) {
        player.cut_off |= cut && cut[i] != CUT_NONE;
        v[i] = open_vcpu(directory, i, place, cut ? cut[i] : CUT_NONE, options->follow, errp);
        if (!v[i]) {
            return false;
        }
    }
    return true;
}

bool player_start(const char *directory, const PlayerOptions *options, Error **errp)
{
    static bool once;
    const PlayerTrace *trace = options->trace;
    RecorderVcpu *v[SPHERE_MAX_VCPUS] = { NULL };
    unsigned from;
    CPUState *cpu;

    if (recorder_active()) {
        error_setg(errp, "a recording is being made or replayed already");
        return false;
    }
    if (!recorder_block_others(true, errp)) {
        return false;
    }
    if (!once) {
        once = true;
        qemu_mutex_init(&player.dma.lock);
    }
    forget_recording();
    if (!open_recording(directory, options, &from, v, errp) ||
        (options->standby && !standby_open(directory, errp)) ||
        (trace && !digest_trace_start(trace, v, player.manifest->n_vcpus, errp)) ||
        !machine_state_load(directory, (char *const *)player.manifest->checkpoints->pdata, from,
                            errp) ||
        (options->watch && !watch_log_start(options->watch, errp)) ||
        (!options->arrived && !epoch_check_open(directory, options->follow, errp))) {
        for (unsigned i = 0; i < SPHERE_MAX_VCPUS; i++) {
            player_close_vcpu(v[i]);
        }
        forget_recording();
        recorder_unblock_others();
        return false;
    }
    console_init(&player.console, player.manifest);
    machine_state_prepare_writes();
    recorder_translations_start();
    if (options->paranoid) {
        paranoid_start(options->paranoid);
    }
    chaos_draw(&chaos, options->chaos);
    player.one_at_a_time = options->one_at_a_time;
    player.standby = options->standby;
    player_new_schedule(v, player.one_at_a_time);
    CPU_FOREACH(cpu) {
        run_on_cpu(cpu, attach_vcpu, RUN_ON_CPU_HOST_PTR(v));
    }
    replay_port = &player_port;
    recorder_mode = RECORDER_REPLAYING;
    g_clear_pointer(&player.last, qapi_free_RecorderReplayEnd);
    player.recording = g_strdup(directory);
    player.started_us = g_get_monotonic_time();
    recorder_listen_to_signal(true);
    player.arrived = options->arrived;
    if (!player.arrived) {
        epoch_check_begin();
        vm_start();
    }
    return true;
}

void player_query(RecorderInfo *info)
{
    info->directory = g_strdup(player.recording);
    info->has_seconds = info->has_dma_position = true;
    info->seconds = (g_get_monotonic_time() - player.started_us) / 1e6;
    info->dma_position = schedule_reached(player.schedule, player.manifest->n_vcpus);
    info->epochs = epoch_check_compared();
    info->has_epochs = info->epochs;
    if (player.goal) {
        g_autoptr(Point) now = point_new(player.manifest->n_vcpus);
        double done = 0, all = 0;

        recorder_query_point(now);
        for (unsigned i = 0; i < player.manifest->n_vcpus; i++) {
            done += MIN(now->at[i], player.goal->at[i]);
            all += player.goal->at[i];
        }
        /* The position of a vCPU that runs is read at any moment, and may seem to go back. */
        player.furthest = MAX(player.furthest, all > 0 ? done / all : 1);
        info->has_progress = true;
        info->progress = player.furthest;
    }
}

void player_query_last(RecorderInfo *info)
{
    info->last_replay = player.last ? QAPI_CLONE(RecorderReplayEnd, player.last) : NULL;
}

void player_tell_end(RecorderReplayEnd *end)
{
    end->identical = !end->divergence;
    player.last = end;
    qapi_event_send_recorder_replayed(end);
}

/* Compare RAM with the digest in the manifest, and set player.divergence if they differ. */
static void judge_memory(void)
{
    g_autofree char *digest = machine_state_ram_digest();

    if (g_strcmp0(digest, player.manifest->ram_digest) != 0) {
        player.divergence = g_strdup_printf("at the end: expected RAM digest %s, seen %s",
                                            player.manifest->ram_digest, digest);
    }
}

void player_leave(void)
{
    CPUState *cpu;

    epoch_check_close();
    standby_close();
    recorder_listen_to_signal(false);
    recorder_mode = RECORDER_OFF;
    CPU_FOREACH(cpu) {
        run_on_cpu(cpu, detach_vcpu, RUN_ON_CPU_NULL);
    }
    /* However replay ended, this unpins the vCPU threads from host cores. */
    g_clear_pointer(&player.schedule, schedule_free);
    recorder_unblock_others();
    player.arrived = NULL;
}

void player_forget_console(void)
{
    g_clear_pointer(&player.shown, g_free);
}

void player_tell_divergence(void)
{
    qapi_event_send_recorder_diverged(player.divergence, player.diverged_at.known,
                                      player.diverged_at.vcpu, player.diverged_at.known,
                                      player.diverged_at.position);
}

/*
 * End the replay if it is over, and report its result.  A debugger ends its replays itself.  Called
 * when all vCPUs have stopped.
 */
static void finish(void)
{
    g_autoptr(Point) point = point_new(player.manifest->n_vcpus);
    RecorderReplayEnd *end;
    ParanoidCounts counts;

    if (player.arrived || (!player.divergence && qatomic_read(&player.n_running))) {
        return;         /* a debugger's replay, or the user has paused the machine */
    }
    recorder_query_point(point);
    end = g_new0(RecorderReplayEnd, 1);
    if (!player.manifest->complete || player.stops_early) {
        end->cut = point_format(point);
    }
    player_finish_dma();
    end->epochs = epoch_check_compared();
    end->has_epochs = end->epochs;
    /* The manifest has a digest of RAM at the end of the recording alone. */
    if (!player.divergence && !player.cut_off && player.manifest->end) {
        judge_memory();
    }
    player_leave();
    digest_trace_end();
    watch_log_end();
    if (paranoid_end(&counts)) {
        end->compared = g_new0(RecorderCompared, 1);
        end->compared->checks = counts.checks;
        end->compared->translations = counts.translations;
        end->compared->blocks = counts.blocks;
    }
    if (player.divergence) {
        player_tell_divergence();
        end->divergence = g_strdup(player.divergence);
    }
    player_tell_end(end);
}

void player_end(void)
{
    player.arrived = NULL;
    vm_stop(RUN_STATE_PAUSED);
    if (recorder_replaying()) {         /* the user had paused it already */
        finish();
    }
}

static void vm_state_changed(void *opaque, bool running, RunState state)
{
    if (!running && recorder_replaying()) {
        finish();
    }
}

static void __attribute__((constructor)) watch_machine(void)
{
    qemu_add_vm_change_state_handler(vm_state_changed, NULL);
}

/* --- leg by leg ---------------------------------------------------------------------- */

void player_set_cut(const Position *cut)
{
    RecorderVcpu *v[SPHERE_MAX_VCPUS];
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        v[cpu->cpu_index] = cpu->recorder;
    }
    for (unsigned i = 0; i < player.manifest->n_vcpus; i++) {
        v[i]->replay->cut = cut[i];
        v[i]->finished = false;
        player_stop_at_cut(v[i]);
    }
    player.dma.cut = cut[player.manifest->n_vcpus];
    player_new_schedule(v, player.one_at_a_time);
}

void player_read_on(const uint64_t *log_bytes)
{
    unsigned n = player.manifest->n_vcpus;
    g_autoptr(GError) error = NULL;
    CPUState *cpu;

    for (unsigned i = 0; i <= n; i++) {
        order_reader_bound(player.order, i,
                           log_bytes ? log_bytes[i * LOG_SUBSTREAMS + LOG_ORDER] : UINT64_MAX);
    }
    CPU_FOREACH(cpu) {
        unsigned i = cpu->cpu_index;
        ReplayingVcpu *r = cpu->recorder->replay;

        cpu->recorder->finished = false;        /* it can diverge, if a log is bad */
        log_reader_bound(r->data,
                         log_bytes ? log_bytes[i * LOG_SUBSTREAMS + LOG_DATA] : UINT64_MAX);
        if (r->read.kind == LOG_EVENT_KINDS) {
            player_next_ordered(cpu, i, &r->read);
        }
        if (r->next_input.kind == LOG_EVENT_KINDS) {
            player_next_event(cpu, r->data, &r->next_input);
        }
    }
    if (player.dma.next.kind == LOG_EVENT_KINDS) {
        LogReaderResult result = player_read_order(n, &player.dma.next, &error);

        if (result != LOG_READER_EVENT) {
            player.dma.next = (LogEvent) { .kind = LOG_EVENT_KINDS, .position = UINT64_MAX };
        }
        if (result == LOG_READER_BAD && !player.divergence) {
            player.divergence = g_strdup(error->message);
        }
    }
}

/* --- for a debugger ----------------------------------------------------------------- */

void player_go_on(const Position *cut)
{
    if (!player.shown) {
        player.shown = g_new0(Position, player.manifest->n_vcpus);
    }
    g_clear_pointer(&player.goal, point_free);
    set_goal(cut);
    player.furthest = 0;
    player_set_cut(cut);
}

const char *player_arrive(void)
{
    if (!player.divergence) {
        player_finish_dma();
    }
    return player.divergence;
}

const char *player_judge(void)
{
    CPUState *cpu;

    if (!player.manifest->complete) {
        return NULL;            /* the state at its end was not recorded */
    }
    CPU_FOREACH(cpu) {
        RecorderVcpu *v = cpu->recorder;

        if (v->replay->read.kind == LOG_EVENT_END &&
            v->replay->read.position == recorder_position(cpu)) {
            v->finished = false;
            player_check_digest(cpu, &v->replay->read);
            v->finished = true;
        }
    }
    if (!player.divergence && player.manifest->ram_digest) {
        judge_memory();
    }
    return player.divergence;
}
