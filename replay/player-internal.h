/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of the player share.
 */
#ifndef REPLAY_PLAYER_INTERNAL_H
#define REPLAY_PLAYER_INTERNAL_H

#include "qemu/thread.h"
#include "hw/core/cpu.h"

#include "hw/recorder/replay-port.h"
#include "hw/recorder/vcpu.h"
#include "protocol/schedule.h"
#include "recording/log-reader.h"
#include "recording/manifest.h"
#include "recording/position.h"
#include "replay/player.h"

/* The replay under way.  There is one machine, so there is one player. */
typedef struct Player {
    char *recording;            /* its directory */
    int64_t started_us;
    Manifest *manifest;
    Schedule *schedule;
    Point *goal;                /* where replay will end; NULL: not known yet */
    double furthest;            /* of the way there, that was shown */
    unsigned n_running;         /* atomic: vCPUs that have not finished */
    bool cut_off;               /* some logs end early, and there replay ends */
    bool stops_early;           /* at a moment that somebody chose */
    void (*arrived)(void);      /* all have finished; NULL: the machine stops, replay is over */
    Position *shown;            /* what the console has shown of each vCPU; NULL: all is shown */

    char *divergence;           /* the first one, in words; atomic */
    struct {                    /* where that was, unless it was at the end */
        bool known;
        int vcpu;
        Position position;
    } diverged_at;

    struct {
        QemuMutex lock;
        LogReader *log;
        LogEvent next;
        Position cut;           /* or CUT_NONE */
        uint64_t steps;         /* that were done */
    } dma;
} Player;

extern Player player;

/* Of a vCPU while it is replayed; its own thread's. */
typedef struct ReplayingVcpu {
    LogReader *order;
    LogReader *data;
    LogEvent read;              /* the next event of the order log, */
    LogEvent next;              /* or the end of the replay before it: where to stop */
    LogEvent next_input;        /* of the data log */
    Registers expected;         /* as of the last digest that was read */
    Position same_at;           /* the last digest that was as recorded */
    Position cut;               /* recording/cut.h: where a log that is cut off ends */
    Position check_due;         /* by paranoid.c, here or soon after */
} ReplayingVcpu;

/* player.c: what the recorder asks. */
extern const ReplayPort player_port;
/* The one place that reports a divergence; replay stops. */
void player_diverged(CPUState *cpu, Position position, const char *format, ...)
    G_GNUC_PRINTF(3, 4);
/* A whole log goes on to its END; nothing comes after that. */
void player_next_event(CPUState *cpu, LogReader *reader, LogEvent *event);
/* Of a log that is cut off, what its last position says may not be all. */
void player_stop_at_cut(RecorderVcpu *v);
void player_show_wait(RecorderVcpu *v, unsigned stream, uint64_t steps);
/* False if the vCPU must leave cpu_exec() before it can wait on. */
bool player_wait_for_vcpu(CPUState *cpu, unsigned stream, Position position);
/* DIGEST or END; else it diverges. */
void player_check_digest(CPUState *cpu, const LogEvent *event);
/* All vCPUs and DMA are where @v and the log of DMA say. */
void player_new_schedule(RecorderVcpu *const v[], bool one_at_a_time);

/* player-dma.c: as player_wait_for_vcpu(). */
bool player_wait_for_dma(CPUState *cpu, uint64_t steps);
/* What DMA did up to its cut, when nobody looked any more.  vCPUs are stopped. */
void player_finish_dma(void);

/* player-session.c: its logs are opened by the caller. */
RecorderVcpu *player_new_vcpu(void);
void player_close_vcpu(RecorderVcpu *v);

#endif
