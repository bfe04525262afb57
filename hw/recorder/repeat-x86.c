/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See repeat.h.
 *
 * Generated code makes an iteration of a repeated instruction, then calls this, then goes on with
 * the next iteration.  Where this can do nothing, that iteration does what is to be done: it fills
 * the TLB, requests a line, is charged and ends the budget, or accesses a device.
 *
 * Why positions and values are those of one iteration after the other:
 *
 *   - The accesses are hits: an entry of the TB's mmu index without flags, and the L1's permission
 *     for all lines (invariant 2).  Such an access of generated code notes nothing, either.
 *   - The vCPU reaches no safepoint meanwhile, so nobody takes a line from it (invariant 1), as
 *     between the check and the access of generated code.  A vCPU in user mode keeps all lines that
 *     user mode can reach.
 *   - Each iteration is charged.  In replay the budget ends where the next event is, and here no
 *     later.  While recording, a request to leave is seen before the next iteration.
 *   - Bytes that are stored are not loaded again, except by moves to lower addresses, which load
 *     them first.
 */
#include "qemu/osdep.h"
#include "exec/cpu_ldst.h"
#include "exec/cputlb.h"
#include "exec/tlb-common.h"

#include "hw/recorder/access.h"
#include "hw/recorder/recorder.h"
#include "protocol/sphere.h"

#define PAGE 4096u

/* Return the host's address of @address if generated code would access it there, or NULL. */
static uint8_t *find_hit(CPUState *cpu, const RecorderRepeat *repeat, vaddr address, bool write)
{
    const CPUTLBDescFast *fast = &cpu->neg.tlb.f[repeat->mmu_idx];
    size_t last = fast->mask >> CPU_TLB_ENTRY_BITS;
    const CPUTLBEntry *entry = &fast->table[address / PAGE & last];
    const uintptr_t *tag = write ? &entry->addr_write : &entry->addr_read;

    /* Other threads set TLB_NOTDIRTY. */
    return qatomic_read(tag) == address - address % PAGE ?
        (uint8_t *)(entry->addend + address) : NULL;
}

/* Return how many of @n bytes at @at lie in the same page and in lines with permission @needed. */
static size_t permitted(CPUState *cpu, const RecorderRepeat *repeat, const uint8_t *at, size_t n,
                        unsigned needed)
{
    const uint8_t *end = at;

    n = MIN(n, PAGE - (uintptr_t)at % PAGE);
    if (!repeat->checked) {
        return n;
    }
    while (end < at + n &&
           qatomic_read(&cpu->neg.recorder_l1[(uintptr_t)end >> SPHERE_LINE_SHIFT]) & needed) {
        end = (const uint8_t *)ROUND_UP((uintptr_t)end + 1, 1u << SPHERE_LINE_SHIFT);
    }
    return MIN(n, (size_t)(end - at));
}

static void fill(uint8_t *to, uint64_t value, unsigned size, size_t n)
{
    if (size == 1) {
        memset(to, value, n);
        return;
    }
    value = cpu_to_le64(value);
    for (size_t i = 0; i < n; i += size) {
        memcpy(to + i, &value, size);
    }
}

uint64_t recorder_repeat(CPUState *cpu, const RecorderRepeat *repeat)
{
    IcountDecr *decr = &cpu->neg.icount_decr;
    uint64_t most = MIN(repeat->left - 1, decr->u16.low);
    size_t n = most * repeat->size;
    uint8_t *to;

    if (!recorder_active() || (int16_t)qatomic_read(&decr->u16.high) < 0) {
        return 0;
    }
    to = find_hit(cpu, repeat, repeat->to, true);
    if (!to) {
        return 0;
    }
    n = permitted(cpu, repeat, to, n, L1_WRITE);
    if (repeat->moves) {
        const uint8_t *from = find_hit(cpu, repeat, repeat->from, false);

        if (!from) {
            return 0;
        }
        n = permitted(cpu, repeat, from, n, L1_READ);
        n -= n % repeat->size;
        if (from < to && to < from + n) {
            return 0;
        }
        memmove(to, from, n);
    } else {
        n -= n % repeat->size;
        fill(to, repeat->value, repeat->size, n);
    }
    decr->u16.low -= n / repeat->size;
    return n / repeat->size;
}
