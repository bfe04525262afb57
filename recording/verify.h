/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Is a recording sound?  Without replaying it: every log from its start to its end, every
 * wait against who is waited for, what the manifest says of the end, every byte of
 * the checkpoints.  The recording may be damaged or hostile.
 */
#ifndef RECORDING_VERIFY_H
#define RECORDING_VERIFY_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "recording/log-events.h"
#include "recording/manifest.h"
#include "recording/checkpoint-position.h"
#include "recording/position.h"

typedef struct Verified {
    GPtrArray *faults;          /* of char *, a line each: which file, where, what; empty: sound */
    uint64_t events;
    uint64_t arcs;
    bool cut_off;               /* it is not complete */
    bool dropped;               /* the first part of a log was */
    Point *reached;             /* how far it can be replayed; NULL if the order logs are bad */
} Verified;

void verify_recording(const char *directory, const Manifest *manifest, Verified *verified);
/*
 * Only the logs, and what replay relies on: that they are whole, make sense, and nobody waits
 * for ever.  The first fault is the error.
 */
bool verify_for_replay(const char *directory, const Manifest *manifest, GError **error);
void verified_clear(Verified *verified);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Verified, verified_clear)

/* --- the parts ------------------------------------------------------------------ */

/* What a log says, read to its end or as far as it is good (verify-log.c). */
typedef struct VerifiedLog {
    uint64_t events;
    uint64_t arcs;
    uint64_t bytes;             /* of the file, up to its last good block; 0: its header is bad */
    Position reached;           /* steps that are known to the end of that block */
    Position last;              /* position of the last event */
    bool cut_off;
    bool dropped;               /* its first part was */
    bool has_end;               /* and the last event is an END: */
    uint64_t end_registers;
} VerifiedLog;

/*
 * Reads one log, and checks what can be said of it alone.  @first is the place of the first
 * checkpoint, if the logs before that were dropped; or NULL.
 */
bool verify_log(const char *directory, const Manifest *manifest, const CheckpointPosition *first,
                unsigned stream, LogSubstream substream, VerifiedLog *log, GError **error);

/*
 * The waits (verify-order.c).  Whoever waits, waits for a step that is there, unless logs
 * are cut off; and nobody waits in a circle.  @limit as in cut.h.  Returns the point
 * that can be reached.
 */
Point *verify_order(const char *directory, unsigned n_vcpus, const Point *limit, GError **error);

/*
 * The same of logs that may be bad, and then end where they are: the largest point that can be
 * reached.  @limit has a position for each stream, or CUT_NONE.  NULL only if a log
 * cannot be opened.
 */
Point *verify_find_cut(const char *directory, unsigned n_vcpus, const Position *limit,
                       GError **error);

/* Of the first checkpoint, if the logs before it were dropped; else NULL. */
CheckpointPosition *verify_first_place(const char *directory, const Manifest *manifest);

/* A checkpoint: all its files, and that the logs have its place. */
bool verify_checkpoint(const char *directory, const char *name, const Manifest *manifest,
                       GError **error);

#define VERIFY_ERROR verify_error_quark()
GQuark verify_error_quark(void);

typedef enum VerifyError {
    VERIFY_ERROR_LOG,           /* an event that cannot be */
    VERIFY_ERROR_TRUNCATED,
    VERIFY_ERROR_NO_SOURCE,     /* a wait for a step that is not there */
    VERIFY_ERROR_CYCLE,         /* waits in a circle */
} VerifyError;

#endif
