/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The vCPUs of the small guest while it is recorded, and the world around them.
 */
#ifndef TESTS_VCPU_H
#define TESTS_VCPU_H

#include "protocol/sphere-internal.h"
#include "tests/protocol/model/recording.h"

typedef struct Vcpu {
    Cpu cpu;                    /* first member, since functions of CpuPort cast it to Vcpu */
    Processor *processor;
    Stream *stream;
    Position position;
    uint64_t random;
    unsigned insn;              /* the next instruction */
    unsigned walks;             /* since the vCPU dropped all translations */
    unsigned page;              /* of the latest request */
    uint8_t had[SPHERE_PAGE_LINES];     /* L1 bytes of that page before the request */
    uint32_t write_bits[GUEST_PAGES];   /* lines that came with a write bit since the last step */
    int kicked;                 /* come to a boundary; atomic */
    bool executing;             /* exclusive execution must wait for this vCPU; atomic */
    bool at_boundary;           /* the instruction has ended its block */
    /* Of x86. */
    Vector interrupt;           /* taken from the controller, and not delivered yet */
    bool postponed;             /* its delivery, which breaks a rule */
    unsigned n_interrupts;      /* that the controller has left */
    bool follows_map;           /* the memory map has changed since the vCPU last ran */
    ModeCounts modes;
} Vcpu;

/* Whether a stream rests, as its LogStream has it (recording/log-writer.h). */
typedef struct Rest {
    int lock;                   /* taken to begin and to end a rest, held by who flushes */
    bool rests;
    Position reached;           /* where the processor rests; 0: unknown */
} Rest;

typedef struct World {
    Recording *recording;
    Sphere *sphere;
    Memory memory __attribute__((aligned(64)));
    unsigned n_vcpus;
    Vcpu vcpu[MAX_VCPUS];
    Theme theme;
    unsigned block;             /* the most instructions between two boundaries */
    unsigned few_tries;         /* before exclusive execution */
    bool crowded;               /* vCPUs yield their host cores now and then */
    unsigned drops;             /* one in so many boundaries drops some copy; 0: none */
    unsigned most_walks;        /* after so many walks, all translations are dropped */
    unsigned cuts;              /* a cut before one in so many instructions; 0: none */
    unsigned user;              /* one in so many boundaries enters user mode; 0: none */
    unsigned opens;             /* in user mode, one in so many accesses opens a closed page */
    uint64_t dma_random;
    unsigned n_dma, dma_pauses; /* writes that are left, and pauses between two */
    Position dma_position;
    Rest rest[MAX_PROCESSORS];
    unsigned ticks;             /* one in so many boundaries flushes episodes; 0: none */
    unsigned halts;             /* one in so many rests ends episodes; 0: none */
    bool stops_at_limit;        /* a vCPU has a boundary where an episode must end */
    uint64_t tick_random;
    unsigned tick_pauses;       /* between two flushes by the flusher */
    unsigned n_left;            /* actors that have not ended, but for the flusher; atomic */
    Processor *map_by;          /* which made the latest change of the memory map */
    Position map_position;      /* the one behind that change */
    int big_lock;
    int exclusive;              /* index + 1 of the vCPU that wants or has exclusive execution */
} World;

extern World guest;

/* Run the vCPU @opaque, or devices if that is NULL, or the flusher if that is &guest. */
void actor_main(void *opaque);
/* A lock of the world around the sphere. */
void world_lock(int *lock);
void world_unlock(int *lock);
/* Make a vCPU come to a boundary soon.  Any thread. */
void vcpu_kick(void *vcpu);
void vcpu_published(void *vcpu);
extern const CpuPort vcpu_port;

/* Run, or be SAFE: between two steps.  Log an event, or an arc. */
void vcpu_run(Vcpu *v);
void vcpu_safe(Vcpu *v);
void vcpu_log(Vcpu *v, EventKind kind, uint64_t value);
void vcpu_log_arcs(Vcpu *v);
/* Log a step, and count it. */
void vcpu_log_step(Vcpu *v, Step step);

/* modes.c: vCPUs of x86. */

/* Called before each access, and once more if it misses: @slow. */
void modes_reach(Vcpu *v, uint32_t offset, bool slow);
/* Tell the sphere whether the vCPU is in user mode, at a boundary. */
void modes_tell(Vcpu *v);
/* Take an interrupt from the controller, perhaps, at a boundary: the next step delivers it. */
void modes_interrupt(Vcpu *v);
/* Return what is to be delivered now, or VECTOR_NONE. */
Vector modes_delivers(const Vcpu *v);
/* Called when a delivery was abandoned and has its lines.  Return false if it is not made now. */
bool modes_abandoned(Vcpu *v);
/* Called at the end of the step @insn, before and after the step is logged. */
void modes_end_step(Vcpu *v, const Insn *insn);
void modes_ended_step(Vcpu *v, const Insn *insn);
/* Change the memory map, exclusively; let a vCPU that runs again come after the latest change. */
bool modes_change_map(Cpu *cpu);
void modes_follow_map(Vcpu *v);

/* rests.c: episodes of a stream that rests, or is at a boundary. */
void rest_begin(unsigned stream, Position reached);
void rest_end(unsigned stream);
/* Halt, perhaps: end the episodes of a processor that is about to rest.  Its own thread. */
void rest_halt(unsigned stream, Position position, uint64_t *random);
/* End episodes that are long enough, or flush all.  At a boundary of @stream, its own thread. */
void rest_boundary(unsigned stream, Position position, uint64_t *random);
/* Cut the episodes of all processors, which rest.  @at_end: of the recording; logs no cut. */
void rest_cut_all(bool at_end);
/* Flush streams that rest, until all other actors have ended. */
void flusher_main(void);
void stream_karma_episode(void *stream, const KarmaClosed *closed);
void stream_rerun_episode(void *stream, const RerunClosed *closed);

/*
 * Log write bits for recording_check_order().  Called by the vCPU's thread before it requests lines
 * of a page, when some were granted, and at the end of a step, which could have stored to all lines
 * that came since the last step.
 */
void write_bits_before(Vcpu *vcpu, uint32_t offset);
void write_bits_got(Vcpu *vcpu);
void write_bits_end_step(Vcpu *vcpu);

#endif
