/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A small guest that does everything the sphere must order: loads and stores to shared lines, of
 * one line and of several, atomics, a two-level page table in memory whose translations are cached,
 * code in memory of which copies are kept, stores to both, faults, flushes, device accesses, DMA.
 * Some guests are as those of x86 (x86-programs.c): they have modes, deliveries of interrupts and
 * exceptions touch memory, and their memory map changes.
 *
 * One interpreter serves recording and replay.  It makes one access per call, so that other vCPUs
 * may run between any two.  Recording asks for permission before each access.
 */
#ifndef TESTS_GUEST_H
#define TESTS_GUEST_H

#include <glib.h>

#include "protocol/sphere.h"
#include "tests/protocol/model/random.h"

#define MAX_VCPUS 5
#define GUEST_PAGES 5
#define GUEST_SIZE (GUEST_PAGES << SPHERE_PAGE_SHIFT)
#define GUEST_WORDS (GUEST_SIZE / 8)
/* The memory map, a word that is in no line. */
#define GUEST_MAP GUEST_SIZE
#define GUEST_ALL_WORDS (GUEST_WORDS + 1)
#define GUEST_VIRTUAL 8         /* addresses that can be translated */
#define GUEST_CODE 6            /* words of code */
#define GUEST_MAX_OPS 12
#define GUEST_MAX_STORES 4      /* of one instruction, in one line */
#define GUEST_MAX_KINDS 24
#define GUEST_NOWHERE UINT32_MAX
#define GUEST_USED_LINES 24     /* of each page; the others are never accessed */
#define GUEST_LINE_WORDS (1 << (SPHERE_LINE_SHIFT - 3))

typedef enum OpKind {
    OP_FETCH,                   /* @at: number of the code word */
    OP_WALK_ROOT,               /* @at: virtual address */
    OP_WALK_LEAF,
    OP_LOAD,                    /* @at: offset; virtual: in the translated line */
    OP_PROBE,                   /* get permission for all later stores of the instruction */
    OP_ALONE,                   /* run exclusively unless all probed lines have write bits */
    OP_OWN,                     /* get permission for one store */
    OP_STORE,
    OP_FLUSH,
    OP_DEVICE,
    OP_MAP,                     /* change the memory map */
    OP_NONE,
} OpKind;

typedef struct Op {
    OpKind kind;
    bool virtual;
    bool kernel;                /* an access of the kernel's, also in user mode */
    uint32_t at;
    uint8_t size, all_size;     /* bytes that are accessed; bytes to request if these miss */
} Op;

/* What a step does to the mode of the vCPU, unless it faults. */
typedef enum Effect {
    EFFECT_NONE,
    EFFECT_DELIVER,             /* the step is a delivery: enter the kernel, masked */
    EFFECT_ENTER,               /* enter the kernel */
    EFFECT_RETURN,              /* go to user mode, unmasked */
    EFFECT_MASK,
    EFFECT_UNMASK,
} Effect;

typedef struct Insn {
    unsigned n;
    Op op[GUEST_MAX_OPS];
    uint64_t salt;              /* makes the values that the instruction stores differ */
    Effect effect;
} Insn;

/* What is delivered.  Each guest of x86 has one delivery for each vector. */
typedef enum Vector {
    VECTOR_NONE,
    VECTOR_FAULT,               /* of an instruction */
    VECTOR_DOUBLE,              /* of a delivery */
    VECTOR_INTERRUPT,           /* the first of several */
    VECTORS = VECTOR_INTERRUPT + 3
} Vector;

/* The pattern of all programs of a guest: a few words that many vCPUs use and change. */
typedef enum Theme {
    THEME_ANY,                  /* no pattern */
    THEME_LEFT,                 /* vCPUs drop all translations; unseen stores follow */
    THEME_OFFERED,              /* a line is offered between two stores */
    THEME_CODE,                 /* a page is read, and written by DMA, as a whole */
    THEMES
} Theme;

/* How often each kind of instruction occurs. */
typedef struct Mix {
    unsigned weight[GUEST_MAX_KINDS], sum;
    unsigned fetches;           /* so many of 4 instructions fetch code */
    unsigned first, virtuals;   /* first virtual address that is used, and how many are */
    bool roots;                 /* only the first level of tables changes */
} Mix;

/* What an access saw: the version of the word; for a write, the version that it made. */
typedef struct Seen {
    uint32_t word, version;
    bool write;
} Seen;

typedef struct Memory {
    uint64_t word[GUEST_ALL_WORDS];
    uint32_t version[GUEST_ALL_WORDS];
} Memory;

typedef struct Cpu Cpu;

typedef struct Range {
    uint32_t offset;
    unsigned size;
} Range;

/* What recording adds.  A function that returns false makes the interpreter abandon the step. */
typedef struct CpuPort {
    bool (*may_read)(Cpu *cpu, Range range);
    /* Get permission for @range; if that misses, request @all. */
    bool (*may_write)(Cpu *cpu, Range range, Range all);
    /* Return true if a store there needs no permission: write bit, or exclusive execution. */
    bool (*unseen)(Cpu *cpu, Range range);
    bool (*enter_table)(Cpu *cpu, uint32_t offset);
    bool (*enter_code)(Cpu *cpu, uint32_t offset);
    void (*flushed)(Cpu *cpu);
    void (*device)(Cpu *cpu);
    /* Prepare for a change of the memory map.  Return false unless execution is exclusive. */
    bool (*change_map)(Cpu *cpu);
} CpuPort;

struct Cpu {
    Memory *memory;
    const CpuPort *port;        /* NULL: replay, everything is allowed */
    uint64_t state;             /* the registers: a hash of all that the vCPU has seen */
    bool has_modes;             /* it is as a vCPU of x86 */
    bool sees_map;              /* each step depends on the memory map */
    bool user, masked;          /* registers: user mode; no interrupts */
    Vector pending;             /* the exception that the next step delivers */
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
    /* Of the current try. */
    unsigned next;              /* index of the next op */
    uint64_t value;
    uint32_t line, leaf;
    uint32_t root_version;
    bool fault;
    bool by_helper;             /* the access is not made by generated code */
    unsigned n_stores;
    /* Stores to these lines take the slow path, which drops the vCPU's own copies. */
    unsigned n_slow;
    uint32_t slow[2 * GUEST_MAX_OPS];
    unsigned n_seen;
    Seen seen[4 * GUEST_MAX_OPS];
};

typedef enum OpResult {
    OP_GO_ON,
    OP_ABANDON,                 /* the access is not allowed yet */
    OP_NOT_ALONE,               /* the step must run under exclusive execution */
    OP_END,                     /* the step has ended */
} OpResult;

/* Draw a mix; draw a program of @n instructions from a mix. */
void guest_mix(Mix *mix, uint64_t *random);
void guest_program(Insn *insns, unsigned n, const Mix *mix, uint64_t *random);
/* Draw the program of vCPU @player in a theme, in which each vCPU has its own part. */
void guest_play(Insn *insns, unsigned n, Theme theme, unsigned player, uint64_t *random);
/*
 * Draw the deliveries of a guest of x86, and give a program instructions of x86.  A @calm guest
 * spends some time in user mode.
 */
void guest_deliveries(Insn delivery[VECTORS], bool calm, uint64_t *random);
void guest_use_modes(Insn *insns, unsigned n, bool maps, bool calm, uint64_t *random);
/* Draw the memory at the start. */
void guest_memory(Memory *memory, uint64_t *random);
/* Draw a range for DMA to write: tables, code or data, up to a whole page. */
void guest_dma_range(Theme theme, uint64_t *random, uint32_t *offset, unsigned *size);

/* Begin a try of an instruction, and forget the last one. */
void cpu_restart(Cpu *cpu);
/* Make one access of the step.  After OP_END, @cpu->seen is valid until cpu_restart(). */
OpResult cpu_op(Cpu *cpu, const Insn *insn);
/* Drop copies of a word, of all translations, of all code, at random: allowed at any time. */
void cpu_drop_word(Cpu *cpu, uint32_t offset);
void cpu_drop_translations(Cpu *cpu);
void cpu_drop_code(Cpu *cpu);
void cpu_drop_something(Cpu *cpu, uint64_t *random);
/* Make the translation that @insn will need already, unless the walk faults. */
void cpu_walk_ahead(Cpu *cpu, const Insn *insn);

/* Read or write a word.  *@version, or the result, is the version that was read or made. */
uint64_t memory_read(Memory *memory, uint32_t offset, uint32_t *version);
uint32_t memory_write(Memory *memory, uint32_t offset, uint64_t value);
/* Return the value that step @n of DMA stores at @offset. */
uint64_t guest_dma_value(unsigned n, uint32_t offset);

#endif
