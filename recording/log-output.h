/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The log writer thread, which writes the logs of a recording.  For log-writer.c
 * alone.
 *
 * Blocks are written in the order in which they are pushed, across all files,
 * and none after the first error.  So if a block is in its file, all blocks that
 * were pushed before it are in theirs, however the recording ended, except by a
 * power failure.  log-writer.c relies on this.
 */
#ifndef RECORDING_LOG_OUTPUT_H
#define RECORDING_LOG_OUTPUT_H

#include <glib.h>
#include <pthread.h>
#include <stdbool.h>

#include "recording/log-block.h"
#include "recording/log-buffer.h"

typedef struct LogOutput LogOutput;

/* An item of the queue: events on their way to disk.  Sizes in the header are not set yet. */
typedef struct LogBlock {
    LogBlockHeader header;
    LogBuffer *events;
    /* If one of these is set, the item is a request, without events. */
    struct LogMark *mark;       /* report the sizes of the files */
    struct LogDrop *drop;       /* drop old blocks */
} LogBlock;

/* The blocks to drop: in each log, those before block @sequence, which starts at @start. */
typedef struct LogDrop {
    unsigned n_streams;
    struct {
        uint64_t sequence;
        Position start;
        LogDropped dropped;
    } log[];                    /* stream * LOG_SUBSTREAMS + substream */
} LogDrop;

/* A place in the queue, and the state of the files when the thread got there. */
typedef struct LogMark {
    pthread_mutex_t lock;
    pthread_cond_t passed;
    bool is_passed;
    GError *error;              /* why not all blocks before it were written; or NULL */
    unsigned n_streams;
    uint64_t size[];            /* stream * LOG_SUBSTREAMS + substream */
} LogMark;

/* Takes ownership of @events. */
LogBlock *log_block_new(const LogBlockHeader *header, LogBuffer *events);
void log_block_free(LogBlock *block);

/*
 * Create the files of a recording with these orders, or nothing.  The thread calls @tick, without
 * a lock held, each time log_output_tick() changes.
 */
LogOutput *log_output_new(const char *directory, unsigned n_vcpus, OrderSet orders,
                          void (*tick)(void *opaque), void *opaque, GError **error);
bool log_output_start(LogOutput *output, GError **error);

/* Return a count of fifths of a second, which is cheaper than a clock.  Any thread. */
unsigned log_output_tick(LogOutput *output);
/* Return how many bytes were written, and how many of them were not dropped.  Any thread. */
uint64_t log_output_written(LogOutput *output);
uint64_t log_output_stored(LogOutput *output);
/* Return true if the files are still where they were created.  Any thread. */
bool log_output_check(LogOutput *output, GError **error);
/* Return false once writing has failed.  Any thread. */
bool log_output_ok(LogOutput *output);

/*
 * Take all blocks from @blocks.  With @wait, do not return while too much is on
 * its way to disk (back-pressure).  Any thread.
 */
void log_output_push(LogOutput *output, GQueue *blocks, bool wait);

/*
 * Push a mark after all blocks that were pushed so far.  log_mark_wait() returns true when these
 * are written; false and @error if they cannot be.  Any thread, before log_output_free().  The
 * caller frees the mark with log_mark_free(), after log_mark_wait().
 */
LogMark *log_output_mark(LogOutput *output, unsigned n_streams);
bool log_mark_wait(LogMark *mark, GError **error);
void log_mark_free(LogMark *mark);

/* Push a request to drop blocks, after all that was pushed so far.  Takes ownership of @drop. */
void log_output_drop(LogOutput *output, LogDrop *drop);
/* Return true if the file system can do that.  Any thread, before the logs grow (log-files.h). */
bool log_output_can_drop(LogOutput *output, GError **error);

/* End the thread when all is written, and sync.  Return false and the first error, if any. */
bool log_output_finish(LogOutput *output, GError **error);
/* Free @output.  Without log_output_finish(), discard what is not written yet. */
void log_output_free(LogOutput *output);

#endif
