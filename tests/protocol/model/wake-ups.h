/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Replay of Karma's episodes by wake-ups (Karma, section 4.5): an episode begins when it was woken
 * by each stream in its PRED, and at its end wakes each stream in its SUCC.  A wake-up names no
 * episode.  Wake-ups may be long on their way, and may come early.
 */
#ifndef TESTS_WAKE_UPS_H
#define TESTS_WAKE_UPS_H

#include "tests/protocol/model/recording.h"

typedef struct WakeUps {
    const Recording *recording;
    unsigned entry[MAX_PROCESSORS];     /* the present or next entry of the log of episodes */
    bool begun[MAX_PROCESSORS];
    unsigned cuts[MAX_PROCESSORS];      /* to which it has come */
    bool at_cut[MAX_PROCESSORS];        /* it waits there for the others */
    unsigned sent[MAX_PROCESSORS][MAX_PROCESSORS];      /* on their way: [from][to] */
    unsigned came[MAX_PROCESSORS][MAX_PROCESSORS];      /* and were not used */
} WakeUps;

typedef enum WakeUpsResult {
    WAKE_UPS_ALLOW,             /* the stream may make its next step */
    WAKE_UPS_MOVED,             /* something else happened */
    WAKE_UPS_WAIT,
} WakeUpsResult;

/* Begin behind so many cuts; no wake-up is on its way there. */
void wake_ups_begin(WakeUps *w, const Recording *recording, unsigned cuts);
/* Go on with @stream, which has come to @position. */
WakeUpsResult wake_ups_advance(WakeUps *w, unsigned stream, Position position, uint64_t *random);

#endif
