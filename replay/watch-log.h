/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes a line for each access to some bytes while a recording is replayed (access-watch.h), for
 * users to read.  Main thread, all vCPUs stopped.
 *
 *     0:71000 store 0x40a00008,8 pc 0xffff800008012344 0x0 -> 0x1
 *     dma:17 dma 0x40a00000,512 0x1 -> 0x2
 */
#ifndef REPLAY_WATCH_LOG_H
#define REPLAY_WATCH_LOG_H

#include "replay/player.h"

/* Start to write accesses to @watch->file.  Return false and set @errp on failure. */
bool watch_log_start(const PlayerWatch *watch, Error **errp);
/* End the watch and close the file, if there is one.  Report if it could not be written. */
void watch_log_end(void);

#endif
