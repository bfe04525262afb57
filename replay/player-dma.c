/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Replays what devices wrote to memory.  The DMA stream has no thread of its own: a vCPU thread
 * that waits for DMA replays the stream, under player.dma.lock.  The main thread replays the rest
 * when all vCPUs have stopped.
 */
#include "qemu/osdep.h"
#include "hw/core/cpu.h"

#include "hw/recorder/vcpu.h"
#include "recording/log-reader.h"
#include "recording/position.h"
#include "replay/access-watch.h"
#include "replay/player-internal.h"

static void publish(void)
{
    schedule_publish(player.schedule, player.manifest->n_vcpus, player.dma.steps);
}

/* Announce an EPISODE for which there was no room before.  Those before it are sent first. */
static void end_episode(const LogEvent *event)
{
    publish();
    wake_ups_announce(player.wakes, player.manifest->n_vcpus, event->position, event->value[1]);
}

/*
 * Replay the next event of the DMA log; a WAIT must be over.  Report a divergence as one of @cpu.
 * Called with player.dma.lock held.
 */
static void step_dma(CPUState *cpu)
{
    LogEvent *event = &player.dma.next;

    if (event->kind == LOG_EVENT_STEP && event->position == player.dma.steps) {
        player.dma.steps++;
    } else if (event->kind == LOG_EVENT_DMA_WRITE && event->position == player.dma.steps &&
               access_watch_write_dma(event->position, event->value[0], event->bytes,
                                      event->n_bytes)) {
        player.dma.steps++;
    } else if (event->kind == LOG_EVENT_EPISODE) {
        end_episode(event);
    } else if (event->kind != LOG_EVENT_WAIT) {
        player_diverged(cpu, recorder_position(cpu), "DMA step %" PRIu64
                        " cannot be replayed", player.dma.steps);
    }
    player_next_ordered(cpu, player.manifest->n_vcpus, event);
    publish();          /* by now, a wake-up at the end of this step is announced */
}

/*
 * Replay DMA until @wait is over.  Return false if @cpu must leave cpu_exec() before that.
 *
 * The lock is not held during a wait.  So another vCPU that waits for fewer steps of DMA can go on.
 * That vCPU may be the one that @cpu waits for.
 */
static bool bring_dma_forward(CPUState *cpu, const ScheduleWait *wait)
{
    RecorderVcpu *v = cpu->recorder;
    bool done = true;

    qemu_mutex_lock(&player.dma.lock);
    while (!v->finished && done && !schedule_is_over(player.schedule, wait)) {
        ScheduleWait its = player_wait_of(player.manifest->n_vcpus, &player.dma.next);

        if (player.dma.next.kind != LOG_EVENT_WAIT || its.stream >= player.manifest->n_vcpus ||
            schedule_is_over(player.schedule, &its)) {
            step_dma(cpu);
        } else if (its.stream == cpu->cpu_index) {
            player_diverged(cpu, recorder_position(cpu), "it waits for DMA step %" PRIu64
                            ", which waits for it", player.dma.steps);
        } else {
            qemu_mutex_unlock(&player.dma.lock);
            done = player_wait_for_vcpu(cpu, &its);
            qemu_mutex_lock(&player.dma.lock);
        }
    }
    qemu_mutex_unlock(&player.dma.lock);
    return done;
}

bool player_wait_for_dma(CPUState *cpu, const ScheduleWait *wait)
{
    bool done;

    if (schedule_is_over(player.schedule, wait)) {
        return true;
    }
    player_show_wait(cpu->recorder, wait);
    done = bring_dma_forward(cpu, wait);
    recorder_waits(cpu->recorder, RECORDER_WAITS_FOR_NOTHING);
    return done;
}

/*
 * Replay @event and read the next one into it.  Return false at the end of the log, or with @error
 * set.  A WAIT is ignored: the cut is closed under the arcs and all vCPUs have reached theirs, so
 * the wait is over.
 */
static bool finish_step(LogEvent *event, GError **error)
{
    switch (event->kind) {
    case LOG_EVENT_DMA_WRITE:
        if (!access_watch_write_dma(event->position, event->value[0], event->bytes,
                                    event->n_bytes)) {
            g_set_error(error, LOG_READER_ERROR, LOG_READER_ERROR_DAMAGED,
                        "at the end: DMA step %" PRIu64 " cannot be replayed", event->position);
            return false;
        }
        /* fall through */
    case LOG_EVENT_STEP:
        player.dma.steps++;
        break;
    case LOG_EVENT_EPISODE:
        end_episode(event);
        break;
    default:
        break;
    }
    return player_read_order(player.manifest->n_vcpus, event, error) == LOG_READER_EVENT;
}

void player_finish_dma(void)
{
    LogEvent *event = &player.dma.next;

    while (!player.divergence && event->kind != LOG_EVENT_KINDS &&
           player_is_before_cut(event, player.dma.cut)) {
        g_autoptr(GError) error = NULL;

        if (!finish_step(event, &error)) {
            *event = (LogEvent) { .kind = LOG_EVENT_KINDS, .position = UINT64_MAX };
            player.divergence = error ? g_strdup(error->message) : NULL;
        }
    }
    publish();
}
