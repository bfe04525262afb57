/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random deliveries and instructions of guests that are as those of x86.
 */
#include <string.h>

#include "tests/protocol/model/broken-rule.h"
#include "tests/protocol/model/places.h"

static Op *add(Insn *insn, OpKind kind, uint32_t at)
{
    g_assert(insn->n < GUEST_MAX_OPS);
    insn->op[insn->n] = (Op){ .kind = kind, .at = at, .size = 8, .all_size = 8 };
    return &insn->op[insn->n++];
}

/* Return where the kernel has a word: mostly in a page that user mode cannot reach. */
static uint32_t kernel_offset(uint64_t *random)
{
    static const uint32_t others[] = {
        PAGE(ROOT_PAGE) + LINE(9), PAGE(LEAF_PAGE) + LINE(8), PAGE(CODE_PAGE) + LINE(20),
        PAGE(USER_PAGE) + LINE(2),
    };

    if (random_one_in(random, 4)) {
        return others[random_below(random, G_N_ELEMENTS(others))];
    }
    return PAGE(DATA_PAGE) + LINE(random_below(random, 3)) + random_below(random, 2) * 8;
}

static uint32_t user_offset(uint64_t *random)
{
    return PAGE(USER_PAGE) + LINE(random_below(random, 3)) + random_below(random, 2) * 8;
}

/* --- deliveries ---------------------------------------------------------------------- */

static void add_probe(Insn *insn, uint32_t at, unsigned words)
{
    if (RULE(PUSHES_FIRST)) {
        Op *probe = add(insn, OP_PROBE, at);

        probe->size = probe->all_size = words * 8;
    }
}

static void add_pushes(Insn *insn, uint32_t at, unsigned words)
{
    for (unsigned i = 0; i < words; i++) {
        add(insn, OP_OWN, at + i * 8);
        add(insn, OP_STORE, at + i * 8);
    }
}

typedef uint32_t Where(uint64_t *random);

/* Add pushes to one line, two lines, or two pages.  They are exclusive without all write bits. */
static void add_frame(Insn *insn, Where *where, uint64_t *random)
{
    unsigned kind = random_below(random, 4);
    uint32_t line = where(random) & ~63, other = where(random);
    uint32_t at = kind == 0 ? line + 8 * random_below(random, 6) : line + 56;
    unsigned words = kind == 0 ? 3 : kind == 1 ? 1 : 2;

    add_probe(insn, at, words);
    if (kind == 1) {
        add_probe(insn, other, 1);
    }
    if (RULE(PUSHES_FIRST)) {
        add(insn, OP_ALONE, 0);
    }
    add_pushes(insn, at, words);
    if (kind == 1) {
        add_pushes(insn, other, 1);
    }
}

/* A delivery reads a descriptor and where the stack is, walks to it, and pushes a frame. */
static void draw_delivery(Insn *insn, Where *where, bool may_fault, uint64_t *random)
{
    unsigned virtual = random_below(random, GUEST_VIRTUAL);

    *insn = (Insn){ .salt = random_next(random), .effect = EFFECT_DELIVER };
    add(insn, OP_LOAD, where(random));
    if (random_one_in(random, 2)) {
        add(insn, OP_LOAD, where(random));
    }
    if (may_fault && random_one_in(random, 2)) {
        add(insn, OP_WALK_ROOT, virtual);
        add(insn, OP_WALK_LEAF, virtual);
    }
    add_frame(insn, where, random);
    for (unsigned i = 0; i < insn->n; i++) {
        insn->op[i].kernel = true;
    }
}

/* In a calm guest, no access of a delivery makes the vCPU leave user mode: all is open to it. */
void guest_deliveries(Insn delivery[VECTORS], bool calm, uint64_t *random)
{
    Where *where = calm ? user_offset : kernel_offset;

    for (Vector vector = VECTOR_FAULT; vector < VECTORS; vector++) {
        draw_delivery(&delivery[vector], where, vector != VECTOR_DOUBLE && !calm, random);
    }
}

/* --- instructions -------------------------------------------------------------------- */

static void add_copy(Insn *insn, uint32_t from, uint32_t to)
{
    add(insn, OP_LOAD, from);
    add_pushes(insn, to, 1);
}

static void draw_in_user_mode(Insn *insn, uint64_t *random)
{
    switch (random_below(random, 6)) {
    case 0:                     /* a descriptor, for example */
        add(insn, OP_LOAD, kernel_offset(random))->kernel = true;
        break;
    case 1:
        add(insn, OP_NONE, 0);
        insn->effect = EFFECT_ENTER;
        break;
    case 2:
        add_pushes(insn, user_offset(random), 1);
        break;
    default:
        add_copy(insn, user_offset(random), user_offset(random));
    }
}

static void draw_in_kernel(Insn *insn, uint64_t *random)
{
    switch (random_below(random, 8)) {
    case 0:
        add(insn, OP_NONE, 0);
        insn->effect = EFFECT_MASK;
        break;
    case 1:
        add(insn, OP_NONE, 0);
        insn->effect = EFFECT_UNMASK;
        break;
    case 2 ... 3:
        add(insn, OP_LOAD, kernel_offset(random));
        insn->effect = EFFECT_RETURN;
        break;
    default:
        add_copy(insn, kernel_offset(random), kernel_offset(random));
    }
}

/*
 * A calm guest seldom asks for lines, so a vCPU has few boundaries.  In user mode it does nothing
 * for a while, and enters the kernel by a fault.
 */
static void draw_calmly(Insn *insn, bool user, uint64_t *random)
{
    unsigned choice = random_below(random, 8);

    if (choice < 2 && user) {
        add(insn, OP_LOAD, choice ? user_offset(random) : PAGE(DATA_PAGE));
    } else if (choice < 3 && !user) {
        add_copy(insn, PAGE(DATA_PAGE) + LINE(random_below(random, 2)),
                 PAGE(DATA_PAGE) + LINE(random_below(random, 2)));
    } else {
        add(insn, OP_NONE, 0);
        insn->effect = choice == 3 && !user ? EFFECT_RETURN : EFFECT_NONE;
    }
}

/*
 * Replace instructions by others that know modes.  Which mode the vCPU is in is not known here:
 * interrupts change it.  In the wrong one an instruction faults, or does no harm.
 */
void guest_use_modes(Insn *insns, unsigned n, bool maps, bool calm, uint64_t *random)
{
    unsigned density = calm ? 1 : 1 + random_below(random, 4);
    bool user = false;

    for (unsigned i = 0; i < n; i++) {
        Insn *insn = &insns[i];

        if (!random_one_in(random, density)) {
            continue;
        }
        *insn = (Insn){ .salt = random_next(random) };
        if (maps && random_one_in(random, 16)) {
            add(insn, OP_MAP, 0);
        } else if (calm) {
            draw_calmly(insn, user, random);
        } else if (user) {
            draw_in_user_mode(insn, random);
        } else {
            draw_in_kernel(insn, random);
        }
        user = insn->effect == EFFECT_RETURN ||
               (user && insn->effect == EFFECT_NONE && insn->op[0].at != PAGE(DATA_PAGE));
    }
}
