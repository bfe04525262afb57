/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Exclusion of other users of the dirty bits of memory, and of loading another machine state.  Main
 * thread, BQL held.
 */
#ifndef RECORDER_BLOCKER_H
#define RECORDER_BLOCKER_H

/*
 * Block other users of the dirty bits of memory, and loading of a state, from now on.  Return false
 * and set @errp if one of them is active now.
 */
bool recorder_block_others(bool replaying, Error **errp);
/* End the block, if there is one. */
void recorder_unblock_others(void);

#endif
