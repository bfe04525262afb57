/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Start and end of a recording.  Main thread, BQL held, unless said otherwise.
 */
#ifndef RECORDER_SESSION_H
#define RECORDER_SESSION_H

#include "qapi/qapi-types-recorder.h"
#include "qemu/coroutine.h"

#include "recording/manifest.h"
#include "recording/orders.h"
#include "recording/position.h"

/* Default interval of a vCPU's digests, in steps. */
#define RECORDER_DIGEST_INTERVAL 1000000

/* Limits at which a recording ends in order; 0: none. */
typedef struct RecorderLimits {
    uint64_t bytes;             /* on disk: logs and checkpoints */
    double seconds;
} RecorderLimits;

typedef struct RecorderOptions {
    uint64_t digest_interval;       /* in steps */
    bool slow_path;                 /* generated code accesses no memory itself */
    double checkpoint_interval_s;   /* 0: no checkpoint but the first */
    double keep_s;                  /* keep only the last seconds; 0: keep all */
    unsigned epoch_ms;              /* length of an epoch (epochs.h); 0: there are none */
    uint64_t hold;                  /* most bytes of output to hold (hold.h); 0: none is held */
    bool live;                      /* the guest can go on from each checkpoint: live.h */
    bool standby;                   /* so can another machine from each epoch */
    Orders orders;                  /* of steps: what is recorded of them */
    uint64_t chaos;                 /* seed, see protocol/chaos.h; 0: none */
    RecorderLimits limits;
} RecorderOptions;

/*
 * Start to record into @directory, which must be new or empty.  A running guest is paused while its
 * state is read, and goes on while the checkpoint is written to disk.  Return when that is done.
 * Return false and set @errp if there is no recording.
 */
bool coroutine_fn recorder_start(const char *directory, const RecorderOptions *options,
                                 Error **errp);
/*
 * End the recording.  Leave the guest paused if @pause.  Return false and set @errp if there is no
 * recording.
 */
bool recorder_stop(bool pause, Error **errp);
/* End the recording in order for @reason, if there is one.  The guest goes on. */
void recorder_stop_because(const char *reason);

/* Describe this machine, and return a new manifest. */
Manifest *recorder_describe_machine(void);
/* Make @directory.  Return false and set @errp unless it is new or empty now. */
bool recorder_make_directory(const char *directory, Error **errp);

/* Add what is known of the current recording. */
void recorder_query_session(RecorderInfo *info);
/* Have the recording end soon, because it cannot go on.  The first reason counts.  Any thread. */
void recorder_fail(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* Return why the recording is about to end, or NULL if it is not. */
const char *recorder_failure(void);

#endif
