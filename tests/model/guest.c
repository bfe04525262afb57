/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The small guest: where its words are, its random programs, its interpreter.
 */
#include <string.h>

#include "tests/model/guest.h"
#include "tests/model/rules.h"

enum { ROOT_PAGE, LEAF_PAGE, CODE_PAGE, DATA_PAGE };

#define PAGE(n) ((uint32_t)(n) << SPHERE_PAGE_SHIFT)
#define LINE(n) ((uint32_t)(n) << SPHERE_LINE_SHIFT)

/* --- where things are ----------------------------------------------------------- */

#define N_ROOTS 4

static uint32_t root_offset(unsigned virtual)
{
    unsigned i = virtual % N_ROOTS;

    return PAGE(ROOT_PAGE) + LINE(i / 2) + i % 2 * 8;
}

/* A root entry that is not zero leads to one of three groups; two share a line. */
static uint32_t leaf_offset(uint64_t root, unsigned virtual)
{
    unsigned group = root % 3;

    return PAGE(LEAF_PAGE) + LINE(group / 2) + group % 2 * 32 + virtual / N_ROOTS * 8;
}

static uint32_t line_offset(uint64_t leaf)
{
    return PAGE(DATA_PAGE) + LINE(leaf % 3) + PAGE(leaf % 2);
}

static uint32_t code_offset(unsigned i)
{
    return PAGE(CODE_PAGE) + LINE(i / 2) + i % 2 * 8;
}

/* Data; some lies beside tables and code. */
static uint32_t data_offset(uint64_t *random)
{
    static const uint32_t odd[] = {
        PAGE(ROOT_PAGE) + LINE(0) + 32, PAGE(ROOT_PAGE) + LINE(9),
        PAGE(LEAF_PAGE) + LINE(1) + 56, PAGE(LEAF_PAGE) + LINE(8),
        PAGE(CODE_PAGE) + LINE(0) + 40, PAGE(CODE_PAGE) + LINE(20), PAGE(CODE_PAGE) + LINE(21),
    };

    if (random_one_in(random, 4)) {
        return odd[random_below(random, G_N_ELEMENTS(odd))];
    }
    return PAGE(DATA_PAGE + random_below(random, 2)) + LINE(random_below(random, 4)) +
           random_below(random, 2) * 8;
}

static uint32_t table_offset(const Mix *mix, uint64_t *random)
{
    unsigned virtual = mix->first + random_below(random, mix->virtuals);

    return mix->roots || random_one_in(random, 3) ? root_offset(virtual) :
           leaf_offset(random_below(random, 3), virtual);
}

static bool is_table(uint32_t offset)
{
    return offset >> SPHERE_PAGE_SHIFT <= LEAF_PAGE;
}

/* Often zero in tables: absence matters there. */
static uint64_t sanitize(uint32_t offset, uint64_t value)
{
    return is_table(offset) && value % 3 == 0 ? 0 : value;
}

uint64_t guest_dma_value(unsigned n, uint32_t offset)
{
    return sanitize(offset, random_mix(((uint64_t)n << 32) + offset + 1));
}

void guest_dma_range(Theme theme, uint64_t *random, uint32_t *offset, unsigned *size)
{
    static const unsigned sizes[] = { 8, 8, 16, 64, 128 };
    static const Mix all = { .virtuals = GUEST_VIRTUAL };

    if (theme == THEME_CODE && random_one_in(random, 2)) {
        *offset = PAGE(CODE_PAGE);
        *size = PAGE(1);
        return;
    }
    switch (random_below(random, 8)) {
    case 0:
        *offset = table_offset(&all, random);
        *size = 8;
        break;
    case 1:
        *offset = code_offset(random_below(random, GUEST_CODE));
        *size = 8;
        break;
    case 2:
        *offset = PAGE(random_below(random, GUEST_PAGES));
        *size = random_one_in(random, 2) ? PAGE(1) : 64;
        break;
    default:
        *offset = data_offset(random);
        *size = sizes[random_below(random, G_N_ELEMENTS(sizes))];
    }
}

void guest_memory(Memory *memory, uint64_t *random)
{
    memset(memory, 0, sizeof(*memory));
    for (unsigned i = 0; i < GUEST_WORDS; i++) {
        memory->word[i] = sanitize(i * 8, random_next(random));
    }
}

/* --- programs ------------------------------------------------------------------- */

static void add(Insn *insn, OpKind kind, bool virtual, uint32_t at)
{
    g_assert(insn->n < GUEST_MAX_OPS);
    insn->op[insn->n++] = (Op){ kind, virtual, at, 8, 8 };
}

static void add_walk(Insn *insn, const Mix *mix, uint64_t *random)
{
    unsigned virtual = mix->first + random_below(random, mix->virtuals);

    add(insn, OP_WALK_ROOT, false, virtual);
    add(insn, OP_WALK_LEAF, false, virtual);
}

static void add_store(Insn *insn, bool virtual, uint32_t at)
{
    add(insn, OP_OWN, virtual, at);
    add(insn, OP_STORE, virtual, at);
}

static void add_wide_load(Insn *insn, uint32_t line)
{
    add(insn, OP_LOAD, false, line + 56);
    insn->op[insn->n - 1].size = 16;
}

/* To two lines of one page: it gets them both, but each store asks by itself. */
static void add_wide_store(Insn *insn, uint32_t at)
{
    add(insn, OP_PROBE, false, at);
    insn->op[insn->n - 1].size = insn->op[insn->n - 1].all_size = 16;
    add_store(insn, false, at);
    add_store(insn, false, at + 8);
}

/* Without a probe, so the first store that misses asks for all of them. */
static void add_stores_to_line(Insn *insn, bool virtual, uint32_t line, uint64_t *random)
{
    unsigned n = 2 + random_below(random, GUEST_MAX_STORES - 1);
    unsigned first = random_below(random, 9 - n);

    for (unsigned i = 0; i < n; i++) {
        add_store(insn, virtual, line + (first + i) * 8);
        if (RULE(ALL_AT_FIRST_MISS) && i == 0) {
            insn->op[insn->n - 2].all_size = n * 8;
        }
    }
}

/* To two pages, perhaps: who has got one may lose it when it asks for the other. */
static void add_two_stores(Insn *insn, uint32_t a, uint32_t b)
{
    add(insn, OP_PROBE, false, a);
    add(insn, OP_PROBE, false, b);
    add(insn, OP_ALONE, false, 0);
    add_store(insn, false, a);
    add_store(insn, false, b);
}

typedef enum InsnKind {
    INSN_NONE, INSN_LOAD, INSN_STORE, INSN_STORES, INSN_TWO_LOADS, INSN_COPY, INSN_PAIR, INSN_ATOMIC,
    INSN_WIDE, INSN_WIDE_LOAD, INSN_LINE, INSN_TABLE_STORE, INSN_TABLE_LOAD, INSN_TABLE_CHANGE,
    INSN_WIDE_CHANGE, INSN_BESIDE_TABLE, INSN_SAME_PAGE, INSN_CODE_STORE, INSN_FLUSH, INSN_DEVICE, INSN_FETCH, INSN_REST,
    INSN_KINDS
} InsnKind;

/* A line that has whatever may be in one. */
static uint32_t any_line(const Mix *mix, uint64_t *random)
{
    switch (random_below(random, 3)) {
    case 0:
        return table_offset(mix, random) & ~63;
    case 1:
        return code_offset(random_below(random, GUEST_CODE)) & ~63;
    default:
        return data_offset(random) & ~63;
    }
}

static void guest_insn(Insn *insn, InsnKind kind, const Mix *mix, uint64_t *random)
{
    unsigned word = random_below(random, 2) * 8;
    uint32_t a = data_offset(random), b = data_offset(random);
    uint32_t table = table_offset(mix, random);

    memset(insn, 0, sizeof(*insn));
    insn->salt = random_next(random);
    if (random_below(random, 4) < mix->fetches) {
        add(insn, OP_FETCH, false, random_below(random, GUEST_CODE));
    }
    switch (kind) {
    case INSN_LOAD:
        add_walk(insn, mix, random);
        add(insn, OP_LOAD, true, word);
        break;
    case INSN_STORE:
        add_walk(insn, mix, random);
        add_store(insn, true, word);
        break;
    case INSN_STORES:
        add_walk(insn, mix, random);
        add_stores_to_line(insn, true, 0, random);
        break;
    case INSN_TWO_LOADS:
        add(insn, OP_LOAD, false, a);
        add(insn, OP_LOAD, false, b);
        break;
    case INSN_COPY:             /* the store depends on the load */
        add(insn, OP_LOAD, false, a);
        add_store(insn, false, b);
        break;
    case INSN_PAIR:
        add_two_stores(insn, a, b);
        break;
    case INSN_ATOMIC:
        add(insn, OP_OWN, false, a);
        add(insn, OP_LOAD, false, a);
        add(insn, OP_STORE, false, a);
        break;
    case INSN_WIDE:
        add_wide_store(insn, (a & ~63) + 56);
        break;
    case INSN_WIDE_LOAD:
        add_wide_load(insn, a & ~63);
        break;
    case INSN_LINE:
        add_stores_to_line(insn, false, any_line(mix, random), random);
        break;
    case INSN_TABLE_STORE:
        add_store(insn, false, table);
        break;
    case INSN_TABLE_LOAD:
        add(insn, OP_LOAD, false, table);
        break;
    case INSN_TABLE_CHANGE:     /* makes its line migratory */
        add(insn, OP_LOAD, false, table);
        add_store(insn, false, table);
        break;
    case INSN_WIDE_CHANGE:
        add_wide_load(insn, table & -PAGE(1));
        add_store(insn, false, table);
        break;
    case INSN_BESIDE_TABLE:
        add_store(insn, false, (table & -PAGE(1)) + LINE(random_one_in(random, 4)) +
                               random_below(random, 8) * 8);
        break;
    case INSN_SAME_PAGE:
        add_store(insn, false, (table & -PAGE(1)) + LINE(8 + random_below(random, 2)));
        break;
    case INSN_CODE_STORE:
        add_store(insn, false, code_offset(random_below(random, GUEST_CODE)));
        break;
    case INSN_FLUSH:
        add(insn, OP_FLUSH, false, 0);
        break;
    case INSN_DEVICE:
        insn->n = 0;            /* it must not have touched memory */
        add(insn, OP_DEVICE, false, 0);
        break;
    case INSN_REST:             /* needs nothing that others write */
        add(insn, OP_LOAD, false, PAGE(DATA_PAGE));
        break;
    case INSN_FETCH:
        add(insn, OP_FETCH, false, random_below(random, GUEST_CODE));
        break;
    case INSN_NONE:
    case INSN_KINDS:
        g_assert_not_reached();
    }
}

/* What is rare in one program is common in another. */
void guest_mix(Mix *mix, uint64_t *random)
{
    static const unsigned weights[] = { 0, 0, 0, 1, 1, 2, 4, 10 };

    memset(mix, 0, sizeof(*mix));
    mix->fetches = random_below(random, 4);
    mix->virtuals = GUEST_VIRTUAL;
    for (unsigned i = INSN_NONE + 1; i < INSN_KINDS; i++) {
        mix->weight[i] = weights[random_below(random, G_N_ELEMENTS(weights))];
        mix->sum += mix->weight[i];
    }
    if (!mix->sum) {
        mix->sum = mix->weight[INSN_LOAD] = 1;
    }
}

void guest_program(Insn *insns, unsigned n, const Mix *mix, uint64_t *random)
{
    G_STATIC_ASSERT(INSN_KINDS <= GUEST_MAX_KINDS);
    for (unsigned i = 0; i < n; i++) {
        unsigned choice = random_below(random, mix->sum);
        InsnKind kind = INSN_NONE + 1;

        while (choice >= mix->weight[kind]) {
            choice -= mix->weight[kind++];
        }
        guest_insn(&insns[i], kind, mix, random);
    }
}

/*
 * What vCPUs do again and again, at their leisure.  What must come together by chance to show that a
 * rule is broken is all there, and nothing that would order it: so it does not take long.
 */
#define PLAYERS MAX_VCPUS
#define MOST_LINES 6

static const InsnKind plays[THEMES][PLAYERS][MOST_LINES] = {
    /* Who changes a line of tables in which it has stored elsewhere, when nobody has copies. */
    [THEME_LEFT] = {
        { INSN_LOAD, INSN_LOAD, INSN_LOAD, INSN_FLUSH, INSN_REST, INSN_REST },
        { INSN_BESIDE_TABLE, INSN_WIDE_CHANGE },
        { INSN_SAME_PAGE },
        { INSN_BESIDE_TABLE, INSN_WIDE_CHANGE },
        { INSN_TABLE_CHANGE, INSN_SAME_PAGE },
    },
    /* Who stores to a table twice, and gives it back meanwhile. */
    [THEME_GIVEN_BACK] = {
        { INSN_FLUSH, INSN_REST, INSN_LOAD, INSN_LOAD, INSN_LOAD },
        { INSN_TABLE_STORE },
        { INSN_TABLE_STORE },
        { INSN_TABLE_STORE, INSN_REST },
        { INSN_TABLE_STORE, INSN_SAME_PAGE },
    },
    /* Who waits for a line of a page that others read, and DMA writes, as a whole. */
    [THEME_CODE] = {
        { INSN_FETCH },
        { INSN_FETCH },
        { INSN_CODE_STORE },
        { INSN_FETCH, INSN_CODE_STORE },
        { INSN_LINE },
    },
};

void guest_play(Insn *insns, unsigned n, Theme theme, unsigned player, uint64_t *random)
{
    static const unsigned rests[] = { 2, 2, 3, 4, 8 };
    unsigned most = rests[random_below(random, G_N_ELEMENTS(rests))];
    const InsnKind *lines = plays[theme][player];
    const Mix mix = { .roots = true, .first = player / 2 % 2, .virtuals = 1 };

    for (unsigned i = 0, next = 0, rest = 0; i < n; i++) {
        if (rest) {
            rest--;
            guest_insn(&insns[i], INSN_REST, &mix, random);
        } else {
            guest_insn(&insns[i], lines[next], &mix, random);
            next = (next + 1) % MOST_LINES;
            next = lines[next] == INSN_NONE ? 0 : next;
            rest = random_below(random, most);
        }
    }
}

/* --- memory --------------------------------------------------------------------- */

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
            uint64_t root = memory_read(cpu->memory, root_offset(v), &version[0]);
            uint32_t at = leaf_offset(root, v);
            uint64_t leaf = memory_read(cpu->memory, at, &version[1]);

            if (root && leaf) {
                cpu->tlb[v].valid = true;
                cpu->tlb[v].line = line_offset(leaf);
                cpu->tlb[v].word[0] = root_offset(v) / 8;
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
    saw(cpu, offset, memory_write(cpu->memory, offset, sanitize(offset, value)), true);
    if (!is_slow(cpu, offset)) {
        return;
    }
    /* Its own copies. */
    cpu_drop_word(cpu, offset);
    for (unsigned i = 0; i < GUEST_CODE; i++) {
        if (code_offset(i) == offset) {
            cpu->code[i].valid = false;
        }
    }
}

static void take_value(Cpu *cpu, uint64_t value)
{
    cpu->value = random_mix(cpu->value + value + 1);
}

static OpResult end(Cpu *cpu)
{
    cpu->state = random_mix(cpu->state * 3 + cpu->value + cpu->fault);
    return OP_END;
}

static bool fetch(Cpu *cpu, unsigned i)
{
    uint32_t offset = code_offset(i);

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

/* May the table word be read, and what is made of it be kept? */
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
    if (!may_walk(cpu, root_offset(v))) {
        return false;
    }
    root = load(cpu, root_offset(v));
    cpu->root_version = cpu->seen[cpu->n_seen - 1].version;
    cpu->fault = root == 0;
    cpu->leaf = leaf_offset(root, v);
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
        cpu->line = line_offset(leaf);
        cpu->tlb[v].valid = true;
        cpu->tlb[v].line = cpu->line;
        cpu->tlb[v].word[0] = root_offset(v) / 8;
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

/* Has all that it probed write bits, or does nobody else run? */
static bool is_alone(Cpu *cpu, const Insn *insn)
{
    bool alone = true;

    for (unsigned i = 0; i < cpu->next && cpu->port; i++) {
        alone = alone && (insn->op[i].kind != OP_PROBE || cpu->port->unseen(cpu, insn->op[i].at));
    }
    return alone || !RULE(TWO_PAGES_ALONE);
}

OpResult cpu_op(Cpu *cpu, const Insn *insn)
{
    const Op *op = &insn->op[cpu->next];
    uint32_t at = op->virtual ? cpu->line + op->at : op->at;
    bool done = true;

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
    }
    if (!done) {
        return OP_ABANDON;
    }
    cpu->next++;
    return cpu->fault || cpu->next == insn->n ? end(cpu) : OP_GO_ON;
}
