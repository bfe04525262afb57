/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reports what the recorder and the vCPUs do: query-recorder, and the same as a table, for `info
 * recorder`, and on stderr at SIGUSR1.
 *
 * Main thread, big lock held.  The vCPUs go on running, and take no part.  This file reads single
 * words that their threads write.  Each is read atomically, but the words may be slightly old and
 * need not be consistent with each other.
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "hw/boards.h"
#include "hw/core/cpu.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-recorder.h"
#include "qapi/qapi-types-recorder.h"
#include "system/runstate.h"

#include "base/version.h"
#include "hw/recorder/limits.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/session.h"
#include "hw/recorder/status.h"
#include "hw/recorder/vcpu.h"
#include "monitor/recorder-status.h"
#include "protocol/chaos.h"
#include "protocol/sphere.h"
#include "recording/log-format.h"
#include "recording/position.h"
#include "replay/debugger/debugger.h"
#include "replay/player.h"

/* --- query-recorder --------------------------------------------------------- */

/* Append the counters that tell how lines of memory came to a vCPU. */
static void add_counts(RecorderCounterList ***tail, const SphereCounts *counts)
{
    static const char *const origins[ORDER_N_ORIGINS] = {
#define X(origin, name) name,
        ORDER_ORIGINS(X)
#undef X
    };
    const struct {
        const char *name;
        const uint64_t *value;
    } list[] = {
        { "misses", &counts->misses },
        { "lines that nobody else had", &counts->local },
        { "lines taken", &counts->taken },
        { "lines taken from user mode", &counts->unasked },
        { "lines asked for", &counts->asked },
        { "granted in mid-step", &counts->lingered },
        { "leases", &counts->leases },
        { "leases ended early", &counts->leases_ended },
        { "lines offered", &counts->offered },
        { "offered lines taken", &counts->offers_taken },
        { "offers taken back", &counts->in_vain },
        { "pages moved", &counts->pages_moved },
        { "migratory lines", &counts->migratory },
        { "migratory lines not written", &counts->unwritten },
        { "host cores given away", &counts->gave_way },
        { "drops asked of others", &counts->drops },
        { "code pages written", &counts->code_left },
        { "abandoned steps", &counts->abandoned },
        { "exclusive steps", &counts->exclusive },
        { "us waited", &counts->waited_us },
        { "episodes of Karma", &counts->episodes },
        { "edges of Karma", &counts->edges },
        { "episodes of Rerun", &counts->stamped },
    };

    /* All of them: a SphereCounts has nothing but counters. */
    QEMU_BUILD_BUG_ON(sizeof(*counts) !=
                      (ARRAY_SIZE(list) + ARRAY_SIZE(counts->wait_us) +
                       2 * ORDER_N_ORIGINS) * sizeof(uint64_t));
    for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
        recorder_add_counter(tail, list[i].name, qatomic_read(list[i].value));
    }
    for (size_t i = 0; i < ORDER_N_ORIGINS; i++) {
        g_autofree char *pairs = g_strdup_printf("pairs of %s", origins[i]);
        g_autofree char *arcs = g_strdup_printf("arcs of %s", origins[i]);

        recorder_add_counter(tail, pairs, qatomic_read(&counts->pairs[i]));
        recorder_add_counter(tail, arcs, qatomic_read(&counts->arcs[i]));
    }
    for (size_t i = 0; i < ARRAY_SIZE(counts->wait_us); i++) {
        uint64_t n = qatomic_read(&counts->wait_us[i]);

        if (n) {
            g_autofree char *name = g_strdup_printf("waits below %" PRIu64 " us", UINT64_C(1) << i);

            recorder_add_counter(tail, name, n);
        }
    }
}

static RecorderCounterList *counters_of(const RecorderVcpu *v)
{
    static const char *const names[] = {
#define X(counter, name) name,
        RECORDER_COUNTERS(X)
#undef X
    };
    RecorderCounterList *list = NULL, **tail = &list;

    for (int i = 0; i < RECORDER_N_COUNTERS; i++) {
        recorder_add_counter(&tail, names[i], qatomic_read(&v->counters[i]));
    }
    if (v->record.processor) {
        add_counts(&tail, sphere_counts(v->record.processor));
    }
    return list;
}

/* Return what @v waits for, in words, to be freed by the caller; NULL if it does not wait. */
static char *waits_for(const RecorderVcpu *v, unsigned n_vcpus)
{
    uint64_t stream = qatomic_read(&v->waited_stream);
    uint64_t steps = qatomic_read(&v->waited_steps);

    switch (qatomic_read(&v->waits)) {
    case RECORDER_WAITS_FOR_LOCK:
        return g_strdup("the big lock");
    case RECORDER_WAITS_FOR_LINE:
        return sphere_describe_wait(v->record.processor);
    case RECORDER_WAITS_FOR_STREAM:
        return stream == n_vcpus ? g_strdup_printf("DMA to reach %" PRIu64, steps)
                                 : g_strdup_printf("vCPU %" PRIu64 " to reach %" PRIu64,
                                                   stream, steps);
    case RECORDER_WAITS_FOR_WAKE_UP:
        return stream == n_vcpus ? g_strdup("a wake-up by DMA")
                                 : g_strdup_printf("a wake-up by vCPU %" PRIu64, stream);
    default:
        return NULL;
    }
}

static RecorderVcpuState state_of(CPUState *cpu, const RecorderVcpu *v)
{
    if (qatomic_read(&v->finished)) {
        return RECORDER_VCPU_STATE_FINISHED;
    }
    if (qatomic_read(&cpu->halted)) {
        return RECORDER_VCPU_STATE_HALTED;
    }
    if (qatomic_read(&v->waits) != RECORDER_WAITS_FOR_NOTHING) {
        return RECORDER_VCPU_STATE_WAITING;
    }
    if (recorder_recording() ? qatomic_read(&v->record.running) : runstate_is_running()) {
        return RECORDER_VCPU_STATE_RUNNING;
    }
    return RECORDER_VCPU_STATE_SAFE;
}

static RecorderVcpuInfo *vcpu_info(CPUState *cpu, unsigned n_vcpus, Position position)
{
    const RecorderVcpu *v = cpu->recorder;
    RecorderVcpuInfo *info = g_new0(RecorderVcpuInfo, 1);

    info->vcpu = cpu->cpu_index;
    info->state = state_of(cpu, v);
    info->position = position;
    info->waits_for = waits_for(v, n_vcpus);
    info->statistics = counters_of(v);
    if (recorder_replaying()) {
        LogEventKind kind = qatomic_read(&v->next_kind);

        info->next_event = g_strdup(kind < LOG_EVENT_KINDS ? log_event_name(kind) : "none");
        info->has_next_position = true;
        info->next_position = qatomic_read(&v->next_position);
    }
    return info;
}

RecorderInfo *qmp_query_recorder(Error **errp)
{
    g_autoptr(RecorderInfo) info = g_new0(RecorderInfo, 1);
    RecorderVcpuInfoList **tail = &info->vcpus;
    unsigned n_vcpus = MACHINE(qdev_get_machine())->smp.cpus;
    g_autoptr(Point) point = NULL;
    CPUState *cpu;

    /* A guest that has too many vCPUs to be recorded still has a point, up to this limit. */
    if (n_vcpus > RECORDER_MAX_VCPUS) {
        error_setg(errp, "the guest has %u vCPUs; positions of at most %u can be shown, and %u can "
                   "be recorded", n_vcpus, RECORDER_MAX_VCPUS, SPHERE_MAX_VCPUS);
        return NULL;
    }
    point = point_new(n_vcpus);
    info->version = g_strdup(reprise_version());
    info->patch_level = g_strdup(reprise_patch_level());
    info->log_version = LOG_VERSION;
    info->state = recorder_replaying() ? RECORDER_STATE_REPLAYING :
                  recorder_recording() ? RECORDER_STATE_RECORDING : RECORDER_STATE_OFF;
    recorder_query_point(point);
    info->point = point_format(point);
    CPU_FOREACH(cpu) {
        if (cpu->recorder && cpu->cpu_index < n_vcpus) {
            QAPI_LIST_APPEND(tail, vcpu_info(cpu, n_vcpus, point->at[cpu->cpu_index]));
        }
    }
    if (recorder_recording()) {
        recorder_query_session(info);
    } else if (recorder_replaying()) {
        player_query(info);
        debugger_query(info);
    }
    player_query_last(info);
    recorder_limits_query(info);
    info->x_chaos = recorder_active() && chaos.seed ? chaos_text(&chaos) : NULL;
    return g_steal_pointer(&info);
}

/* --- as text ------------------------------------------------------------------ */

/* Append @heading and the counters.  Long lines are broken, and go on below the first counter. */
static void put_counters(GString *text, const char *heading, const RecorderCounterList *list)
{
    size_t line = text->len;

    g_string_append(text, heading);
    for (; list; list = list->next) {
        if (text->len - line > 90) {
            g_string_append_c(text, '\n');
            line = text->len;
            g_string_append_printf(text, "%*s", (int)strlen(heading), "");
        }
        g_string_append_printf(text, " %s %" PRIu64 "%s", list->value->name, list->value->value,
                               list->next ? "," : "");
    }
    g_string_append_c(text, '\n');
}

static void put_disk(GString *text, const RecorderInfo *info)
{
    g_string_append_printf(text, "  on disk: %" PRIu64 " bytes, %" PRIu64 " more per second",
                           info->stored_bytes, info->rate);
    if (info->has_free_bytes) {
        g_string_append_printf(text, ", %" PRIu64 " free", info->free_bytes);
    }
    if (info->has_max_bytes) {
        g_string_append_printf(text, ", limit %" PRIu64 " bytes", info->max_bytes);
    }
    if (info->has_max_seconds) {
        g_string_append_printf(text, ", limit %g s", info->max_seconds);
    }
    g_string_append_c(text, '\n');
}

static void put_vcpus(GString *text, const RecorderInfo *info)
{
    g_string_append_printf(text, "  %4s  %-8s  %16s  %-28s  %s\n", "vCPU", "state", "position",
                           info->state == RECORDER_STATE_REPLAYING ? "next event" : "",
                           "waits for");
    for (const RecorderVcpuInfoList *l = info->vcpus; l; l = l->next) {
        const RecorderVcpuInfo *v = l->value;
        g_autofree char *next = v->next_event ? g_strdup_printf("%s at %" PRIu64, v->next_event,
                                                                v->next_position) : g_strdup("");

        g_string_append_printf(text, "  %4u  %-8s  %16" PRIu64 "  %-28s  %s\n", v->vcpu,
                               RecorderVcpuState_str(v->state), v->position, next,
                               v->waits_for ?: "-");
        put_counters(text, "       ", v->statistics);
    }
}

char *recorder_status_text(const RecorderInfo *info)
{
    g_autoptr(GString) text = g_string_new("reprise: ");
    const RecorderEnd *last = info->last_recording;

    if (info->state == RECORDER_STATE_OFF) {
        g_string_append(text, "nothing is recorded or replayed\n");
        if (last) {
            g_string_append_printf(text, "  the last recording, %s, %s: %s\n", last->directory,
                                   last->complete ? "is complete" : "ended early", last->reason);
        }
        if (info->last_replay) {
            g_string_append_printf(text, "  the last replay %s\n", info->last_replay->divergence ?:
                                   "was identical");
        }
        return g_strdup(text->str);
    }
    g_string_append_printf(text, "%s %s for %.1f s, DMA at %" PRIu64 "%s%s\n",
                           RecorderState_str(info->state), info->directory, info->seconds,
                           info->dma_position, info->dma_waits_for ? " waits for " : "",
                           info->dma_waits_for ?: "");
    if (info->x_chaos) {
        g_string_append_printf(text, "  chaos: %s\n", info->x_chaos);
    }
    if (info->has_progress) {
        g_string_append_printf(text, "  done: %.1f %%\n", info->progress * 100);
    }
    if (info->log_bytes) {
        put_counters(text, "  log bytes:", info->log_bytes);
    }
    if (info->has_stored_bytes) {
        put_disk(text, info);
    }
    if (info->has_epochs) {
        g_string_append_printf(text, "  epochs: %" PRIu64 "\n", info->epochs);
    }
    if (info->has_held_bytes) {
        g_string_append_printf(text, "  output held: %" PRIu64 " bytes, of epochs after %" PRIu64
                               "\n", info->held_bytes, info->released);
    }
    if (info->has_tracking_memory) {
        g_string_append_printf(text, "  memory to track lines: %" PRIu64 " bytes\n",
                               info->tracking_memory);
    }
    put_vcpus(text, info);
    return g_strdup(text->str);
}

/* --- SIGUSR1 ---------------------------------------------------------------- */

static void show_status(void)
{
    g_autoptr(RecorderInfo) info = qmp_query_recorder(&error_abort);
    g_autofree char *text = recorder_status_text(info);

    fputs(text, stderr);
}

static void __attribute__((constructor)) offer_status(void)
{
    recorder_show_status = show_status;
}
