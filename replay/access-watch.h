/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who accesses some bytes of main memory, while a recording is replayed: every access of a vCPU or
 * of DMA is noted, with the very step that makes it.
 *
 * Noted are loads and stores of all kinds, and flags that page walks set.  Instruction fetches and
 * what page walks read are not: they are no part of what the guest does, and depend on what
 * happens to be in a TLB.
 *
 * Accesses to other pages are made by generated code as ever; those to the pages concerned take
 * the slow path.  The replay stays the same in all that the guest can see.
 *
 * access_watch_start(), _unwatch() and _forget(): main thread, all vCPUs stopped.
 */
#ifndef REPLAY_ACCESS_WATCH_H
#define REPLAY_ACCESS_WATCH_H

#include "hw/recorder/recorder.h"
#include "recording/position.h"

/* How many bytes can be watched. */
#define ACCESS_WATCH_MAX_SIZE 4096

typedef struct Access {
    unsigned stream;            /* a vCPU, or their number: DMA */
    Position position;          /* of that, before the step that makes the access */
    AccessBy by;
    bool is_write;              /* of an atomic: it changed what is watched */
    uint64_t pc;                /* of the instruction; 0: DMA */
    uint64_t offset;            /* in main memory */
    uint32_t size;
    /* What is accessed and watched, the first 8 bytes of it, as a little-endian number. */
    uint64_t before;
    uint64_t after;             /* of a read: the same */
} Access;

/*
 * Told of each access, once, soon after it was made: in the thread of the vCPU, or of the one that
 * brings DMA forward.  Threads call it at the same time; but of two accesses, of which one is a
 * write, the one that was made first comes first.
 *
 * An instruction that QEMU starts again for reasons of its own is told of once.  Of one that
 * accesses the same byte several times in the same way, once.
 */
typedef void AccessFn(const Access *access);

/*
 * From now on, @fn is told of accesses to @size bytes at @offset of main memory: of reads, writes,
 * or both.  An atomic that changes nothing counts as a read, since a comparison that failed cannot
 * be told from it.
 */
void access_watch_start(uint64_t offset, uint32_t size, bool reads, bool writes, AccessFn *fn);
/* No more; does nothing if there is no watch. */
void access_watch_end(void);
/* Positions go back: what was told already will be told of again. */
void access_watch_forget(void);

/* "store", "dma". */
const char *access_name(const Access *access);

/* --- for the player ----------------------------------------------------------- */

/* As recorder_note_slow(). */
void access_watch_note(CPUState *cpu, const void *host, unsigned size, AccessBy by, bool write,
                       uintptr_t retaddr);
/* Between two steps, before others are let go on. */
void access_watch_settle_slow(CPUState *cpu);

static inline void access_watch_settle(CPUState *cpu)
{
    if (unlikely(recorder_notes)) {
        access_watch_settle_slow(cpu);
    }
}

/* These write to main memory, as machine_state_write_ram(): a step of DMA, a flag that is an event. */
bool access_watch_write_dma(Position position, uint64_t offset, const void *bytes, size_t n);
bool access_watch_write_flag(CPUState *cpu, Position position, uint64_t offset, uint64_t word);

#endif
