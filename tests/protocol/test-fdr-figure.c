/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The worked example of FDR (Xu, Bodik, Hill: A "Flight Data Recorder", ISCA 2003, section 4.1 and
 * Figure 1): by the algorithm of Table 2, and by the sphere.
 *
 * The text of the paper that we have lacks the picture, and the caption is damaged.  So the
 * instructions below are reconstructed: they satisfy every sentence of the paper about the figure.
 * Which of j's instructions 11 to 16 read Flag, apart from 15, is a guess.
 *
 * An arc is printed as "i31>j11": i has ended 31 instructions before j begins its 11th.
 */
#include <glib.h>

#include "protocol/sphere-internal.h"

enum { I, J, PROCESSORS };
enum { NO_ACCESS, FLAG, SHARE1, SHARE2, LOCAL1, LOCAL2, WORDS };

static const char name[] = "ij";

typedef struct Instruction {
    unsigned p;
    Position count;             /* its dynamic instruction count */
    unsigned word;
    bool is_write;
} Instruction;

/* In the total order that the caption lists. */
static const Instruction figure_1[] = {
    { I, 31, FLAG, true },
    { J, 11, FLAG, false },
    { J, 12, NO_ACCESS, false },
    { J, 13, NO_ACCESS, false },
    { I, 32, SHARE1, true },
    { J, 14, LOCAL2, true },
    { J, 15, FLAG, false },
    { J, 16, NO_ACCESS, false },
    { I, 33, SHARE2, true },
    { I, 34, FLAG, true },
    { J, 17, NO_ACCESS, false },
    { J, 18, FLAG, false },
    { I, 35, LOCAL1, true },
    { J, 19, NO_ACCESS, false },
    { J, 20, NO_ACCESS, false },
    { J, 21, SHARE1, false },
    { J, 22, SHARE2, false },
};

/* Share1 and Share2 lie in one block; so do Local1 and Local2. */
static unsigned block_of(unsigned word)
{
    return word == FLAG ? 1 : word <= SHARE2 ? 2 : 3;
}

static void print_arc(GString *text, unsigned from, Position source, unsigned to, Position target)
{
    g_string_append_printf(text, "%s%c%u>%c%u", text->len ? " " : "", name[from],
                           (unsigned)source, name[to], (unsigned)target);
}

/* --- Figure 1 (b): word conflicts --------------------------------------------------------- */

/* Print the conflicts of instruction @n with earlier ones that no store between them hides. */
static void print_conflicts(GString *text, unsigned n)
{
    const Instruction *b = &figure_1[n];
    GString *found = g_string_new("");

    for (unsigned k = n; k > 0; k--) {
        const Instruction *a = &figure_1[k - 1];

        if (b->word == NO_ACCESS || a->word != b->word) {
            continue;
        }
        if (a->p != b->p && (a->is_write || b->is_write)) {
            print_arc(found, a->p, a->count, b->p, b->count);
        }
        if (a->is_write) {
            break;
        }
    }
    if (found->len) {
        g_string_append_printf(text, "%s%s", text->len ? " " : "", found->str);
    }
    g_string_free(found, true);
}

static void test_word_conflicts(void)
{
    g_autoptr(GString) text = g_string_new("");

    for (unsigned n = 0; n < G_N_ELEMENTS(figure_1); n++) {
        print_conflicts(text, n);
    }
    g_assert_cmpstr(text->str, ==, "i31>j11 i31>j15 j15>i34 j11>i34 i34>j18 i32>j21 i33>j22");
}

/* --- Figure 1 (c) and (d): Table 2 ----------------------------------------------------------- */

/* Each processor's cache: CIC, 0 if the block is not there; and whether it may write. */
typedef struct Cached {
    Position cic;
    bool owned;
} Cached;

typedef struct Table2 {
    Cached cache[PROCESSORS][WORDS];
    Position vic[PROCESSORS];   /* of the other one */
    GString *sent, *logged;
} Table2;

static void reply(Table2 *t, const Instruction *to, unsigned block)
{
    unsigned from = !to->p;
    Cached *theirs = &t->cache[from][block];

    if (!theirs->cic || (!to->is_write && !theirs->owned)) {
        return;
    }
    print_arc(t->sent, from, theirs->cic, to->p, to->count);
    if (theirs->cic > t->vic[to->p]) {
        print_arc(t->logged, from, theirs->cic, to->p, to->count);
        t->vic[to->p] = theirs->cic;
    }
    theirs->owned = false;
    theirs->cic = to->is_write ? 0 : theirs->cic;
}

static void commit(Table2 *t, const Instruction *instruction)
{
    unsigned block = block_of(instruction->word);
    Cached *own = &t->cache[instruction->p][block];

    if (instruction->word == NO_ACCESS) {
        return;
    }
    if (instruction->is_write ? !own->owned : !own->cic) {
        reply(t, instruction, block);
    }
    own->cic = instruction->count;
    own->owned |= instruction->is_write;
}

/* "This example can be deterministically replayed by recording only three arcs." */
static void test_table_2(void)
{
    Table2 t = { .sent = g_string_new(""), .logged = g_string_new("") };

    for (unsigned n = 0; n < G_N_ELEMENTS(figure_1); n++) {
        commit(&t, &figure_1[n]);
    }
    g_assert_cmpstr(t.sent->str, ==, "i31>j11 j15>i34 i34>j18 j14>i35 i33>j21");
    g_assert_cmpstr(t.logged->str, ==, "i31>j11 j15>i34 i34>j18");
    g_string_free(t.sent, true);
    g_string_free(t.logged, true);
}

/* --- the sphere ------------------------------------------------------------------------------ */

#define PAGE_SIZE (1u << SPHERE_PAGE_SHIFT)

static uint64_t memory[4 * PAGE_SIZE / 8] __attribute__((aligned(PAGE_SIZE)));

/* Share and Local have a page each, so that no request is widened. */
static uint64_t offset_of(unsigned word)
{
    return block_of(word) * PAGE_SIZE + word * 8;
}

static void emit(Processor *to, unsigned from, Position source, void *text)
{
    print_arc(text, from, source, to->index, sphere_floor(to) + 1);
}

/* Make an instruction of a processor that is SAFE before and after it. */
static void make(Processor *p, const Instruction *instruction, GString *text)
{
    uint64_t offset = offset_of(instruction->word);
    uint8_t bit = instruction->is_write ? L1_WRITE : L1_READ;

    sphere_run(p);
    if (instruction->word != NO_ACCESS && !(sphere_l1(p)[offset >> SPHERE_LINE_SHIFT] & bit)) {
        g_assert_cmpint(sphere_acquire(p, offset, 8,
                                       instruction->is_write ? SPHERE_WRITE : SPHERE_READ),
                        ==, SPHERE_GRANTED);
        sphere_arcs(p, emit, text);
    }
    sphere_safe(p, instruction->count);
}

static void kick(void *user)
{
    (void)user;
}

static const SphereOps ops = { .kick = kick };

/*
 * The sphere has no CIC: a source is the holder's present position.  That "modestly reduces the
 * effectiveness of the transitive reduction" (section 4.3, send observation): five arcs.
 */
static void test_sphere(void)
{
    g_autoptr(GString) text = g_string_new("");
    Sphere *sphere = sphere_new(PROCESSORS, PROCESSORS, memory, sizeof(memory), &ops,
                                &orders_fdr);

    for (unsigned i = 0; i < 4; i++) {
        page_split(&sphere->pages[i]);
    }
    sphere_safe(sphere_vcpu(sphere, I), 30);
    sphere_safe(sphere_vcpu(sphere, J), 10);
    for (unsigned n = 0; n < G_N_ELEMENTS(figure_1); n++) {
        make(sphere_vcpu(sphere, figure_1[n].p), &figure_1[n], text);
    }
    g_assert_cmpstr(text->str, ==, "i31>j11 j16>i34 i34>j18 j18>i35 i35>j21");
    sphere_free(sphere);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/fdr/figure-1-word-conflicts", test_word_conflicts);
    g_test_add_func("/fdr/figure-1-table-2", test_table_2);
    g_test_add_func("/fdr/figure-1-sphere", test_sphere);
    return g_test_run();
}
