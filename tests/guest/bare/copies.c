/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without an operating system that tests copies of memory: translations and blocks of code,
 * made and dropped at rare moments, while another vCPU changes the words that they were made from.
 * Each test is a way in which the recorder once went wrong.
 *
 * Each test prints a digest of what it saw, or `bad` if this run already broke a rule.  The macro
 * MODE selects the tests.
 */
#include "bare.h"

enum {
    FORGOTTEN,          /* drops that a replay from a checkpoint must make; needs checkpoints */
    SEVERAL,            /* instructions with several stores, to pages with copies of other vCPUs */
    OUTSIDE,            /* tables that lie outside of memory */
    BRANCHES,           /* branch target exceptions, and jumps to odd addresses */
    SUSPENDED,          /* firmware calls that halt */
};

/* Tables of addresses that nothing else uses: two2 from 2 GiB on, three2 from 3 GiB on. */
#define GIB         0x40000000ul
#define HIGH(a)     ((a) | 0xffffff8000000000ul)

static volatile uint64_t two2[512] __attribute__((aligned(PAGE)));
static volatile uint64_t three2[512] __attribute__((aligned(PAGE)));
static volatile uint64_t three3[512] __attribute__((aligned(PAGE)));
static uint64_t other1[512] __attribute__((aligned(PAGE)));

/* --- two vCPUs take turns ------------------------------------------------------------ */

static volatile uint64_t turn __attribute__((aligned(64)));

static void wait_for_turn(uint64_t n)
{
    while (turn != n) {
        asm volatile("yield");
    }
    asm volatile("dmb ish" : : : "memory");
}

static void end_turn(void)
{
    asm volatile("dmb ish" : : : "memory");
    turn++;
}

static volatile uint64_t *word_to_change;
static uint64_t new_word;

/* Change @n words, each when the first vCPU has called have_changed().  Second vCPU. */
static void change_words(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        wait_for_turn(2 * i + 1);
        *word_to_change = new_word;
        asm volatile("dsb ish; tlbi vmalle1is; dsb ish" : : : "memory");
        end_turn();
    }
}

static void have_changed(volatile uint64_t *word, uint64_t value)
{
    uint64_t now = turn;

    word_to_change = word;
    new_word = value;
    end_turn();
    wait_for_turn(now + 2);
}

/* --- FORGOTTEN --------------------------------------------------------------------- */

/*
 * In the recording this vCPU has walked more tables than in a replay that begins at a checkpoint
 * made meanwhile.  So the recording drops all translations where the replay finds nothing to drop.
 * The log must tell the replay, or the replay keeps the translation of a word that is changed
 * afterwards.
 */
#define FORGOTTEN_CHANGES 2

static uint64_t page_at(uint64_t physical)
{
    return physical | PTE_PAGE | NORMAL | PTE_AF;
}

static void make_tables(void)
{
    for (uint64_t i = 0; i < 512; i++) {
        two2[i] = (RAM + i * BLOCK) | PTE_BLOCK | NORMAL | PTE_AF;
        three3[i] = page_at(PLAY);
        *(volatile uint64_t *)(PLAY + i * PAGE) = i;
    }
    three2[0] = (uint64_t)three3 | PTE_PAGE;
    level1[2] = (uint64_t)two2 | PTE_PAGE;
    level1[3] = (uint64_t)three2 | PTE_PAGE;
    for (unsigned i = 0; i < 512; i++) {
        other1[i] = level1[i];
    }
    asm volatile("dsb ish; isb" : : : "memory");
}

/* Change a table of which the replay has walked nothing. */
static void test_table(void)
{
    volatile uint64_t *page = (uint64_t *)(3 * GIB);
    bool good;

    digest = mix(digest, *(volatile uint64_t *)(2 * GIB + (PLAY - RAM)));
    take_time();
    good = *page == 0;
    two2[7] += BLOCK;
    have_changed(&three3[0], page_at(PLAY + PAGE));
    good &= *page == 1;
    digest = mix(digest, *page);
    report("table", good);
}

/* Use more low pages than the recorder remembers, then another table base. */
static void test_low_pages(void)
{
    volatile uint64_t *page = (uint64_t *)HIGH(3 * GIB + PAGE);
    bool good;

    for (unsigned i = 0; i < 40; i++) {
        digest = mix(digest, *(volatile uint64_t *)(PLAY + i * PAGE));
    }
    take_time();
    good = *page == 0;
    write_sysreg("ttbr0_el1", (uint64_t)other1);
    write_sysreg("ttbr0_el1", (uint64_t)level1);
    have_changed(&three3[1], page_at(PLAY + 2 * PAGE));
    good &= *page == 2;
    digest = mix(digest, *page);
    report("low-pages", good);
}

/* --- SEVERAL ----------------------------------------------------------------------- */

/*
 * An instruction with several stores is one step.  So an instruction with several loads never sees
 * a part of the stores, in pages of code and of tables, in one line, in two, and in two pages.  One
 * vCPU stores, the other loads.  All the time, both run code from these pages, or use addresses
 * that the tables translate.
 */
#define STORES      400
#define CODE        (PLAY + 16 * PAGE)          /* two pages with code and data */
#define MORE_CODE   (CODE + PAGE + 0x100)
#define TABLE_WORD  8

void store_two(uint64_t at, uint64_t first, uint64_t second);
void store_four(uint64_t at, uint64_t first, uint64_t second);
bool two_differ(uint64_t at);
bool four_differ(uint64_t at);

asm(".arch_extension simd\n"
    "set:\n"                                    /* v0 to v3 get the same two words */
    "    fmov d0, x1\n"
    "    mov v0.d[1], x2\n"
    "    mov v1.16b, v0.16b\n"
    "    mov v2.16b, v0.16b\n"
    "    mov v3.16b, v0.16b\n"
    "    ret\n"
    "store_two:\n"
    "    mov x9, x30\n"
    "    bl set\n"
    "    stp q0, q1, [x0]\n"
    "    ret x9\n"
    "store_four:\n"
    "    mov x9, x30\n"
    "    bl set\n"
    "    st1 {v0.16b, v1.16b, v2.16b, v3.16b}, [x0]\n"
    "    ret x9\n"
    "four_differ:\n"
    "    ld1 {v0.16b, v1.16b, v2.16b, v3.16b}, [x0]\n"
    "    eor v2.16b, v2.16b, v0.16b\n"
    "    eor v3.16b, v3.16b, v0.16b\n"
    "    orr v3.16b, v3.16b, v2.16b\n"
    "    b 1f\n"
    "two_differ:\n"
    "    ldp q0, q1, [x0]\n"
    "    movi v3.16b, #0\n"
    "1:  eor v1.16b, v1.16b, v0.16b\n"
    "    orr v1.16b, v1.16b, v3.16b\n"
    "    umaxv b1, v1.16b\n"
    "    umov w1, v1.b[0]\n"
    "    cmp w1, #0\n"
    "    cset w0, ne\n"
    "    ret\n");

typedef struct Place {
    const char *name;
    uint64_t at;
    bool four;
} Place;

static const Place places[] = {
    { "one-line", CODE + 0x400, false },
    { "whole-line", CODE + 0x440, true },
    { "two-lines", CODE + 0x4b0, false },
    { "two-pages", CODE + PAGE - 16, false },
    { "tables", (uint64_t)&three3[TABLE_WORD], false },
    { "more-tables", (uint64_t)&three3[TABLE_WORD + 4], true },
};
#define N_PLACES (sizeof(places) / sizeof(places[0]))

static volatile unsigned stored[N_PLACES], looks, torn;

/* Make copies of all pages: blocks of both pages of code, and translations, some of them absent. */
static void use_copies(void)
{
    ((void (*)(void))CODE)();
    ((void (*)(void))MORE_CODE)();
    (void)*(volatile uint64_t *)(3 * GIB + (TABLE_WORD + 1) * PAGE);
    (void)*(volatile uint64_t *)(3 * GIB + (TABLE_WORD + 5) * PAGE);
}

static void store_all(const Place *place, volatile unsigned *n)
{
    for (unsigned i = 1; i <= STORES; i++) {
        uint64_t first = i % 3 ? page_at(PLAY + i % 3 * PAGE) : 0;
        uint64_t second = page_at(PLAY + i % 5 * PAGE);

        if (i % 8 == 0) {               /* wait until the other vCPU has looked */
            for (unsigned before = looks; looks == before;) {
                asm volatile("yield");
            }
            use_copies();
        }
        (place->four ? store_four : store_two)(place->at, first, second);
        *n = i;
    }
}

static void look_at(const Place *place, const volatile unsigned *n)
{
    while (*n < STORES) {
        use_copies();
        torn += (place->four ? four_differ : two_differ)(place->at);
        looks++;
    }
}

static void test_several(bool stores)
{
    write_sysreg("cpacr_el1", 0x300000);
    for (unsigned i = 0; i < N_PLACES; i++) {
        wait_for_turn(stores ? 2 * i : 2 * i + 1);
        if (stores) {
            (places[i].four ? store_four : store_two)(places[i].at, 0, page_at(PLAY));
            end_turn();
            store_all(&places[i], &stored[i]);
            wait_for_turn(2 * i + 2);
            digest = mix(digest, looks);
            report(places[i].name, torn == 0);
            torn = 0;
        } else {
            look_at(&places[i], &stored[i]);
            end_turn();
        }
    }
}

/*
 * Code that one vCPU writes and the other runs.  It changes while it is being translated.  After
 * the last change, only the new code may run.
 */
#define REMOTE      (PLAY + 20 * PAGE)
#define REMOTE_ROUNDS 500

static volatile uint64_t written_round __attribute__((aligned(64)));
static volatile uint64_t run_round __attribute__((aligned(64)));
static volatile bool ran_old_code;

static void write_remote_code(void)
{
    volatile uint32_t *code = (uint32_t *)REMOTE;

    for (uint64_t round = 1; round <= REMOTE_ROUNDS; round++) {
        for (uint64_t i = 0; i < round % 9; i++) {
            code[0] = MOV_X0((round * 7 + i) & 0x7fff);
        }
        code[0] = MOV_X0(round);
        clean_code();
        written_round = round;
        while (run_round != round) {
        }
    }
    report("remote-code", !ran_old_code);
}

static void run_remote_code(void)
{
    uint64_t (*call)(void) = (void *)REMOTE;

    for (uint64_t round = 1; round <= REMOTE_ROUNDS; round++) {
        while (written_round != round) {
            call();
        }
        clean_code();
        ran_old_code |= call() != round;
        run_round = round;
    }
}

static void make_code(void)
{
    volatile uint32_t *code = (uint32_t *)REMOTE;

    *(volatile uint32_t *)CODE = RET;
    *(volatile uint32_t *)MORE_CODE = RET;
    code[0] = MOV_X0(0);
    code[1] = RET;
    clean_code();
}

/* --- OUTSIDE ----------------------------------------------------------------------- */

/*
 * With a second vCPU, replay hands over some 20 times a round.  On a busy host a handover takes up
 * to a time slice of the host, so three times as many rounds would take a minute.
 */
#define OUTSIDE_ROUNDS  100
#define DEVICE      (4 * GIB)           /* its table lies in the console's registers */
#define NOTHING     (5 * GIB)           /* its table lies where there is nothing */

static volatile bool outside_is_done;

static void jump_to(uint64_t address)
{
    asm volatile("adr x9, 1f; str x9, %0; br %1; 1:"
                 : "=m"(fetch_return) : "r"(address) : "x9", "memory");
}

static void ask_for(uint64_t address)
{
    asm volatile("at s1e1r, %0; isb" : : "r"(address) : "memory");
    digest = mix(digest, read_sysreg("par_el1"));
}

/* The fault is the same whether code of the page ran before, at this address or at another. */
static void test_odd_jumps(void)
{
    bool good = true;

    *(volatile uint32_t *)PLAY = RET;
    clean_code();
    for (unsigned i = 0; i < 200; i++) {
        uint64_t target = (i & 1 ? 3 * GIB : PLAY) + 2;

        if (i & 2) {
            ((void (*)(void))(target - 2))();
        }
        for (unsigned page = 0; i & 4 && page < 160; page++) {
            digest = mix(digest, *(volatile uint64_t *)(PLAY + (page + 32) * PAGE));
        }
        jump_to(target);
        good &= read_sysreg("far_el1") == target;
    }
    report("odd-jumps", good);
}

static void test_outside(void)
{
    level1[4] = (uint64_t)UART | PTE_PAGE;
    level1[5] = 0x08100000ul | PTE_PAGE;
    asm volatile("dsb ish; isb" : : : "memory");
    for (unsigned i = 0; i < OUTSIDE_ROUNDS; i++) {
        asm volatile("ldr x9, [%0]; ldr x9, [%1]; str xzr, [%1, #8]; ldp x9, x10, [%0, #16]"
                     : : "r"(DEVICE), "r"(NOTHING) : "x9", "x10", "memory");
        jump_to(NOTHING + 4096 * i);
        jump_to(DEVICE + 4096 * i);
        ask_for(DEVICE);
        digest = mix(digest, faults);
    }
    outside_is_done = true;
    report("outside", faults == 6 * OUTSIDE_ROUNDS);
}

/* Change a word that the handlers of these faults use, all the time.  Second vCPU. */
static void disturb(void)
{
    while (!outside_is_done) {
        digest = mix(digest, 1);
    }
}

/* --- BRANCHES ---------------------------------------------------------------------- */

#define BRANCH_ROUNDS   300
#define GUARDED     (PLAY + 24 * PAGE)

static void test_branches(void)
{
    bool has = read_sysreg("id_aa64pfr1_el1") & 15;
    uint32_t *code = (uint32_t *)GUARDED;

    for (unsigned i = 0; i < 60; i++) {
        code[i] = NOP;
    }
    code[60] = RET;
    clean_code();
    change(&level3[24], level3[24] | PTE_GUARDED);
    for (unsigned i = 0; i < BRANCH_ROUNDS; i++) {
        asm volatile("adr x30, 1f; br %0; 1:" : : "r"(&code[i % 50]) : "x30", "memory");
        digest = mix(digest, faults);
    }
    report("branches", !has || faults == BRANCH_ROUNDS);
}

/* --- SUSPENDED --------------------------------------------------------------------- */

/* PSCI CPU_SUSPEND halts until an interrupt comes, or not at all if one is pending. */
static void test_suspended(void)
{
    for (unsigned i = 0; i < 200; i++) {
        uint64_t until = read_sysreg("cntvct_el0") + 2 * ticks();

        if (i & 1) {
            asm volatile("msr daifset, #2");
            while (read_sysreg("cntvct_el0") < until) {
            }
        }
        digest = mix(digest, psci(0xc4000001ul, 0, 0, 0));
        asm volatile("msr daifclr, #2");
        digest = mix(digest, interrupts);
    }
    report("suspended", true);
}

/* --- both vCPUs ----------------------------------------------------------------------- */

void __attribute__((used, noreturn)) run_second(void)
{
    use_tables();
    switch (MODE) {
    case FORGOTTEN:
        change_words(FORGOTTEN_CHANGES);
        break;
    case SEVERAL:
        test_several(false);
        run_remote_code();
        break;
    case OUTSIDE:
        disturb();
        break;
    case BRANCHES:
    case SUSPENDED:
        break;
    }
    for (;;) {
        asm volatile("wfi");
    }
}

void __attribute__((used)) run(void)
{
    bool two;

    start_mmu();
    make_tables();
    make_code();
    two = start_second();
    if (MODE != FORGOTTEN && MODE != SEVERAL) {
        start_interrupts();
    }
    switch (MODE) {
    case FORGOTTEN:
        test_table();
        test_low_pages();
        break;
    case SEVERAL:
        test_several(true);
        write_remote_code();
        break;
    case OUTSIDE:
        test_outside();
        break;
    case BRANCHES:
        test_branches();
        test_odd_jumps();
        break;
    case SUSPENDED:
        test_suspended();
        break;
    }
    say(two ? "two\r\n" : "one\r\n");
    power_off();
}
