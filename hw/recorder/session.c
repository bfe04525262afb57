/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A recording from its start to its end.
 *
 * All functions run in the main thread with the BQL held.  The exceptions are recorder_fail(),
 * bring_to_disk(), which is a thread of its own, and work items of vCPUs.  vCPUs are attached and
 * detached, and recorder_mode changes, only while all vCPUs are stopped.
 */
#include "qemu/osdep.h"
#include "qemu/coroutine.h"
#include "qemu/main-loop.h"
#include "hw/boards.h"
#include "hw/core/cpu.h"
#include "qapi/error.h"
#include "qapi/qapi-events-recorder.h"
#include "system/runstate.h"
#include "system/tcg.h"
#include "tcg/startup.h"

#include "hw/recorder/access.h"
#include "hw/recorder/blocker.h"
#include "hw/recorder/checkpointer.h"
#include "hw/recorder/disks.h"
#include "hw/recorder/dma.h"
#include "hw/recorder/epochs.h"
#include "hw/recorder/hold.h"
#include "hw/recorder/episodes.h"
#include "hw/recorder/limits.h"
#include "hw/recorder/live.h"
#include "hw/recorder/machine.h"
#include "hw/recorder/machine-state.h"
#include "hw/recorder/map-change.h"
#include "hw/recorder/memory-map.h"
#include "hw/recorder/paused.h"
#include "hw/recorder/protect.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/session.h"
#include "hw/recorder/stand-still.h"
#include "hw/recorder/status.h"
#include "hw/recorder/target.h"
#include "hw/recorder/translations.h"
#include "hw/recorder/trigger.h"
#include "hw/recorder/vcpu.h"
#include "protocol/chaos.h"
#include "protocol/sphere.h"
#include "recording/checkpoint-sums.h"
#include "recording/epochs.h"
#include "recording/log-block.h"
#include "recording/log-writer.h"
#include "recording/manifest.h"
#include "recording/position.h"
#include "recording/ram-image.h"

#define SHORTEST_EPOCH_MS 10
#define LONGEST_EPOCH_MS 60000

static struct {
    char *directory;            /* NULL: no session */
    int directory_fd;
    Manifest *manifest;
    RamImageWriter *ram;        /* image of the first checkpoint, until that is on disk */
    LogWriter *writer;
    Sphere *sphere;
    int64_t started_us;
    uint64_t digest_interval;
    double keep_s;              /* seconds to keep (flight recorder); 0: all */
    unsigned epoch_ms;          /* length of an epoch; 0: there are none */
    uint64_t hold;              /* most bytes of output to hold; 0: none is held */
    bool standby;               /* another machine may go on from each epoch */
    char *failure;              /* why the recording must end; set once, by any thread */
    struct Start *start;        /* until the first checkpoint is on disk */
    bool resuming;              /* vCPUs are stopped, though the run state is running */
} session;

/* --- what cannot be recorded -------------------------------------------------- */

static bool can_record(Error **errp)
{
    MachineState *machine = MACHINE(qdev_get_machine());
    const RecordedMachine *kind = recorder_machine_kind(machine);
    g_autofree char *objection = NULL;

    if (!kind) {
        error_setg(errp, "cannot record a %s machine: only 'virt' of aarch64, and 'q35', 'pc' "
                   "and 'microvm' of x86_64 can be recorded so far",
                   MACHINE_GET_CLASS(machine)->name ?: "this");
        return false;
    }
    if (machine->smp.max_cpus > SPHERE_MAX_VCPUS) {
        error_setg(errp, "cannot record %u vCPUs: the most are %u (give a smaller -smp)",
                   machine->smp.max_cpus, SPHERE_MAX_VCPUS);
        return false;
    }
    if (machine->smp.cpus != machine->smp.max_cpus) {
        error_setg(errp,
                   "cannot record a guest whose vCPUs may be hot-plugged (-smp without maxcpus)");
        return false;
    }
    if (machine->smp.cpus > 1 && !qemu_tcg_mttcg_enabled()) {
        error_setg(errp,
                   "cannot record several vCPUs that share a thread (-accel tcg,thread=multi)");
        return false;
    }
    objection = recorder_machine_objection(machine, kind);
    if (objection) {
        error_setg(errp, "cannot record a guest with %s", objection);
        return false;
    }
    return true;
}

/* --- start ------------------------------------------------------------------ */

Manifest *recorder_describe_machine(void)
{
    MachineState *machine = MACHINE(qdev_get_machine());
    const RecordedMachine *kind = recorder_machine_kind(machine);
    Manifest *manifest = manifest_new(machine->smp.cpus);

    manifest->qemu_version = g_strdup(QEMU_VERSION);
    manifest->arch = g_strdup(kind->arch);
    manifest->machine = g_strdup(MACHINE_GET_CLASS(machine)->name);
    manifest->machine_options = kind->options(machine);
    manifest->cpu = recorder_cpu_description(first_cpu);
    manifest->ram_size = machine->ram_size;
    manifest->start = g_strdup(runstate_check(RUN_STATE_PRELAUNCH) ? MANIFEST_START_POWER_ON
                                                                   : MANIFEST_START_RUNNING);
    manifest->start_time = time(NULL);
    kind->describe_console(manifest);
    return manifest;
}

/* --- vCPUs -------------------------------------------------------------------- */

static void kick(void *cpu)
{
    recorder_kick(cpu);
}

/* In the thread of @cpu. */
static void published(void *cpu)
{
    log_stream_publish(((CPUState *)cpu)->recorder->log);
}

static const SphereOps sphere_ops = {
    .kick = kick,
    .published = published,
    .karma_episode = recorder_log_karma,
    .rerun_episode = recorder_log_rerun,
};

/* Return a new sphere.  A vCPU that is alone has all of memory as one line. */
static Sphere *make_sphere(unsigned n_vcpus)
{
    recorder_several_vcpus = n_vcpus > 1;
    return sphere_new(n_vcpus, g_get_num_processors(), recorder_ram.host,
                      n_vcpus > 1 ? recorder_ram.size : 1 << SPHERE_PAGE_SHIFT, &sphere_ops,
                      &session.manifest->orders);
}

static void attach_vcpu(CPUState *cpu, run_on_cpu_data data)
{
    RecorderVcpu *v = g_new0(RecorderVcpu, 1);

    v->log = log_writer_stream(session.writer, cpu->cpu_index);
    log_stream_rest(v->log, 0);
    recorder_digest_every(v, session.digest_interval, session.digest_interval, UINT64_MAX);
    v->record.processor = sphere_vcpu(session.sphere, cpu->cpu_index);
    v->record.l1 = sphere_l1(v->record.processor);
    sphere_set_user(v->record.processor, cpu);
    v->alone = session.manifest->n_vcpus == 1;
    v->translations.made = recorder_translations_new();
    v->record.code_pages_size = recorder_ram.size >> SPHERE_PAGE_SHIFT >> 3;
    v->record.code_pages = g_malloc0(v->record.code_pages_size);
    recorder_vcpu_attach(cpu, v);
}

static void run_on_all(run_on_cpu_func work, run_on_cpu_data data)
{
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        run_on_cpu(cpu, work, data);
    }
}

bool recorder_make_directory(const char *directory, Error **errp)
{
    g_autoptr(GDir) dir = NULL;

    if (mkdir(directory, 0755) == 0) {
        return true;
    }
    if (errno != EEXIST || !(dir = g_dir_open(directory, 0, NULL))) {
        error_setg(errp, "cannot make %s: %s", directory, strerror(errno));
        return false;
    }
    if (g_dir_read_name(dir)) {
        error_setg(errp, "%s exists and is not empty: give another directory", directory);
        return false;
    }
    return true;
}

/*
 * Open @directory.  The manifest is written there even if the directory is renamed meanwhile, and
 * never into another directory of this name.
 */
static bool open_directory(const char *directory, Error **errp)
{
    session.directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (session.directory_fd < 0) {
        error_setg(errp, "cannot open %s: %s", directory, strerror(errno));
        return false;
    }
    session.directory = g_strdup(directory);
    return true;
}

static void session_clear(void)
{
    recorder_unblock_others();
    g_clear_pointer(&session.ram, ram_image_writer_free);
    g_clear_pointer(&session.writer, log_writer_free);
    g_clear_pointer(&session.sphere, sphere_free);
    g_clear_pointer(&session.manifest, manifest_free);
    if (session.directory) {
        close(session.directory_fd);
    }
    g_clear_pointer(&session.directory, g_free);
    g_clear_pointer(&session.failure, g_free);
}

/* Do what must be done while the guest is paused: save its state, attach vCPUs, set the mode. */
static bool begin(Error **errp)
{
    g_autofree char *checkpoint = g_build_filename(session.directory, "checkpoint-0", NULL);
    g_autoptr(GError) error = NULL;

    recorder_finish_work();
    session.ram = machine_state_save(checkpoint, session.manifest->live, errp);
    if (!session.ram) {
        return false;
    }
    manifest_add_checkpoint(session.manifest, "checkpoint-0");
    session.writer = log_writer_new(session.directory, session.manifest->n_vcpus,
                                    session.manifest->orders.set, &error);
    if (!session.writer || (session.keep_s && !log_writer_can_drop(session.writer, &error))) {
        error_setg(errp, "%s", error->message);
        return false;
    }
    if (session.epoch_ms && !recorder_epochs_start(session.directory, session.directory_fd,
                                                   session.writer, session.epoch_ms,
                                                   session.standby, errp)) {
        return false;
    }
    if (!recorder_hold_start(session.hold, errp)) {
        return false;
    }
    if (session.standby) {
        recorder_disks_start(session.directory_fd, session.directory);
    }
    log_writer_hold_waits(session.writer, chaos.hold_waits);
    recorder_translations_start();
    recorder_map_changes_start();
    session.sphere = make_sphere(session.manifest->n_vcpus);
    recorder_episodes_start(session.writer, session.sphere, &session.manifest->orders);
    run_on_all(attach_vcpu, RUN_ON_CPU_NULL);
    recorder_dma_start(log_writer_stream(session.writer, session.manifest->n_vcpus),
                       sphere_dma(session.sphere));
    recorder_paused();
    recorder_mode = RECORDER_RECORDING;
    recorder_dma_renew_rings();
    memory_map_watch(recorder_map_may_change());
    session.started_us = g_get_monotonic_time();
    recorder_listen_to_signal(true);
    return true;
}

static void detach_vcpu(CPUState *cpu, run_on_cpu_data data)
{
    recorder_vcpu_free(recorder_vcpu_detach(cpu));
}

/* Clear the mode and detach all vCPUs.  They are stopped. */
static void detach(void)
{
    recorder_listen_to_signal(false);
    recorder_mode = RECORDER_OFF;
    memory_map_watch(false);
    recorder_goes_on();
    recorder_episodes_stop();           /* a start that failed comes here, too */
    run_on_all(detach_vcpu, RUN_ON_CPU_NULL);
    recorder_dma_renew_rings();
}

static void remove_log(unsigned stream, LogSubstream substream)
{
    unsigned n_vcpus = session.manifest->n_vcpus;

    if (log_file_exists(n_vcpus, session.manifest->orders.set, stream, substream)) {
        g_autofree char *name = log_file_name(n_vcpus, stream, substream);
        g_autofree char *path = g_build_filename(session.directory, name, NULL);

        remove(path);
    }
}

/* Remove the files of a start that failed, so that the same directory can be used again. */
static void remove_leftovers(void)
{
    g_autofree char *checkpoint = g_build_filename(session.directory, "checkpoint-0", NULL);
    g_autofree char *manifest = g_build_filename(session.directory, MANIFEST_FILE, NULL);
    g_autofree char *epochs = g_build_filename(session.directory, EPOCHS_FILE, NULL);
    unsigned n_vcpus = session.manifest->n_vcpus;

    recorder_disks_stop();
    recorder_hold_stop();
    recorder_epochs_stop();
    recorder_epochs_forget_states();
    g_clear_pointer(&session.ram, ram_image_writer_free);
    g_clear_pointer(&session.writer, log_writer_free);
    checkpoint_remove(checkpoint);
    for (unsigned i = 0; i < (n_vcpus + 1) * LOG_SUBSTREAMS; i++) {
        remove_log(i / LOG_SUBSTREAMS, i % LOG_SUBSTREAMS);
    }
    remove(epochs);
    remove(manifest);
}

static double shortest_interval(const RecorderOptions *options)
{
    return options->chaos ? 0.01 : 0.1;
}

static bool check_options(const RecorderOptions *options, Error **errp)
{
    if (options->digest_interval == 0) {
        error_setg(errp, "a digest interval of 0 steps: give at least 1");
        return false;
    }
    /* Each checkpoint costs a pause, which does not matter to a test with chaos. */
    if (options->checkpoint_interval_s != 0 &&
        !(options->checkpoint_interval_s >= shortest_interval(options) &&
          options->checkpoint_interval_s <= 1e6)) {
        error_setg(errp, "a checkpoint interval of %g s: give %g to 1000000, or 0 for none",
                   options->checkpoint_interval_s, shortest_interval(options));
        return false;
    }
    if (options->keep_s != 0 && !(options->keep_s >= 1 && options->keep_s <= 1e6)) {
        error_setg(errp, "%g seconds to be kept: give 1 to 1000000, or 0 for all",
                   options->keep_s);
        return false;
    }
    if (options->epoch_ms != 0 &&
        (options->epoch_ms < SHORTEST_EPOCH_MS || options->epoch_ms > LONGEST_EPOCH_MS)) {
        error_setg(errp, "epochs of %u ms: give %u to %u, or 0 for none", options->epoch_ms,
                   SHORTEST_EPOCH_MS, LONGEST_EPOCH_MS);
        return false;
    }
    if (options->epoch_ms && options->keep_s) {
        error_setg(errp, "a flight recorder drops what epochs are compared with: give epochs or "
                   "the seconds to keep, not both");
        return false;
    }
    if (options->hold && !options->epoch_ms) {
        error_setg(errp, "output is held until its epoch is released: give epochs, too");
        return false;
    }
    if (options->standby && !(options->hold && options->live)) {
        error_setg(errp, "nobody may have seen more than a standby goes on from: give epochs, hold "
                   "and live-checkpoints, too");
        return false;
    }
    return true;
}

/*
 * Return the interval of checkpoints.  What a flight recorder keeps begins at a checkpoint, so
 * there must be some.
 */
static double checkpoint_interval(const RecorderOptions *options)
{
    if (options->checkpoint_interval_s || !options->keep_s) {
        return options->checkpoint_interval_s;
    }
    return MIN(MAX(options->keep_s / 4, 0.5), 60);
}

/*
 * A start.  First comes what must be done while the guest is paused.  Then the guest runs, and is
 * recorded, while a thread writes the checkpoint to disk.  A coroutine waits for both, so the main
 * loop goes on meanwhile: the guest needs it for timers and devices.
 */
typedef struct Start {
    const char *directory;
    const RecorderOptions *options;
    GThread *thread;
    Coroutine *waiter;
    GError *failure;            /* set by the thread */
    Error *error;               /* why there is no recording */
} Start;

typedef void StartStep(Start *start);

typedef struct Step {
    StartStep *step;
    Start *start;
} Step;

static void make_step(void *opaque)
{
    Step *step = opaque;

    step->step(step->start);
    aio_co_wake(step->start->waiter);
}

/*
 * Run @step in a bottom half, and return when it is done.  vCPUs cannot be stopped in a coroutine.
 */
static void coroutine_fn in_main_loop(StartStep *step, Start *start)
{
    Step todo = { step, start };

    aio_bh_schedule_oneshot(qemu_get_aio_context(), make_step, &todo);
    qemu_coroutine_yield();
}

static void pause_if(bool was_running)
{
    if (was_running) {
        vm_stop(RUN_STATE_PAUSED);
    }
}

static void resume_if(bool was_running)
{
    if (was_running) {
        vm_start();
    }
}

/* Write the checkpoint and then the manifest to disk.  With the manifest the recording exists. */
static gpointer bring_to_disk(gpointer opaque)
{
    g_autofree char *checkpoint = g_build_filename(session.directory, "checkpoint-0", NULL);
    Start *start = opaque;

    if (ram_image_close(session.ram, &start->failure) &&
        checkpoint_sync(checkpoint, &start->failure)) {
        manifest_save_at(session.manifest, session.directory_fd, session.directory,
                         &start->failure);
    }
    aio_co_schedule(qemu_get_aio_context(), start->waiter);
    return NULL;
}

static void first_step(Start *start)
{
    const RecorderOptions *options = start->options;
    bool was_running;

    if (!check_options(options, &start->error) ||
        !recorder_can_have_disks(options, &start->error)) {
        return;
    }
    if (recorder_active()) {
        error_setg(&start->error, "a recording is being made or replayed already");
        return;
    }
    /* What may migrate is asked before the recorder itself blocks migrations. */
    if (!can_record(&start->error) || (options->live && !recorder_can_go_live(&start->error)) ||
        (options->standby && !recorder_can_protect(&start->error)) ||
        !recorder_block_others(false, &start->error)) {
        return;
    }
    if ((options->standby && !recorder_disks_prepare(&start->error)) ||
        !recorder_make_directory(start->directory, &start->error) ||
        !open_directory(start->directory, &start->error)) {
        recorder_disks_stop();
        session_clear();
        return;
    }
    session.digest_interval = options->digest_interval;
    session.keep_s = options->keep_s;
    session.epoch_ms = options->epoch_ms;
    session.hold = options->hold;
    session.standby = options->standby;
    chaos_draw(&chaos, options->chaos);
    recorder_force_slow_path = options->slow_path || !tcg_has_recorder_check();
    session.manifest = recorder_describe_machine();
    if (options->live) {
        recorder_describe_origin(session.manifest);
        session.manifest->standby = options->standby;
    }
    manifest_set_orders(session.manifest, &options->orders);
    was_running = runstate_is_running();
    pause_if(was_running);
    if (begin(&start->error)) {
        session.start = start;
    } else {
        remove_leftovers();
        session_clear();
    }
    resume_if(was_running);
}

/* Finish the start, once: for the coroutine, or earlier for what ends the recording. */
static void last_step(Start *start)
{
    bool runs;

    if (session.start != start) {
        return;
    }
    session.start = NULL;
    g_thread_join(start->thread);
    g_clear_pointer(&session.ram, ram_image_writer_free);
    if (!start->failure) {
        recorder_checkpointer_start(session.directory, session.directory_fd, session.manifest,
                                    session.writer, checkpoint_interval(start->options),
                                    session.keep_s);
        if (session.keep_s) {
            recorder_trigger_set(session.manifest);
        }
        recorder_limits_start(session.directory, session.writer, &start->options->limits);
        qapi_event_send_recorder_started(session.directory);
        return;
    }
    error_setg(&start->error, "%s", start->failure->message);
    g_error_free(start->failure);
    runs = runstate_is_running() && !session.resuming;
    pause_if(runs);
    detach();
    remove_leftovers();
    session_clear();
    resume_if(runs);
}

bool coroutine_fn recorder_start(const char *directory, const RecorderOptions *options,
                                 Error **errp)
{
    Start start = {
        .directory = directory,
        .options = options,
        .waiter = qemu_coroutine_self(),
    };

    in_main_loop(first_step, &start);
    if (!start.error) {
        /* Not earlier: the thread wakes the coroutine, which make_step() must have woken before. */
        start.thread = g_thread_new("checkpoint", bring_to_disk, &start);
        qemu_coroutine_yield();
        in_main_loop(last_step, &start);
    }
    error_propagate(errp, start.error);
    return !start.error;
}

/* Return true if there is a recording to end.  A start under way is finished first. */
static bool is_recorded(void)
{
    if (session.start) {
        last_step(session.start);
    }
    return recorder_recording();
}

/* --- query ------------------------------------------------------------------ */

void recorder_query_session(RecorderInfo *info)
{
    RecorderCounterList **tail = &info->log_bytes;
    uint64_t bytes[LOG_ACCOUNTS];

    info->directory = g_strdup(session.directory);
    info->has_seconds = info->has_dma_position = info->has_log_bytes = true;
    info->seconds = (g_get_monotonic_time() - session.started_us) / 1e6;
    info->dma_position = recorder_dma_steps();
    info->dma_waits_for = sphere_describe_wait(sphere_dma(session.sphere));
    info->has_tracking_memory = true;
    info->has_epochs = session.epoch_ms;
    info->epochs = recorder_epochs_written();
    recorder_hold_query(info);
    info->tracking_memory = sphere_memory(session.sphere);
    log_writer_accounts(session.writer, bytes);
    for (int i = 0; i < LOG_ACCOUNTS; i++) {
        if (log_account_is_shown(i, session.manifest->orders.set, bytes[i])) {
            recorder_add_counter(&tail, log_account_name(i), bytes[i]);
        }
    }
}

/* --- end -------------------------------------------------------------------- */

static void end_vcpu(CPUState *cpu, run_on_cpu_data data)
{
    RecorderVcpu *v = cpu->recorder;
    Manifest *manifest = data.host_ptr;
    Position position;

    recorder_enter_running(cpu);
    recorder_boundary_slow(cpu);        /* applies drops that are due */
    recorder_leave_running(cpu, true);
    log_stream_resume(v->log);
    position = recorder_position(cpu);
    manifest->end->at[cpu->cpu_index] = position;
    manifest->register_digests[cpu->cpu_index] = recorder_log_digest(cpu, LOG_EVENT_END);
    manifest->instructions[cpu->cpu_index] = position - v->counters[RECORDER_COUNT_OTHER_STEPS];
    manifest->arcs += v->counters[RECORDER_COUNT_ARCS];
    log_stream_rest(v->log, LOG_UNKNOWN);
}

static void end(const char *reason)
{
    Manifest *manifest = session.manifest;
    g_autoptr(GError) error = NULL;

    recorder_check_registers();
    recorder_trigger_clear();
    recorder_epochs_stop();
    recorder_checkpointer_stop();
    manifest->end = point_new(manifest->n_vcpus);
    run_on_all(end_vcpu, RUN_ON_CPU_HOST_PTR(manifest));
    manifest->arcs += recorder_dma_arcs();
    recorder_episodes_cut(manifest->end, recorder_dma_steps(), false);
    detach();
    manifest->seconds = (g_get_monotonic_time() - session.started_us) / 1e6;
    manifest->ram_digest = machine_state_ram_digest();
    /* The writer knows best why the log could not be written. */
    log_writer_finish(session.writer, &error);
    /* Not earlier: until then the log writer flushes the episodes of DMA, which is at rest. */
    if (!orders_has(&manifest->orders, RACE_FDR)) {
        manifest->arcs = recorder_episode_edges();
    }
    manifest->complete = !error && !session.failure;
    manifest->end_reason = g_strdup(error ? error->message : session.failure ?: reason);
    if (!manifest_save_at(manifest, session.directory_fd, session.directory,
                          error ? NULL : &error) && manifest->complete) {
        manifest->complete = false;
        g_free(manifest->end_reason);
        manifest->end_reason = g_strdup(error->message);
    }
    recorder_disks_stop();
    recorder_epochs_forget_states();
    recorder_hold_stop();
    recorder_limits_end(manifest->complete, manifest->end_reason);
    qapi_event_send_recorder_stopped(session.directory, manifest->complete, manifest->end_reason);
    session_clear();
}

/* Pause the guest, and end the recording if there still is one then. */
static void stop(const char *reason, bool pause)
{
    bool was_running = runstate_is_running();

    pause_if(was_running);
    if (pause) {
        recorder_hold_leave_paused();
    }
    if (recorder_recording()) {
        end(reason);
    }
    resume_if(was_running && !pause);
}

bool recorder_stop(bool pause, Error **errp)
{
    if (!is_recorded()) {
        error_setg(errp, "nothing is being recorded");
        return false;
    }
    stop("stopped", pause);
    return true;
}

void recorder_stop_because(const char *reason)
{
    if (is_recorded()) {
        stop(reason, false);
    }
}

/*
 * End the recording after recorder_fail(); the guest goes on.  That recording may have ended
 * meanwhile.  Then a new recording, which has not failed, is left alone.
 */
static void end_after_failure(void *opaque)
{
    if (recorder_failure()) {
        recorder_stop_because("stopped");
    }
}

const char *recorder_failure(void)
{
    return qatomic_read(&session.failure);
}

void recorder_fail(const char *format, ...)
{
    va_list ap;
    char *why;

    va_start(ap, format);
    why = g_strdup_vprintf(format, ap);
    va_end(ap);
    if (qatomic_cmpxchg(&session.failure, NULL, why)) {
        g_free(why);
        return;
    }
    aio_bh_schedule_oneshot(qemu_get_aio_context(), end_after_failure, NULL);
}

void recorder_system_reset(void)
{
    if (is_recorded()) {
        end("guest-reset");
    }
}

/* Check registers before the vCPUs run.  If they were changed, the recording ends before that. */
static void guest_goes_on(void)
{
    if (!recorder_check_registers()) {
        recorder_goes_on();
        return;
    }
    session.resuming = true;
    if (is_recorded()) {
        end("stopped");
    }
    session.resuming = false;
}

static void vm_state_changed(void *opaque, bool running, RunState state)
{
    if (recorder_recording() && running) {
        recorder_hold_leave_paused();   /* it runs, whoever has resumed it */
        guest_goes_on();
    } else if (recorder_recording()) {
        recorder_paused();
        recorder_epochs_paused();
    }
}

/*
 * End the recording before QEMU exits: the guest has powered off, or QEMU was told to quit.  The
 * guest may be paused or running; a vCPU that has powered itself off does not go on.
 */
static void shutting_down(Notifier *notifier, void *data)
{
    ShutdownCause *cause = data;

    if (is_recorded()) {
        vm_stop(RUN_STATE_SHUTDOWN);
        recorder_hold_leave_paused();
        end(*cause == SHUTDOWN_CAUSE_GUEST_PANIC || recorder_trigger_panicked() ? "guest-panic" :
            shutdown_caused_by_guest(*cause) ? "guest-shutdown" : "quit");
    }
}

static Notifier shutdown_notifier = { .notify = shutting_down };

static void __attribute__((constructor)) watch_machine(void)
{
    qemu_add_vm_change_state_handler(vm_state_changed, NULL);
    qemu_register_shutdown_notifier(&shutdown_notifier);
}
