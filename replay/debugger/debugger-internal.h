/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of the debugger share.
 */
#ifndef DEBUGGER_INTERNAL_H
#define DEBUGGER_INTERNAL_H

#include "qemu/main-loop.h"
#include "qemu/thread.h"

#include "recording/manifest.h"
#include "replay/debugger/debugger.h"
#include "replay/debugger/breakpoint-hits.h"

typedef enum Going {
    STILL,
    TO,
    FORWARD,
    BACKWARD,
} Going;

typedef enum StopReason {
    STOP_THERE,                 /* where it was to go */
    STOP_STEPPED,
    STOP_HIT,
    STOP_BEGIN,                 /* of the recording: it cannot go further */
    STOP_END,
} StopReason;

typedef struct Plan {
    Going going;
    uint64_t target;            /* where it ends if nothing is hit */
    StopReason reason;          /* and why */
    Hit hit;                    /* if that is one */
    CPUState *cpu;              /* whose step, whose hit */
    bool backwards;
    bool is_silent;             /* the step is no instruction: one more */
    Position from;              /* where the stepped vCPU came from */
    uint64_t window;            /* FORWARD: how long the next one is */
    TotalOrder *scanned;        /* where hits are noted since; BACKWARD: until @high */
    uint64_t high;
    uint64_t safe;              /* nothing is hit between here and where it began */
    bool on_foot;               /* all of the way is replayed, though there are snapshots ahead */
} Plan;

typedef struct Debugger {
    char *directory;            /* NULL: not active */
    Manifest *manifest;
    unsigned checkpoint;        /* of the first snapshot */
    uint64_t snapshot_bytes;    /* that all of them may take */
    TotalOrder *order;          /* where it stands, or where the leg leads */
    uint64_t now;
    uint64_t first, last;       /* moments */
    Plan plan;
    struct {                    /* the last hit that was shown: it is not hit again at once */
        CPUState *cpu;
        uint64_t moment;
    } shown;
    CPUState *alone;            /* only this one goes on, as gdb sees it; NULL: all do */
    CPUState *looked_at;        /* by people, as far as one can tell; NULL: the last shown */
    bool waits;                 /* the main thread does, for the leg to end */
    struct {                    /* wants to know that this takes long */
        DebuggerWaitFn *fn;     /* or NULL */
        void *opaque;
        int64_t told_us;
    } waiter;
    bool arrived;               /* atomic */
    QemuSemaphore event;        /* that it has */
    QEMUBH *bh;                 /* the same */
    const char *history;        /* for gdb: which end of it was met; NULL: none */
} Debugger;

/* There is one machine, so there is one debugger. */
extern Debugger debugger;

/* debugger.c: A leg has ended: begin the next, or stop.  Main thread. */
void debugger_continue_way(void);
void debugger_leg_ended(void *opaque);
/* The replay begins anew, at a checkpoint of the recording. */
bool debugger_begin_at(unsigned checkpoint, Error **errp);

#endif
