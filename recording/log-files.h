/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The files of a recording's logs: created together, appended to, synced.  For
 * log-output.c alone; one thread at a time.
 */
#ifndef RECORDING_LOG_FILES_H
#define RECORDING_LOG_FILES_H

#include <glib.h>
#include <stdbool.h>

#include "recording/log-block.h"

typedef struct LogFiles LogFiles;

/* Creates all files with their headers in @directory, or none. */
LogFiles *log_files_new(const char *directory, unsigned n_vcpus, GError **error);
bool log_files_append(LogFiles *files, unsigned stream, LogSubstream substream,
                      const void *bytes, size_t n, GError **error);
/* How long a log's file is by now; 0: there is none. */
uint64_t log_files_size(const LogFiles *files, unsigned stream, LogSubstream substream);
/*
 * Forget all before block @sequence, which starts at @start; *@freed bytes are given back.  A process
 * that is killed meanwhile leaves a log that can be read.
 */
bool log_files_drop(LogFiles *files, unsigned stream, LogSubstream substream, uint64_t sequence,
                    Position start, const LogDropped *dropped, uint64_t *freed, GError **error);
/* Can this file system do that? */
bool log_files_can_drop(LogFiles *files, GError **error);
/*
 * Are they still where they were created?  Writing to a file that was removed succeeds, and is of
 * no use to anybody.  Any thread.
 */
bool log_files_check(LogFiles *files, GError **error);
bool log_files_sync(LogFiles *files, GError **error);
void log_files_free(LogFiles *files);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LogFiles, log_files_free)

#endif
