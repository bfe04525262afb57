/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Start and end of a replay; main thread, big lock held.
 */
#ifndef REPLAY_PLAYER_H
#define REPLAY_PLAYER_H

/* Puts the machine, which is paused, in the recorded state, and lets it run. */
bool player_start(const char *directory, Error **errp);

/* The machine has stopped: if replay is over, judge it. */
void player_finish(void);

#endif
