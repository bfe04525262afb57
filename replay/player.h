/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The player: replays a recording on this machine.
 *
 * All functions are called in the main thread with the BQL held.
 */
#ifndef REPLAY_PLAYER_H
#define REPLAY_PLAYER_H

#include "hw/core/cpu.h"
#include "qapi/qapi-types-recorder.h"
#include "recording/log-events.h"
#include "recording/position.h"

/* A trace: logs of digests of this replay, to be compared with those of another replay. */
typedef struct PlayerTrace {
    const char *directory;      /* new or empty */
    uint64_t interval;          /* in steps */
    const char *from;           /* a point as text; NULL: the start */
    const char *to;             /* likewise; NULL: the end */
} PlayerTrace;

/* Bytes of main memory whose accesses are written to a file. */
typedef struct PlayerWatch {
    uint64_t address;           /* guest-physical */
    uint64_t size;
    bool reads, writes;
    const char *file;           /* must not exist yet; NULL: standard output */
} PlayerWatch;

typedef struct PlayerOptions {
    bool has_from;
    unsigned from;              /* the checkpoint to begin at; default: replay_end_checkpoint() */
    bool one_at_a_time;         /* vCPUs take turns in a fixed order */
    bool has_until;
    uint64_t until;             /* the moment to stop at; default: the end */
    uint64_t chaos;             /* a seed, see protocol/chaos.h; 0: none */
    const PlayerTrace *trace;   /* or NULL */
    const PlayerWatch *watch;   /* or NULL */
    const char *order;          /* "fdr", "karma" or "rerun"; NULL: the recording's first */
    bool by_positions;          /* follow Karma's order by positions, for tests */
    bool follow;                /* the recording is still being made: stay behind it */
    bool standby;               /* and then may take its place: standby.h */
    uint64_t paranoid;          /* steps between two checks of paranoid.h; 0: no checks */
    /*
     * Set by a debugger, else NULL.  If set, player_start() does not start the vCPUs.  The player
     * calls it each time that all vCPUs have reached their cut, or that a vCPU has diverged.  The
     * vCPUs then idle until player_go_on().  It is called in a vCPU thread, with or without the
     * BQL, or in the main thread from player_judge().
     */
    void (*arrived)(void);
} PlayerOptions;

/*
 * Load a checkpoint of the recording in @directory into this machine, which must be paused, and
 * start the vCPUs unless @options->arrived is set.  Return false and set @errp on failure.
 */
bool player_start(const char *directory, const PlayerOptions *options, Error **errp);

/* Add directory, time, position of DMA and progress of the current replay to @info. */
void player_query(RecorderInfo *info);
/* Add how the last replay ended to @info, unless one goes on. */
void player_query_last(RecorderInfo *info);

/* --- for a debugger; called with all vCPUs paused ------------------------------------ */

/*
 * Set where the streams stop when the vCPUs run next.  @cut has a position for each vCPU, then one
 * for DMA, and is closed under the arcs.  All vCPUs have arrived, or were just loaded.
 */
void player_go_on(const Position *cut);
/*
 * Called after all vCPUs have arrived: replay DMA up to its cut.  Return the divergence in words,
 * or NULL.  The player owns the text, until player_load() or player_start().
 */
const char *player_arrive(void);
/*
 * Called when all streams are at the end of the recording: compare registers and RAM with those
 * recorded there.  Return as player_arrive().  Of an incomplete recording nothing is compared.
 */
const char *player_judge(void);
/* Send the QMP event RECORDER_DIVERGED.  There is a divergence. */
void player_tell_divergence(void);
/*
 * End the replay and detach it from the vCPUs.  player_start() may follow, with another checkpoint.
 * The player remembers what the console has shown.
 */
void player_leave(void);
/* Forget what the console has shown.  Until then no output of the guest is shown twice. */
void player_forget_console(void);

/*
 * player-state.c: the place of a replay in its logs.  player_save() returns a new state, which the
 * caller frees.  player_load() continues at @state, which may be used again.
 */
typedef struct PlayerState PlayerState;
PlayerState *player_save(void);
void player_load(const PlayerState *state);
/* Return how many bytes @state takes. */
size_t player_state_size(const PlayerState *state);
void player_state_free(PlayerState *state);
/*
 * Return the kind of the event of the order log that is @cpu's next step.  Return LOG_EVENT_KINDS
 * if the next step is not an event: an instruction, or an exception that an instruction raises.
 */
LogEventKind player_next_step(CPUState *cpu);

#endif
