/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The debugger: moves through a recording, forwards and backwards.
 *
 * Between two moves the debugger is at a moment of the one order of all steps
 * (recording/total-order.h).  So the machine is in the same state at each visit of a moment.
 * During a move the vCPUs run in parallel, as in any replay.
 *
 * All functions: main thread, BQL held.  gdb uses them through debugger-gdb.c.
 */
#ifndef DEBUGGER_H
#define DEBUGGER_H

#include "hw/core/cpu.h"
#include "qapi/error.h"
#include "qapi/qapi-types-recorder.h"
#include "recording/total-order.h"

/*
 * Load the recording in @directory into this machine, which must be paused, and go to @at (as
 * debugger_goto()).  Follow the order @order (PlayerOptions).  Snapshots may take @snapshot_bytes.
 * Return false and set @errp on failure.
 */
bool debugger_open(const char *directory, const char *order, const char *at,
                   uint64_t snapshot_bytes, Error **errp);

/* Return true if a recording is open. */
bool debugger_active(void);
/* Return true while a move is under way. */
bool debugger_busy(void);
/* Return the current moment; during a move, where the last leg began. */
uint64_t debugger_moment(void);
/* Return the first and the last moment of the recording. */
uint64_t debugger_first(void);
uint64_t debugger_last(void);

/*
 * Go to @at: a moment, "start", "end", or "checkpoint N".  Return when the move has ended, or false
 * with @errp set if it did not end there.
 */
bool debugger_goto(const char *at, Error **errp);

/* The same, to a moment of the recording. */
bool debugger_jump(uint64_t moment, Error **errp);
/* The same, to a moment not before now, and replay all steps up to it: use no snapshot ahead. */
bool debugger_walk(uint64_t moment, Error **errp);
/* Have @fn called every second while one of these functions waits; NULL: no longer. */
typedef void DebuggerWaitFn(void *opaque);
void debugger_tell_waiter(DebuggerWaitFn *fn, void *opaque);
/* Return the order of all steps at @moment, not before the first snapshot.  The caller frees it. */
TotalOrder *debugger_order(uint64_t moment);

/*
 * Plan the move that the next vm_start() begins: to step @cpu, or to continue to a breakpoint, a
 * watchpoint, or an end of the recording.  Without a plan vm_start() continues forwards.
 */
void debugger_plan_step(CPUState *cpu, bool backwards);
void debugger_plan_continue(bool backwards);
/* On the next move ignore hits of all vCPUs but @cpu; NULL: ignore none. */
void debugger_go_alone(CPUState *cpu);
/*
 * Return the vCPU that the debugger user looks at: the one last set by debugger_look_at(), or else
 * the one whose step or hit ended the last move.
 */
CPUState *debugger_looks_at(void);
void debugger_look_at(CPUState *cpu);
/*
 * Return "begin" or "end" if the last move stopped since the recording begins or ends there; else
 * NULL.  The string is static.
 */
const char *debugger_end_met(void);

/* Add the current, first and last moment to @info, if a recording is open. */
void debugger_query(RecorderInfo *info);
#endif
