/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The epochs of a recording, a line each in its file `epochs`: how far everybody was, and digests
 * of what the guest was.  So a replay can be compared with the recording at the end of each epoch,
 * also while the recording is being made.  docs/log-format.md, "Epochs", describes the file.
 *
 * An epoch ends where all vCPUs stand still and devices do not write.  That is a cut which is
 * closed under the arcs, as that of a checkpoint.  An epoch is written when all logs up to there
 * are in their files.
 */
#ifndef RECORDING_EPOCHS_H
#define RECORDING_EPOCHS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "recording/log-events.h"
#include "recording/position.h"

#define EPOCHS_FILE "epochs"

/* The end of an epoch.  Digests are as in the manifest and in digest events. */
typedef struct Epoch {
    uint64_t number;            /* 1, 2, ... */
    int64_t time_us;            /* since 1970; for people */
    unsigned n_vcpus;
    Point *point;
    uint64_t dma_steps;
    char *ram;                  /* 32 digits */
    uint64_t *registers;        /* per vCPU */
    uint64_t *stores;           /* per vCPU: hash of its device stores */
    /*
     * Size of each log that has all before @point; stream * LOG_SUBSTREAMS + substream.  0 if there
     * is no such log, or if all are 0: not known, since `reprise convert` wrote new logs.
     */
    uint64_t *log_bytes;
} Epoch;

/* Return a new epoch, in which all is 0 and @ram is NULL. */
Epoch *epoch_new(unsigned n_vcpus);
void epoch_free(Epoch *epoch);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Epoch, epoch_free)

/* --- writing ------------------------------------------------------------------------ */

/*
 * Create the file in the directory that is open as @directory_fd, and return its descriptor, which
 * the caller closes; or -1 and @error.  @directory is its name for messages.
 */
int epochs_create(int directory_fd, const char *directory, GError **error);
/*
 * Append @epoch to the file @fd.  Return false and @error on failure: then part of a line may be in
 * the file, so the caller appends no more.
 */
bool epochs_append(int fd, const Epoch *epoch, GError **error);

/* --- reading -------------------------------------------------------------------------- */

/* Reads a file that may be damaged or hostile, and may grow meanwhile.  One thread at a time. */
typedef struct EpochReader EpochReader;

/* Return true if the recording in @directory has the file, whatever is in it. */
bool epochs_exist(const char *directory);
EpochReader *epoch_reader_open(const char *directory, unsigned n_vcpus, GError **error);
void epoch_reader_free(EpochReader *reader);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EpochReader, epoch_reader_free)

/* Return true if @epoch tells the sizes of logs. */
bool epoch_has_log_bytes(const Epoch *epoch);
/* Return the size of a log; 0 if there is no such log, or the size is not known. */
static inline uint64_t epoch_log_bytes(const Epoch *epoch, unsigned stream, LogSubstream substream)
{
    return epoch->log_bytes[stream * LOG_SUBSTREAMS + substream];
}

typedef enum EpochReaderResult {
    EPOCH_READER_EPOCH,
    EPOCH_READER_END,           /* no more so far: the last line may not be whole */
    EPOCH_READER_BAD,           /* @error says what and where */
} EpochReaderResult;

/* Read the next epoch, which the caller frees.  After EPOCH_READER_END more may come. */
EpochReaderResult epoch_reader_next(EpochReader *reader, Epoch **epoch, GError **error);
/* Return how many bytes were good so far: the title, and whole epochs. */
uint64_t epoch_reader_offset(const EpochReader *reader);
/* Return where the line of the epoch begins that was read last. */
uint64_t epoch_reader_line(const EpochReader *reader);
/* After EPOCH_READER_END, return true if the file ends within a line, or has no title. */
bool epoch_reader_torn(const EpochReader *reader);

#define EPOCHS_ERROR epochs_error_quark()
GQuark epochs_error_quark(void);

typedef enum EpochsError {
    EPOCHS_ERROR_DAMAGED,
} EpochsError;

#endif
