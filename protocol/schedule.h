/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The order of a replay: who has got how far, and who waits for whom.
 *
 * Threads run in parallel, ordered by the recorded arcs alone.  Each stream (a
 * vCPU, or DMA, the last) publishes its position where it likes; late is allowed,
 * before it waits is a must.  A waiter tells the stream that it waits for where it
 * wants to see it stop and publish, and kicks it.
 *
 * If there are more vCPUs than host cores, those that run at the same time are as many as
 * cores, each with a core of its own: its turn.  Who must wait leaves it to the one that it waits
 * for, or to another that can go on.
 *
 * Or they take turns in one thread's time: one runs until it must wait, then the one that it
 * waits for does, until that must wait; when one ends, the first that can go on.  When
 * who runs depends on the recording alone, so this is one fixed order.
 *
 * This knows nothing of QEMU.
 */
#ifndef PROTOCOL_SCHEDULE_H
#define PROTOCOL_SCHEDULE_H

#include "recording/position.h"

typedef struct Schedule Schedule;

typedef struct ScheduleOps {
    /* Make @stream publish its position soon.  Any thread. */
    void (*kick)(unsigned stream);
    /* Should @stream stop waiting, and do something else? */
    bool (*interrupted)(unsigned stream);
} ScheduleOps;

Schedule *schedule_new(unsigned n_streams, const ScheduleOps *ops);
void schedule_free(Schedule *schedule);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Schedule, schedule_free)

/* From the start: only one thread at a time, in a fixed order.  vCPU 0 begins. */
void schedule_take_turns(Schedule *schedule, unsigned n_vcpus);
/*
 * From the start: only as many threads at a time as there are host cores that the caller may use.
 * Threads are pinned to them, from their first wait until they end or the schedule is freed.
 */
void schedule_share_cores(Schedule *schedule, unsigned n_vcpus);
/*
 * Wait, as @vcpu, for its turn, if they take turns.  False if it was interrupted
 * before that.  It keeps its turn until it waits for another, or ends.
 */
bool schedule_turn(Schedule *schedule, unsigned vcpu);
bool schedule_has_turn(Schedule *schedule, unsigned vcpu);
/* @vcpu has come to its end: it is the turn of another. */
void schedule_end(Schedule *schedule, unsigned vcpu);

/* @stream has ended @position steps.  Its own thread. */
void schedule_publish(Schedule *schedule, unsigned stream, Position position);
Position schedule_reached(Schedule *schedule, unsigned stream);
/* The next position at which somebody waits for @stream; UINT64_MAX: nobody. */
Position schedule_wanted(Schedule *schedule, unsigned stream);

/*
 * Wait, as @waiter, until @stream has ended @position steps.  False if @waiter was
 * interrupted before that.
 */
bool schedule_wait(Schedule *schedule, unsigned waiter, unsigned stream, Position position);
/* Wait for nothing, until interrupted or some milliseconds have passed. */
void schedule_idle(Schedule *schedule, unsigned waiter);

#endif
