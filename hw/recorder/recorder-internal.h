/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files that know QEMU share.
 */
#ifndef RECORDER_INTERNAL_H
#define RECORDER_INTERNAL_H

#include "hw/core/cpu.h"
#include "qemu/thread.h"

#include "protocol/chaos.h"
#include "protocol/sphere.h"
#include "recording/log-reader.h"
#include "recording/log-writer.h"
#include "recording/manifest.h"
#include "recording/position.h"
#include "recording/ram-image.h"
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
    Registers logged;           /* as of the last digest that was logged, */
    Registers expected;         /* or read */
    uint64_t store_hash;        /* of all device stores */

    /* For people: written by the vCPU's thread, read by others at any time; atomic. */
    uint64_t counters[RECORDER_N_COUNTERS];
    RecorderWait waits;
    uint64_t waited_stream;
    uint64_t waited_steps;
    LogEventKind next_kind;
    Position next_position;

    LogStream *log;             /* recording; replaying: of the trace, or NULL */
    Processor *processor;       /* in the sphere */
    bool running;               /* as the sphere has it, but for a grant that wakes it; atomic */
    bool alone;                 /* the only vCPU: all of memory is one line */
    bool event;                 /* for WFE */
    bool asked;                 /* for a line: wait for it at the boundary */
    bool acquired;              /* lines, by the latest recorder_access() */
    unsigned tries;             /* of the instruction @tried, which were abandoned */
    uint64_t tried;
    Position device_at;         /* the instruction there accessed a device */
    bool fault_counted;         /* the fault that is pending is a step already */
    bool lacks_lines;           /* why it is to run an instruction exclusively */
    uintptr_t walk_retaddr;     /* of the access for which page tables are walked */
    uint8_t *code_pages;        /* a bit for each page whose code it may run */
    size_t code_pages_size;

    LogReader *order;           /* replaying */
    LogReader *data;
    LogEvent read;              /* the next event of the order log, */
    LogEvent next;              /* or the end of the replay before it: where to stop */
    LogEvent next_input;        /* of the data log */
    Position same_at;           /* the last digest that was as recorded */
    Position cut;               /* recording/cut.h: where a log that is cut off ends */
    bool finished;              /* atomic: the end was reached, or replay diverged */
    Position check_due;         /* by paranoid.c, here or soon after */

    struct RecorderTranslations *tables;
    bool flush_due;             /* drop all translations at the next boundary */
    bool dropped;               /* some, since recorder_has_dropped() */
    bool drops_one_page;
    bool drops_user_mode;
    uint64_t user_tables;       /* TTBR0 of which user translations were made */
    vaddr low_page[CHAOS_MOST_LOW_PAGES]; /* user pages with privileged translations */
    unsigned n_low_pages;       /* more than fit: all may be */
    bool suspended;             /* inside PSCI CPU_SUSPEND, already logged */
    bool turned_on;             /* the work being done does that, and it was logged */
    Registers as_left;          /* by the guest, when the machine was paused */
    bool registers_changed;     /* by somebody else: it makes no more steps that are recorded */
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

/* vcpu.c */
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

/* How far the vCPU may run before something is due. */
Position recorder_limit(CPUState *cpu);
/* Digests to be logged every @interval steps, from position @first to @last. */
void recorder_digest_every(RecorderVcpu *v, uint64_t interval, Position first, Position last);
/* Between two steps: log a digest if it is due. */
void recorder_digest_if_due(CPUState *cpu);
/* DIGEST or END, and the registers; returns their digest. */
uint64_t recorder_log_digest(CPUState *cpu, LogEventKind kind);
uint64_t recorder_register_digest(CPUState *cpu);

/* chaos-vcpu.c: between two steps, recording or replaying: what may happen there at any time. */
void recorder_chaos_slow(CPUState *cpu);
/* The vCPU sleeps for a moment, perhaps. */
void recorder_nap_slow(RecorderVcpu *v);
/* tlb.c: forget translations, as if others had taken their place: a random one, or an MMU index. */
void recorder_evict(CPUState *cpu, bool all);

static inline void recorder_chaos(CPUState *cpu)
{
    if (unlikely(chaos.seed)) {
        recorder_chaos_slow(cpu);
    }
}

static inline void recorder_nap(RecorderVcpu *v)
{
    if (unlikely(chaos.nap)) {
        recorder_nap_slow(v);
    }
}

/* translations.c: which translations a vCPU has, made from which pages of main RAM. */
void recorder_translations_start(void);
struct RecorderTranslations *recorder_translations_new(void);
void recorder_translations_free(struct RecorderTranslations *tables);
/* Between two steps: drop them all, if that is due. */
void recorder_drop_translations(CPUState *cpu);
void recorder_translations_written(CPUState *cpu, uint64_t offset, uint64_t size);
/* Run this instruction again, alone in its TB, unless it is the last already. */
void recorder_be_last_in_tb(CPUState *cpu, uintptr_t retaddr);
/* The translation of one page, or all. */
void recorder_drop(CPUState *cpu, vaddr page);

/* player.c: how far a vCPU may run before an event is due, or somebody waits for it. */
Position player_limit(CPUState *cpu);
/* The next input of this vCPU, which must be of this kind, and of the step at @position. */
bool player_take(CPUState *cpu, Position position, LogEventKind kind, uint64_t *value);
/* The same, if it is an input of that step at all. */
bool player_take_if_due(CPUState *cpu, Position position, LogEventKind kind, uint64_t *value);
/* The next event of the order log in words, to be freed. */
char *player_due(const RecorderVcpu *v);
/* May it go on to @position, behind the end, since nobody can stop before that? */
bool player_may_pass(const RecorderVcpu *v, Position position);
/* The one place that reports a divergence; replay stops. */
void player_diverged(CPUState *cpu, Position position, const char *format, ...)
    G_GNUC_PRINTF(3, 4);
void player_console_store(CPUState *cpu, hwaddr address, uint64_t value);

/* dma.c */
void recorder_dma_start(LogStream *log, Processor *processor);
/* The mode has changed. */
void recorder_dma_renew_rings(void);
uint64_t recorder_dma_steps(void);
/* No device writes memory in between. */
void recorder_dma_hold(void);
void recorder_dma_release(void);
uint64_t recorder_dma_arcs(void);

/*
 * machine-state.c: the state of a stopped machine, in its own directory.  It is valid
 * once its RAM is closed (ram_image_close()), for which the machine need not stand
 * still.
 */
RamImageWriter *machine_state_save(const char *directory, Error **errp);
/* What has changed since the last one that was saved, and how much that is. */
RamImageWriter *machine_state_save_changes(const char *directory, uint64_t *bytes, Error **errp);
/* Main memory was written by other means than a vCPU's store. */
void machine_state_written(uint64_t offset, uint64_t size);
/* Checkpoint @number of @names, which are directories of @recording. */
bool machine_state_load(const char *recording, char *const *names, unsigned number, Error **errp);
/* Where main memory is, guest-physical. */
uint64_t machine_state_ram_address(void);
/* Write main memory as a device would; false if there is none at @offset. */
bool machine_state_write_ram(uint64_t offset, const void *bytes, size_t n);
/* Digest of all guest RAM; to be freed. */
char *machine_state_ram_digest(void);
/* Which pages were written since this was last asked, as uint32_t, ascending. */
GArray *machine_state_take_changes(void);
const uint8_t *machine_state_ram(uint64_t *size);
/* The registers of all vCPUs, to be loaded in the same process. */
GByteArray *machine_state_save_registers(void);
void machine_state_load_registers(const GByteArray *registers);

/* checkpointer.c: those that are made while recording, after the first. */
void recorder_checkpointer_start(const char *directory, int directory_fd, Manifest *manifest,
                                 LogWriter *writer, double interval_s, double keep_s);
/* Waits until the last one is on disk. */
void recorder_checkpointer_stop(void);

/*
 * blocker.c: from now on nobody else uses the dirty bits of memory or loads a state.  False if
 * somebody does so right now.
 */
bool recorder_block_others(bool replaying, Error **errp);
/* It may be that nothing was blocked. */
void recorder_unblock_others(void);

/* trigger.c: what ends the recording of a flight recorder. */
void recorder_trigger_set(hwaddr console);
void recorder_trigger_clear(void);
/* Has the guest said so?  Then the recording is about to end. */
bool recorder_trigger_panicked(void);
/* A vCPU stores to a device. */
void recorder_trigger_console(hwaddr address, uint64_t value);

/* paused.c: the guest is paused, or goes on. */
void recorder_paused(void);
void recorder_goes_on(void);
/* True if somebody has changed registers meanwhile, so that the recording is about to end. */
bool recorder_check_registers(void);
/* Work that was queued for @cpu has changed them.  In its thread. */
void recorder_work_changed(CPUState *cpu, const Registers *before);

/* session.c */
void recorder_fail(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* Why the recording is about to end; NULL: it is not.  Main thread. */
const char *recorder_failure(void);

/* recorder-status.c: SIGUSR1 shows what goes on, from now on or no more. */
void recorder_listen_to_signal(bool listen);
/* What it asked others for, in words, to be freed; NULL: nothing. */
char *recorder_waits_for_line(const Processor *p);

/* target-arm.c, or its stand-in for targets that cannot be recorded. */
void recorder_registers(CPUState *cpu, Registers *registers);
void recorder_deliver(CPUState *cpu, int exception, int level);
/* Can it reach no more than user mode does, until an exception is delivered? */
bool recorder_in_user_mode(CPUState *cpu);
/* If the running instruction has several stores, all in one line, one of which this is: all. */
void recorder_widen_store(CPUState *cpu, uint64_t *offset, unsigned *size);
/* Are translations of this kind never used in user mode, nor for walks? */
bool recorder_is_kernel_only(int mmu_idx);
/* Make what is derived from registers depend on these alone, as when they are loaded. */
void recorder_forget_past(CPUState *cpu);
/* Where the running instruction is, of which @retaddr is the host's return address; or 0. */
vaddr recorder_pc(CPUState *cpu, uintptr_t retaddr);
/*
 * What a walk of memory for an @access to @address would find now: in @found, or NULL and why it
 * faults.  It leaves no trace.  For user mode it is that of the tables which user mode used last.
 */
const char *recorder_walk_untraced(CPUState *cpu, vaddr address, int mmu_idx, MMUAccessType access,
                                   CPUTLBEntryFull *found);
/* Is @address one of user mode, of tables that are not known? */
bool recorder_may_be_stale(CPUState *cpu, int mmu_idx, vaddr address);
/* The mmu index with which the instructions of a block are fetched. */
int recorder_block_mmu_idx(const TranslationBlock *tb);
/* Firmware turns the vCPU on, when it next leaves cpu_exec(). */
void recorder_turn_on(CPUState *cpu, uint64_t entry, uint64_t context, int level);
/* Why this vCPU cannot be recorded, alone or with others like it; NULL if it can. */
char *recorder_cpu_objection(CPUState *cpu, bool several);
/* Its model and properties, as -cpu wants them, for another one just like it. */
char *recorder_cpu_description(CPUState *cpu);

/* 64-bit mixing for digests: order matters, every bit counts. */
static inline uint64_t recorder_mix(uint64_t digest, uint64_t value)
{
    digest = (digest ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return digest ^ digest >> 32;
}

#endif
