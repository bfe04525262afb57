/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * State, position and digests of a vCPU that is recorded or replayed.
 */
#ifndef RECORDER_VCPU_H
#define RECORDER_VCPU_H

#include "hw/core/cpu.h"

#include "protocol/chaos.h"
#include "protocol/sphere.h"
#include "recording/log-writer.h"
#include "recording/position.h"
#include "recording/registers.h"

/* Statistics of each vCPU: X(counter, name).  query-recorder and SIGUSR1 show all of them. */
#define RECORDER_COUNTERS(X) \
    X(INPUTS, "inputs") \
    X(DEVICE_STORES, "device stores") \
    X(INTERRUPTS, "interrupts") \
    X(WAKE_UPS, "wake-ups") \
    X(OTHER_STEPS, "steps that are no instruction") \
    X(FLUSHES, "translation flushes") \
    X(TLBS_GROWN, "TLBs made larger") \
    X(ARCS, "arcs") \
    X(MERGED_ARCS, "arcs merged into others")

typedef enum RecorderCounterIndex {
#define X(counter, name) RECORDER_COUNT_##counter,
    RECORDER_COUNTERS(X)
#undef X
    RECORDER_N_COUNTERS
} RecorderCounterIndex;

typedef enum RecorderWait {
    RECORDER_WAITS_FOR_NOTHING,
    RECORDER_WAITS_FOR_LOCK,        /* for the BQL */
    RECORDER_WAITS_FOR_LINE,        /* until another processor gives up a line of memory */
    RECORDER_WAITS_FOR_STREAM,      /* replaying: until a stream has completed some steps */
    RECORDER_WAITS_FOR_WAKE_UP,     /* replaying: until a stream has ended an episode */
} RecorderWait;

/* How many instructions of a TB are left behind the one with this return address. */
typedef struct InsnsLeft {
    uintptr_t retaddr;
    unsigned flushes;           /* all TBs had been dropped so often: the address may be reused */
    int left;
} InsnsLeft;
#define RECORDER_INSNS_LEFT 256

/* State of a vCPU while it is recorded. */
typedef struct RecordingVcpu {
    Processor *processor;       /* the vCPU in the sphere; NULL: not recorded */
    const uint8_t *l1;          /* permission bytes of @processor */
    bool running;               /* RUNNING, or waiting inside a call of the sphere; atomic */
    uint64_t safepoints;        /* how many; atomic */
    bool follows_map;           /* the memory map has changed since the vCPU last ran; atomic */
    bool event;                 /* a local event is pending: the next WFE returns at once */
    bool asked;                 /* lines were requested: wait for them at the boundary */
    bool acquired;              /* the latest recorder_access() obtained lines */
    unsigned tries;             /* how often the instruction number @tried was abandoned */
    uint64_t tried;
    Position device_at;         /* end of the latest instruction that accessed a device */
    bool lacks_lines;           /* the next exclusive instruction runs so for lines alone */
    int exclusive_exception;    /* to be delivered exclusively; -1: none */
    bool exclusive_interrupt;   /* the interrupt that is being delivered is, exclusively */
    unsigned room;              /* instructions of the next TB, for which an episode had no room */
    Position made_room_at;      /* where that was so the last time */
    uint8_t *code_pages;        /* bitmap of the pages whose code the vCPU may run */
    size_t code_pages_size;
    bool suspended;             /* a PSCI call was logged since the latest boundary */
    bool turned_on;             /* the work item turned the vCPU on, and that was logged */
    Registers as_left;          /* registers as the guest left them (paused.c) */
    bool registers_changed;     /* not by the guest: no more steps are recorded */
    InsnsLeft insns_left[RECORDER_INSNS_LEFT];  /* looked up lately: access.c */
} RecordingVcpu;

/* The vCPU's translations, recording or replaying: see translations.c. */
typedef struct TranslatingVcpu {
    struct RecorderTranslations *made;
    bool flush_due;             /* drop all translations at the next boundary */
    bool dropped;               /* some were dropped since recorder_has_dropped() */
    bool drops_one_page;
    bool drops_user_mode;
    uint64_t kernel_slots[4];   /* x86: entries of the root, a bit each, of kernel translations */
    uint64_t user_tables;       /* TTBR0 of the translations of user mode */
    vaddr low_page[CHAOS_MOST_LOW_PAGES]; /* user pages with privileged translations */
    unsigned n_low_pages;       /* more than chaos.low_pages: @low_page is incomplete */
} TranslatingVcpu;

/*
 * A vCPU that is recorded or replayed.  The structure belongs to the vCPU's thread.  Other threads
 * access it only while the vCPU is stopped, except the fields for status, and @translations of a
 * vCPU that is alone and SAFE (recorder_translations_written()).
 *
 * TCG subtracts the instructions of a TB from icount_decr.u16.low when the TB is entered.  The
 * recorder grants instructions there, so it knows how many were executed.  Steps that are not
 * instructions are added to @base.
 */
typedef struct RecorderVcpu {
    Position base;              /* position at which @granted instructions were granted */
    uint32_t granted;
    uint64_t random;            /* state of the vCPU's random numbers, see chaos.h */
    Position digest_due;        /* log a digest here, or soon after */
    Position digest_last;       /* no digest after this position */
    uint64_t digest_interval;   /* in steps */
    Registers logged;           /* as of the latest digest in the log */
    uint64_t store_hash;        /* hash of all device stores */
    LogStream *log;             /* the vCPU's log; replaying: that of the trace, or NULL */
    bool alone;                 /* the only vCPU: all of memory is one line */
    bool delivers;              /* an x86 interrupt is being delivered: this one */
    int vector, vector_kind;
    bool fault_counted;         /* the pending fault has been counted as a step */
    uintptr_t walk_retaddr;     /* return address of the access that walks page tables */
    uint64_t points_at;         /* where CPUState.recorder_points were hit: points-x86.c */
    vaddr debuggers_point;      /* a watchpoint among them */

    /* For status: the vCPU's thread writes, other threads read at any time; atomic. */
    uint64_t counters[RECORDER_N_COUNTERS];
    RecorderWait waits;
    uint64_t waited_stream;
    uint64_t waited_steps;
    LogEventKind next_kind;     /* replaying: the next event; LOG_EVENT_KINDS: the end */
    Position next_position;     /* replaying: where the vCPU must stop for it */
    bool finished;              /* replaying: at the end, or diverged */

    RecordingVcpu record;
    struct ReplayingVcpu *replay;       /* replay/player-internal.h; NULL: not replayed */
    TranslatingVcpu translations;
} RecorderVcpu;

static inline void recorder_count(RecorderVcpu *v, RecorderCounterIndex counter)
{
    /* Only the vCPU's thread writes the counter, so the addition need not be atomic. */
    qatomic_set(&v->counters[counter], v->counters[counter] + 1);
}

static inline void recorder_waits(RecorderVcpu *v, RecorderWait why)
{
    qatomic_set(&v->waits, why);
}

/* Free @v, but not its logs. */
void recorder_vcpu_free(RecorderVcpu *v);

/*
 * Return the vCPU's position.  In the middle of a TB this is the position at the TB's end, since
 * the TB is charged when it is entered.
 */
static inline Position recorder_position(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    return v->base + (v->granted - cpu->neg.icount_decr.u16.low);
}

/*
 * Return the position of the running instruction, which is the last of its TB.  QEMU ensures that
 * for device accesses.  The instruction is charged already.
 */
static inline Position recorder_position_in_insn(CPUState *cpu)
{
    return recorder_position(cpu) - 1;
}

/*
 * Return how many instructions the vCPU has completed since its steps are counted.  It is as exact
 * as recorder_position().
 */
static inline uint64_t recorder_instructions(CPUState *cpu)
{
    return recorder_position(cpu) - cpu->recorder->counters[RECORDER_COUNT_OTHER_STEPS];
}

/*
 * Let @cpu count steps in @v, which belongs to @cpu until recorder_vcpu_detach() returns it.
 * Called in the vCPU's thread, between two steps, while all vCPUs are stopped.
 */
void recorder_vcpu_attach(CPUState *cpu, RecorderVcpu *v);
RecorderVcpu *recorder_vcpu_detach(CPUState *cpu);
/* Let the vCPU run up to @limit, or as far as the counter reaches. */
void recorder_grant(CPUState *cpu, Position limit);
/* Grant one instruction if the budget is empty, even if something is due before it. */
void recorder_grant_one(CPUState *cpu);
/* Longjmp to run the restored instruction again, alone in its TB, with no boundary before it. */
G_NORETURN void recorder_run_again(CPUState *cpu);

/*
 * Make the vCPU go to a boundary before it enters another TB.  There it sees all that the caller
 * wrote before.  Any thread.
 */
static inline void recorder_kick(CPUState *cpu)
{
    qatomic_store_release(&cpu->neg.icount_decr.u16.high, -1);
}

/*
 * Set @point to the positions of all vCPUs that are recorded or replayed.  Those of running vCPUs
 * are approximate.  Main thread, BQL held.
 */
void recorder_query_point(Point *point);
/* Make an abandoned delivery of an x86 interrupt again.  May not return. */
void recorder_redeliver(CPUState *cpu);
/* Return the position up to which the vCPU may run before something is due. */
Position recorder_limit(CPUState *cpu);
/* Have digests logged every @interval steps, from position @first to @last. */
void recorder_digest_every(RecorderVcpu *v, uint64_t interval, Position first, Position last);
/* Log a digest if one is due.  At a boundary. */
void recorder_digest_if_due(CPUState *cpu);
/* Log the registers and an event of @kind, DIGEST or END.  Return the digest of the registers. */
uint64_t recorder_log_digest(CPUState *cpu, LogEventKind kind);
/* Return the digest of the registers of @cpu, in its thread or while it is stopped. */
uint64_t recorder_register_digest(CPUState *cpu);

/* Mix @value into @digest.  The order of values matters, and so does every bit. */
static inline uint64_t recorder_mix(uint64_t digest, uint64_t value)
{
    digest = (digest ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return digest ^ digest >> 32;
}

#endif
