/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Start and end of a replay; main thread, big lock held.
 */
#ifndef REPLAY_PLAYER_H
#define REPLAY_PLAYER_H

#include "hw/core/cpu.h"
#include "qapi/qapi-types-recorder.h"
#include "recording/log-events.h"
#include "recording/position.h"

/* Digests of a replay, to be compared with those of another: logs of their own. */
typedef struct PlayerTrace {
    const char *directory;      /* new or empty */
    uint64_t interval;          /* in steps */
    const char *from;           /* points, in words; NULL: the start, the end */
    const char *to;
} PlayerTrace;

/* Bytes of main memory, of which every access is written down. */
typedef struct PlayerWatch {
    uint64_t address;           /* guest-physical */
    uint64_t size;
    bool reads, writes;
    const char *file;           /* new; NULL: standard output */
} PlayerWatch;

typedef struct PlayerOptions {
    bool has_from;
    unsigned from;              /* the checkpoint to begin at (else: the best one) */
    bool one_at_a_time;
    bool has_until;
    uint64_t until;             /* the moment to stop at (else: the end) */
    uint64_t chaos;             /* a seed, see protocol/chaos.h; 0: none */
    const PlayerTrace *trace;   /* or NULL */
    const PlayerWatch *watch;   /* or NULL */
    uint64_t paranoid;          /* compare copies with memory every so many steps; 0: never */
    /*
     * For a debugger: nothing runs yet, and each time that all vCPUs have come where they were to
     * stop, or one has diverged, this is called in a vCPU's thread; they do not go on by themselves.
     */
    void (*arrived)(void);
} PlayerOptions;

/* Puts the machine, which is paused, in the recorded state of a checkpoint, and lets it run. */
bool player_start(const char *directory, const PlayerOptions *options, Error **errp);

/* Adds what is known of the replay under way. */
void player_query(RecorderInfo *info);

/* --- for a debugger; all vCPUs are paused ------------------------------------------- */

/* When the vCPUs run next, they and DMA make no steps but those before @cut. */
void player_go_on(const Position *cut);
/* They have arrived, and DMA is brought there; what went wrong, or NULL. */
const char *player_arrive(void);
/* All are at their ends: what differs from the recording, or NULL. */
const char *player_judge(void);
/* RECORDER_DIVERGED. */
void player_tell_divergence(void);
/* The recording is left; one may begin at another of its checkpoints. */
void player_leave(void);
/* No more of it: until then, the console shows nothing twice. */
void player_forget_console(void);

/* player-state.c: where it is in the logs, to be there again. */
typedef struct PlayerState PlayerState;
PlayerState *player_save(void);
void player_load(const PlayerState *state);
size_t player_state_size(const PlayerState *state);
void player_state_free(PlayerState *state);
/* What the next step of a vCPU is, if that is no instruction; else LOG_EVENT_KINDS. */
LogEventKind player_next_step(CPUState *cpu);

#endif
