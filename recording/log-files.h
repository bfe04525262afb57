/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The files of a recording's logs: created together, appended to, synced.  For
 * log-output.c alone.  One thread at a time, unless said otherwise.
 */
#ifndef RECORDING_LOG_FILES_H
#define RECORDING_LOG_FILES_H

#include <glib.h>
#include <stdbool.h>

#include "recording/log-block.h"

typedef struct LogFiles LogFiles;

/* Create all files of a recording with these orders in @directory, or none. */
LogFiles *log_files_new(const char *directory, unsigned n_vcpus, OrderSet orders, GError **error);
bool log_files_append(LogFiles *files, unsigned stream, LogSubstream substream,
                      const void *bytes, size_t n, GError **error);
/* Return the size of a log's file, holes included; 0 if there is no such log. */
uint64_t log_files_size(const LogFiles *files, unsigned stream, LogSubstream substream);
/*
 * Drop all blocks before block @sequence, which starts at @start, if there is such a log.  *@freed
 * is how many bytes that gives back to the file system.  A process that is killed meanwhile leaves
 * a log that can be read.
 */
bool log_files_drop(LogFiles *files, unsigned stream, LogSubstream substream, uint64_t sequence,
                    Position start, const LogDropped *dropped, uint64_t *freed, GError **error);
/*
 * Return true if the file system can do that.  Any thread, but only before a log grows to 1 GiB,
 * where the test punches a hole.
 */
bool log_files_can_drop(LogFiles *files, GError **error);
/*
 * Return true if the files are still where they were created.  Writing to a removed file succeeds,
 * but what is written is lost.  Any thread.
 */
bool log_files_check(LogFiles *files, GError **error);
bool log_files_sync(LogFiles *files, GError **error);
void log_files_free(LogFiles *files);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LogFiles, log_files_free)

#endif
