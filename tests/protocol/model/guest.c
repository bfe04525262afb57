/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The small guest: its memory, the copies that its vCPUs keep, its interpreter.
 */
#include <string.h>

#include "tests/protocol/model/broken-rule.h"
#include "tests/protocol/model/places.h"

/* --- memory --------------------------------------------------------------------- */

void guest_memory(Memory *memory, uint64_t *random)
{
    memset(memory, 0, sizeof(*memory));
    for (unsigned i = 0; i < GUEST_WORDS; i++) {
        memory->word[i] = guest_sanitize(i * 8, random_next(random));
    }
}

uint64_t memory_read(Memory *memory, uint32_t offset, uint32_t *version)
{
    *version = __atomic_load_n(&memory->version[offset / 8], __ATOMIC_RELAXED);
    return __atomic_load_n(&memory->word[offset / 8], __ATOMIC_RELAXED);
}

uint32_t memory_write(Memory *memory, uint32_t offset, uint64_t value)
{
    uint32_t version = __atomic_load_n(&memory->version[offset / 8], __ATOMIC_RELAXED) + 1;

    __atomic_store_n(&memory->word[offset / 8], value, __ATOMIC_RELAXED);
    __atomic_store_n(&memory->version[offset / 8], version, __ATOMIC_RELAXED);
    return version;
}

/* --- copies --------------------------------------------------------------------- */

void cpu_drop_word(Cpu *cpu, uint32_t offset)
{
    for (unsigned i = 0; i < GUEST_VIRTUAL; i++) {
        if (cpu->tlb[i].word[0] == offset / 8 || cpu->tlb[i].word[1] == offset / 8) {
            cpu->tlb[i].valid = false;
        }
    }
}

void cpu_drop_translations(Cpu *cpu)
{
    memset(cpu->tlb, 0, sizeof(cpu->tlb));
}

void cpu_drop_code(Cpu *cpu)
{
    memset(cpu->code, 0, sizeof(cpu->code));
}

void cpu_drop_something(Cpu *cpu, uint64_t *random)
{
    switch (random_below(random, 8)) {
    case 0 ... 4:
        cpu->tlb[random_below(random, GUEST_VIRTUAL)].valid = false;
        break;
    case 5:
        cpu_drop_translations(cpu);
        break;
    default:
        cpu->code[random_below(random, GUEST_CODE)].valid = false;
    }
}

void cpu_walk_ahead(Cpu *cpu, const Insn *insn)
{
    for (unsigned i = 0; i < insn->n; i++) {
        unsigned v = insn->op[i].at;

        if (insn->op[i].kind == OP_WALK_ROOT && !cpu->tlb[v].valid) {
            uint32_t version[2];
            uint64_t root = memory_read(cpu->memory, guest_root_offset(v), &version[0]);
            uint32_t at = guest_leaf_offset(root, v);
            uint64_t leaf = memory_read(cpu->memory, at, &version[1]);

            if (root && leaf) {
                cpu->tlb[v].valid = true;
                cpu->tlb[v].line = guest_line_offset(leaf);
                cpu->tlb[v].word[0] = guest_root_offset(v) / 8;
                cpu->tlb[v].word[1] = at / 8;
            }
        }
    }
}

/* --- the interpreter -------------------------------------------------------------- */

void cpu_restart(Cpu *cpu)
{
    cpu->next = 0;
    cpu->value = 0;
    cpu->fault = false;
    cpu->n_stores = 0;
    cpu->line = cpu->leaf = GUEST_NOWHERE;
    cpu->n_seen = 0;
    cpu->n_slow = 0;
}

static void saw(Cpu *cpu, uint32_t offset, uint32_t version, bool write)
{
    g_assert(cpu->n_seen < G_N_ELEMENTS(cpu->seen));
    cpu->seen[cpu->n_seen++] = (Seen){ offset / 8, version, write };
}

static uint64_t load(Cpu *cpu, uint32_t offset)
{
    uint32_t version;
    uint64_t value = memory_read(cpu->memory, offset, &version);

    saw(cpu, offset, version, false);
    return value;
}

static bool is_slow(const Cpu *cpu, uint32_t offset)
{
    for (unsigned i = 0; i < cpu->n_slow; i++) {
        if (cpu->slow[i] == offset >> SPHERE_LINE_SHIFT) {
            return true;
        }
    }
    return !cpu->port;
}

static void store(Cpu *cpu, uint32_t offset, uint64_t value)
{
    cpu->n_stores++;
    saw(cpu, offset, memory_write(cpu->memory, offset, guest_sanitize(offset, value)), true);
    if (!is_slow(cpu, offset)) {
        return;
    }
    /* The vCPU's own copies. */
    cpu_drop_word(cpu, offset);
    for (unsigned i = 0; i < GUEST_CODE; i++) {
        if (guest_code_offset(i) == offset) {
            cpu->code[i].valid = false;
        }
    }
}

static void take_value(Cpu *cpu, uint64_t value)
{
    cpu->value = random_mix(cpu->value + value + 1);
}

/* An exception is pending until it is delivered.  A delivery that faults raises another one. */
static void change_mode(Cpu *cpu, Effect effect)
{
    if (cpu->fault) {
        cpu->pending = effect == EFFECT_DELIVER ? VECTOR_DOUBLE : VECTOR_FAULT;
        return;
    }
    switch (effect) {
    case EFFECT_NONE:
        break;
    case EFFECT_DELIVER:
        cpu->pending = VECTOR_NONE;
        cpu->user = false;
        cpu->masked = true;
        break;
    case EFFECT_ENTER:
        cpu->user = false;
        break;
    case EFFECT_RETURN:
        cpu->user = true;
        cpu->masked = false;
        break;
    case EFFECT_MASK:
    case EFFECT_UNMASK:
        cpu->masked = effect == EFFECT_MASK;
        break;
    }
}

/* Registers change here, behind all accesses: a step that is abandoned leaves no trace in them. */
static OpResult end(Cpu *cpu, const Insn *insn)
{
    if (cpu->has_modes) {
        change_mode(cpu, insn->effect);
    }
    cpu->state = random_mix(cpu->state * 3 + cpu->value + cpu->fault + 2 * cpu->user +
                            4 * cpu->masked);
    return OP_END;
}

/* Return true if user mode must not do that: the instruction faults, before its first store. */
static bool is_forbidden(const Cpu *cpu, const Insn *insn, const Op *op, uint32_t at)
{
    if (!cpu->user || op->kernel) {
        return false;
    }
    switch (op->kind) {
    case OP_LOAD:
    case OP_PROBE:
    case OP_OWN:
        return insn->effect >= EFFECT_RETURN || at >> SPHERE_PAGE_SHIFT != USER_PAGE;
    case OP_DEVICE:
    case OP_MAP:
        return true;
    default:
        return insn->effect >= EFFECT_RETURN;
    }
}

static void begin(Cpu *cpu, const Insn *insn)
{
    if (cpu->sees_map) {
        take_value(cpu, load(cpu, GUEST_MAP));
    }
    if (insn->effect == EFFECT_DELIVER && !RULE(REGISTERS_LAST)) {
        cpu->state = random_mix(cpu->state + 1);
    }
}

static bool fetch(Cpu *cpu, unsigned i)
{
    uint32_t offset = guest_code_offset(i);

    if (!cpu->code[i].valid) {
        if (cpu->port && !cpu->port->enter_code(cpu, offset)) {
            return false;
        }
        cpu->code[i].value = memory_read(cpu->memory, offset, &cpu->code[i].version);
        cpu->code[i].valid = true;
    }
    saw(cpu, offset, cpu->code[i].version, false);
    take_value(cpu, cpu->code[i].value);
    return true;
}

/* Return true if the table word may be read, and a translation made from it may be kept. */
static bool may_walk(Cpu *cpu, uint32_t offset)
{
    return !cpu->port || (cpu->port->may_read(cpu, (Range){ offset, 8 }) &&
                          cpu->port->enter_table(cpu, offset));
}

static bool walk_root(Cpu *cpu, unsigned v)
{
    uint64_t root;

    if (cpu->tlb[v].valid) {
        cpu->line = cpu->tlb[v].line;
        saw(cpu, cpu->tlb[v].word[0] * 8, cpu->tlb[v].version[0], false);
        saw(cpu, cpu->tlb[v].word[1] * 8, cpu->tlb[v].version[1], false);
        return true;
    }
    if (!may_walk(cpu, guest_root_offset(v))) {
        return false;
    }
    root = load(cpu, guest_root_offset(v));
    cpu->root_version = cpu->seen[cpu->n_seen - 1].version;
    cpu->fault = root == 0;
    cpu->leaf = guest_leaf_offset(root, v);
    return true;
}

static bool walk_leaf(Cpu *cpu, unsigned v)
{
    uint64_t leaf;

    if (cpu->line != GUEST_NOWHERE) {
        return true;
    }
    if (!may_walk(cpu, cpu->leaf)) {
        return false;
    }
    leaf = load(cpu, cpu->leaf);
    cpu->fault = leaf == 0;
    if (leaf) {
        cpu->line = guest_line_offset(leaf);
        cpu->tlb[v].valid = true;
        cpu->tlb[v].line = cpu->line;
        cpu->tlb[v].word[0] = guest_root_offset(v) / 8;
        cpu->tlb[v].word[1] = cpu->leaf / 8;
        cpu->tlb[v].version[0] = cpu->root_version;
        cpu->tlb[v].version[1] = cpu->seen[cpu->n_seen - 1].version;
    }
    return true;
}

static bool own(Cpu *cpu, const Op *op, uint32_t at)
{
    Range range = { at, op->size }, all = { at, op->all_size };

    return !cpu->port || cpu->port->may_write(cpu, range, all);
}

/* Return true if stores to all probed words need no permission: see CpuPort.unseen. */
static bool is_alone(Cpu *cpu, const Insn *insn)
{
    bool alone = true;

    for (unsigned i = 0; i < cpu->next && cpu->port; i++) {
        const Op *op = &insn->op[i];

        alone = alone && (op->kind != OP_PROBE ||
                          cpu->port->unseen(cpu, (Range){ op->at, op->size }));
    }
    return alone || !RULE(TWO_PAGES_ALONE);
}

OpResult cpu_op(Cpu *cpu, const Insn *insn)
{
    const Op *op = &insn->op[cpu->next];
    uint32_t at = op->virtual ? cpu->line + op->at : op->at;
    bool done = true;

    if (cpu->next == 0) {
        begin(cpu, insn);
    }
    if (is_forbidden(cpu, insn, op, at)) {
        cpu->fault = true;
        return end(cpu, insn);
    }
    cpu->by_helper = op->kernel || op->kind == OP_WALK_ROOT || op->kind == OP_WALK_LEAF;
    switch (op->kind) {
    case OP_FETCH:
        done = fetch(cpu, op->at);
        break;
    case OP_WALK_ROOT:
        done = walk_root(cpu, op->at);
        break;
    case OP_WALK_LEAF:
        done = walk_leaf(cpu, op->at);
        break;
    case OP_LOAD:
        done = !cpu->port || cpu->port->may_read(cpu, (Range){ at, op->size });
        for (unsigned i = 0; done && i < op->size; i += 8) {
            take_value(cpu, load(cpu, at + i));
        }
        break;
    case OP_PROBE:
        done = !RULE(OWN_ALL_FIRST) || own(cpu, op, at);
        break;
    case OP_ALONE:
        if (!is_alone(cpu, insn)) {
            return OP_NOT_ALONE;
        }
        break;
    case OP_OWN:
        done = own(cpu, op, at);
        break;
    case OP_STORE:
        store(cpu, at, random_mix(cpu->state + cpu->value + insn->salt + cpu->n_stores));
        break;
    case OP_FLUSH:
        cpu_drop_translations(cpu);
        if (cpu->port) {
            cpu->port->flushed(cpu);
        }
        break;
    case OP_DEVICE:
        if (cpu->port) {
            cpu->port->device(cpu);
        }
        break;
    case OP_MAP:
        if (cpu->port && !cpu->port->change_map(cpu)) {
            return OP_NOT_ALONE;
        }
        store(cpu, GUEST_MAP, random_mix(cpu->state + insn->salt));
        break;
    case OP_NONE:
        break;
    }
    if (!done) {
        return OP_ABANDON;
    }
    cpu->next++;
    return cpu->fault || cpu->next == insn->n ? end(cpu, insn) : OP_GO_ON;
}
