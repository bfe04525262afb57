/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A debugger's way through a recording, forwards and backwards.  Main thread, big lock held.
 *
 * It always stands at a moment of the one order of all steps (total-order.h), so a place is the same
 * on each visit.  It gets there as any replay does, in parallel.
 *
 * While it is active, to start the machine is to go on until it comes by a breakpoint or a
 * watchpoint, or to the end; gdb may want other things (exec/gdbstub.h).
 */
#ifndef REPLAY_DEBUGGER_H
#define REPLAY_DEBUGGER_H

#include "hw/core/cpu.h"
#include "qapi/error.h"
#include "qapi/qapi-types-recorder.h"

/* Replaces what the machine is and does, which must be paused.  @at as for debugger_goto(). */
bool debugger_open(const char *directory, const char *at, Error **errp);

bool debugger_active(void);
/* Is it on its way? */
bool debugger_busy(void);
/* Where it stands, or stood last. */
uint64_t debugger_moment(void);
uint64_t debugger_first(void);
uint64_t debugger_last(void);

/*
 * To a moment, "start", "end", or "checkpoint N"; returns when it is there.
 */
bool debugger_goto(const char *at, Error **errp);

/* Adds where it stands, if it is active. */
void debugger_query(RecorderInfo *info);
/* Somebody starts or stops the machine. */
void debugger_state_changed(bool running);

#endif
