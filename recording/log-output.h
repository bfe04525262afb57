/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The thread that writes the logs of a recording.  For log-writer.c alone.
 *
 * Blocks are written in the order in which they are pushed, over all files, and
 * none after the first error.  So what is pushed first is never missing while
 * what is pushed later is there, however the recording dies short of a power
 * failure; log-writer.c relies on it.
 */
#ifndef RECORDING_LOG_OUTPUT_H
#define RECORDING_LOG_OUTPUT_H

#include <glib.h>
#include <pthread.h>
#include <stdbool.h>

#include "recording/log-block.h"
#include "recording/log-buffer.h"

typedef struct LogOutput LogOutput;

/* Events on their way to the disk.  The sizes in the header are not set yet. */
typedef struct LogBlock {
    LogBlockHeader header;
    LogBuffer *events;
    /* No block at all, but one of these: */
    struct LogMark *mark;       /* tell how long the files are */
    struct LogDrop *drop;       /* forget what is before */
} LogBlock;

/* What each log is to forget. */
typedef struct LogDrop {
    unsigned n_streams;
    struct {
        uint64_t sequence;
        Position start;
        LogDropped dropped;
    } log[];                    /* stream * LOG_SUBSTREAMS + substream */
} LogDrop;

/* A place in the queue, and what the files were like when the thread came there. */
typedef struct LogMark {
    pthread_mutex_t lock;
    pthread_cond_t passed;
    bool is_passed;
    GError *error;              /* why not all before it was written */
    unsigned n_streams;
    uint64_t size[];            /* stream * LOG_SUBSTREAMS + substream */
} LogMark;

LogBlock *log_block_new(const LogBlockHeader *header, LogBuffer *events);
void log_block_free(LogBlock *block);

/*
 * Creates the files with their headers, or nothing.  @tick is called by the
 * thread, without a lock, every time log_output_tick() changes.
 */
LogOutput *log_output_new(const char *directory, unsigned n_vcpus,
                          void (*tick)(void *opaque), void *opaque, GError **error);
bool log_output_start(LogOutput *output, GError **error);

/* Counts fifths of a second: cheaper than a clock.  Any thread. */
unsigned log_output_tick(LogOutput *output);
/* How many bytes were written so far, and how many are in the files.  Any thread. */
uint64_t log_output_written(LogOutput *output);
uint64_t log_output_stored(LogOutput *output);
/* Are the files where they were created?  Any thread. */
bool log_output_check(LogOutput *output, GError **error);
/* False once writing has failed.  Any thread. */
bool log_output_ok(LogOutput *output);

/*
 * Takes all blocks from the queue.  @wait: does not return while too much is on
 * its way to the disk.  Any thread.
 */
void log_output_push(LogOutput *output, GQueue *blocks, bool wait);

/*
 * After all that was pushed so far.  log_mark_wait() returns when it is written, or cannot be; any
 * thread, before log_output_free().  Freed with log_mark_free().
 */
LogMark *log_output_mark(LogOutput *output, unsigned n_streams);
bool log_mark_wait(LogMark *mark, GError **error);
void log_mark_free(LogMark *mark);

/* After all that was pushed so far.  Takes @drop. */
void log_output_drop(LogOutput *output, LogDrop *drop);
/* Before log_output_start(). */
bool log_output_can_drop(LogOutput *output, GError **error);

/* Ends the thread once all is written, and syncs; sets @error to the first error. */
bool log_output_finish(LogOutput *output, GError **error);
/* Without finish: ends the thread, drops what is not written yet. */
void log_output_free(LogOutput *output);

#endif
