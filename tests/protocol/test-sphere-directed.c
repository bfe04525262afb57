/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interleavings of the sphere that random tests rarely find, played step by step by one thread.
 *
 * Each processor has a vector clock, which follows the arcs that the sphere emits: how many steps
 * of every other processor each replay makes before its next step.  A case brings a processor to a
 * store.  The case asserts that the store is granted only after every use of the old value,
 * or that no store is refused once its instruction has begun to store.
 */
#include <glib.h>
#include <string.h>

#include "protocol/sphere-internal.h"

#define VCPUS 4
#define PROCESSORS (VCPUS + 1)
#define MOST_STEPS 1000
#define PAGE_SIZE (1u << SPHERE_PAGE_SHIFT)
#define PAGES 2

/* Offsets that the cases use: in page 0, and a line of page 1. */
#define WORD 64                 /* in line 1; not zero, so translations are made from it */
#define EMPTY_WORD 72           /* in line 1; zero */
#define DATA_WORD 80            /* in line 1 */
#define ELSEWHERE 512           /* another line of page 0 */
#define NEXT_PAGE PAGE_SIZE

typedef Position Clock[PROCESSORS];

static struct {
    uint64_t memory[PAGES * PAGE_SIZE / 8];
    Sphere *sphere;
    Position position[PROCESSORS];
    Clock before[PROCESSORS];               /* what comes before the processor's next step */
    Clock history[PROCESSORS][MOST_STEPS];  /* what came before each of its earlier steps */
} world __attribute__((aligned(PAGE_SIZE)));

static Processor *processor(unsigned i)
{
    return &world.sphere->processor[i];
}

static uint8_t l1(unsigned i, uint64_t offset)
{
    return processor(i)->l1[offset >> SPHERE_LINE_SHIFT] & ~L1_WANTED;
}

static Line *line_at(uint64_t offset)
{
    SpherePage *page = &world.sphere->pages[offset >> SPHERE_PAGE_SHIFT];

    g_assert_nonnull(page->lines);
    return &page->lines[offset >> SPHERE_LINE_SHIFT & (SPHERE_PAGE_LINES - 1)];
}

/* --- what processors do ---------------------------------------------------------------- */

/*
 * Called once, at the next kick.  Processors come to boundaries only where a case says so; this
 * lets a case act in the middle of another processor's request.
 */
static void (*at_kick)(void);

static void kick(void *user)
{
    void (*once)(void) = at_kick;

    (void)user;
    at_kick = NULL;
    if (once) {
        once();
    }
}

static const SphereOps ops = { .kick = kick };

static void emit(Processor *to, unsigned from, Position source, void *opaque)
{
    Position *before = world.before[to->index];

    (void)opaque;
    g_assert_cmpuint(source, >, 0);
    for (unsigned i = 0; i < PROCESSORS; i++) {
        before[i] = MAX(before[i], world.history[from][source - 1][i]);
    }
    before[from] = MAX(before[from], source);
}

static void steps(unsigned i, unsigned n)
{
    while (n--) {
        Position at = world.position[i]++;

        g_assert_cmpuint(at, <, MOST_STEPS);
        memcpy(world.history[i][at], world.before[i], sizeof(Clock));
        world.before[i][i] = at + 1;
    }
}

static void settle(unsigned i)
{
    steps(i, world.position[i] < processor(i)->ordered);
}

static void be_safe(unsigned i)
{
    settle(i);
    sphere_safe(processor(i), world.position[i]);
}

static unsigned run(unsigned i)
{
    uint64_t words[SPHERE_MAX_DROPS];
    bool code;
    unsigned n_drops;

    sphere_run(processor(i));
    n_drops = sphere_take_drops(processor(i), words, &code);
    sphere_boundary(processor(i), world.position[i]);
    return n_drops;
}

/*
 * Do the part of sphere_safe() and sphere_await() that comes before serving the inbox or sleeping.
 */
static void become_safe(unsigned i)
{
    settle(i);
    processor(i)->running = false;
    processor(i)->published = world.position[i];
}

static void take_grant(unsigned i)
{
    g_assert_true(sphere_is_granted(processor(i)));
    sphere_await(processor(i), world.position[i]);
    sphere_arcs(processor(i), emit, NULL);
}

/* Request lines for a running processor.  Return true if they are granted: its step goes on. */
static bool acquire(unsigned i, uint64_t offset, unsigned size, SphereAccess access)
{
    bool granted = sphere_acquire(processor(i), offset, size, access) == SPHERE_GRANTED;

    if (granted) {
        sphere_arcs(processor(i), emit, NULL);
    }
    return granted;
}

static void enter_table(unsigned i, uint64_t offset)
{
    g_assert_cmpint(sphere_enter_table(processor(i), offset), ==, SPHERE_GRANTED);
    sphere_arcs(processor(i), emit, NULL);
}

static bool ask_for_code(unsigned i, uint64_t offset)
{
    return sphere_enter_code(processor(i), offset) == SPHERE_GRANTED;
}

static void enter_code(unsigned i, uint64_t offset)
{
    g_assert_true(ask_for_code(i, offset));
    sphere_arcs(processor(i), emit, NULL);
}

/* Execute an instruction with one access on a processor that is safe before and after. */
static void make_access(unsigned i, uint64_t offset, SphereAccess access)
{
    run(i);
    if (!(l1(i, offset) & (access == SPHERE_WRITE ? L1_WRITE : L1_READ))) {
        g_assert_true(acquire(i, offset, 8, access));
    }
    steps(i, 1);
    be_safe(i);
}

static void fill_empty_word(unsigned i)
{
    make_access(i, EMPTY_WORD, SPHERE_WRITE);
    world.memory[EMPTY_WORD / 8] = 1;
}

/* --- a world --------------------------------------------------------------------------- */

/* All vCPUs are safe and have made some steps.  No processor has any line. */
static void set_up_whole_pages(void)
{
    memset(&world, 0, sizeof(world));
    for (unsigned i = 0; i < G_N_ELEMENTS(world.memory); i++) {
        world.memory[i] = 0x1000 + i;
    }
    world.memory[EMPTY_WORD / 8] = 0;
    world.sphere = sphere_new(VCPUS, VCPUS, world.memory, sizeof(world.memory), &ops,
                              &orders_fdr);
    for (unsigned i = 0; i < PROCESSORS; i++) {
        sphere_set_user(processor(i), &world);
    }
    for (unsigned i = 0; i < VCPUS; i++) {
        run(i);
        steps(i, 10);
        be_safe(i);
    }
}

/* As above, with both pages split into lines. */
static void set_up(void)
{
    set_up_whole_pages();
    for (unsigned i = 0; i < PAGES; i++) {
        page_split(&world.sphere->pages[i]);
    }
}

static void tear_down(void)
{
    sphere_free(world.sphere);
}

/* Let processors read and then write a line in turn, until it is migratory and trusted. */
static void make_trusted(uint64_t offset)
{
    make_access(1, offset, SPHERE_WRITE);
    for (unsigned n = 0, i = 2; n < 6; n++, i = i % 2 + 1) {
        make_access(i, offset, SPHERE_READ);
        make_access(i, offset, SPHERE_WRITE);
    }
    g_assert_true(line_at(offset)->migratory);
    g_assert_cmpuint(line_at(offset)->trusted, >, 0);
}

/* --- several stores of one instruction, to a page with copies ----------------------------- */

enum { P, Q, R, W };

/* Run code from page 0, so that no processor has write bits there, and each store asks. */
static void run_code_from_page(unsigned i)
{
    run(i);
    enter_code(i, 0);
    steps(i, 1);
}

/* The stores lie in two lines, so P probes both first.  Then Q requests the second line. */
static void test_prepared_stores(void)
{
    set_up();
    run_code_from_page(P);
    g_assert_true(acquire(P, 112, 32, SPHERE_WRITE));
    run(Q);
    g_assert_false(acquire(Q, 128, 8, SPHERE_READ));
    g_assert_true(acquire(P, 112, 16, SPHERE_WRITE));
    g_assert_true(acquire(P, 128, 16, SPHERE_WRITE));
    steps(P, 1);
    be_safe(P);
    take_grant(Q);
    g_assert_cmpuint(world.before[Q][P], ==, world.position[P]);
    tear_down();
}

/* The stores lie in one line, so P's first store asks for all.  Q requests the line, R the page. */
static void test_stores_of_one_line(void)
{
    set_up();
    run_code_from_page(P);
    g_assert_true(acquire(P, 64, 32, SPHERE_WRITE));
    run(Q);
    g_assert_false(acquire(Q, 80, 8, SPHERE_WRITE));
    run(R);
    g_assert_false(ask_for_code(R, 0));
    for (uint64_t at = 64; at < 96; at += 8) {
        g_assert_true(acquire(P, at, 8, SPHERE_WRITE));
        g_assert_true(acquire(P, at, 4, SPHERE_WRITE));
    }
    tear_down();
}

/* Translations cannot be made of words that P has in hand, but of other words of the page. */
static void test_stores_beside_translations(void)
{
    set_up();
    run(Q);
    enter_table(Q, ELSEWHERE);
    steps(Q, 1);
    be_safe(Q);
    run(P);
    g_assert_true(acquire(P, 64, 32, SPHERE_WRITE));
    g_assert_cmpuint(run(Q), >, 0);
    run(W);
    enter_table(W, ELSEWHERE);
    g_assert_cmpint(sphere_enter_table(processor(R), WORD), ==, SPHERE_ASKED);
    for (uint64_t at = 64; at < 96; at += 8) {
        g_assert_true(acquire(P, at, 8, SPHERE_WRITE));
    }
    g_assert_cmpuint(processor(Q)->n_drops + processor(W)->n_drops, ==, 0);
    tear_down();
}

/* The recorder runs an instruction that stores to two pages exclusively: then no request waits. */
static void test_exclusive_stores_to_two_pages(void)
{
    set_up();
    for (unsigned i = Q; i <= R; i++) {
        run(i);
        enter_code(i, 0);
        enter_code(i, NEXT_PAGE);
        enter_table(i, NEXT_PAGE);
        steps(i, 1);
    }
    be_safe(Q);
    be_safe(R);
    make_access(W, PAGE_SIZE - 8, SPHERE_WRITE);
    run(P);
    processor(P)->exclusive = true;
    for (uint64_t at = PAGE_SIZE - 16; at < PAGE_SIZE + 16; at += 8) {
        g_assert_true(acquire(P, at, 8, SPHERE_WRITE));
        g_assert_true(acquire(P, at, 8, SPHERE_WRITE));
    }
    processor(P)->exclusive = false;
    g_assert_cmpuint(world.before[P][Q], ==, world.position[Q]);
    g_assert_cmpuint(world.before[P][R], ==, world.position[R]);
    tear_down();
}

/* --- lines that are offered ---------------------------------------------------------------- */

static void write_and_offer(unsigned i, uint64_t offset)
{
    processor(i)->l1[offset >> SPHERE_LINE_SHIFT] |= L1_WANTED;
    run(i);
    g_assert_true(acquire(i, offset, 8, SPHERE_WRITE));
    steps(i, 1);
    sphere_boundary(processor(i), world.position[i]);
    sphere_offer(processor(i), world.position[i]);
    g_assert_cmpuint(l1(i, offset), ==, L1_OFFERED | L1_ASIDE);
    steps(i, 1);
}

/* P made all holders of translations of the word drop them once.  Now Q is a new holder. */
static void test_offered_then_translated(void)
{
    set_up();
    write_and_offer(P, WORD);
    line_at(WORD)->migratory = true;            /* so that P loses it altogether */
    run(Q);
    enter_table(Q, WORD);
    steps(Q, 1);
    be_safe(Q);
    fill_empty_word(R);
    run(Q);
    steps(Q, 50);
    g_assert_false(acquire(P, WORD, 8, SPHERE_WRITE));
    be_safe(Q);
    g_assert_cmpuint(processor(Q)->n_drops, >, 0);
    take_grant(P);
    g_assert_cmpuint(world.before[P][Q], ==, world.position[Q]);
    tear_down();
}

/* Without copies: P must not pass W, which has reserved the line and taken it from the reader R. */
static void test_offered_then_reserved(void)
{
    set_up();
    write_and_offer(P, WORD);
    line_at(WORD)->migratory = false;
    make_access(R, WORD, SPHERE_READ);
    run(Q);
    g_assert_true(acquire(Q, WORD, 8, SPHERE_READ));
    steps(Q, 1);
    run(W);
    g_assert_false(acquire(W, WORD, 8, SPHERE_WRITE));
    /* Q is safe, but has not served its inbox yet.  W has an arc from R that is not emitted yet. */
    become_safe(Q);
    g_assert_false(acquire(P, WORD, 8, SPHERE_WRITE));
    tear_down();
}

/* P reads what it has offered, and no other processor took: it need not ask to write again. */
static void test_offer_taken_back(void)
{
    set_up();
    write_and_offer(P, WORD);
    g_assert_true(acquire(P, WORD, 8, SPHERE_READ));
    g_assert_cmpuint(l1(P, WORD), ==, L1_READ | L1_WRITE);
    g_assert_cmpuint(processor(P)->counts.in_vain, ==, 1);
    tear_down();
}

/* A reader that was offered a line has no write bit to take back: its store is a request. */
static void test_read_offer_taken_back(void)
{
    set_up();
    make_access(Q, WORD, SPHERE_READ);
    processor(P)->l1[WORD >> SPHERE_LINE_SHIFT] |= L1_WANTED;
    run(P);
    g_assert_true(acquire(P, WORD, 8, SPHERE_READ));
    steps(P, 1);
    sphere_offer(processor(P), world.position[P]);
    g_assert_cmpuint(l1(P, WORD), ==, L1_OFFERED);
    run(Q);
    g_assert_false(acquire(P, WORD, 8, SPHERE_WRITE));
    g_assert_cmpuint(processor(P)->counts.in_vain, ==, 0);
    tear_down();
}

/* Q writes a line that P has read and offered, while P runs on: Q comes after P's offer. */
static void test_sharer_offers(void)
{
    set_up();
    make_access(R, WORD, SPHERE_READ);
    processor(P)->l1[WORD >> SPHERE_LINE_SHIFT] |= L1_WANTED;
    run(P);
    g_assert_true(acquire(P, WORD, 8, SPHERE_READ));
    steps(P, 1);
    sphere_offer(processor(P), world.position[P]);
    steps(P, 1);
    run(Q);
    g_assert_true(acquire(Q, WORD, 8, SPHERE_WRITE));
    g_assert_cmpuint(l1(P, WORD), ==, 0);
    g_assert_cmpuint(world.before[Q][P], ==, world.position[P] - 1);
    g_assert_false(acquire(P, WORD, 8, SPHERE_READ));
    tear_down();
}

/* P offers a line that Q then only reads: both are sharers, and P need not ask to read it again. */
static void test_offer_downgraded(void)
{
    set_up();
    write_and_offer(P, WORD);
    line_at(WORD)->migratory = false;
    run(Q);
    g_assert_true(acquire(Q, WORD, 8, SPHERE_READ));
    g_assert_cmpuint(world.before[Q][P], ==, world.position[P] - 1);
    g_assert_cmpuint(l1(P, WORD), ==, L1_OFFERED);
    g_assert_true(acquire(P, WORD, 8, SPHERE_READ));
    g_assert_cmpuint(l1(P, WORD), ==, L1_READ);
    g_assert_false(acquire(P, WORD, 8, SPHERE_WRITE));
    tear_down();
}

/* Q asks P for one line.  P offers another one with it, which Q finds, and comes after P. */
static void test_offered_along(void)
{
    const uint8_t wanted = 3 * (L1_WANTED & -L1_WANTED);        /* not at the next boundary */

    set_up();
    processor(P)->l1[WORD >> SPHERE_LINE_SHIFT] |= wanted;
    processor(P)->l1[ELSEWHERE >> SPHERE_LINE_SHIFT] |= wanted;
    run(P);
    g_assert_true(acquire(P, WORD, 8, SPHERE_WRITE));
    g_assert_true(acquire(P, ELSEWHERE, 8, SPHERE_WRITE));
    steps(P, 1);
    sphere_boundary(processor(P), world.position[P]);
    g_assert_false(sphere_has_offers(processor(P)));
    run(Q);
    g_assert_false(acquire(Q, WORD, 8, SPHERE_WRITE));
    become_safe(Q);
    sphere_serve(processor(P), world.position[P]);
    g_assert_cmpuint(l1(P, ELSEWHERE), ==, L1_OFFERED | L1_ASIDE);
    g_assert_cmpuint(processor(P)->counts.offered, ==, 1);
    take_grant(Q);
    steps(P, 1);
    g_assert_true(acquire(Q, ELSEWHERE, 8, SPHERE_READ));
    g_assert_cmpuint(world.before[Q][P], ==, world.position[P] - 1);
    tear_down();
}

/* --- write bits, and processors that left T ------------------------------------------------ */

/*
 * P makes a translation of WORD.  R gets the line, but does not change the word.  P goes on to use
 * the translation, and at last drops all.  Return the position at which P dropped them: a processor
 * that gets a write bit of the line must come after it.
 */
static Position use_and_leave_tables(void)
{
    Position left;

    run(P);
    enter_table(P, WORD);
    steps(P, 1);
    be_safe(P);
    fill_empty_word(R);
    g_assert_cmpuint(run(P), ==, 0);
    steps(P, 100);
    left = world.position[P];
    sphere_left_tables(processor(P), left);
    steps(P, 1);
    be_safe(P);
    /* No processor is in T, so this store unprotects the page. */
    make_access(W, ELSEWHERE, SPHERE_WRITE);
    g_assert_false(world.sphere->pages[0].protected);
    g_assert_cmpuint(world.before[R][P], <, left);
    return left;
}

/* A read of a migratory line gets a write bit. */
static void test_read_of_migratory_line(void)
{
    Position left;

    set_up();
    make_trusted(WORD);
    left = use_and_leave_tables();
    run(Q);
    g_assert_true(acquire(Q, DATA_WORD, 8, SPHERE_READ));
    g_assert_true(l1(Q, WORD) & L1_WRITE);
    g_assert_cmpuint(world.before[Q][P], >=, left);
    tear_down();
}

/* So may a read by the owner, which has no write bit because there were copies. */
static void test_read_of_own_line(void)
{
    Position left;

    set_up();
    left = use_and_leave_tables();
    g_assert_cmpuint(l1(R, WORD), ==, L1_READ);
    run(R);
    g_assert_true(acquire(R, 124, 8, SPHERE_READ));
    g_assert_true(!(l1(R, WORD) & L1_WRITE) || world.before[R][P] >= left);
    tear_down();
}

/* --- a page that is joined again ------------------------------------------------------------- */

enum { DMA = VCPUS };

static void read_page_and_be_safe(void)
{
    if (!sphere_is_granted(processor(Q))) {
        at_kick = read_page_and_be_safe;
        return;
    }
    take_grant(Q);
    steps(Q, 1);
    become_safe(Q);
}

/*
 * R waits for one line, behind DMA and P, which want all lines of the page.  DMA writes all of
 * them, so the page is joined again.  Then P and Q read the page, and Q is safe before R takes its
 * line from them.
 */
static void share_page_while_one_waits(void)
{
    run(Q);
    enter_code(Q, 0);
    run(DMA);
    g_assert_false(acquire(DMA, 0, PAGE_SIZE, SPHERE_WRITE));
    run(P);
    g_assert_false(ask_for_code(P, 0));
    become_safe(P);
    run(R);
    g_assert_false(acquire(R, ELSEWHERE, 8, SPHERE_WRITE));
    become_safe(R);
    steps(Q, 1);
    be_safe(Q);
    take_grant(DMA);
    g_assert_null(world.sphere->pages[0].lines);
    run(Q);
    g_assert_false(ask_for_code(Q, 0));
    become_safe(Q);
    steps(DMA, 1);
    at_kick = read_page_and_be_safe;
    be_safe(DMA);
}

/* R still waits.  W, which writes another line, must come after all processors that read that. */
static void test_joined_while_one_waits(void)
{
    set_up_whole_pages();
    share_page_while_one_waits();
    g_assert_null(at_kick);
    take_grant(P);
    run(W);
    g_assert_false(acquire(W, WORD, 8, SPHERE_WRITE));
    become_safe(W);
    steps(P, 1);
    be_safe(P);
    take_grant(W);
    g_assert_cmpuint(world.before[W][P], ==, world.position[P]);
    g_assert_cmpuint(world.before[W][Q], ==, world.position[Q]);
    tear_down();
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/directed/prepared-stores", test_prepared_stores);
    g_test_add_func("/directed/stores-of-one-line", test_stores_of_one_line);
    g_test_add_func("/directed/stores-beside-translations", test_stores_beside_translations);
    g_test_add_func("/directed/exclusive-stores", test_exclusive_stores_to_two_pages);
    g_test_add_func("/directed/offered-then-translated", test_offered_then_translated);
    g_test_add_func("/directed/offered-then-reserved", test_offered_then_reserved);
    g_test_add_func("/directed/offer-taken-back", test_offer_taken_back);
    g_test_add_func("/directed/read-offer-taken-back", test_read_offer_taken_back);
    g_test_add_func("/directed/sharer-offers", test_sharer_offers);
    g_test_add_func("/directed/offer-downgraded", test_offer_downgraded);
    g_test_add_func("/directed/offered-along", test_offered_along);
    g_test_add_func("/directed/read-of-migratory-line", test_read_of_migratory_line);
    g_test_add_func("/directed/read-of-own-line", test_read_of_own_line);
    g_test_add_func("/directed/joined-while-one-waits", test_joined_while_one_waits);
    return g_test_run();
}
