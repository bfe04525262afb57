/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without an operating system that does little else than raise exceptions, by instructions
 * that complete (INT, INT3, a single step, data breakpoints) and by some that fault (UD2, a missing
 * page).  A test goes to each moment of it.
 */
#include "pc.h"

#define ROUNDS 300

/* The second one lies in two lines, so a locked access to it is made exclusively. */
static volatile uint64_t words[16] __attribute__((aligned(64)));
#define SPLIT ((uint64_t)&words[8] - 4)

static bool go_on(Frame *frame)
{
    digest = mix(digest, frame->vector ^ frame->rip << 8);
    if (frame->vector == 14) {
        change(&level1[30], (PLAY + 30 * PAGE) | MAPPED);
        return true;
    }
    if (frame->vector == 6) {
        frame->rip += 2;
    }
    asm volatile("mov %0, %%dr6" : : "r"(0ul));
    return true;
}

void __attribute__((used)) run(void)
{
    start_processor();
    map_play_by_pages();
    hook = go_on;
    asm volatile("mov %0, %%dr0; mov %1, %%dr1; mov %2, %%dr7" : :
                 "r"(&words[0]), "r"(SPLIT + 4), "r"(0x00ff000aul) : "memory");
    for (unsigned i = 0; i < ROUNDS; i++) {
        change(&level1[30], 0);
        asm volatile("int3; int $3; ud2; incq (%0); nop; lock incq (%1); nop; incq (%2);"
                     "pushfq; orq $0x100, (%%rsp); popfq; nop; nop;"
                     "pushfq; andq $~0x100, (%%rsp); popfq" : :
                     "r"(&words[0]), "r"(SPLIT), "r"(PLAY + 30 * PAGE) : "memory", "cc");
    }
    report("raised", true);
    power_off();
}
