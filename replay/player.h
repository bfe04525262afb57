/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Start and end of a replay; main thread, big lock held.
 */
#ifndef REPLAY_PLAYER_H
#define REPLAY_PLAYER_H

#include "qapi/qapi-types-recorder.h"

/* Digests of a replay, to be compared with those of another: logs of their own. */
typedef struct PlayerTrace {
    const char *directory;      /* new or empty */
    uint64_t interval;          /* in steps */
    const char *from;           /* points, in words; NULL: the start, the end */
    const char *to;
} PlayerTrace;

typedef struct PlayerOptions {
    bool has_from;
    unsigned from;              /* the checkpoint to begin at (else: the best one) */
    bool one_at_a_time;
    bool has_until;
    uint64_t until;             /* the moment to stop at (else: the end) */
    const PlayerTrace *trace;   /* or NULL */
} PlayerOptions;

/* Puts the machine, which is paused, in the recorded state of a checkpoint, and lets it run. */
bool player_start(const char *directory, const PlayerOptions *options, Error **errp);

/* Adds what is known of the replay under way. */
void player_query(RecorderInfo *info);

/* The machine has stopped: if replay is over, judge it. */
void player_finish(void);

#endif
