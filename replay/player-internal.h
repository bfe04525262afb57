/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Internal to the player: shared by the player*.c files and paranoid.c.
 */
#ifndef REPLAY_PLAYER_INTERNAL_H
#define REPLAY_PLAYER_INTERNAL_H

#include "qemu/thread.h"
#include "hw/core/cpu.h"

#include "hw/recorder/console.h"
#include "hw/recorder/replay-port.h"
#include "hw/recorder/vcpu.h"
#include "protocol/schedule.h"
#include "protocol/wake-ups.h"
#include "recording/log-reader.h"
#include "recording/manifest.h"
#include "recording/order-reader.h"
#include "recording/position.h"
#include "replay/player.h"

/*
 * The current replay.  There is one machine, so there is one player.
 *
 * The main thread writes it while all vCPUs are stopped.  Fields marked atomic, and those of @dma,
 * change while vCPUs run.
 */
typedef struct Player {
    char *recording;            /* its directory */
    int64_t started_us;
    Manifest *manifest;
    Schedule *schedule;
    OrderReader *order;         /* a vCPU's thread reads its own stream, DMA's is under dma.lock */
    WakeUps *wakes;             /* by which streams are ordered; NULL: by positions */
    Point *goal;                /* where replay will end; NULL: not known */
    double furthest;            /* the largest progress that player_query() has returned */
    unsigned n_running;         /* atomic: vCPUs that have not finished */
    bool cut_off;               /* a stream ends at a cut, not at the END of its log */
    bool one_at_a_time;         /* PlayerOptions */
    bool standby;               /* PlayerOptions */
    bool stops_early;           /* replay ends at a moment that the user or a debugger chose */
    void (*arrived)(void);      /* PlayerOptions; NULL: stop the machine, which ends the replay */
    Console console;            /* the guest's UART; changes with stores to it */
    /* Of each vCPU, the position up to which console output was shown; NULL: show all output. */
    Position *shown;

    RecorderReplayEnd *last;    /* how the last replay ended, unless one goes on; or NULL */
    char *divergence;           /* the first one, in words, or NULL; atomic */
    struct {                    /* where it was seen */
        bool known;             /* false: in RAM or DMA, at the end */
        int vcpu;
        Position position;
    } diverged_at;

    struct {
        QemuMutex lock;         /* of @next, @steps and the stream while vCPUs run */
        LogEvent next;          /* of the stream, not replayed yet */
        uint8_t *kept;          /* the bytes of @next if a snapshot was loaded, or NULL */
        Position cut;           /* where DMA stops, or CUT_NONE */
        uint64_t steps;         /* that DMA has made */
    } dma;
} Player;

extern Player player;

/* State of a replayed vCPU.  It belongs to the vCPU thread, or to the main thread while stopped. */
typedef struct ReplayingVcpu {
    LogReader *data;
    LogEvent read;              /* the next event of its order */
    uint8_t *kept;              /* the bytes of @read if a snapshot was loaded, or NULL */
    LogEvent next;              /* where to stop next: @read, or LOG_EVENT_KINDS at @cut */
    LogEvent next_input;        /* the next event of @data */
    Registers expected;         /* as of the last REGISTERS event that was applied */
    Position same_at;           /* of the last digest that was compared */
    Position cut;               /* where the vCPU stops (recording/cut.h), or CUT_NONE */
    Position check_due;         /* of the next check of paranoid.c, there or soon after */
} ReplayingVcpu;

/* player.c: what hw/recorder calls while replaying. */
extern const ReplayPort player_port;
/*
 * Report that @cpu diverged at @position, unless it has finished, and end the replay.  The first
 * divergence of all vCPUs is kept.  The vCPU thread, or the main thread while @cpu is stopped.
 */
void player_diverged(CPUState *cpu, Position position, const char *format, ...)
    G_GNUC_PRINTF(3, 4);
/*
 * Read the next event of @reader.  At the end of the log @event gets the kind LOG_EVENT_KINDS and
 * the position UINT64_MAX; a log that cannot be read is a divergence, too.
 */
void player_next_event(CPUState *cpu, LogReader *reader, LogEvent *event);
/*
 * Read the next event of the order of @stream, as log_reader_next() does.  Wake-ups on the way are
 * announced; an EPISODE is returned if too many are.  Whoever reads the stream.
 */
LogReaderResult player_read_order(unsigned stream, LogEvent *event, GError **error);
/* The same, with the end and errors as player_next_event(). */
void player_next_ordered(CPUState *cpu, unsigned stream, LogEvent *event);
/*
 * Return true if @event is applied before a stream stops at @cut.  Events at the cut are not: a log
 * that was cut off may lack some events of its last position.  But an EPISODE that ends there has
 * ended.
 */
bool player_is_before_cut(const LogEvent *event, Position cut);
/* Set where @v stops next: at its next event, or at its cut if that is not before the cut. */
void player_stop_at_cut(RecorderVcpu *v);
/* Return what a WAIT of @stream is for. */
ScheduleWait player_wait_of(unsigned stream, const LogEvent *event);
/* Make query-recorder show what @v waits for. */
void player_show_wait(RecorderVcpu *v, const ScheduleWait *wait);
/*
 * Wait for a vCPU, for @cpu itself or for DMA.  Return false if @cpu must leave cpu_exec() before
 * it can wait any longer.  Called in @cpu's thread, in cpu_exec(), without locks.
 */
bool player_wait_for_vcpu(CPUState *cpu, const ScheduleWait *wait);
/* Compare @cpu's registers and device stores with @event, a DIGEST or END.  Report a divergence. */
void player_check_digest(CPUState *cpu, const LogEvent *event);
/*
 * Replace the schedule by one that starts at @v[i]->base and player.dma.steps.  All vCPUs are
 * stopped, and none has instructions granted, so @base is the vCPU's position.
 */
void player_new_schedule(RecorderVcpu *const v[], bool one_at_a_time);

/* player-dma.c: wait for DMA.  Otherwise as player_wait_for_vcpu(). */
bool player_wait_for_dma(CPUState *cpu, const ScheduleWait *wait);
/* Replay DMA up to its cut.  All vCPUs are stopped at their cuts or ends.  Main thread. */
void player_finish_dma(void);

/* player-session.c: keep and tell how the replay ended; @end is the player's then. */
void player_tell_end(RecorderReplayEnd *end);

/*
 * player-session.c: set where the streams stop when the vCPUs run next, as player_go_on() does.
 * Progress is still that of the whole replay, and the console shows all.
 */
void player_set_cut(const Position *cut);
/*
 * Read the logs up to @log_bytes, as in an Epoch, and no further; NULL: to their ends.  All vCPUs
 * are paused, and have read all that they were allowed to before.
 */
void player_read_on(const uint64_t *log_bytes);
/* End the replay, and report it.  All vCPUs are at their cuts or ends, or there is a divergence. */
void player_end(void);

/* player-session.c: return a new vCPU whose logs the caller opens. */
RecorderVcpu *player_new_vcpu(void);
/* Close the logs of @v and free it.  @v may be NULL. */
void player_close_vcpu(RecorderVcpu *v);

#endif
