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
#include "recording/order-reader.h"
#include "recording/position.h"
#include "recording/registers.h"
#include "replay/access-watch.h"
#include "replay/player-internal.h"

/* Fields as in RecorderVcpu and ReplayingVcpu. */
typedef struct VcpuState {
    Position at;                /* the vCPU's position */
    LogReader *data;
    LogEvent read, next_input;
    uint8_t *kept;
    Position same_at;
    uint64_t store_hash;
    Registers expected;
    bool fault_counted;
} VcpuState;

struct PlayerState {
    OrderReader *order;
    WakeUps *wakes;             /* or NULL */
    LogEvent dma_next;
    uint8_t *dma_kept;
    uint64_t dma_steps;
    unsigned n_vcpus;
    VcpuState vcpu[];
};

/* Copy the bytes of @event, which its reader keeps, and return the copy; NULL: it has none. */
static uint8_t *keep_bytes(LogEvent *event)
{
    uint8_t *kept = g_memdup2(event->bytes, event->n_bytes);

    event->bytes = kept;
    return kept;
}

static void save_vcpu(VcpuState *state, CPUState *cpu)
{
    const RecorderVcpu *v = cpu->recorder;
    const ReplayingVcpu *r = v->replay;

    *state = (VcpuState) {
        .at = recorder_position(cpu), .read = r->read, .next_input = r->next_input,
        .same_at = r->same_at, .store_hash = v->store_hash, .expected = r->expected,
        .fault_counted = v->fault_counted,
    };
    state->kept = keep_bytes(&state->read);
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
    r->kept = keep_bytes(&r->read);
    r->data = log_reader_copy(state->data, &r->next_input);
    r->same_at = state->same_at;
    v->store_hash = state->store_hash;
    r->expected = state->expected;
    v->fault_counted = state->fault_counted;
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
    state->dma_kept = keep_bytes(&state->dma_next);
    state->order = order_reader_copy(player.order);
    state->wakes = player.wakes ? wake_ups_copy(player.wakes) : NULL;
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
    order_reader_free(player.order);
    player.order = order_reader_copy(state->order);
    if (player.wakes) {
        wake_ups_set(player.wakes, state->wakes);
    }
    g_free(player.dma.kept);
    player.dma.next = state->dma_next;
    player.dma.kept = keep_bytes(&player.dma.next);
    player.dma.steps = state->dma_steps;
    player.diverged_at.known = false;
    g_clear_pointer(&player.divergence, g_free);
}

size_t player_state_size(const PlayerState *state)
{
    size_t size = sizeof(*state) + order_reader_size(state->order) + state->dma_next.n_bytes +
                  (state->wakes ? wake_ups_size(state->wakes) : 0);

    for (unsigned i = 0; i < state->n_vcpus; i++) {
        size += sizeof(VcpuState) + log_reader_size(state->vcpu[i].data) +
                state->vcpu[i].read.n_bytes;
    }
    return size;
}

void player_state_free(PlayerState *state)
{
    if (state) {
        for (unsigned i = 0; i < state->n_vcpus; i++) {
            log_reader_free(state->vcpu[i].data);
            g_free(state->vcpu[i].kept);
        }
        order_reader_free(state->order);
        wake_ups_free(state->wakes);
        g_free(state->dma_kept);
        g_free(state);
    }
}

LogEventKind player_next_step(CPUState *cpu)
{
    const LogEvent *read = &cpu->recorder->replay->read;
    Position now = recorder_position(cpu);

    if (read->kind == LOG_EVENT_KINDS || read->position > now) {
        return LOG_EVENT_KINDS;
    }
    return log_event_is_step(read->kind) ? read->kind :
           order_reader_step_at(player.order, cpu->cpu_index, now);
}
