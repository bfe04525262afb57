/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Replays a recording: each vCPU's thread runs up to the next event of its order
 * log, applies it, and goes on; inputs come from its data log on the way.
 *
 * The invariant: no walk, lookup or translation for a step before all events at
 * its position are done.  Devices do not run, interrupt lines are not looked at.
 *
 * vCPUs run in parallel, ordered by the recorded arcs (schedule.h).  The DMA stream
 * has no thread of its own: whoever waits for it brings it forward.
 */
#include "qemu/osdep.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "chardev/char.h"
#include "exec/cpu-common.h"
#include "exec/cputlb.h"
#include "hw/boards.h"
#include "hw/core/cpu.h"
#include "qapi/error.h"
#include "qapi/qapi-events-recorder.h"
#include "system/cpus.h"
#include "system/runstate.h"
#include "system/system.h"

#include "hw/recorder/place.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/recorder-internal.h"
#include "hw/recorder/session.h"
#include "replay/cut.h"
#include "replay/player.h"
#include "replay/schedule.h"
#include "replay/stop.h"
#include "replay/trace.h"

/* Of an instruction that raises an exception, and its delivery: nobody can stop before them. */
#define EXCEPTION_STEPS 2

static char *recording;         /* its directory */
static int64_t started_us;
static Manifest *manifest;
static char *divergence;        /* the first one, in words */
static struct {                 /* where that was, unless it was at the end */
    bool known;
    int vcpu;
    Position position;
} diverged_at;
static Point *goal;             /* where replay will end; NULL: not known yet */
static double furthest;         /* of the way there, that was shown */
static Schedule *schedule;
static unsigned n_running;      /* atomic: vCPUs that have not finished */
static bool cut_off;            /* some logs end early, and there replay ends */
static bool stops_early;        /* at a moment that somebody chose */

static struct {
    QemuMutex lock;
    LogReader *log;
    LogEvent next;
    Position cut;               /* or CUT_NONE */
    uint64_t steps;             /* that were done */
} dma;

/* --- divergence ------------------------------------------------------------- */

static void stop_all(void)
{
    /* A device access or a delivery may have the lock already. */
    bool had_lock = bql_locked();

    if (!had_lock) {
        bql_lock();
    }
    vm_stop(RUN_STATE_PAUSED);
    if (!had_lock) {
        bql_unlock();
    }
}

void player_diverged(CPUState *cpu, Position position, const char *format, ...)
{
    RecorderVcpu *v = cpu->recorder;
    g_autofree char *what = NULL;
    char *report;
    va_list ap;

    if (v->finished) {
        return;
    }
    va_start(ap, format);
    what = g_strdup_vprintf(format, ap);
    va_end(ap);
    report = g_strdup_printf("vCPU %d at position %" PRIu64 ": %s", cpu->cpu_index, position, what);
    if (qatomic_cmpxchg(&divergence, NULL, report)) {
        g_free(report);
    } else {
        diverged_at.vcpu = cpu->cpu_index;
        diverged_at.position = position;
        diverged_at.known = true;
    }
    qatomic_set(&v->finished, true);
    stop_all();
}

/* The last one stops the machine. */
static void finish(CPUState *cpu)
{
    qatomic_set(&cpu->recorder->finished, true);
    schedule_publish(schedule, cpu->cpu_index, recorder_position(cpu));
    schedule_end(schedule, cpu->cpu_index);
    if (qatomic_fetch_dec(&n_running) == 1) {
        stop_all();
    }
}

/* --- the logs --------------------------------------------------------------- */

/* A whole log goes on to its END; nothing comes after that, or after a cut. */
static void next_event(CPUState *cpu, LogReader *reader, LogEvent *event)
{
    g_autoptr(GError) error = NULL;

    switch (log_reader_next(reader, event, &error)) {
    case LOG_READER_EVENT:
        return;
    case LOG_READER_END:
        break;
    case LOG_READER_BAD:
        player_diverged(cpu, recorder_position(cpu), "%s", error->message);
        break;
    }
    event->kind = LOG_EVENT_KINDS;
    event->position = UINT64_MAX;
}

/* Of a log that is cut off, what its last position says may not be all. */
static void stop_at_cut(RecorderVcpu *v)
{
    if (v->next.position >= v->cut) {
        v->next = (LogEvent) { .kind = LOG_EVENT_KINDS, .position = v->cut };
    }
}

/*
 * A moment may lie between an instruction and the exception that it raised, where nobody can
 * stop; then it stops when that was taken, which touches no memory.
 */
bool player_may_pass(const RecorderVcpu *v, Position position)
{
    return stops_early && v->next.kind == LOG_EVENT_KINDS &&
           position <= v->next.position + EXCEPTION_STEPS;
}

static bool is_due(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;
    Position position = recorder_position(cpu);

    return position == v->next.position || (position > v->next.position && player_may_pass(v, position));
}

char *player_due(const RecorderVcpu *v)
{
    return v->next.kind == LOG_EVENT_KINDS ? g_strdup("the end of the log")
                                           : log_event_format(&v->next);
}

bool player_take_if_due(CPUState *cpu, LogEventKind kind, uint64_t *value)
{
    RecorderVcpu *v = cpu->recorder;
    LogEvent *next = &v->next_input;

    if (next->kind != kind || next->position != recorder_position_in_insn(cpu)) {
        return false;
    }
    memcpy(value, next->value, log_event_table()[kind].n_values * sizeof(*value));
    recorder_count(v, RECORDER_COUNT_INPUTS);
    next_event(cpu, v->data, next);
    return true;
}

bool player_take(CPUState *cpu, LogEventKind kind, uint64_t *value)
{
    RecorderVcpu *v = cpu->recorder;
    Position position = recorder_position_in_insn(cpu);

    if (v->finished) {
        return false;
    }
    if (!player_take_if_due(cpu, kind, value)) {
        g_autofree char *due = v->next_input.kind == LOG_EVENT_KINDS ?
            g_strdup("no more inputs") : log_event_format(&v->next_input);

        player_diverged(cpu, position, "expected %s, seen %s", due, log_event_name(kind));
        return false;
    }
    return true;
}

static void check_digest(CPUState *cpu, const LogEvent *event)
{
    RecorderVcpu *v = cpu->recorder;
    Registers seen;
    uint64_t digest;

    recorder_registers(cpu, &seen);
    digest = registers_digest(&seen);
    if (digest != event->value[0]) {
        g_autofree char *which = registers_difference(&v->expected, &seen);

        player_diverged(cpu, event->position, "expected register digest %016" PRIx64
                        ", seen %016" PRIx64 ", the same at position %" PRIu64 ": %s",
                        event->value[0], digest, v->same_at, which ?: "which one is not known");
    } else if (v->store_hash != event->value[1]) {
        player_diverged(cpu, event->position, "expected device store hash %016" PRIx64
                        ", seen %016" PRIx64 ", the same at position %" PRIu64,
                        event->value[1], v->store_hash, v->same_at);
    }
    v->same_at = event->position;
}

/* What the next digest is of. */
static void expect_registers(CPUState *cpu, const LogEvent *event)
{
    const char *wrong = registers_apply(&cpu->recorder->expected, event->bytes, event->n_bytes);

    if (wrong) {
        player_diverged(cpu, event->position, "registers in the log: %s", wrong);
    }
}

/* --- order ------------------------------------------------------------------ */

static CPUState *vcpu(unsigned stream)
{
    return stream < manifest->n_vcpus ? qemu_get_cpu(stream) : NULL;
}

static void kick(unsigned stream)
{
    CPUState *cpu = vcpu(stream);

    if (cpu) {
        recorder_kick(cpu);
    }
}

static bool interrupted(unsigned stream)
{
    return qatomic_read(&vcpu(stream)->exit_request) || qatomic_read(&divergence);
}

static const ScheduleOps schedule_ops = { .kick = kick, .interrupted = interrupted };

Position player_limit(CPUState *cpu)
{
    return MIN(cpu->recorder->next.position, schedule_wanted(schedule, cpu->cpu_index));
}

/* To those who ask while this runs. */
static void show_wait(RecorderVcpu *v, unsigned stream, uint64_t steps)
{
    qatomic_set(&v->waited_stream, stream);
    qatomic_set(&v->waited_steps, steps);
    recorder_waits(v, RECORDER_WAITS_FOR_STREAM);
}

/*
 * In the middle of cpu_exec(), but not in the way of those who want to run
 * exclusively.
 */
static bool wait_for_vcpu(CPUState *cpu, unsigned stream, Position position)
{
    bool done;

    if (schedule_reached(schedule, stream) >= position) {
        return true;
    }
    show_wait(cpu->recorder, stream, position);
    cpu_exec_end(cpu);
    done = schedule_wait(schedule, cpu->cpu_index, stream, position);
    cpu_exec_start(cpu);
    recorder_waits(cpu->recorder, RECORDER_WAITS_FOR_NOTHING);
    return done;
}

/* One event of DMA, whose WAIT is over if it is one; the caller has the DMA lock. */
static void step_dma(CPUState *cpu)
{
    LogEvent *event = &dma.next;

    if (event->kind == LOG_EVENT_STEP && event->position == dma.steps) {
        schedule_publish(schedule, manifest->n_vcpus, ++dma.steps);
    } else if (event->kind == LOG_EVENT_DMA_WRITE && event->position == dma.steps &&
               checkpoint_write_ram(event->value[0], event->bytes, event->n_bytes)) {
        schedule_publish(schedule, manifest->n_vcpus, ++dma.steps);
    } else if (event->kind != LOG_EVENT_WAIT) {
        player_diverged(cpu, recorder_position(cpu), "DMA step %" PRIu64
                        " cannot be replayed", dma.steps);
    }
    next_event(cpu, dma.log, event);
}

/*
 * The DMA stream up to @steps, as far as that can be done.  Nobody waits with the
 * lock: another who wants less of the stream must be able to go on.
 */
static bool bring_dma_forward(CPUState *cpu, uint64_t steps)
{
    RecorderVcpu *v = cpu->recorder;
    bool done = true;

    qemu_mutex_lock(&dma.lock);
    while (!v->finished && done && dma.steps < steps) {
        uint64_t stream = dma.next.value[0];
        Position position = dma.next.value[1];

        if (dma.next.kind != LOG_EVENT_WAIT || stream >= manifest->n_vcpus ||
            schedule_reached(schedule, stream) >= position) {
            step_dma(cpu);
        } else if (stream == cpu->cpu_index) {
            player_diverged(cpu, recorder_position(cpu), "it waits for DMA step %" PRIu64
                            ", which waits for it", dma.steps);
        } else {
            qemu_mutex_unlock(&dma.lock);
            done = wait_for_vcpu(cpu, stream, position);
            qemu_mutex_lock(&dma.lock);
        }
    }
    qemu_mutex_unlock(&dma.lock);
    return done;
}

static bool wait_for_dma(CPUState *cpu, uint64_t steps)
{
    bool done;

    if (schedule_reached(schedule, manifest->n_vcpus) >= steps) {
        return true;
    }
    show_wait(cpu->recorder, manifest->n_vcpus, steps);
    done = bring_dma_forward(cpu, steps);
    recorder_waits(cpu->recorder, RECORDER_WAITS_FOR_NOTHING);
    return done;
}

/* False if the vCPU must leave cpu_exec() before it can wait on. */
static bool wait_for(CPUState *cpu, uint64_t stream, uint64_t steps)
{
    schedule_publish(schedule, cpu->cpu_index, recorder_position(cpu));
    if (stream < manifest->n_vcpus) {
        return wait_for_vcpu(cpu, stream, steps);
    }
    return wait_for_dma(cpu, steps);
}

static void apply(CPUState *cpu, const LogEvent *event)
{
    switch (event->kind) {
    case LOG_EVENT_WAIT:
        recorder_count(cpu->recorder, RECORDER_COUNT_ARCS);     /* waited for already */
        break;
    case LOG_EVENT_INTERRUPT:
        recorder_count(cpu->recorder, RECORDER_COUNT_INTERRUPTS);
        recorder_step(cpu);
        recorder_deliver(cpu, event->value[0], event->value[1]);
        break;
    case LOG_EVENT_WAKE:
        recorder_count(cpu->recorder, RECORDER_COUNT_WAKE_UPS);
        recorder_step(cpu);
        break;
    case LOG_EVENT_STEP:
        recorder_step(cpu);
        break;
    case LOG_EVENT_DROP:
        recorder_drop(cpu, event->value[0]);
        break;
    case LOG_EVENT_START:
        recorder_step(cpu);
        recorder_turn_on(cpu, event->value[0], event->value[1], event->value[2]);
        break;
    case LOG_EVENT_MARK:
        break;
    case LOG_EVENT_REGISTERS:
        break;          /* its bytes were looked at while they were there */
    case LOG_EVENT_ACCESS_FLAG:
        if (!checkpoint_write_ram(event->value[0], &event->value[1], sizeof(event->value[1]))) {
            player_diverged(cpu, event->position, "an access flag lies outside of main memory");
        }
        recorder_step(cpu);
        break;
    case LOG_EVENT_DIGEST:
        check_digest(cpu, event);
        break;
    case LOG_EVENT_END:
        check_digest(cpu, event);
        if (!cpu->recorder->finished) {
            finish(cpu);
        }
        break;
    case LOG_EVENT_KINDS:
        finish(cpu);            /* the cut */
        break;
    default:
        player_diverged(cpu, event->position, "cannot replay %s",
                        log_event_name(event->kind));
        break;
    }
}

/* To those who ask while this runs. */
static void show_next(RecorderVcpu *v)
{
    qatomic_set(&v->next_kind, v->next.kind);
    qatomic_set(&v->next_position, v->next.position);
}

static void advance(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    next_event(cpu, v->order, &v->next);
    stop_at_cut(v);
    show_next(v);
}

/* For these the vCPU need not stop when it gets there. */
static void skip_waits_that_are_over(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    while (!v->finished && v->next.kind == LOG_EVENT_WAIT &&
           v->next.value[0] <= manifest->n_vcpus &&
           schedule_reached(schedule, v->next.value[0]) >= v->next.value[1]) {
        recorder_count(v, RECORDER_COUNT_ARCS);
        advance(cpu);
    }
}

/* If vCPUs take turns: false if this one must leave cpu_exec() before it has its. */
static bool have_turn(CPUState *cpu)
{
    bool has = schedule_has_turn(schedule, cpu->cpu_index);

    if (!has) {
        cpu_exec_end(cpu);
        has = schedule_turn(schedule, cpu->cpu_index);
        cpu_exec_start(cpu);
    }
    return has;
}

bool recorder_replay_boundary(CPUState *cpu, bool *applied)
{
    RecorderVcpu *v = cpu->recorder;
    bool leave = !v->finished && !have_turn(cpu);

    if (!leave) {
        recorder_digest_if_due(cpu);
    }
    while (!v->finished && !leave && is_due(cpu)) {
        LogEvent event = v->next;

        if (event.kind == LOG_EVENT_WAIT && !wait_for(cpu, event.value[0], event.value[1])) {
            leave = true;
            break;
        }
        if (event.kind == LOG_EVENT_REGISTERS) {
            expect_registers(cpu, &event);      /* before its bytes are gone */
        }
        /* First: what is applied may be a step, which wants to know the limit. */
        advance(cpu);
        apply(cpu, &event);
        *applied = true;
        /* Firmware turns the vCPU on outside of cpu_exec(). */
        leave = event.kind == LOG_EVENT_START;
        if (!leave) {
            recorder_digest_if_due(cpu);
        }
    }
    if (v->log) {
        log_stream_boundary(v->log);
    }
    recorder_drop_translations(cpu);
    if (!v->finished && recorder_position(cpu) > v->next.position) {
        g_autofree char *due = player_due(v);

        player_diverged(cpu, recorder_position(cpu), "ran past %s", due);
    }
    schedule_publish(schedule, cpu->cpu_index, recorder_position(cpu));
    skip_waits_that_are_over(cpu);
    if (v->finished) {
        cpu_exec_end(cpu);
        schedule_idle(schedule, cpu->cpu_index);
        cpu_exec_start(cpu);
        recorder_grant(cpu, recorder_position(cpu));
        return true;
    }
    recorder_grant(cpu, recorder_limit(cpu));
    return leave || qatomic_read(&cpu->exit_request);
}

/* --- console ---------------------------------------------------------------- */

/* What the guest writes to its UART is shown again, as it was. */
void player_console_store(hwaddr address, uint64_t value)
{
    Chardev *console = serial_hd(0);
    uint8_t byte = value;

    if (console && manifest->console_address && address == manifest->console_address) {
        qemu_chr_write_all(console, &byte, 1);
    }
}

/* --- start and end ---------------------------------------------------------- */

static void attach_vcpu(CPUState *cpu, run_on_cpu_data data)
{
    RecorderVcpu **v = data.host_ptr;

    v[cpu->cpu_index]->tables = recorder_tables_new();
    recorder_vcpu_attach(cpu, v[cpu->cpu_index]);
}

static void close_vcpu(RecorderVcpu *v)
{
    if (v) {
        g_clear_pointer(&v->order, log_reader_free);
        g_clear_pointer(&v->data, log_reader_free);
        recorder_vcpu_free(v);
    }
}

static void detach_vcpu(CPUState *cpu, run_on_cpu_data data)
{
    close_vcpu(recorder_vcpu_detach(cpu));
}

/* From the start, or from @place. */
static LogReader *open_log(const char *directory, unsigned stream, LogSubstream substream,
                           const Place *place, GError **error)
{
    unsigned n = manifest->n_vcpus;

    return place ? log_reader_open_at(directory, n, stream, substream,
                                      log_place_of(place->logs, stream, substream), error)
                 : log_reader_open(directory, n, stream, substream, error);
}

static RecorderVcpu *open_vcpu(const char *directory, unsigned vcpu, const Place *place,
                               Position cut, Error **errp)
{
    g_autoptr(GError) error = NULL;
    RecorderVcpu *v = g_new0(RecorderVcpu, 1);

    v->alone = manifest->n_vcpus == 1;
    v->digest_due = UINT64_MAX;
    v->order = open_log(directory, vcpu, LOG_ORDER, place, &error);
    if (v->order) {
        v->data = open_log(directory, vcpu, LOG_DATA, place, &error);
    }
    if (place) {
        v->base = v->same_at = place->point->at[vcpu];
        v->store_hash = place->stores[vcpu];
        v->expected = place->logged[vcpu];
    }
    v->next = v->next_input = (LogEvent) { .kind = LOG_EVENT_KINDS, .position = UINT64_MAX };
    if (!v->data ||
        log_reader_next(v->order, &v->next, &error) == LOG_READER_BAD ||
        log_reader_next(v->data, &v->next_input, &error) == LOG_READER_BAD) {
        error_setg(errp, "%s", error->message);
        close_vcpu(v);
        return NULL;
    }
    v->cut = cut;
    stop_at_cut(v);
    return v;
}

static void forget_recording(void)
{
    g_clear_pointer(&recording, g_free);
    g_clear_pointer(&manifest, manifest_free);
    g_clear_pointer(&schedule, schedule_free);
    trace_drop();
    g_clear_pointer(&dma.log, log_reader_free);
    g_clear_pointer(&divergence, g_free);
    g_clear_pointer(&goal, point_free);
    diverged_at.known = false;
    furthest = 0;
    dma.steps = 0;
}

/* NULL and no error: it is the start of the recording. */
static Place *find_checkpoint(const char *directory, unsigned number, GError **error)
{
    Place *place;

    if (number >= manifest->checkpoints->len) {
        g_set_error(error, MANIFEST_ERROR, MANIFEST_ERROR_INVALID, manifest->checkpoints->len ?
                    "%s has no checkpoint %u: its last is %u" :
                    "%s is not complete: it has no checkpoint", directory, number,
                    manifest->checkpoints->len - 1);
        return NULL;
    }
    place_find(directory, manifest->checkpoints->pdata[number], number == 0, manifest->n_vcpus,
               &place, error);
    return place;
}

/* Of a recording without an end, where its logs end together. */
static void set_goal(const Position *cut)
{
    bool known = manifest->end || cut;

    goal = known ? point_new(manifest->n_vcpus) : NULL;
    for (unsigned i = 0; goal && i < manifest->n_vcpus; i++) {
        Position end = manifest->end ? manifest->end->at[i] : CUT_NONE;

        goal->at[i] = cut ? MIN(cut[i], end) : end;
        known &= goal->at[i] != CUT_NONE;
    }
    if (!known) {
        g_clear_pointer(&goal, point_free);
    }
}

/* Open everything before the machine is touched. */
static bool open_recording(const char *directory, const PlayerOptions *options, unsigned *from,
                           RecorderVcpu *v[], Error **errp)
{
    const uint64_t *until = options->has_until ? &options->until : NULL;
    g_autoptr(GError) error = NULL;
    g_autofree Position *cut = NULL;
    g_autoptr(Place) place = NULL;
    unsigned n;

    manifest = manifest_load(directory, &error);
    if (!manifest || !manifest_check_replayable(manifest, &error)) {
        error_setg(errp, "%s", error->message);
        return false;
    }
    n = manifest->n_vcpus;
    if (n > SPHERE_MAX_VCPUS || n != MACHINE(qdev_get_machine())->smp.cpus) {
        error_setg(errp, "the recording has %u vCPUs, and this machine %u", n,
                   MACHINE(qdev_get_machine())->smp.cpus);
        return false;
    }
    *from = options->has_from ? options->from : stop_checkpoint(directory, manifest, until);
    place = find_checkpoint(directory, *from, &error);
    if (!error) {
        cut = stop_find(directory, manifest, place, until, &error);
    }
    stops_early = options->has_until;
    dma.next = (LogEvent) { .kind = LOG_EVENT_KINDS, .position = UINT64_MAX };
    dma.log = error ? NULL : open_log(directory, n, LOG_ORDER, place, &error);
    if (!dma.log || log_reader_next(dma.log, &dma.next, &error) == LOG_READER_BAD) {
        error_setg(errp, "%s", error->message);
        return false;
    }
    dma.steps = place ? place->dma_steps : 0;
    dma.cut = cut ? cut[n] : CUT_NONE;
    cut_off = dma.cut != CUT_NONE;
    set_goal(cut);
    for (unsigned i = 0; i < n; i++) {
        cut_off |= cut && cut[i] != CUT_NONE;
        v[i] = open_vcpu(directory, i, place, cut ? cut[i] : CUT_NONE, errp);
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
    if (!once) {
        once = true;
        qemu_mutex_init(&dma.lock);
    }
    forget_recording();
    if (!open_recording(directory, options, &from, v, errp) ||
        (trace && !trace_start(trace, v, manifest->n_vcpus, errp)) ||
        !checkpoint_load(directory, (char *const *)manifest->checkpoints->pdata, from, errp)) {
        for (unsigned i = 0; i < SPHERE_MAX_VCPUS; i++) {
            close_vcpu(v[i]);
        }
        forget_recording();
        return false;
    }
    recorder_tables_start();
    schedule = schedule_new(manifest->n_vcpus + 1, &schedule_ops);
    if (options->one_at_a_time) {
        schedule_take_turns(schedule, manifest->n_vcpus);
    }
    for (unsigned i = 0; i < manifest->n_vcpus; i++) {
        schedule_publish(schedule, i, v[i]->base);
    }
    schedule_publish(schedule, manifest->n_vcpus, dma.steps);
    n_running = manifest->n_vcpus;
    CPU_FOREACH(cpu) {
        run_on_cpu(cpu, attach_vcpu, RUN_ON_CPU_HOST_PTR(v));
    }
    recorder_mode = RECORDER_REPLAYING;
    recording = g_strdup(directory);
    started_us = g_get_monotonic_time();
    for (unsigned i = 0; i < manifest->n_vcpus; i++) {
        show_next(v[i]);
    }
    recorder_listen_to_signal(true);
    vm_start();
    return true;
}

void player_query(RecorderInfo *info)
{
    info->directory = g_strdup(recording);
    info->has_seconds = info->has_dma_position = true;
    info->seconds = (g_get_monotonic_time() - started_us) / 1e6;
    info->dma_position = schedule_reached(schedule, manifest->n_vcpus);
    if (goal) {
        g_autoptr(Point) now = point_new(manifest->n_vcpus);
        double done = 0, all = 0;

        recorder_query_point(now);
        for (unsigned i = 0; i < manifest->n_vcpus; i++) {
            done += MIN(now->at[i], goal->at[i]);
            all += goal->at[i];
        }
        /* A position is looked at in mid-flight, and may seem to go back. */
        furthest = MAX(furthest, all > 0 ? done / all : 1);
        info->has_progress = true;
        info->progress = furthest;
    }
}

/* What DMA wrote at the end, when nobody looked any more. */
static void finish_dma(void)
{
    while (!divergence && dma.next.kind != LOG_EVENT_KINDS && dma.next.position < dma.cut) {
        g_autoptr(GError) error = NULL;
        LogEvent *event = &dma.next;

        if (event->kind == LOG_EVENT_DMA_WRITE &&
            !checkpoint_write_ram(event->value[0], event->bytes, event->n_bytes)) {
            divergence = g_strdup_printf("at the end: DMA step %" PRIu64 " cannot be replayed",
                                         event->position);
        } else if (log_reader_next(dma.log, event, &error) != LOG_READER_EVENT) {
            event->kind = LOG_EVENT_KINDS;
            divergence = error ? g_strdup(error->message) : NULL;
        }
    }
}

/* All vCPUs are stopped. */
void player_finish(void)
{
    g_autoptr(Point) point = point_new(manifest->n_vcpus);
    g_autofree char *end = NULL;
    CPUState *cpu;

    if (!divergence && qatomic_read(&n_running)) {
        return;         /* paused by somebody */
    }
    recorder_query_point(point);
    end = point_format(point);
    finish_dma();
    /* Of a cut, the digest is not known. */
    if (!divergence && !cut_off && manifest->end) {
        g_autofree char *digest = checkpoint_ram_digest();

        if (g_strcmp0(digest, manifest->ram_digest) != 0) {
            divergence = g_strdup_printf("at the end: expected RAM digest %s, seen %s",
                                         manifest->ram_digest, digest);
        }
    }
    recorder_listen_to_signal(false);
    recorder_mode = RECORDER_OFF;
    CPU_FOREACH(cpu) {
        run_on_cpu(cpu, detach_vcpu, RUN_ON_CPU_NULL);
    }
    trace_end();
    if (divergence) {
        qapi_event_send_recorder_diverged(divergence, diverged_at.known, diverged_at.vcpu,
                                          diverged_at.known, diverged_at.position);
    }
    qapi_event_send_recorder_replayed(!divergence, divergence, manifest->complete && !stops_early ? NULL : end);
}
