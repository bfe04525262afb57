/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hits of gdb's breakpoints and watchpoints while a recording is replayed.  A vCPU does not stop at
 * a hit.  vCPUs run in parallel, and each notes the position of its first or last hit.  When they
 * have stopped, the debugger finds the first or last hit in the order of all steps.
 */
#ifndef DEBUGGER_BREAKPOINT_HITS_H
#define DEBUGGER_BREAKPOINT_HITS_H

#include "hw/core/cpu.h"
#include "recording/position.h"

typedef struct Hit {
    Position position;          /* before the instruction */
    bool is_watchpoint;
    vaddr address;              /* where the watchpoint begins */
} Hit;

/* Which hit of each vCPU is kept. */
typedef enum HitsKept {
    HITS_NONE,
    HITS_FIRST,
    HITS_LAST,
} HitsKept;

/* All functions below: main thread, all vCPUs paused. */

/* Keep the hits that @which says from now on, and forget earlier ones. */
void hits_keep(HitsKept which, unsigned n_vcpus);
/*
 * Do not keep hits of @vcpu at @position, until hits_keep(): the debugger stands there because of
 * them.  If watchpoints stop after their access, hits of watchpoints are kept.
 */
void hits_ignore(unsigned vcpu, Position position);
/* Return the hit that was kept of @vcpu, or NULL.  It is valid until hits_keep(). */
const Hit *hits_of(unsigned vcpu);
/* Return true if gdb expects to be told of a watchpoint after the access, as it does of x86. */
bool hits_stop_after_access(void);
/* Return true if gdb has set a breakpoint or a watchpoint. */
bool hits_possible(void);

#endif
