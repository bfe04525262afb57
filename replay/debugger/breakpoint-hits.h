/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Breakpoints and watchpoints of a debugger, while a recording is replayed: nobody stops there.
 * Each vCPU notes where it came by, in parallel; which of these is first or last in the order of all
 * steps is found out later.
 */
#ifndef DEBUGGER_BREAKPOINT_HITS_H
#define DEBUGGER_BREAKPOINT_HITS_H

#include "hw/core/cpu.h"
#include "recording/position.h"

typedef struct Hit {
    Position position;          /* of the instruction */
    bool is_watchpoint;
    vaddr address;              /* of the watchpoint */
} Hit;

typedef enum HitsKept {
    HITS_NONE,
    HITS_FIRST,
    HITS_LAST,
} HitsKept;

/* Main thread, vCPUs paused.  From now on; what was noted before is forgotten. */
void hits_keep(HitsKept which, unsigned n_vcpus);
/* But not at this step. */
void hits_ignore(unsigned vcpu, Position position);
/* What was noted of a vCPU; NULL: nothing. */
const Hit *hits_of(unsigned vcpu);
/* Is there anything to be hit? */
bool hits_possible(void);

#endif
