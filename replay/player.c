/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Replays a recording: each vCPU's thread runs up to the next event of its order
 * log, applies it, and goes on; inputs come from its data log on the way.
 *
 * The invariant: no walk, lookup or translation for a step before all events at
 * its position are done (design 3.5, holes.md 6).  Devices do not run, interrupt
 * lines are not looked at.
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "chardev/char.h"
#include "exec/cputlb.h"
#include "hw/core/cpu.h"
#include "qapi/error.h"
#include "qapi/qapi-events-recorder.h"
#include "system/cpus.h"
#include "system/runstate.h"
#include "system/system.h"

#include "hw/recorder/recorder.h"
#include "hw/recorder/recorder-internal.h"
#include "replay/player.h"

static Manifest *manifest;
static char *divergence;        /* the first one, in words */
static LogReader *dma_log;
static uint64_t dma_steps;      /* DMA writes that were done */

/* --- divergence ------------------------------------------------------------- */

static void stop_here(CPUState *cpu)
{
    /* A device access or a delivery may have the lock already. */
    bool had_lock = bql_locked();

    cpu->recorder->finished = true;
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
    va_list ap;

    if (v->finished) {
        return;
    }
    va_start(ap, format);
    what = g_strdup_vprintf(format, ap);
    va_end(ap);
    if (!divergence) {
        divergence = g_strdup_printf("vCPU %d at position %" PRIu64 ": %s",
                                     cpu->cpu_index, position, what);
    }
    stop_here(cpu);
}

/* --- the logs --------------------------------------------------------------- */

/* A whole log goes on to its END; nothing comes after that. */
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

bool player_take_if_due(CPUState *cpu, LogEventKind kind, uint64_t *value)
{
    RecorderVcpu *v = cpu->recorder;
    LogEvent *next = &v->next_input;

    if (next->kind != kind || next->position != recorder_position_in_insn(cpu)) {
        return false;
    }
    memcpy(value, next->value, log_event_table()[kind].n_values * sizeof(*value));
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
    uint64_t registers = recorder_register_digest(cpu);

    if (registers != event->value[0]) {
        player_diverged(cpu, event->position, "expected register digest %016" PRIx64
                        ", seen %016" PRIx64, event->value[0], registers);
    } else if (v->store_hash != event->value[1]) {
        player_diverged(cpu, event->position, "expected device store hash %016" PRIx64
                        ", seen %016" PRIx64, event->value[1], v->store_hash);
    }
}

/*
 * With one vCPU, DMA is done by the vCPU's thread where it waits for it.  What
 * DMA itself waited for lies behind the vCPU then, or the recording is wrong.
 */
static void wait_for(CPUState *cpu, uint64_t stream, uint64_t steps)
{
    while (!cpu->recorder->finished && dma_steps < steps) {
        LogEvent event;

        next_event(cpu, dma_log, &event);
        if (event.kind == LOG_EVENT_WAIT && event.value[1] <= recorder_position(cpu)) {
            continue;
        }
        if (event.kind != LOG_EVENT_DMA_WRITE || event.position != dma_steps ||
            !checkpoint_write_ram(event.value[0], event.bytes, event.n_bytes)) {
            player_diverged(cpu, recorder_position(cpu), "DMA step %" PRIu64 " cannot be replayed",
                            dma_steps);
            return;
        }
        recorder_tables_written(cpu, event.value[0], event.n_bytes);
        dma_steps++;
    }
}

static void apply(CPUState *cpu, const LogEvent *event)
{
    switch (event->kind) {
    case LOG_EVENT_WAIT:
        wait_for(cpu, event->value[0], event->value[1]);
        break;
    case LOG_EVENT_INTERRUPT:
        recorder_step(cpu);
        recorder_deliver(cpu, event->value[0], event->value[1]);
        break;
    case LOG_EVENT_WAKE:
        recorder_step(cpu);
        break;
    case LOG_EVENT_DIGEST:
        check_digest(cpu, event);
        break;
    case LOG_EVENT_END:
        check_digest(cpu, event);
        stop_here(cpu);
        break;
    default:
        player_diverged(cpu, event->position, "cannot replay %s",
                        log_event_name(event->kind));
        break;
    }
}

bool recorder_replay_boundary(CPUState *cpu, bool *applied)
{
    RecorderVcpu *v = cpu->recorder;

    while (!v->finished && recorder_position(cpu) == v->next.position) {
        LogEvent event = v->next;

        /* First: what is applied may be a step, which wants to know the limit. */
        next_event(cpu, v->order, &v->next);
        apply(cpu, &event);
        *applied = true;
    }
    recorder_drop_translations(cpu);
    if (!v->finished && recorder_position(cpu) > v->next.position) {
        g_autofree char *due = log_event_format(&v->next);

        player_diverged(cpu, recorder_position(cpu), "ran past %s", due);
    }
    recorder_grant(cpu, v->finished ? recorder_position(cpu) : v->next.position);
    return v->finished || qatomic_read(&cpu->exit_request);
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
    recorder_vcpu_attach(cpu, data.host_ptr);
}

static void close_vcpu(RecorderVcpu *v)
{
    if (v) {
        g_clear_pointer(&v->order, log_reader_free);
        g_clear_pointer(&v->data, log_reader_free);
        g_free(v);
    }
}

static void detach_vcpu(CPUState *cpu, run_on_cpu_data data)
{
    close_vcpu(recorder_vcpu_detach(cpu));
}

static RecorderVcpu *open_vcpu(const char *directory, unsigned vcpu, Error **errp)
{
    g_autoptr(GError) error = NULL;
    RecorderVcpu *v = g_new0(RecorderVcpu, 1);

    v->order = log_reader_open(directory, manifest->n_vcpus, vcpu, LOG_ORDER, &error);
    if (v->order) {
        v->data = log_reader_open(directory, manifest->n_vcpus, vcpu, LOG_DATA, &error);
    }
    if (!v->data ||
        log_reader_next(v->order, &v->next, &error) == LOG_READER_BAD ||
        log_reader_next(v->data, &v->next_input, &error) == LOG_READER_BAD) {
        error_setg(errp, "%s", error->message);
        close_vcpu(v);
        return NULL;
    }
    return v;
}

static void forget_recording(void)
{
    g_clear_pointer(&manifest, manifest_free);
    g_clear_pointer(&dma_log, log_reader_free);
    g_clear_pointer(&divergence, g_free);
    dma_steps = 0;
}

/* Open everything before the machine is touched; NULL if something is amiss. */
static RecorderVcpu *open_recording(const char *directory, Error **errp)
{
    g_autoptr(GError) error = NULL;

    manifest = manifest_load(directory, &error);
    if (!manifest || !manifest_check_replayable(manifest, &error)) {
        error_setg(errp, "%s", error->message);
        return NULL;
    }
    if (manifest->n_vcpus != 1) {
        error_setg(errp, "the recording has %u vCPUs: only one can be replayed so far",
                   manifest->n_vcpus);
        return NULL;
    }
    if (!manifest->end || manifest->checkpoints->len == 0) {
        error_setg(errp, "%s is not complete: it has no %s", directory,
                   manifest->end ? "checkpoint" : "end");
        return NULL;
    }
    dma_log = log_reader_open(directory, manifest->n_vcpus, manifest->n_vcpus, LOG_ORDER, &error);
    if (!dma_log) {
        error_setg(errp, "%s", error->message);
        return NULL;
    }
    return open_vcpu(directory, 0, errp);
}

bool player_start(const char *directory, Error **errp)
{
    g_autofree char *checkpoint = NULL;
    RecorderVcpu *v;

    if (recorder_active()) {
        error_setg(errp, "a recording is being made or replayed already");
        return false;
    }
    forget_recording();
    v = open_recording(directory, errp);
    if (v) {
        checkpoint = g_build_filename(directory, g_ptr_array_index(manifest->checkpoints, 0), NULL);
    }
    if (!v || !checkpoint_load(checkpoint, errp)) {
        close_vcpu(v);
        forget_recording();
        return false;
    }
    recorder_tables_start();
    run_on_cpu(first_cpu, attach_vcpu, RUN_ON_CPU_HOST_PTR(v));
    recorder_mode = RECORDER_REPLAYING;
    vm_start();
    return true;
}

/* All vCPUs are stopped. */
void player_finish(void)
{
    RecorderVcpu *v = first_cpu->recorder;

    if (!v->finished) {
        return;         /* paused by somebody */
    }
    if (!divergence) {
        g_autofree char *digest = checkpoint_ram_digest();

        if (g_strcmp0(digest, manifest->ram_digest) != 0) {
            divergence = g_strdup_printf("at the end: expected RAM digest %s, seen %s",
                                         manifest->ram_digest, digest);
        }
    }
    recorder_mode = RECORDER_OFF;
    run_on_cpu(first_cpu, detach_vcpu, RUN_ON_CPU_NULL);
    recorder_tables_stop();
    qapi_event_send_recorder_replayed(!divergence, divergence);
}
