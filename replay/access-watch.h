/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Watches some bytes of main memory while a recording is replayed: every access of a vCPU or of DMA
 * is reported, with the step that makes it.
 *
 * Loads and stores of all kinds are reported, and flags that page walks set.  Instruction fetches
 * and the reads of page walks are not: whether they happen depends on the contents of TLBs and of
 * the TB cache.
 *
 * Accesses to the pages of these bytes take the slow path.  Generated code makes all others as
 * usual.  A watch changes nothing that the guest can see.
 *
 * access_watch_start(), _end() and _forget(): main thread, all vCPUs stopped.
 */
#ifndef REPLAY_ACCESS_WATCH_H
#define REPLAY_ACCESS_WATCH_H

#include "hw/recorder/recorder.h"
#include "recording/position.h"

/* The largest number of bytes that can be watched. */
#define ACCESS_WATCH_MAX_SIZE 4096

typedef struct Access {
    unsigned stream;            /* a vCPU; the number of vCPUs stands for DMA */
    Position position;          /* of the stream, before the step that makes the access */
    AccessBy by;
    bool is_write;              /* of an atomic: true if it changed a watched byte */
    uint64_t pc;                /* of the instruction; 0 for DMA */
    uint64_t offset;            /* in main memory */
    uint32_t size;
    /* Of the bytes that are accessed and watched the first 8, as a little-endian number. */
    uint64_t before;
    uint64_t after;             /* of a read: the same as @before */
} Access;

/*
 * Called once for each access, soon after it: in the thread of the vCPU that makes the access or
 * replays DMA, or in the main thread while all vCPUs are stopped.  Threads may call it at the same
 * time.  Of two accesses to a byte, one of them a write, the earlier is reported first.
 *
 * An instruction that QEMU restarts is reported once.  So is an instruction that accesses the same
 * byte several times in the same way.
 */
typedef void AccessFn(const Access *access);

/*
 * Report accesses to @size bytes at @offset of main memory to @fn: reads, writes, or both.  This
 * ends an earlier watch.  An atomic that changes nothing counts as a read: it cannot be told from
 * a compare-and-swap that failed.
 */
void access_watch_start(uint64_t offset, uint32_t size, bool reads, bool writes, AccessFn *fn);
/* Report what is pending and end the watch, if there is one. */
void access_watch_end(void);
/*
 * Drop what is pending.  Called when replay goes to another moment.  Accesses that were reported
 * before and are replayed again are reported again.
 */
void access_watch_forget(void);

/* Return the kind of @access as a word, such as "store" or "dma"; static. */
const char *access_name(const Access *access);

/* --- for the player ----------------------------------------------------------- */

/*
 * Note that @cpu is about to access @size bytes at @host, if some of them are watched.  @retaddr is
 * the host's return address into the TB, or 0 at a boundary.  Called in the vCPU thread.
 */
void access_watch_note(CPUState *cpu, const void *host, unsigned size, AccessBy by, bool write,
                       uintptr_t retaddr);
/* Report what is pending.  The vCPU thread, at a boundary, before its position is published. */
void access_watch_settle_slow(CPUState *cpu);

static inline void access_watch_settle(CPUState *cpu)
{
    if (unlikely(recorder_notes)) {
        access_watch_settle_slow(cpu);
    }
}

/*
 * Write to main memory as machine_state_write_ram() does, and report the write: a step of DMA, or
 * an ACCESS_FLAG event of @cpu.  Return false if @offset is outside of main memory.
 */
bool access_watch_write_dma(Position position, uint64_t offset, const void *bytes, size_t n);
bool access_watch_write_flag(CPUState *cpu, Position position, uint64_t offset, uint64_t word);

#endif
