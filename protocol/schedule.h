/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The order of a replay: the position that each stream has reached, and which stream waits for
 * which.  A stream is a vCPU, or DMA, which is the last.
 *
 * What a stream waits for is a count of another stream: by positions, how many steps that stream
 * has ended; by wake-ups, how often it has woken the waiter (protocol/wake-ups.h).  Both counts
 * grow when a stream publishes its position, which sends the wake-ups that were announced up to
 * there.
 *
 * Threads run in parallel, ordered by the recorded arcs alone.  A stream may publish its position
 * late, but must do so before it waits.  A waiter tells the stream for which it waits for which
 * count to stop and publish, and kicks it.
 *
 * If there are more vCPUs than host cores, only as many vCPUs run at a time as there are cores,
 * each on a core of its own: its turn.  A vCPU that must wait passes its turn to the vCPU for which
 * it waits, or to another that can go on.
 *
 * Alternatively one vCPU runs at a time, in a fixed order.  It runs until it must wait, and passes
 * the turn to the vCPU for which it waits; at its end, to the first vCPU that has not ended.  So
 * which vCPU runs when depends on the recording alone.
 *
 * This knows nothing of QEMU.
 */
#ifndef PROTOCOL_SCHEDULE_H
#define PROTOCOL_SCHEDULE_H

#include "protocol/wake-ups.h"
#include "recording/position.h"

typedef struct Schedule Schedule;

typedef struct ScheduleOps {
    /* Make @stream publish its position soon.  Any thread. */
    void (*kick)(unsigned stream);
    /* Return true if @stream should stop waiting, to do something else.  Its own thread. */
    bool (*interrupted)(unsigned stream);
} ScheduleOps;

Schedule *schedule_new(unsigned n_streams, const ScheduleOps *ops);
void schedule_free(Schedule *schedule);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Schedule, schedule_free)

/*
 * Let streams wait for wake-ups instead of positions.  @wakes must outlive the schedule.  Called
 * before any runs.
 */
void schedule_follow_wake_ups(Schedule *schedule, WakeUps *wakes);
/* Let one thread run at a time, in a fixed order; vCPU 0 begins.  Called before any runs. */
void schedule_take_turns(Schedule *schedule, unsigned n_vcpus);
/*
 * Let only as many threads run at a time as there are host cores that the caller may use.  Threads
 * are pinned to cores from their first wait until they end or the schedule is freed; but not while
 * other processes keep them from their cores.  Called before any runs.
 */
void schedule_share_cores(Schedule *schedule, unsigned n_vcpus);
/*
 * Wait for @vcpu's turn, if vCPUs take turns.  Return false if interrupted before that.  @vcpu
 * keeps its turn until it waits for another stream, or ends.  @vcpu's own thread.
 */
bool schedule_turn(Schedule *schedule, unsigned vcpu);
/* Return true if @vcpu may run: it has a turn, or vCPUs take none.  Any thread. */
bool schedule_has_turn(Schedule *schedule, unsigned vcpu);
/* End @vcpu, and pass its turn on.  Its own thread. */
void schedule_end(Schedule *schedule, unsigned vcpu);

/* Publish that @stream has ended @position steps.  @stream's thread, or that which advances DMA. */
void schedule_publish(Schedule *schedule, unsigned stream, Position position);
/* Return the published position of @stream.  Any thread. */
Position schedule_reached(Schedule *schedule, unsigned stream);
/*
 * Return the next position of @stream at which a wait of another stream may end; UINT64_MAX: no
 * stream waits, or what ends its wait is not announced yet.  @stream's thread.
 */
Position schedule_wanted(Schedule *schedule, unsigned stream);

/* What @waiter waits for: that @stream has reached @count, of steps or of wake-ups. */
typedef struct ScheduleWait {
    unsigned waiter, stream;
    uint64_t count;
} ScheduleWait;

/* Return true if @wait is over.  Any thread. */
bool schedule_is_over(Schedule *schedule, const ScheduleWait *wait);
/*
 * Wait in the thread of @vcpu until @wait is over, which is @vcpu's own or that of DMA.  Return
 * false if @vcpu was interrupted before that.
 */
bool schedule_wait(Schedule *schedule, unsigned vcpu, const ScheduleWait *wait);
/* Sleep until interrupted, for some milliseconds at most.  @waiter's own thread. */
void schedule_idle(Schedule *schedule, unsigned waiter);

#endif
