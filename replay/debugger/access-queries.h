/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Queries of a debugger: which streams access some bytes, and when.  To answer a query, the
 * debugger replays a part of the recording with the bytes watched (access-watch.h), and returns to
 * the moment at which it was.  Main thread, BQL held, machine paused.
 */
#ifndef DEBUGGER_ACCESS_QUERIES_H
#define DEBUGGER_ACCESS_QUERIES_H

#include "replay/access-watch.h"

typedef struct SeenAccess {
    uint64_t moment;            /* before the step that makes it */
    Access access;
    int from;                   /* the stream that the bytes came from; -1: none, or not known */
} SeenAccess;

/*
 * Set *@offset to where in main memory the @size bytes at @address lie.  @address is physical, or a
 * virtual address of @cpu.  Return false and set @errp if the bytes lie elsewhere, or in two pages.
 */
bool access_query_find_memory(CPUState *cpu, uint64_t address, uint64_t size, bool physical,
                              uint64_t *offset, Error **errp);

/*
 * Set *@seen to the last write before now to the @size bytes at @offset.  Return false without an
 * error if there was none since the first moment.
 */
bool access_query_last_write(uint64_t offset, uint64_t size, SeenAccess *seen, Error **errp);

/*
 * Return the accesses to these bytes around now: a new array of SeenAccess, in order, of which the
 * first *@n_before were made before now.  Return NULL and set @errp on failure.
 */
GArray *access_query_who(uint64_t offset, uint64_t size, unsigned *n_before, Error **errp);

#endif
