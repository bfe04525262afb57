/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without an operating system that shares memory with its interrupt controller: the tables
 * of the ITS, and the tables of pending LPIs, which the redistributors write.  No other program
 * touches these tables once the controller has them.  Here each vCPU reads them all the time, and
 * writes to the same lines.
 *
 * The controller writes in a vCPU's thread: in a store to the ITS, and in the read of a system
 * register that acknowledges an LPI.  Timer interrupts come all the time.  What the vCPUs see goes
 * into a digest, as in bare.c.
 *
 * The macro MODE selects what the guest does.
 */
#define WITH_GICV3
#include "bare.h"

enum {
    RACE,               /* all of that */
    FLASH_TABLE,        /* let the ITS write to flash, which cannot be recorded, and then all */
};

#define ITS             0x08080000ul
#define ITS_REG(offset) (*(volatile uint64_t *)(ITS + (offset)))
#define ITS_CTLR        (*(volatile uint32_t *)ITS)
#define ITS_CBASER      ITS_REG(0x80)
#define ITS_CWRITER     ITS_REG(0x88)
#define ITS_CREADR      ITS_REG(0x90)
#define ITS_DEVICES     ITS_REG(0x100)
#define ITS_COLLECTIONS ITS_REG(0x108)
#define ITS_TRANSLATER  (*(volatile uint32_t *)(ITS + 0x10040))
#define VALID           (1ul << 63)
#define FLASH           0

/* 64-bit registers of a redistributor. */
#define GICR64(n, offset)   (*(volatile uint64_t *)((uint64_t)GICR(n) + (offset)))
#define PROPBASER       0x70
#define PENDBASER       0x78
#define WAKER           0x14
#define ID_BITS         14              /* 8192 LPIs: the controller often searches them all */

enum { MOVI = 1, INT = 3, CLEAR = 4, MAPD = 8, MAPC = 9, MAPTI = 10, INV = 12, INVALL = 13,
       MOVALL = 14, DISCARD = 15 };

/* In memory that only this guest and the controller use. */
#define PENDING(n)      (BUFFER + (n) * 0x10000)
#define PROPERTIES      (BUFFER + 0x20000)
#define DEVICES         (BUFFER + 0x22000)
#define COLLECTIONS     (BUFFER + 0x23000)
#define EVENTS          (BUFFER + 0x24000)      /* a table of entries of 12 bytes */
#define COMMANDS        (BUFFER + 0x25000)

#define FIRST_LPI       8192
#define N_EVENTS        30              /* their table ends in the middle of a line */
#define ROUNDS          30000

/*
 * What a vCPU has seen, and how many LPIs it took.  Each vCPU has a line of its own: if they shared
 * one, it would order them, and hide that an order of the tables' lines was lost.
 */
static struct {
    volatile uint64_t digest, lpis;
} __attribute__((aligned(64))) of[2];

static volatile bool second_is_done __attribute__((aligned(64)));
static volatile bool first_is_done __attribute__((aligned(64)));
static unsigned n_vcpus __attribute__((aligned(64))) = 1;

static unsigned self(void)
{
    return read_sysreg("mpidr_el1") & 0xff;
}

static void note(uint64_t value)
{
    of[self()].digest = mix(of[self()].digest, value);
}

static uint64_t random_number(uint64_t *state)
{
    *state = *state * 6364136223846793005ul + 1442695040888963407ul;
    return *state >> 33;
}

/* --- commands ---------------------------------------------------------------------- */

/* Let the ITS obey one command.  QEMU's obeys before the store ends. */
static bool obey(uint64_t word0, uint64_t word1, uint64_t word2, uint64_t word3)
{
    uint64_t offset = ITS_CWRITER, next = (offset + 32) % PAGE;
    volatile uint64_t *command = (volatile uint64_t *)(COMMANDS + offset);

    command[0] = word0;
    command[1] = word1;
    command[2] = word2;
    command[3] = word3;
    asm volatile("dsb ish" : : : "memory");
    ITS_CWRITER = next;
    return ITS_CREADR == next;
}

/* Map event @event to the LPI of its number, on vCPU @vcpu. */
static bool map_event(uint64_t event, uint64_t vcpu)
{
    return obey(MAPTI, event | (FIRST_LPI + event) << 32, vcpu, 0);
}

static bool random_command(uint64_t *state)
{
    uint64_t event = random_number(state) % N_EVENTS, vcpu = random_number(state) % n_vcpus;

    switch (random_number(state) % 16) {
    case 0:
        return obey(MOVI, event, vcpu, 0);
    case 1:
        return obey(MOVALL, 0, vcpu << 16, (n_vcpus - 1 - vcpu) << 16);
    case 2:
        return obey(CLEAR, event, 0, 0);
    case 3:
        return obey(DISCARD, event, 0, 0) && map_event(event, vcpu);
    case 4:
        return obey(INV, event, 0, 0);
    case 5:
        return obey(INVALL, 0, vcpu, 0);
    case 6:
        return obey(MAPC, 0, VALID | vcpu << 16 | vcpu, 0);
    default:
        return obey(INT, event, 0, 0);
    }
}

/* --- the race ---------------------------------------------------------------------- */

/* Look at words of the tables, and change some that lie beside what the controller writes. */
static void look(uint64_t *state)
{
    static const uint64_t places[] = {
        PENDING(0) + FIRST_LPI / 8, PENDING(1) + FIRST_LPI / 8, DEVICES, COLLECTIONS,
        EVENTS, EVENTS + 5 * 64, EVENTS + 2 * 64,
    };
    unsigned n = random_number(state) % (sizeof(places) / sizeof(places[0]));
    volatile uint64_t *line = (volatile uint64_t *)places[n];

    for (int i = 0; i < 8; i++) {
        note(line[i]);
    }
    if (n < 2) {
        line[1 + self()] = of[self()].digest;      /* pending bits of LPIs that are not enabled */
    } else if (n == 5) {
        line[6 + self()] = of[self()].digest;      /* behind the last event */
    }
}

/* Send an event as a device does, which needs no command: any vCPU may. */
static void send_event(uint64_t *state)
{
    ITS_TRANSLATER = random_number(state) % N_EVENTS;
}

static void take_lpi(uint32_t id)
{
    note(id);
    if (id >= FIRST_LPI) {
        of[self()].lpis++;
        note(*(volatile uint64_t *)(PENDING(self()) + FIRST_LPI / 8));
    }
}

/* Give this vCPU's redistributor its tables. */
static void open_redistributor(void)
{
    unsigned n = self();

    GICR(n)[WAKER / 4] = 0;
    GICR64(n, PROPBASER) = PROPERTIES | (ID_BITS - 1);
    GICR64(n, PENDBASER) = PENDING(n) | 1ul << 62;
    GICR(n)[0] = 1;
}

static bool open_its(void)
{
    bool good = true;

    for (unsigned i = 0; i < N_EVENTS; i++) {
        ((volatile uint8_t *)PROPERTIES)[i] = 0xa0 | 1;         /* priority, enabled */
    }
    ITS_DEVICES = VALID | DEVICES;
    ITS_COLLECTIONS = VALID | COLLECTIONS;
    ITS_CBASER = VALID | COMMANDS;
    ITS_CWRITER = 0;
    ITS_CTLR = 1;
    if (MODE == FLASH_TABLE) {
        good &= obey(MAPD, 4, VALID | FLASH, 0) && map_event(0, 0);
    }
    good &= obey(MAPD, 4, VALID | EVENTS, 0);
    for (unsigned i = 0; i < n_vcpus; i++) {
        good &= obey(MAPC, 0, VALID | (uint64_t)i << 16 | i, 0);
    }
    for (unsigned i = 0; i < N_EVENTS; i++) {
        good &= map_event(i, i % n_vcpus);
    }
    return good;
}

void __attribute__((used, noreturn)) run_second(void)
{
    uint64_t state = 2;

    use_tables();
    open_redistributor();
    start_interrupts();
    while (!first_is_done) {
        look(&state);
        send_event(&state);
    }
    second_is_done = true;
    for (;;) {
        asm volatile("wfi");
    }
}

/* Return true if no enabled LPI is pending any more. */
static bool all_are_taken(void)
{
    uint32_t pending = 0;

    for (unsigned i = 0; i < n_vcpus; i++) {
        pending |= *(volatile uint32_t *)(PENDING(i) + FIRST_LPI / 8);
    }
    return !(pending & ((1u << N_EVENTS) - 1));
}

void __attribute__((used)) run(void)
{
    uint64_t state = 1;
    bool good;

    start_mmu();
    handle = take_lpi;
    open_redistributor();
    start_interrupts();
    n_vcpus += start_second();
    good = open_its();
    for (int i = 0; i < ROUNDS; i++) {
        look(&state);
        good &= random_command(&state);
        if (n_vcpus == 1) {
            send_event(&state);
        }
    }
    first_is_done = true;
    while ((n_vcpus > 1 && !second_is_done) || !all_are_taken()) {
    }
    for (unsigned i = 0; i < n_vcpus; i++) {
        good &= of[i].lpis > 1000;
        digest = mix(digest, of[i].digest);
    }
    report("lpis", good);
    power_off();
}
