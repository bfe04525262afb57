/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Verifies that a recording is sound, without replaying it: every log from its start to its
 * end, every wait against the stream that is waited for, what the manifest says of the end,
 * every byte of the checkpoints.  The recording may be damaged or hostile.
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
    uint64_t arcs;              /* of the first order */
    bool cut_off;               /* the recording is not complete */
    bool dropped;               /* the first part of a log was dropped */
    Point *reached;             /* how far replay can go; NULL if the order logs are bad */
} Verified;

/* Verify all of a recording.  The caller clears @verified with verified_clear(). */
void verify_recording(const char *directory, const Manifest *manifest, Verified *verified);
/*
 * Verify only the logs, and only what replay by the order @manifest->follow relies on: they are
 * whole, make sense, and no stream waits for ever.  Return false and the first fault, if any.
 */
bool verify_for_replay(const char *directory, const Manifest *manifest, GError **error);
void verified_clear(Verified *verified);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Verified, verified_clear)

/* --- the parts ------------------------------------------------------------------ */

/* Facts about a log, which was read to its end or as far as it is good (verify-log.c). */
typedef struct VerifiedLog {
    uint64_t events;
    uint64_t arcs;              /* WAITs, or edges of Karma, or episodes of Rerun */
    uint64_t bytes;             /* of the file, up to the last good block; 0: the header is bad */
    Position reached;           /* steps that are known to the end of that block */
    Position last;              /* position of the last event */
    bool cut_off;
    bool dropped;               /* the first part was dropped */
    bool has_end;               /* the last event is an END, with these registers: */
    uint64_t end_registers;
} VerifiedLog;

/*
 * Read one log, and check what can be said of it alone.  @first is the position of the first
 * checkpoint, if the logs before that were dropped; or NULL.  On failure, bytes and reached of @log
 * describe the part up to the last good block.
 */
bool verify_log(const char *directory, const Manifest *manifest, const CheckpointPosition *first,
                unsigned stream, LogSubstream substream, VerifiedLog *log, GError **error);

/*
 * Verify the waits of one order (verify-order.c): each stream waits for steps that are there,
 * unless logs are cut off, and waits form no cycle.  @limit as in cut.h.  Return the point that can
 * be reached, to be freed by the caller; NULL and @error if there is a fault.
 */
Point *verify_order(const char *directory, unsigned n_vcpus, RaceOrder order, const Point *limit,
                    GError **error);

/*
 * Verify what the logs of episodes of all streams say together (verify-episodes.c): all have the
 * same number of cuts, and from one cut to the next each stream takes as many edges as the others
 * send to it.  Logs that were cut off may have less.
 */
bool verify_episodes(const char *directory, unsigned n_vcpus, RaceOrder order, GError **error);

/*
 * As verify_order(), for all orders of the recording, and for logs that may be bad: a bad log ends
 * where it becomes bad.  Return the largest point that can be reached by each order.  @limit has a
 * position for each stream, or CUT_NONE.  NULL only if a log cannot be opened.
 */
Point *verify_find_cut(const char *directory, unsigned n_vcpus, const Position *limit,
                       GError **error);

/*
 * Return the position of the first checkpoint, to be freed by the caller, if the logs before it
 * were dropped; else NULL.
 */
CheckpointPosition *verify_first_place(const char *directory, const Manifest *manifest);

/* Facts about the epochs of a recording, up to the first that is bad (verify-epochs.c). */
typedef struct VerifiedEpochs {
    uint64_t n_epochs;
    uint64_t bytes;             /* of the file, up to the last good epoch */
    bool cut_off;               /* the file ends within a line */
} VerifiedEpochs;

/*
 * Verify the file of epochs, which exists.  No epoch ends behind @end, unless NULL, or takes more
 * than @log_bytes of a log, which are as in Epoch; NULL: what the files have.  A last line that is
 * not whole is no fault.  The recording may grow meanwhile.  On failure, @epochs describes the part
 * up to the last good epoch.
 */
bool verify_epochs(const char *directory, unsigned n_vcpus, const Point *end,
                   const uint64_t *log_bytes, VerifiedEpochs *epochs, GError **error);

/*
 * Verify that nothing within an epoch waits for what is behind it, in the order @manifest->follow.
 * The logs and their order are sound.  True if there are no epochs.
 */
bool verify_closed_epochs(const char *directory, const Manifest *manifest, GError **error);

/* Verify all files of a checkpoint, and that a block begins at its place in each log. */
bool verify_checkpoint(const char *directory, const char *name, const Manifest *manifest,
                       GError **error);

#define VERIFY_ERROR verify_error_quark()
GQuark verify_error_quark(void);

typedef enum VerifyError {
    VERIFY_ERROR_LOG,           /* an invalid event */
    VERIFY_ERROR_TRUNCATED,
    VERIFY_ERROR_NO_SOURCE,     /* a wait for a step that is not there */
    VERIFY_ERROR_CYCLE,         /* waits that form a cycle */
    VERIFY_ERROR_EPOCH,         /* an epoch of what the recording does not have */
} VerifyError;

#endif
