/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without an operating system whose vCPUs race with instructions that access many bytes:
 * scalable vectors (SVE, SME) and memory copies (FEAT_MOPS), as `-cpu max` has them.
 *
 * Each test prints a digest of what it saw, or `bad` if this run already broke a rule.  The macro
 * MODE selects the tests.
 */
#include "bare.h"

enum {
    WHOLE,              /* one vCPU stores vectors, others never see a part of one */
    RACE,               /* all vCPUs do everything, everywhere, with faults */
};

#define MOST_VCPUS  4
#define BYTES       256                         /* of a vector, at most */

/*
 * Pages that all vCPUs access.  One has code that all run, one is a table that all use, and two are
 * mapped now and then.
 */
#define SHARED      (PLAY + 32 * PAGE)
#define CODE_PAGE   (SHARED + PAGE)
#define CODE        (CODE_PAGE + 0x800)
#define TABLE_PAGE  (SHARED + 2 * PAGE)
#define GONE_PAGES  (SHARED + 4 * PAGE)         /* sometimes */
#define N_PAGES     6
#define ENTRY(page) level3[((page) - PLAY) / PAGE]

/* The addresses that TABLE_PAGE translates: one word at its end, the rest of the page is data. */
#define MAPPED      0xc0000000ul
#define LAST_MAPPED (MAPPED + 511 * PAGE)

static volatile uint64_t three2[512] __attribute__((aligned(PAGE)));
static uint8_t stacks[MOST_VCPUS][4 * PAGE] __attribute__((aligned(PAGE)));
static volatile uint64_t vcpus = 1, ready = 1, ended, now_in_test = UINT64_MAX;

/* --- instructions ------------------------------------------------------------------- */

typedef struct Operands {
    uint64_t at, to;            /* 0, 8: addresses */
    uint64_t size;              /* 16: bytes, for copies */
    uint64_t value;             /* 24: to store */
    uint64_t active;            /* 32: how many bytes or elements of a vector are active */
    uint64_t indices;           /* 40: address of indices for gather and scatter */
} Operands;

/*
 * Each takes operands and returns a digest of what was loaded.  Predicate p0 has the first @active
 * elements, p1 has all, p2 every third byte.
 */
typedef uint64_t Operation(const Operands *operands);

/* Load operands: x1 at, x2 to, x3 size, x4 value, x5 active, x6 indices. */
#define OPERATION(name, ...)                                                                    \
    Operation name;                                                                             \
    asm(".arch armv8.8-a+sve2+sme\n"                                                            \
        #name ":\n"                                                                             \
        "    ldp x1, x2, [x0]\n ldp x3, x4, [x0, #16]\n ldp x5, x6, [x0, #32]\n"                \
        "    mov x0, #0\n"                                                                      \
        __VA_ARGS__                                                                             \
        "    ret\n")
#define PREDICATE(type) \
    "    whilelo p0." type ", xzr, x5\n    ptrue p1.b\n"
/* z0 to z3 get the value that is to be stored. */
#define FILL \
    "    dup z0.d, x4\n    mov z1.d, z0.d\n    mov z2.d, z0.d\n    mov z3.d, z0.d\n"
/* Clear what a load may leave as it was. */
#define CLEAR \
    "    dup z0.d, #0\n    mov z1.d, z0.d\n    mov z2.d, z0.d\n    mov z3.d, z0.d\n"
#define FOLD \
    "    eor z0.d, z0.d, z1.d\n    lsl z2.d, z2.d, #1\n    eor z0.d, z0.d, z2.d\n"              \
    "    lsr z3.d, z3.d, #1\n    eor z0.d, z0.d, z3.d\n"                                        \
    "    index z4.d, #1, #2\n    mul z0.d, p1/m, z0.d, z4.d\n"                                  \
    "    uaddv d0, p1, z0.d\n    fmov x0, d0\n"
#define LOADS(name, type, ...) \
    OPERATION(name, PREDICATE(type) CLEAR __VA_ARGS__ FOLD)
#define STORES(name, type, ...) \
    OPERATION(name, PREDICATE(type) FILL __VA_ARGS__)
/* A load that may stop at a fault: where it stopped is in the digest. */
#define MAY_STOP(name, type, ...)                                                               \
    OPERATION(name, PREDICATE(type) CLEAR "    setffr\n" __VA_ARGS__                            \
              "    rdffr p3.b\n    cntp x7, p1, p3.b\n" FOLD "    add x0, x0, x7\n")

LOADS(load_1b, "b", "    ld1b {z0.b}, p0/z, [x1]\n");
LOADS(load_1d, "d", "    ld1d {z0.d}, p0/z, [x1]\n");
LOADS(load_1sh, "d", "    ld1sh {z0.d}, p0/z, [x1]\n");
LOADS(load_2b, "b", "    ld2b {z0.b, z1.b}, p0/z, [x1]\n");
LOADS(load_3w, "s", "    ld3w {z0.s, z1.s, z2.s}, p0/z, [x1]\n");
LOADS(load_4d, "d", "    ld4d {z0.d, z1.d, z2.d, z3.d}, p0/z, [x1]\n");
LOADS(load_nt, "b", "    ldnt1b {z0.b}, p0/z, [x1]\n");
LOADS(load_quads, "b", "    ld1rqb {z0.b}, p0/z, [x1]\n    ld1rqd {z1.d}, p1/z, [x1, #16]\n"
      "    ld1rd {z2.d}, p1/z, [x1, #8]\n");
LOADS(load_register, "b", "    ldr z0, [x1]\n    ldr z1, [x1, #1, mul vl]\n    ldr p3, [x1]\n"
      "    cntp x7, p1, p3.b\n    dup z3.d, x7\n");
LOADS(gather_d, "d", "    ld1d {z7.d}, p1/z, [x6]\n    ld1d {z0.d}, p0/z, [x1, z7.d]\n");
LOADS(gather_w, "s", "    ld1w {z7.s}, p1/z, [x6]\n    lsr z7.s, z7.s, #18\n"
      "    ld1sh {z0.s}, p0/z, [x1, z7.s, uxtw]\n");
LOADS(gather_nt, "d", "    ld1d {z7.d}, p1/z, [x6]\n    add z7.d, z7.d, #1\n"
      "    dup z6.d, x1\n    add z6.d, z6.d, z7.d\n    ldnt1w {z0.d}, p0/z, [z6.d]\n");
/* The register with the indices is the one that is loaded. */
MAY_STOP(first_gather, "d", "    ld1d {z0.d}, p1/z, [x6]\n    ldff1d {z0.d}, p0/z, [x1, z0.d]\n");
MAY_STOP(first_b, "b", "    ldff1b {z0.b}, p0/z, [x1]\n");
MAY_STOP(first_d, "d", "    ldff1d {z0.d}, p0/z, [x1]\n");
MAY_STOP(none_b, "b", "    ldnf1b {z0.b}, p0/z, [x1]\n");
MAY_STOP(none_sw, "d", "    ldnf1sw {z0.d}, p0/z, [x1]\n");

STORES(store_1b, "b", "    st1b {z0.b}, p0, [x1]\n");
STORES(store_1d, "d", "    st1d {z0.d}, p0, [x1]\n");
STORES(store_1h, "d", "    st1h {z0.d}, p0, [x1]\n");
STORES(store_2b, "b", "    st2b {z0.b, z1.b}, p0, [x1]\n");
STORES(store_3w, "s", "    st3w {z0.s, z1.s, z2.s}, p0, [x1]\n");
STORES(store_4d, "d", "    st4d {z0.d, z1.d, z2.d, z3.d}, p0, [x1]\n");
STORES(store_nt, "b", "    stnt1b {z0.b}, p0, [x1]\n");
STORES(store_register, "b", "    str z0, [x1]\n");
STORES(store_predicate, "b", "    str p0, [x1, #7, mul vl]\n    str p1, [x1]\n");
STORES(scatter_d, "d", "    ld1d {z7.d}, p1/z, [x6]\n    st1d {z0.d}, p0, [x1, z7.d]\n");
STORES(scatter_w, "s", "    ld1w {z7.s}, p1/z, [x6]\n    lsr z7.s, z7.s, #18\n"
       "    st1w {z0.s}, p0, [x1, z7.s, uxtw]\n");
STORES(scatter_odd, "d", "    ld1d {z7.d}, p1/z, [x6]\n    add z7.d, z7.d, #5\n"
       "    st1d {z0.d}, p0, [x1, z7.d]\n");

#define IN_STREAMING_MODE(...) \
    "    smstart sm\n    mov w12, #0\n    mov w13, #1\n" __VA_ARGS__ "    smstop sm\n"
OPERATION(load_za, IN_STREAMING_MODE(PREDICATE("s")
          "    ld1w {za0h.s[w12, 1]}, p0/z, [x1]\n    ld1w {za1v.s[w12, 2]}, p0/z, [x1]\n"
          "    mova z0.s, p1/m, za0h.s[w12, 1]\n    mova z1.s, p1/m, za1v.s[w12, 2]\n"
          "    eor z0.d, z0.d, z1.d\n    uaddv d0, p1, z0.s\n    fmov x0, d0\n"));
OPERATION(load_za_quads, IN_STREAMING_MODE(PREDICATE("d")
          "    ld1q {za3h.q[w12, 0]}, p0/z, [x1]\n    ldr za[w13, 2], [x1, #2, mul vl]\n"
          "    mova z0.q, p1/m, za3h.q[w12, 0]\n"
          "    uaddv d0, p1, z0.d\n    fmov x0, d0\n"));
OPERATION(store_za, IN_STREAMING_MODE(PREDICATE("s")
          "    dup z0.d, x4\n    mova za2h.s[w12, 3], p1/m, z0.s\n"
          "    st1w {za2h.s[w12, 3]}, p0, [x1]\n    st1w {za2v.s[w12, 1]}, p0, [x2]\n"));
OPERATION(store_za_array, IN_STREAMING_MODE(PREDICATE("b")
          "    dup z0.d, x4\n    mova za0h.b[w12, 1], p1/m, z0.b\n"
          "    st1b {za0h.b[w12, 1]}, p0, [x1]\n")
          "    mov w12, #0\n    str za[w12, 1], [x2, #1, mul vl]\n");

OPERATION(set, "    setp [x2]!, x3!, x4\n    setm [x2]!, x3!, x4\n    sete [x2]!, x3!, x4\n");
OPERATION(copy, "    cpyp [x2]!, [x1]!, x3!\n    cpym [x2]!, [x1]!, x3!\n"
          "    cpye [x2]!, [x1]!, x3!\n");
OPERATION(copy_forwards, "    cpyfp [x2]!, [x1]!, x3!\n    cpyfm [x2]!, [x1]!, x3!\n"
          "    cpyfe [x2]!, [x1]!, x3!\n");

/* Return false if the @active words at @at are not all the same. */
OPERATION(is_same, PREDICATE("d") "    ld1d {z0.d}, p0/z, [x1]\n"
          "    dup z1.d, z0.d[0]\n    cmpne p3.d, p0/z, z0.d, z1.d\n    cset x0, none\n");
/* The same, of four vectors with a structure load. */
OPERATION(is_same_4, PREDICATE("d") "    ld4d {z0.d, z1.d, z2.d, z3.d}, p1/z, [x1]\n"
          "    dup z4.d, z0.d[0]\n    mov x0, #1\n"
          "    cmpne p3.d, p1/z, z0.d, z4.d\n    csel x0, x0, xzr, none\n"
          "    cmpne p3.d, p1/z, z1.d, z4.d\n    csel x0, x0, xzr, none\n"
          "    cmpne p3.d, p1/z, z2.d, z4.d\n    csel x0, x0, xzr, none\n"
          "    cmpne p3.d, p1/z, z3.d, z4.d\n    csel x0, x0, xzr, none\n");
/* The same, with a gather of the words whose indices are 8 bytes apart. */
OPERATION(is_same_gathered, PREDICATE("d") "    index z7.d, #0, #8\n"
          "    ld1d {z0.d}, p0/z, [x1, z7.d]\n"
          "    dup z1.d, z0.d[0]\n    cmpne p3.d, p0/z, z0.d, z1.d\n    cset x0, none\n");
STORES(scatter_in_order, "d", "    index z7.d, #0, #8\n    st1d {z0.d}, p0, [x1, z7.d]\n");

static uint64_t vector_bytes(void)
{
    uint64_t bytes;

    asm volatile(".arch armv8.8-a+sve2+sme\n    rdvl %0, #1" : "=r"(bytes));
    return bytes;
}

static void count_up(volatile uint64_t *count)
{
    asm volatile(".arch armv8.8-a+sve2+sme\n    ldaddal %0, xzr, [%1]"
                 : : "r"(1ul), "r"(count) : "memory");
}

static void enable_vectors(void)
{
    write_sysreg("cpacr_el1", 3ul << 16 | 3ul << 20 | 3ul << 24);
    write_sysreg("s3_0_c1_c2_0", 0xf);          /* ZCR_EL1: the longest vectors */
    write_sysreg("s3_0_c1_c2_6", 0xf);          /* SMCR_EL1 */
    asm volatile(".arch armv8.8-a+sve2+sme\n    smstart za" : : : "memory");
}

/* --- shared pages --------------------------------------------------------------------- */

static void make_pages(void)
{
    for (uint64_t at = SHARED; at < SHARED + N_PAGES * PAGE; at += 8) {
        *(volatile uint64_t *)at = 0;
    }
    *(volatile uint32_t *)CODE = MOV_X0(1);
    *(volatile uint32_t *)(CODE + 4) = RET;
    clean_code();
    ((volatile uint64_t *)TABLE_PAGE)[511] = PLAY | PTE_PAGE | NORMAL | PTE_AF;
    three2[0] = TABLE_PAGE | PTE_PAGE;
    level1[3] = (uint64_t)three2 | PTE_PAGE;
    asm volatile("dsb ish; isb" : : : "memory");
}

/* Make copies: run code, use a translation.  Return what the code returns. */
static uint64_t use_copies(void)
{
    (void)*(volatile uint64_t *)LAST_MAPPED;
    return ((uint64_t (*)(void))CODE)();
}

/* --- WHOLE ---------------------------------------------------------------------------- */

#define ROUNDS      200
#define PAUSE       UINT64_MAX          /* between two tests */

typedef struct Place {
    const char *name;
    uint64_t at;
    Operation *store, *is_same;
    uint64_t vectors;
} Place;

static const Place places[] = {
    { "plain", SHARED + 0x108, store_1d, is_same, 1 },
    { "two-pages", SHARED + PAGE - 0x48, store_1d, is_same, 1 },
    { "split-element", SHARED + PAGE - 0x4c, store_1d, is_same, 1 },
    { "structures", CODE_PAGE - 0x108, store_4d, is_same_4, 4 },
    { "code", CODE_PAGE + 0x208, store_1d, is_same, 1 },
    { "table", TABLE_PAGE + 0x208, store_1d, is_same, 1 },
    { "code-and-table", TABLE_PAGE - 0x14, store_1d, is_same, 1 },
    { "register", CODE_PAGE - 0x30, store_register, is_same, 1 },
    { "scatter", TABLE_PAGE - 0x18, scatter_in_order, is_same_gathered, 1 },
    { "split-scatter", TABLE_PAGE - 0x1c, scatter_in_order, is_same_gathered, 1 },
    { "za", CODE_PAGE - 0x28, store_za, is_same, 1 },
    { "set", SHARED + PAGE - 0x100, set, is_same, 1 },
    { "set-code", CODE_PAGE + 0x300, set, is_same, 1 },
    { "copy", TABLE_PAGE + 0x300, copy, is_same, 1 },
};
#define N_PLACES (sizeof(places) / sizeof(places[0]))

static uint64_t source[BYTES / 8] __attribute__((aligned(64)));
static volatile uint64_t looks, torn, paused;

static void store_whole(const Place *place, uint64_t words)
{
    Operands operands = { .at = place->at, .to = place->at, .size = words * 8,
                          .active = words * 2 };

    if (place->store != store_za) {
        operands.active = words;
    }
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        operands.value = i % 251 * 0x0101010101010101ul;
        if (place->store == store_za) {
            operands.to = (uint64_t)source;     /* the second store, elsewhere */
        } else if (place->store == copy) {
            for (unsigned word = 0; word < BYTES / 8; word++) {
                source[word] = operands.value;
            }
            operands.at = (uint64_t)source;
        }
        if (i % 8 == 0 && vcpus > 1) {          /* wait until another vCPU has looked */
            for (uint64_t before = looks; looks == before;) {
                asm volatile("yield");
            }
            use_copies();
        }
        place->store(&operands);
    }
}

static void look(uint64_t test, uint64_t words)
{
    const Place *place = &places[test];
    Operands operands = { .at = place->at, .active = words };

    while (now_in_test == test) {
        use_copies();
        if (!place->is_same(&operands)) {
            torn++;
        }
        looks++;
    }
}

static void test_whole(void)
{
    uint64_t words = vector_bytes() / 8;

    for (uint64_t test = 0; test < N_PLACES; test++) {
        for (uint64_t at = places[test].at; at < places[test].at + 4 * BYTES; at += 4) {
            *(volatile uint32_t *)at = 0;
        }
        now_in_test = test;
        store_whole(&places[test], words);
        digest = mix(digest, looks);
        now_in_test = PAUSE;
        while (paused + 1 < vcpus) {
            asm volatile("yield");
        }
        report(places[test].name, torn == 0);
        torn = paused = 0;
    }
    now_in_test = N_PLACES;
}

static void look_at_all(void)
{
    uint64_t words = vector_bytes() / 8;

    for (uint64_t test = 0; test < N_PLACES; test++) {
        while (now_in_test != test) {
            asm volatile("yield");
        }
        look(test, words);
        count_up(&paused);
    }
}

/* --- RACE ----------------------------------------------------------------------------- */

static Operation *const operations[] = {
    load_1b, load_1d, load_1sh, load_2b, load_3w, load_4d, load_nt, load_quads, load_register,
    gather_d, gather_w, gather_nt, first_gather, first_b, first_d, none_b, none_sw,
    store_1b, store_1d, store_1h, store_2b, store_3w, store_4d, store_nt, store_register,
    store_predicate, scatter_d, scatter_w, scatter_odd, load_za, load_za_quads, store_za,
    store_za_array, set, copy, copy_forwards, set, copy, copy_forwards,
};
#define N_OPERATIONS (sizeof(operations) / sizeof(operations[0]))
#define RACE_ROUNDS 3000

static uint64_t digests[MOST_VCPUS][8];
static uint64_t indices[MOST_VCPUS][BYTES / 8];

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static bool is_copy(Operation *operation)
{
    return operation == set || operation == copy || operation == copy_forwards;
}

static uint64_t entry_of(uint64_t page)
{
    return page | PTE_PAGE | NORMAL | PTE_AF;
}

/* Change what all walk, as others store data: pages that come and go.  Clear an access flag. */
static void change_entries(uint64_t random)
{
    uint64_t page = SHARED + (random >> 8) % N_PAGES * PAGE;
    Operands operands = {
        .at = (uint64_t)&ENTRY(GONE_PAGES),
        .to = (uint64_t)&ENTRY(GONE_PAGES),
        .size = 16,
        .value = random >> 16 & 1 ? entry_of(GONE_PAGES) : 0,
        .active = 2,
    };

    change(&ENTRY(page), entry_of(page) & ~PTE_AF);
    (random >> 17 & 1 && !operands.value ? set : store_1d)(&operands);
    asm volatile("dsb ish; tlbi vmalle1; dsb ish; isb" : : : "memory");
}

/* Change the code that all run, as others store data.  A copy begins with data in front of it. */
static void change_code(uint64_t random, uint64_t *buffer)
{
    Operands operands = {
        .at = CODE,
        .to = CODE - 16,
        .size = 24,
        .value = MOV_X0(random >> 8 & 0xffff) | (uint64_t)RET << 32,
        .active = 1,
    };

    if (random >> 3 & 1) {
        buffer[2] = operands.value;
        operands.at = (uint64_t)buffer;
        copy(&operands);
    } else {
        (random >> 4 & 1 ? store_1d : scatter_in_order)(&operands);
    }
    clean_code();
}

/* Map the page that is gone, and run the instruction again. */
static bool map_page(void)
{
    uint64_t page = read_sysreg("far_el1") & -(uint64_t)PAGE;

    if (page < GONE_PAGES || page >= GONE_PAGES + 2 * PAGE) {
        return false;
    }
    change(&ENTRY(page), entry_of(GONE_PAGES));
    return true;
}

/* An address of a byte with @size bytes behind it that are neither code nor the table's word. */
static uint64_t draw_address(uint64_t *state, uint64_t size)
{
    for (;;) {
        uint64_t random = draw(state);
        uint64_t at = SHARED + random % (N_PAGES * PAGE - size);
        uint64_t end = at + size;

        if (random >> 40 & 1) {                 /* near the end of a page */
            at = (at & -(uint64_t)PAGE) + PAGE - size / 2 - (random >> 48 & 15);
            end = at + size;
        }
        if (at >= SHARED && end <= SHARED + N_PAGES * PAGE &&
            !(at < CODE + 8 && end > CODE) &&
            !(at < TABLE_PAGE + PAGE && end > TABLE_PAGE + PAGE - 8)) {
            return at;
        }
    }
}

static void race(uint64_t vcpu)
{
    uint64_t state = 0x9e3779b97f4a7c15ul * (vcpu + 1);
    uint64_t seen = 0;

    for (unsigned i = 0; i < RACE_ROUNDS; i++) {
        uint64_t random = draw(&state);
        Operation *operation = operations[random % N_OPERATIONS];
        uint64_t size = is_copy(operation) ? 1 + (random >> 8) % (random >> 32 & 1 ? 80 : 3500) :
                        4 * BYTES;
        Operands operands = {
            .at = draw_address(&state, size),
            .to = draw_address(&state, size),
            .size = size,
            .value = draw(&state),
            .active = random >> 20 & 1 ? BYTES : (random >> 24) % 70,
            .indices = (uint64_t)indices[vcpu],
        };

        if (operation == copy && random >> 21 & 1) {            /* they overlap */
            uint64_t at = draw_address(&state, size + 200);

            operands.at = at + (random >> 40) % 200;
            operands.to = at + (random >> 48) % 200;
        }
        for (unsigned index = 0; index < BYTES / 8; index++) {
            /* Within the bytes that draw_address() has found. */
            indices[vcpu][index] = (draw(&state) % (4 * BYTES - 32)) & (random >> 22 & 1 ? -1 : -8);
            indices[vcpu][index] |= indices[vcpu][index] << 50;
            indices[vcpu][index] &= operation == gather_w || operation == scatter_w ?
                                    -1ul : 0xffff;
        }
        seen = mix(seen, operation(&operands));
        if ((random >> 50) % 16 == 0) {
            change_entries(draw(&state));
        }
        if ((random >> 54) % 16 == 0) {
            change_code(draw(&state), indices[vcpu]);
        }
        seen = mix(seen, use_copies());
        digests[vcpu][0] = seen;
    }
}

static void test_race(void)
{
    race(0);
    while (ended + 1 < vcpus) {
        asm volatile("yield");
    }
    for (unsigned i = 0; i < MOST_VCPUS; i++) {
        digest = mix(digest, digests[i][0]);
    }
    for (uint64_t at = SHARED; at < GONE_PAGES; at += 8) {
        digest = mix(digest, *(volatile uint64_t *)at);
    }
    report("race", true);
}

/* --- all vCPUs ------------------------------------------------------------------------ */

void __attribute__((used, noreturn)) run_second(void)
{
    extern char vectors[];
    uint64_t vcpu = read_sysreg("mpidr_el1") & 15;

    use_tables();
    write_sysreg("vbar_el1", (uint64_t)vectors);
    enable_vectors();
    count_up(&ready);
    if (MODE == WHOLE) {
        look_at_all();
    } else {
        race(vcpu);
    }
    count_up(&ended);
    for (;;) {
        asm volatile("wfi");
    }
}

void __attribute__((used)) run(void)
{
    start_mmu();
    enable_vectors();
    make_pages();
    while (vcpus < MOST_VCPUS && start_vcpu(vcpus, stacks[vcpus] + sizeof(stacks[0]))) {
        vcpus++;
    }
    while (ready < vcpus) {
        asm volatile("yield");
    }
    mend = map_page;
    start_interrupts();
    if (MODE == WHOLE) {
        test_whole();
    } else {
        test_race();
    }
    power_off();
}
