/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the tests of the schedule share: streams that are replayed in threads, on some of the cores.
 */
#ifndef TESTS_PROTOCOL_SCHEDULE_TEST_H
#define TESTS_PROTOCOL_SCHEDULE_TEST_H

#include <glib.h>

#include "protocol/schedule.h"

#define STREAMS 4

typedef enum Mode {
    FREELY,
    SHARING_CORES,
    TAKING_TURNS,
} Mode;

/* Return true now and then, as for a vCPU that must leave cpu_exec().  For ScheduleOps. */
bool interrupted_at_times(unsigned stream);
/* Note that @stream goes on.  Any thread of run_streams(). */
void note_stream(unsigned stream);
/*
 * Call @run with the number of each stream of @schedule, each in a thread.  Return the streams that
 * were noted, a letter for each time, in their order; to be freed by the caller.
 */
char *run_streams(Schedule *schedule, Mode mode, GThreadFunc run);

/*
 * Restrict this process to its first @most cores, or fewer if there are not so many.  Return how
 * many these are.
 */
int use_cores(int most);
/* Let this process use all cores again.  Return how many these are. */
int use_all_cores(void);

#endif
