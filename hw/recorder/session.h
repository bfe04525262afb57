/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Start and stop of a recording; main thread, big lock held.
 */
#ifndef RECORDER_SESSION_H
#define RECORDER_SESSION_H

#include "qapi/qapi-types-recorder.h"
#include "qemu/coroutine.h"

#include "recording/position.h"

/* How often a vCPU's registers are logged, in steps, unless somebody wants it otherwise. */
#define RECORDER_DIGEST_INTERVAL 1000000

/* Where a recording ends in order; 0: nowhere. */
typedef struct RecorderLimits {
    uint64_t bytes;             /* on disk: logs and checkpoints */
    double seconds;
} RecorderLimits;

typedef struct RecorderOptions {
    uint64_t digest_interval;       /* in steps */
    bool slow_path;                 /* generated code makes no access to memory by itself */
    double checkpoint_interval_s;   /* 0: no checkpoints but the first */
    double keep_s;                  /* keep the last so many seconds only; 0: all */
    uint64_t chaos;                 /* a seed, see chaos.h; 0: none */
    RecorderLimits limits;
} RecorderOptions;

/*
 * Records into @directory, which is new or empty, from now on.  A guest that runs is paused
 * for the checkpoint, and goes on while that is brought to disk.
 */
bool coroutine_fn recorder_start(const char *directory, const RecorderOptions *options,
                                 Error **errp);
bool recorder_stop(bool pause, Error **errp);
/* The same, if anything is recorded: it ends in order, and the guest goes on. */
void recorder_stop_because(const char *reason);

/* A new directory, or an empty one: nothing else is written to. */
bool recorder_make_directory(const char *directory, Error **errp);

/* Adds what is known of the recording under way. */
void recorder_query_session(RecorderInfo *info);
/* The recording cannot go on: it ends soon.  Any thread. */
void recorder_fail(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* Why the recording is about to end; NULL: it is not.  Main thread. */
const char *recorder_failure(void);

#endif
