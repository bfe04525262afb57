/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A debugger's way through a recording, forwards and backwards.  Main thread, big lock held.
 *
 * It always stands at a moment of the one order of all steps (total-order.h), so a place is the same
 * on each visit.  It gets there as any replay does, in parallel.
 *
 * gdb comes to it by way of debugger-gdb.c.
 */
#ifndef DEBUGGER_H
#define DEBUGGER_H

#include "hw/core/cpu.h"
#include "qapi/error.h"
#include "qapi/qapi-types-recorder.h"
#include "recording/total-order.h"

/*
 * Replaces what the machine is and does, which must be paused.  @at as for debugger_goto(); snapshots
 * take as many bytes, at most.
 */
bool debugger_open(const char *directory, const char *at, uint64_t snapshot_bytes, Error **errp);

bool debugger_active(void);
/* Is it on its way? */
bool debugger_busy(void);
/* Where it stands, or stood last. */
uint64_t debugger_moment(void);
uint64_t debugger_first(void);
uint64_t debugger_last(void);

/* To a moment, "start", "end", or "checkpoint N"; returns when it is there. */
bool debugger_goto(const char *at, Error **errp);

/* The same, to a moment that exists. */
bool debugger_jump(uint64_t moment, Error **errp);
/* Ahead, and all of the way is replayed. */
bool debugger_walk(uint64_t moment, Error **errp);
/* While one of these takes long, @fn is called every second; NULL: no more. */
typedef void DebuggerWaitFn(void *opaque);
void debugger_tell_waiter(DebuggerWaitFn *fn, void *opaque);
/* The order of all steps, from a moment on that is not before that of the first snapshot. */
TotalOrder *debugger_order(uint64_t moment);

/*
 * What to do when the machine runs next, by vm_start(); else it goes on until it comes by a
 * breakpoint or a watchpoint, or to the end.
 */
void debugger_plan_step(CPUState *cpu, bool backwards);
void debugger_plan_continue(bool backwards);
/* On the next way, what others than @cpu come by is no reason to stop; NULL: it is. */
void debugger_go_alone(CPUState *cpu);
/* The vCPU that people look at, as far as one can tell. */
CPUState *debugger_looks_at(void);
void debugger_look_at(CPUState *cpu);
/* Where it was to go lies beyond the "begin" or the "end"; or NULL. */
const char *debugger_end_met(void);

/* Adds where it stands, if it is active. */
void debugger_query(RecorderInfo *info);
#endif
