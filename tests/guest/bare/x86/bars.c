/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without an operating system that moves a PCI device in memory, as Linux does while it
 * boots, while other vCPUs use their interrupt controllers.  Each access must reach the controller,
 * whatever lies where at that moment.
 */
#include "others.h"

#define AHCI            (1u << 31 | 0x1f << 11 | 2 << 8)    /* of q35 */
#define BAR             0x24
#define COMMAND         0x04
#define COMMAND_MEMORY  2
#define PLACE           0xfebf1000
#define APIC_VERSION    (0x30 / 4)
#define APIC_TARGET     (0xd0 / 4)      /* keeps what is written to it */
#define ROUNDS          1000

static volatile uint64_t lost[OTHERS + 1][8] __attribute__((aligned(64)));
static uint32_t version;

static void write_config(uint32_t reg, uint32_t value)
{
    outl(0xcf8, AHCI | reg);
    outl(0xcfc, value);
}

static void use_controller(unsigned other)
{
    static uint32_t next[OTHERS + 1];
    uint32_t value = ++next[other] << 24;

    APIC[APIC_TARGET] = value;
    lost[other][0] += APIC[APIC_TARGET] != value;
    lost[other][0] += APIC[APIC_VERSION] != version;
}

void __attribute__((used)) run(void)
{
    uint64_t all = 0;

    start_processor();
    start_interrupts();
    version = APIC[APIC_VERSION];
    others = N_OTHERS;
    start_others();
    let_others(use_controller);
    write_config(BAR, PLACE);
    for (unsigned i = 0; i < ROUNDS; i++) {
        write_config(COMMAND, i & 1 ? COMMAND_MEMORY : 0);
        use_controller(OTHERS);
    }
    stop_others();
    for (unsigned i = 0; i <= OTHERS; i++) {
        all += lost[i][0];
    }
    digest = interrupts;
    report("accesses", all == 0);
    report("interrupts", interrupts > 0);
    power_off();
}
