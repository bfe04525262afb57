/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Internal to the debugger.  Main thread, BQL held, unless a field says otherwise.
 */
#ifndef DEBUGGER_INTERNAL_H
#define DEBUGGER_INTERNAL_H

#include "qemu/main-loop.h"
#include "qemu/thread.h"

#include "recording/manifest.h"
#include "replay/debugger/debugger.h"
#include "replay/debugger/breakpoint-hits.h"

/* The kind of a move (debugger.c). */
typedef enum Going {
    STILL,                      /* no move is under way */
    TO,                         /* a moment */
    FORWARD,                    /* to the first hit, or the target */
    BACKWARD,                   /* to the last hit, or the target */
} Going;

/* Why a move ends at its target. */
typedef enum StopReason {
    STOP_THERE,                 /* the caller gave the moment */
    STOP_STEPPED,               /* the step is made */
    STOP_HIT,                   /* of a breakpoint or watchpoint */
    STOP_BEGIN,                 /* the recording begins there */
    STOP_END,                   /* the recording ends there */
} StopReason;

/* The move that is under way, or planned. */
typedef struct Plan {
    Going going;
    uint64_t target;            /* the moment at which the move ends if there is no hit before */
    StopReason reason;          /* of the stop at @target */
    Hit hit;                    /* STOP_HIT: which */
    CPUState *cpu;              /* the vCPU that steps, or has the hit */
    bool backwards;
    bool is_silent;             /* the step changes nothing visible: make another */
    Position from;              /* of @cpu before the step */
    uint64_t window;            /* FORWARD: the length of the next leg */
    TotalOrder *scanned;        /* the moment since which hits are noted */
    uint64_t high;              /* BACKWARD: the moment up to which they are */
    uint64_t safe;              /* no hit lies between this moment and the start of the move */
    bool on_foot;               /* replay all steps, do not jump to snapshots ahead */
} Plan;

typedef struct Debugger {
    char *directory;            /* NULL: not active */
    char *order_name;           /* as PlayerOptions.order */
    Manifest *manifest;
    unsigned checkpoint;        /* at which replay was started: the first snapshot */
    uint64_t snapshot_bytes;    /* budget of all snapshots */
    TotalOrder *order;          /* at @now; during a leg, where the leg ends */
    uint64_t now;               /* the current moment; during a leg, where the leg began */
    uint64_t first, last;       /* moments of the recording */
    Plan plan;
    struct {                    /* where the last move ended */
        CPUState *cpu;          /* or NULL */
        uint64_t moment;        /* of the hit, which is ignored next time; UINT64_MAX: no hit */
    } shown;
    CPUState *alone;            /* hits of other vCPUs are ignored; NULL: none are */
    CPUState *looked_at;        /* by the debugger user, as far as known; NULL: shown.cpu */
    bool waits;                 /* the main thread waits in go_and_wait() */
    struct {                    /* called while the main thread waits */
        DebuggerWaitFn *fn;     /* or NULL */
        void *opaque;
        int64_t told_us;        /* when @fn was called last */
    } waiter;
    bool arrived;               /* the leg has ended; atomic, set by any thread */
    QemuSemaphore event;        /* posted then, for wait_for_leg() */
    QEMUBH *bh;                 /* scheduled then, for the main loop */
    const char *history;        /* as debugger_end_met() */
    Error *failure;             /* why a move could not restart the replay; NULL: it could */
} Debugger;

/* There is one machine, so there is one debugger. */
extern Debugger debugger;

/* debugger.c: if a leg has ended, pause the vCPUs and begin the next leg, or end the move. */
void debugger_continue_way(void);
/* The same, as a bottom half; does nothing while go_and_wait() waits. */
void debugger_leg_ended(void *opaque);
/*
 * Restart the replay at a checkpoint of the recording, which drops all snapshots and makes a new
 * first one.  Return false and set @errp on failure.  All vCPUs are paused.
 */
bool debugger_begin_at(unsigned checkpoint, Error **errp);

#endif
