/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without an operating system that does what Linux does not do, or not often enough, while
 * timer interrupts come all the time.  A second vCPU, if there is one, races with the first.
 *
 * Each test mixes what it sees into a digest.  Each interrupt mixes in the interrupted address and
 * a watched word.  The digests differ from run to run, so a replay that prints the same digests is
 * exact.  `NAME bad` instead means that this run already broke a rule.
 *
 * The macro MODE selects what the guest does.
 */
#include "bare.h"

enum {
    ALL,                /* all tests */
    MIXED,              /* first an access that cannot be recorded, then all tests */
    LATE_FLAGS,         /* only flags that walks set, with time for a checkpoint between them */
    USER_LOOP,          /* up to four vCPUs loop in user mode, until a debugger moves them out */
};

/* A second set of tables, which maps a few pages differently. */
static uint64_t other1[512] __attribute__((aligned(PAGE)));
static uint64_t other2[512] __attribute__((aligned(PAGE)));
static uint64_t other3[512] __attribute__((aligned(PAGE)));

/* --- tests ------------------------------------------------------------------------ */

/* Let walks set access flags and dirty states, while the interrupt handler reads them. */
static void test_flags(void)
{
    bool has = (read_sysreg("id_aa64mmfr1_el1") & 15) == 2;
    volatile uint32_t *code = (uint32_t *)PLAY;
    volatile uint64_t *data = (uint64_t *)(PLAY + PAGE);
    void (*call)(void) = (void *)PLAY;
    uint64_t code_pte = level3[0], data_pte = level3[1];
    bool good = true;

    code[0] = RET;
    clean_code();
    watched = &level3[0];
    for (int i = 0; has && i < 20000; i++) {
        change(&level3[0], code_pte & ~PTE_AF);
        call();
        good &= level3[0] == code_pte;
    }
    watched = &level3[1];
    for (int i = 0; has && i < 20000; i++) {
        change(&level3[1], (data_pte & ~PTE_AF) | PTE_DBM | PTE_RO);
        digest = mix(digest, *data);
        good &= level3[1] == (data_pte | PTE_DBM | PTE_RO);
        *data = i;
        good &= level3[1] == (data_pte | PTE_DBM);
    }
    watched = 0;
    change(&level3[1], data_pte);
    report("flags", good);
}

/* Here only walks write to the page of tables, and the pages are not used again. */
static void set_late_flags(void)
{
    volatile uint64_t *data = (uint64_t *)(PLAY + PAGE);
    void (*call)(void) = (void *)PLAY;

    *(volatile uint32_t *)PLAY = RET;
    clean_code();
    change(&level3[0], level3[0] & ~PTE_AF);
    change(&level3[1], (level3[1] & ~PTE_AF) | PTE_DBM | PTE_RO);
    take_time();
    digest = mix(digest, *data);
    take_time();
    *data = 1;
    take_time();
    call();
    take_time();
    for (int i = 0; i < 2; i++) {
        digest = mix(digest, level3[i]);
    }
    report("late-flags", (level3[0] & level3[1] & PTE_AF) && !(level3[1] & PTE_RO));
}

/*
 * Change the memory type of a page to device, where an unaligned access faults.  (With one vCPU,
 * QEMU lets the access pass.)
 */
static void test_attributes(void)
{
    uint64_t pte = level3[2];

    change(&level3[2], (pte & ~PTE_ATTR(7)) | PTE_ATTR(3));
    for (int i = 0; i < 2000; i++) {
        write_sysreg("mair_el1", MAIR);
        digest = mix(digest, *(volatile uint32_t *)(PLAY + 2 * PAGE + 1));
        write_sysreg("mair_el1", MAIR_DEVICE);
        asm volatile("ldr w0, [%0]" : : "r"(PLAY + 2 * PAGE + 1) : "x0");
        digest = mix(digest, faults);
    }
    write_sysreg("mair_el1", MAIR);
    change(&level3[2], pte);
    report("attributes", true);
}

/* Make the other tables: they map pages 3 to 5 to what pages 6 to 8 are in the first tables. */
static void make_other_tables(void)
{
    for (unsigned i = 0; i < 512; i++) {
        other1[i] = level1[i];
        other2[i] = level2[i];
        other3[i] = level3[i];
    }
    for (unsigned i = 3; i < 6; i++) {
        other3[i] = level3[i + 3];
    }
    other2[(PLAY - RAM) / BLOCK] = (uint64_t)other3 | PTE_PAGE;
    other1[1] = (uint64_t)other2 | PTE_PAGE;
}

static uint64_t load_as_user(uint64_t address)
{
    uint64_t value;

    asm volatile("ldtr %0, [%1]" : "=r"(value) : "r"(address) : "memory");
    return value;
}

/*
 * Switch between both sets of tables, with another ASID or with the same, and without TLBI.  No
 * translation and no code of the former tables may be used.  (The architecture requires TLBI before
 * an ASID is used with other tables.  Here translations are coherent, so that it is not needed.)
 */
static void test_bases(void)
{
    extern uint64_t run_as_user(uint64_t address);
    uint64_t (*call)(void) = (void *)(PLAY + 5 * PAGE + 8);
    bool good = true;

    change(&level3[4], level3[4] | PTE_USER);
    change(&level3[7], level3[7] | PTE_USER);
    for (uint64_t i = 3; i < 9; i++) {
        volatile uint64_t *page = (uint64_t *)(PLAY + i * PAGE);
        volatile uint32_t *code = (uint32_t *)(page + 1);

        page[0] = i < 6 ? 1 : 2;
        code[0] = MOV_X0(i < 6 ? 1 : 2);
        code[1] = i == 4 || i == 7 ? SVC : RET;
    }
    clean_code();
    make_other_tables();
    for (uint64_t i = 0; i < 4000; i++) {
        bool other = i & 1;
        uint64_t expected = 1 + other, asid = i & 2 ? i & 255 : 0;

        write_sysreg("ttbr0_el1", (other ? (uint64_t)other1 : (uint64_t)level1) | asid << 48);
        good &= !(i & 4) || *(volatile uint64_t *)(PLAY + 3 * PAGE) == expected;
        good &= !(i & 8) || load_as_user(PLAY + 4 * PAGE) == expected;
        good &= !(i & 16) || call() == expected;
        good &= !(i & 32) || run_as_user(PLAY + 4 * PAGE + 8) == expected;
    }
    write_sysreg("ttbr0_el1", (uint64_t)level1);
    report("bases", good);
}

static void test_random(void)
{
    bool has = read_sysreg("id_aa64isar0_el1") >> 60;
    uint64_t value, failed;
    bool good = true;

    for (int i = 0; has && i < 1000; i++) {
        asm volatile("cmp xzr, xzr; mrs %0, s3_3_c2_c4_0; cset %1, eq"      /* RNDR */
                     : "=r"(value), "=r"(failed) : : "cc");
        digest = mix(digest, value);
        good &= !failed;
    }
    report("random", good);
}

/* WFIT waits for an interrupt or a time, whichever comes first. */
static void test_waits(void)
{
    bool has = (read_sysreg("id_aa64isar2_el1") & 15) == 2;

    for (int i = 0; has && i < 500; i++) {
        uint64_t until = read_sysreg("cntvct_el0") + i * ticks() / 250;

        asm volatile("mov x0, %0; .inst 0xd5031020" : : "r"(until) : "x0", "memory");
        digest = mix(digest, read_sysreg("cntvct_el0") >= until);
    }
    report("waits", true);
}

/* SETP, SETM, SETE; CPYP, CPYM, CPYE: the interrupt handler sees their progress. */
static void test_copies(void)
{
    bool has = read_sysreg("id_aa64isar2_el1") >> 16 & 15;
    const uint64_t half = BUFFER_SIZE / 2;
    bool good = true;

    for (int i = 0; has && i < 20; i++) {
        register uint64_t to asm("x0") = BUFFER, size asm("x1") = half, value asm("x2") = i + 1;

        watched = (uint64_t *)(BUFFER + half / 2);
        asm volatile(".inst 0x19c20420; .inst 0x19c24420; .inst 0x19c28420"
                     : "+r"(to), "+r"(size) : "r"(value) : "cc", "memory");
        register uint64_t to2 asm("x0") = BUFFER + half, from asm("x1") = BUFFER,
                          size2 asm("x2") = half;
        watched = (uint64_t *)(BUFFER + half + half / 2);
        asm volatile(".inst 0x1d010440; .inst 0x1d410440; .inst 0x1d810440"
                     : "+r"(to2), "+r"(from), "+r"(size2) : : "cc", "memory");
        good &= *(uint64_t *)(BUFFER + BUFFER_SIZE - 8) == 0x0101010101010101ul * (i + 1);
    }
    watched = 0;
    report("copies", good);
}

/* Write code with a vector store; the code that is called is not the first part of it. */
static void test_vector_code(void)
{
    bool has = read_sysreg("id_aa64pfr0_el1") >> 32 & 15;
    uint32_t new_code[4] = { RET, RET, 0, RET };
    uint64_t (*call)(void) = (void *)(PLAY + 8);
    bool good = true;

    if (has) {
        write_sysreg("cpacr_el1", 0x330000);
    }
    for (int i = 0; has && i < 1000; i++) {
        new_code[2] = MOV_X0(i);
        asm volatile("mov x0, %0; mov x1, %1\n"
                     ".inst 0x2518e120\n"       /* ptrue p0.b, vl16 */
                     ".inst 0xa400a000\n"       /* ld1b {z0.b}, p0/z, [x0] */
                     ".inst 0xe400e020\n"       /* st1b {z0.b}, p0, [x1] */
                     : : "r"(new_code), "r"(PLAY) : "x0", "x1", "memory");
        clean_code();
        good &= call() == (uint64_t)i;
    }
    report("vector-code", good);
}

/*
 * Run code that changes a later instruction of the same translation block.  The architecture allows
 * the old or the new instruction.  While recording, the new one must run at once, since replay may
 * begin a block in between.
 */
static void test_own_code(void)
{
    static const uint32_t code[] = { 0xb9000041u /* str w1, [x2] */, NOP, MOV_X0(0), RET };
    uint64_t (*call)(uint64_t, uint32_t, uint32_t *) = (void *)PLAY;
    uint32_t *play = (uint32_t *)PLAY;
    bool good = true;

    for (int i = 0; i < 4; i++) {
        play[i] = code[i];
    }
    clean_code();
    for (int i = 1; i < 1000; i++) {
        good &= call(0, MOV_X0(i), &play[2]) == (uint64_t)i;
    }
    report("own-code", good);
}

/* --- a race of two vCPUs ------------------------------------------------------------ */

#define LINE        64
#define RACE_ROUNDS 8000
#define RACE_LEAD   5                   /* a vCPU that is so far ahead waits; lines pass often */
#define RACE_SIZE   512                 /* a few lines, which both vCPUs use all the time */

static uint8_t raced[RACE_SIZE + 16] __attribute__((aligned(PAGE)));
static uint8_t neighbours[RACE_SIZE + 16] __attribute__((aligned(PAGE)));
static volatile uint32_t lock __attribute__((aligned(64)));
static volatile uint64_t locked_rounds, second_digest;
static volatile int64_t rounds_of[2];
static volatile bool second_is_done;

/*
 * A waiter only reads: by stores, it would get a lease on the line, and keep the line from the
 * holder of the lock, which needs it to release the lock.
 */
static void take_lock(void)
{
    uint32_t not_taken;

    do {
        asm volatile("ldaxr %w0, [%1]; cbnz %w0, 1f; stxr %w0, %w2, [%1]; 1:"
                     : "=&r"(not_taken) : "r"(&lock), "r"(1) : "memory");
    } while (not_taken);
}

static void leave_lock(void)
{
    asm volatile("stlr wzr, [%0]" : : "r"(&lock) : "memory");
}

/*
 * Make an access of any size, mostly unaligned, sometimes across two lines.  Return what it read.
 */
static uint64_t race_access(uint64_t choice, uint64_t value)
{
    uint8_t *place = raced + choice % RACE_SIZE;
    uint64_t seen = 0;

    switch (choice >> 32 & 7) {
    case 0:
        seen = *(volatile uint8_t *)place;
        *(volatile uint8_t *)place = value;
        break;
    case 1:
        seen = *(volatile uint16_t *)place;
        *(volatile uint16_t *)place = value;
        break;
    case 2:
        seen = *(volatile int32_t *)place;
        *(volatile uint32_t *)place = value;
        break;
    case 3:
        asm volatile("ldp %0, x9, [%1]; eor %0, %0, x9; stp %2, %0, [%1]"
                     : "=&r"(seen) : "r"(place), "r"(value) : "x9", "memory");
        break;
    case 4:                                 /* ldr q0, [x9]; str q0, [x10] */
        asm volatile("mov x9, %0; mov x10, %1; .inst 0x3dc00120; .inst 0x3d800140"
                     : : "r"(place), "r"(raced + value % RACE_SIZE) : "x9", "x10", "memory");
        break;
    default:
        seen = *(volatile uint64_t *)place;
        *(volatile uint64_t *)place = value;
    }
    return seen;
}

/*
 * Write to an own line, and read a word that lies half in that and half in the next line, which the
 * other vCPU writes.  Lines of the two vCPUs alternate.
 */
static uint64_t look_across(int who, uint64_t round)
{
    uint8_t *own = neighbours + (round % (RACE_SIZE / LINE / 2) * 2 + who) * LINE;

    *(volatile uint64_t *)own = round;
    return *(volatile uint64_t *)(own + LINE - 4);
}

static void start_round(int who, int round)
{
    rounds_of[who] = round;
    while (rounds_of[!who] + RACE_LEAD < round) {
        asm volatile("yield");
    }
}

static uint64_t race(int who)
{
    uint64_t seed = who + 1;
    int round = 0;

    write_sysreg("cpacr_el1", read_sysreg("cpacr_el1") | 0x300000);
    while (round < RACE_ROUNDS) {
        start_round(who, round);
        seed = mix(seed, look_across(who, round++));
    }
    while (round < 2 * RACE_ROUNDS) {
        start_round(who, round++);
        seed = mix(seed, race_access(seed, seed >> 7));
        take_lock();
        seed = mix(seed, locked_rounds++);
        leave_lock();
    }
    return seed;
}

/* --- user mode --------------------------------------------------------------------- */

/*
 * A debugger sets PC to this address, and PSTATE to EL1.  After that, QEMU lets the vCPU keep the
 * rights of user mode until the next exception.  The load causes an exception, and is skipped.
 */
asm("enter_kernel:\n"
    "    ldr x0, [sp, #-8]\n"
    "    b in_kernel\n");

void __attribute__((used)) in_kernel(void)
{
    say("in the kernel\r\n");
    power_off();
}

static void loop_as_user(void)
{
    extern uint64_t run_as_user(uint64_t address);
    extern char vectors[];

    write_sysreg("vbar_el1", (uint64_t)vectors);
    run_as_user(PLAY);
}

static void loop_everywhere(void)
{
    *(volatile uint32_t *)PLAY = LOOP;
    clean_code();
    change(&level3[0], level3[0] | PTE_USER);
    for (uint64_t i = 1; i < 4; i++) {
        start_vcpu(i, second_stack + i * PAGE / 4);
    }
    say("loops\r\n");
    loop_as_user();
}

void __attribute__((used, noreturn)) run_second(void)
{
    use_tables();
    if (MODE == USER_LOOP) {
        loop_as_user();
    }
    second_digest = race(1);
    second_is_done = true;
    for (;;) {
        asm volatile("wfi");
    }
}

static void test_race(void)
{
    bool good = true;

    if (start_second()) {
        digest = mix(digest, race(0));
        while (!second_is_done) {
        }
        digest = mix(digest, second_digest);
        good = locked_rounds == 2 * RACE_ROUNDS;
    }
    report("race", good);
}

/* Load the last 8 bytes of the PCI configuration space and the first 8 of RAM at once. */
static void touch_device_and_memory(void)
{
    uint64_t device, memory;

    asm volatile("ldp %0, %1, [%2]" : "=r"(device), "=r"(memory) : "r"(RAM - 8) : "memory");
    digest = mix(device, memory);
}

static void run_tests(void)
{
    start_interrupts();
    if (MODE == MIXED) {
        touch_device_and_memory();
    }
    test_flags();
    test_attributes();
    test_bases();
    test_random();
    test_waits();
    test_copies();
    test_vector_code();
    test_own_code();
    test_race();
    while (interrupts <= 10) {          /* on a busy host they may be late */
    }
    digest = interrupts;
    report("interrupts", true);
}

void __attribute__((used)) run(void)
{
    start_mmu();
    if (MODE == LATE_FLAGS) {
        set_late_flags();
    } else if (MODE == USER_LOOP) {
        loop_everywhere();
    } else {
        run_tests();
    }
    power_off();
}

