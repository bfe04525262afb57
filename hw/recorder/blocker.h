/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who else wants the dirty bits of memory, or another state of the machine.
 */
#ifndef RECORDER_BLOCKER_H
#define RECORDER_BLOCKER_H

/*
 * From now on nobody else uses the dirty bits of memory or loads a state.  False if somebody does
 * so right now.
 */
bool recorder_block_others(bool replaying, Error **errp);
/* It may be that nothing was blocked. */
void recorder_unblock_others(void);

#endif
