/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A vCPU that is recorded or replayed: its state, its position, its digests.
 */
#ifndef RECORDER_VCPU_H
#define RECORDER_VCPU_H

#include "hw/core/cpu.h"

#include "protocol/chaos.h"
#include "protocol/sphere.h"
#include "recording/log-writer.h"
#include "recording/position.h"
#include "recording/registers.h"

/*
 * What is counted on each vCPU, for people: X(counter, name).  query-recorder and
 * SIGUSR1 show them all.
 */
#define RECORDER_COUNTERS(X) \
    X(INPUTS, "inputs") \
    X(DEVICE_STORES, "device stores") \
    X(INTERRUPTS, "interrupts") \
    X(WAKE_UPS, "wake-ups") \
    X(OTHER_STEPS, "steps that are no instruction") \
    X(FLUSHES, "translation flushes") \
    X(TLBS_GROWN, "TLBs made larger") \
    X(ARCS, "arcs")

typedef enum RecorderCounterIndex {
#define X(counter, name) RECORDER_COUNT_##counter,
    RECORDER_COUNTERS(X)
#undef X
    RECORDER_N_COUNTERS
} RecorderCounterIndex;

typedef enum RecorderWait {
    RECORDER_WAITS_FOR_NOTHING,
    RECORDER_WAITS_FOR_LOCK,        /* the big one */
    RECORDER_WAITS_FOR_LINE,        /* of memory, that another has */
    RECORDER_WAITS_FOR_STREAM,      /* replaying: until it has ended so many steps */
} RecorderWait;

/* Of a vCPU while it is recorded. */
typedef struct RecordingVcpu {
    Processor *processor;       /* in the sphere; NULL: it is not recorded */
    const uint8_t *l1;          /* of that */
    bool running;               /* as the sphere has it, but for a grant that wakes it; atomic */
    bool event;                 /* for WFE */
    bool asked;                 /* for a line: wait for it at the boundary */
    bool acquired;              /* lines, by the latest recorder_access() */
    unsigned tries;             /* of the instruction @tried, which were abandoned */
    uint64_t tried;
    Position device_at;         /* the instruction there accessed a device */
    bool lacks_lines;           /* why it is to run an instruction exclusively */
    uint8_t *code_pages;        /* a bit for each page whose code it may run */
    size_t code_pages_size;
    bool suspended;             /* inside PSCI CPU_SUSPEND, already logged */
    bool turned_on;             /* the work being done does that, and it was logged */
    Registers as_left;          /* by the guest, when the machine was paused */
    bool registers_changed;     /* by somebody else: it makes no more steps that are recorded */
} RecordingVcpu;

/* Which translations it has, recording or replaying: translations.c. */
typedef struct TranslatingVcpu {
    struct RecorderTranslations *made;
    bool flush_due;             /* drop all translations at the next boundary */
    bool dropped;               /* some, since recorder_has_dropped() */
    bool drops_one_page;
    bool drops_user_mode;
    uint64_t user_tables;       /* TTBR0 of which user translations were made */
    vaddr low_page[CHAOS_MOST_LOW_PAGES]; /* user pages with privileged translations */
    unsigned n_low_pages;       /* more than fit: all may be */
} TranslatingVcpu;

/*
 * A vCPU that is recorded or replayed.  It belongs to the vCPU's thread; others
 * touch it only while that is stopped.
 *
 * TCG takes a TB's instructions from icount_decr.u16.low when the TB is entered.
 * We grant instructions there and know how many were taken; steps that are no
 * instructions are added to @base.
 */
typedef struct RecorderVcpu {
    Position base;              /* position when @granted were granted */
    uint32_t granted;
    uint64_t random;            /* a stream of it, see chaos.h */
    Position digest_due;        /* log a digest here, or soon after */
    Position digest_last;       /* none after this */
    uint64_t digest_interval;   /* in steps */
    Registers logged;           /* as of the last digest that was logged */
    uint64_t store_hash;        /* of all device stores */
    LogStream *log;             /* replaying: of the trace, or NULL */
    bool alone;                 /* the only vCPU: all of memory is one line */
    bool fault_counted;         /* the fault that is pending is a step already */
    uintptr_t walk_retaddr;     /* of the access for which page tables are walked */

    /* For people: written by the vCPU's thread, read by others at any time; atomic. */
    uint64_t counters[RECORDER_N_COUNTERS];
    RecorderWait waits;
    uint64_t waited_stream;
    uint64_t waited_steps;
    LogEventKind next_kind;     /* replaying: the next event, or the end, */
    Position next_position;     /* before which it must stop */
    bool finished;              /* replaying: the end was reached, or replay diverged */

    RecordingVcpu record;
    struct ReplayingVcpu *replay;       /* replay/player-internal.h; NULL: it is not replayed */
    TranslatingVcpu translations;
} RecorderVcpu;

static inline void recorder_count(RecorderVcpu *v, RecorderCounterIndex counter)
{
    /* Only its own thread writes it: no atomic addition. */
    qatomic_set(&v->counters[counter], v->counters[counter] + 1);
}

static inline void recorder_waits(RecorderVcpu *v, RecorderWait why)
{
    qatomic_set(&v->waits, why);
}

/* Frees all but the logs. */
void recorder_vcpu_free(RecorderVcpu *v);

static inline Position recorder_position(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    return v->base + (v->granted - cpu->neg.icount_decr.u16.low);
}

/*
 * The position of the instruction that is running, where that is the last of its
 * TB (device accesses are; QEMU sees to that): it is charged already.
 */
static inline Position recorder_position_in_insn(CPUState *cpu)
{
    return recorder_position(cpu) - 1;
}

void recorder_vcpu_attach(CPUState *cpu, RecorderVcpu *v);
RecorderVcpu *recorder_vcpu_detach(CPUState *cpu);
void recorder_grant(CPUState *cpu, Position limit);
void recorder_grant_one(CPUState *cpu);
/* The instruction, whose start is restored: alone in its TB, no boundary before it. */
G_NORETURN void recorder_run_again(CPUState *cpu);

/* Make it come to a boundary before it enters another TB, and see there why.  Any thread. */
static inline void recorder_kick(CPUState *cpu)
{
    qatomic_store_release(&cpu->neg.icount_decr.u16.high, -1);
}

/* Where the vCPUs are, or were a moment ago; zeros if nobody counts. */
void recorder_query_point(Point *point);
/* How far the vCPU may run before something is due. */
Position recorder_limit(CPUState *cpu);
/* Digests to be logged every @interval steps, from position @first to @last. */
void recorder_digest_every(RecorderVcpu *v, uint64_t interval, Position first, Position last);
/* Between two steps: log a digest if it is due. */
void recorder_digest_if_due(CPUState *cpu);
/* DIGEST or END, and the registers; returns their digest. */
uint64_t recorder_log_digest(CPUState *cpu, LogEventKind kind);
uint64_t recorder_register_digest(CPUState *cpu);

/* 64-bit mixing for digests: order matters, every bit counts. */
static inline uint64_t recorder_mix(uint64_t digest, uint64_t value)
{
    digest = (digest ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return digest ^ digest >> 32;
}

#endif
