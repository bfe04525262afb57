/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Saves and restores the place of a stopped replay in its logs.  Memory and registers are saved by
 * the debugger (debugger/snapshots.c).  Main thread, all vCPUs stopped.
 */
#include "qemu/osdep.h"
#include "exec/cputlb.h"
#include "hw/core/cpu.h"

#include "hw/recorder/translations.h"
#include "hw/recorder/vcpu.h"
#include "recording/log-reader.h"
#include "recording/position.h"
#include "recording/registers.h"
#include "replay/access-watch.h"
#include "replay/player-internal.h"

/* Fields as in RecorderVcpu and ReplayingVcpu. */
typedef struct VcpuState {
    Position at;                /* the vCPU's position */
    LogReader *order, *data;
    LogEvent read, next_input;
    Position same_at;
    uint64_t store_hash;
    Registers expected;
} VcpuState;

struct PlayerState {
    LogReader *dma;
    LogEvent dma_next;
    uint64_t dma_steps;
    unsigned n_vcpus;
    VcpuState vcpu[];
};

static void save_vcpu(VcpuState *state, CPUState *cpu)
{
    const RecorderVcpu *v = cpu->recorder;
    const ReplayingVcpu *r = v->replay;

    *state = (VcpuState) {
        .at = recorder_position(cpu), .read = r->read, .next_input = r->next_input,
        .same_at = r->same_at, .store_hash = v->store_hash, .expected = r->expected,
    };
    state->order = log_reader_copy(r->order, &state->read);
    state->data = log_reader_copy(r->data, &state->next_input);
}

/* Return a new vCPU at @state, which has finished until player_go_on().  Its logs are copies. */
static RecorderVcpu *load_vcpu(const VcpuState *state)
{
    RecorderVcpu *v = player_new_vcpu();
    ReplayingVcpu *r = v->replay;

    v->base = state->at;
    r->read = state->read;
    r->next_input = state->next_input;
    r->order = log_reader_copy(state->order, &r->read);
    r->data = log_reader_copy(state->data, &r->next_input);
    r->same_at = state->same_at;
    v->store_hash = state->store_hash;
    r->expected = state->expected;
    r->cut = state->at;         /* until player_go_on() */
    player_stop_at_cut(v);
    v->finished = true;
    v->translations.made = recorder_translations_new();
    return v;
}

PlayerState *player_save(void)
{
    unsigned n = player.manifest->n_vcpus;
    PlayerState *state = g_malloc0(sizeof(*state) + n * sizeof(VcpuState));
    CPUState *cpu;

    state->n_vcpus = n;
    state->dma_next = player.dma.next;
    state->dma_steps = player.dma.steps;
    state->dma = log_reader_copy(player.dma.log, &state->dma_next);
    CPU_FOREACH(cpu) {
        save_vcpu(&state->vcpu[cpu->cpu_index], cpu);
    }
    return state;
}

/*
 * Replace cpu->recorder, in the vCPU thread.  One work item does both halves: as long as
 * recorder_replaying(), the hooks in that thread need a cpu->recorder.
 */
static void renew_vcpu(CPUState *cpu, run_on_cpu_data data)
{
    const PlayerState *state = data.host_ptr;
    RecorderVcpu *old = recorder_vcpu_detach(cpu);

    recorder_vcpu_attach(cpu, load_vcpu(&state->vcpu[cpu->cpu_index]));
    player_close_vcpu(old);
}

void player_load(const PlayerState *state)
{
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        run_on_cpu(cpu, renew_vcpu, RUN_ON_CPU_HOST_PTR((void *)state));
    }
    access_watch_forget();
    log_reader_free(player.dma.log);
    player.dma.next = state->dma_next;
    player.dma.steps = state->dma_steps;
    player.dma.log = log_reader_copy(state->dma, &player.dma.next);
    player.diverged_at.known = false;
    g_clear_pointer(&player.divergence, g_free);
}

size_t player_state_size(const PlayerState *state)
{
    size_t size = sizeof(*state) + log_reader_size(state->dma);

    for (unsigned i = 0; i < state->n_vcpus; i++) {
        size += sizeof(VcpuState) + log_reader_size(state->vcpu[i].order) +
                log_reader_size(state->vcpu[i].data);
    }
    return size;
}

void player_state_free(PlayerState *state)
{
    if (state) {
        for (unsigned i = 0; i < state->n_vcpus; i++) {
            log_reader_free(state->vcpu[i].order);
            log_reader_free(state->vcpu[i].data);
        }
        log_reader_free(state->dma);
        g_free(state);
    }
}

LogEventKind player_next_step(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;
    Position now = recorder_position(cpu);
    LogEvent event = v->replay->read;
    g_autoptr(LogReader) reader = log_reader_copy(v->replay->order, &event);

    while (event.kind != LOG_EVENT_KINDS && event.position == now &&
           !log_event_is_step(event.kind)) {
        if (log_reader_next(reader, &event, NULL) != LOG_READER_EVENT) {
            return LOG_EVENT_KINDS;
        }
    }
    return event.position == now ? event.kind : LOG_EVENT_KINDS;
}
