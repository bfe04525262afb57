/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See schedule-test.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* sched_setaffinity() */
#endif
#include "tests/protocol/schedule-test.h"

#include <sched.h>

static GMutex noted_lock;
static GString *noted;

bool interrupted_at_times(G_GNUC_UNUSED unsigned stream)
{
    return g_random_int_range(0, 1000) == 0;
}

void note_stream(unsigned stream)
{
    g_mutex_lock(&noted_lock);
    g_string_append_c(noted, 'a' + stream);
    g_mutex_unlock(&noted_lock);
}

char *run_streams(Schedule *schedule, Mode mode, GThreadFunc run)
{
    GThread *thread[STREAMS];

    if (mode == TAKING_TURNS) {
        schedule_take_turns(schedule, STREAMS);
    } else if (mode == SHARING_CORES) {
        schedule_share_cores(schedule, STREAMS);
    }
    noted = g_string_new(NULL);
    for (unsigned i = 0; i < STREAMS; i++) {
        thread[i] = g_thread_new("stream", run, GUINT_TO_POINTER(i));
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        g_thread_join(thread[i]);
    }
    return g_string_free(noted, FALSE);
}

int use_cores(int most)
{
    static cpu_set_t all;               /* before the first call */
    cpu_set_t cores;
    int n = 0;

    if (!CPU_COUNT(&all)) {
        g_assert_cmpint(sched_getaffinity(0, sizeof(all), &all), ==, 0);
    }
    cores = all;
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &cores) && n++ >= most) {
            CPU_CLR(core, &cores);
        }
    }
    g_assert_cmpint(sched_setaffinity(0, sizeof(cores), &cores), ==, 0);
    return MIN(n, most);
}

int use_all_cores(void)
{
    return use_cores(CPU_SETSIZE);
}
