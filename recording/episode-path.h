/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Critical paths of episodes: how many steps a replay takes one after another, however many cores
 * a host has.  critical-path.h has that of FDR's waits.
 *
 * No locks: a path belongs to one thread at a time.
 */
#ifndef RECORDING_EPISODE_PATH_H
#define RECORDING_EPISODE_PATH_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "recording/karma-episodes.h"
#include "recording/rerun-episodes.h"

/*
 * Karma's replay (ICS 2011, section 4.5 and Figure 7): an episode begins when the one before it has
 * ended and a wake-up from each of its predecessors has come.  Episodes of one stream are added in
 * their order; streams may be added in any order.  Takes memory for episodes that wait for others.
 */
typedef struct KarmaPath KarmaPath;

KarmaPath *karma_path_new(unsigned n_streams);
void karma_path_free(KarmaPath *path);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(KarmaPath, karma_path_free)

void karma_path_add(KarmaPath *path, unsigned stream, const KarmaClosed *closed);
/*
 * Let all streams meet: at a cut, or at the end.  Return false, and do nothing, if an episode waits
 * for a wake-up that no episode sent, or if a wake-up is left over.
 */
bool karma_path_meet(KarmaPath *path);
/* Return the steps that were added, and those of the longest chain so far. */
uint64_t karma_path_steps(const KarmaPath *path);
uint64_t karma_path_longest(const KarmaPath *path);

/*
 * Rerun's replay.  Sequential, as the paper advises: one episode after another.  Idealised, as in
 * section 5 of Karma: all episodes of one time together, and those of the next time after the last
 * of them.
 */
typedef struct RerunPath RerunPath;

RerunPath *rerun_path_new(void);
void rerun_path_free(RerunPath *path);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RerunPath, rerun_path_free)

void rerun_path_add(RerunPath *path, const RerunClosed *closed);
/* Let all streams meet, at a cut: later episodes come after all earlier ones. */
void rerun_path_meet(RerunPath *path);
uint64_t rerun_path_sequential(const RerunPath *path);
uint64_t rerun_path_idealised(const RerunPath *path);

#endif
