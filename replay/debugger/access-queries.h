/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Questions that a recording can answer to a debugger: it is replayed once more, and somebody looks.
 * Main thread, the machine paused; afterwards one is where one was.
 */
#ifndef DEBUGGER_ACCESS_QUERIES_H
#define DEBUGGER_ACCESS_QUERIES_H

#include "replay/access-watch.h"

typedef struct SeenAccess {
    uint64_t moment;            /* before the step that makes it */
    Access access;
    int from;                   /* the stream that the line came from; -1: from none that was seen */
} SeenAccess;

/* The bytes at @address, as @cpu sees them or physical, in main memory. */
bool access_query_find_memory(CPUState *cpu, uint64_t address, uint64_t size, bool physical,
                              uint64_t *offset, Error **errp);

/* Who wrote these bytes last, before now?  False without an error: nobody did. */
bool access_query_last_write(uint64_t offset, uint64_t size, SeenAccess *seen, Error **errp);

/*
 * Who accesses these bytes around now?  An array of SeenAccess, in order; of which *@n_before are
 * before now.
 */
GArray *access_query_who(uint64_t offset, uint64_t size, unsigned *n_before, Error **errp);

#endif
