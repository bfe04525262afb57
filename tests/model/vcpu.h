/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The vCPUs of the small guest while it is recorded, and the world around them.
 */
#ifndef TESTS_VCPU_H
#define TESTS_VCPU_H

#include "protocol/sphere-internal.h"
#include "tests/model/recording.h"

typedef struct Vcpu {
    Cpu cpu;                    /* first: ports get this */
    Processor *processor;
    Stream *stream;
    Position position;
    uint64_t random;
    unsigned insn;              /* the next one */
    unsigned walks;             /* since it dropped all translations */
    unsigned page;              /* of which it asks for something, */
    uint8_t had[SPHERE_PAGE_LINES];     /* and its L1 bytes of that page before */
    uint32_t write_bits[GUEST_PAGES];   /* of lines that it got since the latest step */
    int kicked;
    bool executing;             /* exclusive execution must wait for it */
} Vcpu;

typedef struct World {
    Recording *recording;
    Sphere *sphere;
    Memory memory __attribute__((aligned(64)));
    unsigned n_vcpus;
    Vcpu vcpu[MAX_VCPUS];
    Theme theme;
    unsigned block;             /* so many instructions at most lie between two boundaries */
    unsigned few_tries;         /* before exclusive execution */
    bool crowded;               /* give way to others now and then */
    unsigned drops;             /* one in so many boundaries drops some copy; 0: none */
    unsigned most_walks;        /* after which all translations go */
    unsigned cuts;              /* one in so many boundaries is a cut; 0: none */
    unsigned user;              /* one in so many boundaries leads to user mode; 0: none */
    unsigned opens;             /* one in so many closed pages that it meets there is opened */
    uint64_t dma_random;
    unsigned n_dma, dma_pauses;
    Position dma_position;
    int big_lock;
    int exclusive;              /* index + 1 of the vCPU that wants it or has it */
} World;

extern World guest;

/* What each of them does, or devices: @opaque is NULL. */
void actor_main(void *opaque);
void vcpu_kick(void *vcpu);
extern const CpuPort vcpu_port;

/*
 * Write bits, for recording_check_order(): a vCPU is about to ask for lines of a page, was
 * granted some, and ends a step that could have stored to all that it got since the one before.
 */
void write_bits_before(Vcpu *vcpu, uint32_t offset);
void write_bits_got(Vcpu *vcpu);
void write_bits_end_step(Vcpu *vcpu);

#endif
