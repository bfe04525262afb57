/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random programs and random DMA for the small guest.
 */
#include <string.h>

#include "tests/protocol/model/broken-rule.h"
#include "tests/protocol/model/places.h"

/* --- operands ---------------------------------------------------------------------- */

/* Return the offset of a data word; some lie in pages of tables and code. */
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

    return mix->roots || random_one_in(random, 3) ? guest_root_offset(virtual) :
           guest_leaf_offset(random_below(random, 3), virtual);
}

/* --- devices ----------------------------------------------------------------------- */

uint64_t guest_dma_value(unsigned n, uint32_t offset)
{
    return guest_sanitize(offset, random_mix(((uint64_t)n << 32) + offset + 1));
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
        *offset = guest_code_offset(random_below(random, GUEST_CODE));
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

/* --- instructions ------------------------------------------------------------------ */

static void add(Insn *insn, OpKind kind, bool virtual, uint32_t at)
{
    g_assert(insn->n < GUEST_MAX_OPS);
    insn->op[insn->n++] = (Op){
        .kind = kind, .virtual = virtual, .at = at, .size = 8, .all_size = 8,
    };
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

/* Add stores to two lines of one page.  The probe gets both, but each store asks by itself. */
static void add_wide_store(Insn *insn, uint32_t at)
{
    add(insn, OP_PROBE, false, at);
    insn->op[insn->n - 1].size = insn->op[insn->n - 1].all_size = 16;
    add_store(insn, false, at);
    add_store(insn, false, at + 8);
}

/* Add stores to one line, without a probe: the first store requests all of them if it misses. */
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

/* Add two stores, perhaps to two pages.  Only words of one page can be in hand. */
static void add_two_stores(Insn *insn, uint32_t a, uint32_t b)
{
    add(insn, OP_PROBE, false, a);
    add(insn, OP_PROBE, false, b);
    add(insn, OP_ALONE, false, 0);
    add_store(insn, false, a);
    add_store(insn, false, b);
}

typedef enum InsnKind {
    INSN_NONE, INSN_LOAD, INSN_STORE, INSN_STORES, INSN_TWO_LOADS, INSN_COPY, INSN_PAIR,
    INSN_ATOMIC, INSN_WIDE, INSN_WIDE_LOAD, INSN_LINE, INSN_TABLE_STORE, INSN_TABLE_LOAD,
    INSN_TABLE_CHANGE, INSN_WIDE_CHANGE, INSN_BESIDE_TABLE, INSN_SAME_PAGE, INSN_CODE_STORE,
    INSN_FLUSH, INSN_DEVICE, INSN_FETCH, INSN_REST, INSN_KINDS
} InsnKind;

/* Return the offset of a line with tables, code or data. */
static uint32_t any_line(const Mix *mix, uint64_t *random)
{
    switch (random_below(random, 3)) {
    case 0:
        return table_offset(mix, random) & ~63;
    case 1:
        return guest_code_offset(random_below(random, GUEST_CODE)) & ~63;
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
    case INSN_TABLE_CHANGE:     /* makes the line migratory */
        add(insn, OP_LOAD, false, table);
        add_store(insn, false, table);
        break;
    case INSN_WIDE_CHANGE:
        add_wide_load(insn, table & -PAGE(1));
        add_store(insn, false, table);
        break;
    case INSN_BESIDE_TABLE:     /* mostly in the line of the table word */
        add_store(insn, false, (table & -PAGE(1)) + LINE(random_one_in(random, 4)) +
                               random_below(random, 8) * 8);
        break;
    case INSN_SAME_PAGE:        /* in another line */
        add_store(insn, false, (table & -PAGE(1)) + LINE(8 + random_below(random, 2)));
        break;
    case INSN_CODE_STORE:
        add_store(insn, false, guest_code_offset(random_below(random, GUEST_CODE)));
        break;
    case INSN_FLUSH:
        add(insn, OP_FLUSH, false, 0);
        break;
    case INSN_DEVICE:
        insn->n = 0;            /* no access to memory may come before a device access */
        add(insn, OP_DEVICE, false, 0);
        break;
    case INSN_REST:             /* a load of a word that no other vCPU of a theme writes */
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

/* --- programs ---------------------------------------------------------------------- */

/* Instructions that are rare in one program are common in another. */
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
 * The instructions that each vCPU repeats in a theme, with pauses between them.  Together they are
 * what must coincide to show that a rule is broken.  There are few others, since their arcs would
 * hide that an arc is missing.
 */
#define PLAYERS MAX_VCPUS
#define MOST_LINES 6

static const InsnKind plays[THEMES][PLAYERS][MOST_LINES] = {
    /* A vCPU changes a table line, in which it stored to another word, while no vCPU has copies. */
    [THEME_LEFT] = {
        { INSN_LOAD, INSN_LOAD, INSN_LOAD, INSN_FLUSH, INSN_REST, INSN_REST },
        { INSN_BESIDE_TABLE, INSN_WIDE_CHANGE },
        { INSN_SAME_PAGE },
        { INSN_BESIDE_TABLE, INSN_WIDE_CHANGE },
        { INSN_TABLE_CHANGE, INSN_SAME_PAGE },
    },
    /* A vCPU stores to a table word twice, and offers the line in between. */
    [THEME_OFFERED] = {
        { INSN_FLUSH, INSN_REST, INSN_LOAD, INSN_LOAD, INSN_LOAD, INSN_LOAD },
        { INSN_TABLE_STORE },
        { INSN_TABLE_STORE },
        { INSN_TABLE_STORE, INSN_REST },
        { INSN_TABLE_STORE, INSN_SAME_PAGE },
    },
    /* A vCPU waits for a line of a page that others read, and DMA writes, as a whole. */
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
    static const unsigned rests[THEMES][3] = {
        [THEME_LEFT] = { 2, 4, 8 }, [THEME_OFFERED] = { 12, 20, 30 }, [THEME_CODE] = { 1, 2, 4 },
    };
    unsigned most = rests[theme][random_below(random, 3)];
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
