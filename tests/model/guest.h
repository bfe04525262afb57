/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest as small as can be that does everything the sphere must order: loads and
 * stores to shared lines, of one line and of several, atomics, a two-level page
 * table in memory whose translations are cached, code in memory of which copies are
 * kept, stores to both, faults, flushes, device accesses, DMA.
 *
 * One interpreter serves recording and replay.  It makes one access at a time, so
 * that others may come between any two; recording asks for permission before each.
 */
#ifndef TESTS_GUEST_H
#define TESTS_GUEST_H

#include <glib.h>

#include "protocol/sphere.h"
#include "tests/model/random.h"

#define MAX_VCPUS 5
#define GUEST_PAGES 5
#define GUEST_SIZE (GUEST_PAGES << SPHERE_PAGE_SHIFT)
#define GUEST_WORDS (GUEST_SIZE / 8)
#define GUEST_VIRTUAL 8         /* addresses that can be translated */
#define GUEST_CODE 6            /* words of code */
#define GUEST_MAX_OPS 12
#define GUEST_MAX_STORES 4      /* of one instruction, in one line */
#define GUEST_MAX_KINDS 24
#define GUEST_NOWHERE UINT32_MAX
#define GUEST_USED_LINES 24     /* of each page; nobody uses others */
#define GUEST_LINE_WORDS (1 << (SPHERE_LINE_SHIFT - 3))

typedef enum OpKind {
    OP_FETCH,                   /* @at: number of the code word */
    OP_WALK_ROOT,               /* @at: virtual address */
    OP_WALK_LEAF,
    OP_LOAD,                    /* @at: offset; virtual: in the translated line */
    OP_PROBE,                   /* get permission to store, now and for all stores to come */
    OP_ALONE,                   /* nobody else may run unless what was probed has write bits */
    OP_OWN,                     /* get permission for one store */
    OP_STORE,
    OP_FLUSH,
    OP_DEVICE,
} OpKind;

typedef struct Op {
    OpKind kind;
    bool virtual;
    uint32_t at;
    /* How many bytes to have, and how many to ask for if these miss. */
    uint8_t size, all_size;
} Op;

typedef struct Insn {
    unsigned n;
    Op op[GUEST_MAX_OPS];
    uint64_t salt;              /* of what it stores */
} Insn;

/* What all programs of a guest are about: few words that many use and change. */
typedef enum Theme {
    THEME_ANY,
    THEME_LEFT,                 /* T, and stores that nobody sees then */
    THEME_GIVEN_BACK,           /* a line that is given back between two stores */
    THEME_CODE,                 /* a page that is read, and written by DMA, as a whole */
    THEMES
} Theme;

/* How often which kind of instruction occurs. */
typedef struct Mix {
    unsigned weight[GUEST_MAX_KINDS], sum;
    unsigned fetches;           /* of 4 instructions */
    unsigned first, virtuals;   /* addresses that are translated */
    bool roots;                 /* only the first level of tables changes */
} Mix;

/* What an access saw: the word's version, a write's being the one it made. */
typedef struct Seen {
    uint32_t word, version;
    bool write;
} Seen;

typedef struct Memory {
    uint64_t word[GUEST_WORDS];
    uint32_t version[GUEST_WORDS];
} Memory;

typedef struct Cpu Cpu;

typedef struct Range {
    uint32_t offset;
    unsigned size;
} Range;

/* What recording adds; false: abandon the step. */
typedef struct CpuPort {
    bool (*may_read)(Cpu *cpu, Range range);
    /* To @range, or if that misses, to @all. */
    bool (*may_write)(Cpu *cpu, Range range, Range all);
    /* Needs no permission to store there any more? */
    bool (*unseen)(Cpu *cpu, uint32_t offset);
    bool (*enter_table)(Cpu *cpu, uint32_t offset);
    bool (*enter_code)(Cpu *cpu, uint32_t offset);
    void (*flushed)(Cpu *cpu);
    void (*device)(Cpu *cpu);
} CpuPort;

struct Cpu {
    Memory *memory;
    const CpuPort *port;        /* NULL: everything is allowed */
    uint64_t state;             /* its registers: a hash of all it has seen */
    struct {
        bool valid;
        uint32_t line;
        uint32_t word[2], version[2];
    } tlb[GUEST_VIRTUAL];
    struct {
        bool valid;
        uint64_t value;
        uint32_t version;
    } code[GUEST_CODE];
    /* Of the present try. */
    unsigned next;              /* op */
    uint64_t value;
    uint32_t line, leaf;
    uint32_t root_version;
    bool fault;
    unsigned n_stores;
    /* Stores to these lines go the slow way, where copies are thought of. */
    unsigned n_slow;
    uint32_t slow[2 * GUEST_MAX_OPS];
    unsigned n_seen;
    Seen seen[4 * GUEST_MAX_OPS];
};

typedef enum OpResult {
    OP_GO_ON,
    OP_ABANDON,                 /* not allowed yet */
    OP_NOT_ALONE,               /* only under exclusive execution */
    OP_END,                     /* the step has ended */
} OpResult;

void guest_mix(Mix *mix, uint64_t *random);
void guest_program(Insn *insns, unsigned n, const Mix *mix, uint64_t *random);
/* One of those who play together, one for each vCPU. */
void guest_play(Insn *insns, unsigned n, Theme theme, unsigned player, uint64_t *random);
void guest_memory(Memory *memory, uint64_t *random);
/* A range that DMA may write; about anything. */
void guest_dma_range(Theme theme, uint64_t *random, uint32_t *offset, unsigned *size);

/* Forget the try. */
void cpu_restart(Cpu *cpu);
/* One access of the step; OP_END leaves @seen for the caller until cpu_restart(). */
OpResult cpu_op(Cpu *cpu, const Insn *insn);
/* Copies may go at any time. */
void cpu_drop_word(Cpu *cpu, uint32_t offset);
void cpu_drop_translations(Cpu *cpu);
void cpu_drop_code(Cpu *cpu);
void cpu_drop_something(Cpu *cpu, uint64_t *random);
/* Walk now, if that works, though nothing needs it. */
void cpu_walk_ahead(Cpu *cpu, const Insn *insn);

uint64_t memory_read(Memory *memory, uint32_t offset, uint32_t *version);
uint32_t memory_write(Memory *memory, uint32_t offset, uint64_t value);
/* What DMA's step @n stores at @offset. */
uint64_t guest_dma_value(unsigned n, uint32_t offset);

#endif
