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
} Vcpu;

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
    int big_lock;
    int exclusive;              /* index + 1 of the vCPU that wants or has exclusive execution */
} World;

extern World guest;

/* Run the vCPU @opaque, or devices if that is NULL, to their end. */
void actor_main(void *opaque);
/* Make a vCPU come to a boundary soon.  Any thread. */
void vcpu_kick(void *vcpu);
void vcpu_published(void *vcpu);
extern const CpuPort vcpu_port;

/*
 * Log write bits for recording_check_order().  Called by the vCPU's thread before it requests lines
 * of a page, when some were granted, and at the end of a step, which could have stored to all lines
 * that came since the last step.
 */
void write_bits_before(Vcpu *vcpu, uint32_t offset);
void write_bits_got(Vcpu *vcpu);
void write_bits_end_step(Vcpu *vcpu);

#endif
