/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Instructions of Arm CPUs that look up a page and then access it through a host pointer.
 *
 * Between the two there is nothing that asks for lines, or that sees a store to a table or to code.
 * So all lines are requested when the last page has been looked up, and before the first byte or
 * register changes: the instruction may still be abandoned then, and not later.  The stores are
 * seen at that place, too.  A page may have become a table page since it was looked up: by the walk
 * for another page of the same instruction, or by another vCPU, while this one waited for a line.
 *
 * A memory copy may touch any number of pages.  Each part of it that ends with a page, of the
 * source or of the destination, is a step of its own: the registers show how far the copy has come,
 * and the instruction runs again.  Where a part ends depends on the registers alone.
 *
 * All functions run in the vCPU's thread.
 */
#include "qemu/osdep.h"
#include "cpu.h"
#include "internals.h"
#include "exec/exec-all.h"
#include "tcg/vec_internal.h"
#include "tcg/sve_ldst_internal.h"

#include "hw/recorder/access.h"
#include "hw/recorder/arm-pointers.h"
#include "hw/recorder/vcpu.h"

/* --- vectors ------------------------------------------------------------------ */

static bool is_active(const uint64_t *predicate, unsigned at)
{
    return predicate[at >> 6] >> (at & 63) & 1;
}

/*
 * Note the elements that lie within one page.  An element in two pages is accessed by the slow
 * path, which notes it.
 */
static void note_elements_of_page(CPUState *cpu, const SVEContLdSt *vector, unsigned page,
                                  const uint64_t *predicate, int register_size, int memory_size,
                                  bool write, uintptr_t retaddr)
{
    int at = vector->mem_off_first[page];

    for (int i = vector->reg_off_first[page]; i >= 0 && i <= vector->reg_off_last[page];
         i += register_size) {
        if (is_active(predicate, i)) {
            recorder_note_slow(cpu, (uint8_t *)vector->page[page].host + at, memory_size,
                               ACCESS_BY_VECTOR, write, retaddr);
        }
        at += memory_size;
    }
}

static void note_elements(CPUState *cpu, const SVEContLdSt *vector, const uint64_t *predicate,
                          int register_size, int memory_size, bool write, uintptr_t retaddr)
{
    int flags = vector->page[0].flags | vector->page[1].flags;

    /* If one of the pages is not memory, the slow path accesses the elements one by one. */
    for (unsigned page = 0; page < 2 && !(flags & (TLB_MMIO | TLB_INVALID_MASK)); page++) {
        note_elements_of_page(cpu, vector, page, predicate, register_size, memory_size, write,
                              retaddr);
    }
}

/*
 * Append what lies from @first to @end in a page of @vector, if that is memory.  The second page
 * may be invalid: an element in both pages, behind others, faults when its turn comes.
 */
static void append_range(const SVEContLdSt *vector, unsigned page, int first, int end,
                         RecorderRange *ranges, unsigned *n)
{
    if (first < end && !(vector->page[page].flags & (TLB_MMIO | TLB_INVALID_MASK))) {
        ranges[(*n)++] = (RecorderRange){
            .host = (uint8_t *)vector->page[page].host + first,
            .size = end - first,
        };
    }
}

/*
 * Set @ranges to the memory of all active elements: one range for each page, with what lies between
 * them.  Return their number.
 */
static unsigned ranges_of(const SVEContLdSt *vector, int register_size, int memory_size,
                          RecorderRange ranges[2])
{
    unsigned n = 0;

    if (vector->page_split < 0) {
        append_range(vector, 0, vector->mem_off_first[0],
                     vector->reg_off_last[0] / register_size * memory_size + memory_size,
                     ranges, &n);
    } else {
        int last = vector->reg_off_last[1] < 0 ? vector->mem_off_split :
                   vector->reg_off_last[1] / register_size * memory_size;

        append_range(vector, 0, vector->mem_off_first[0], vector->page_split, ranges, &n);
        append_range(vector, 1,
                     vector->mem_off_split < 0 ? vector->mem_off_first[1] : vector->page_split,
                     last + memory_size, ranges, &n);
    }
    return n;
}

void recorder_elements_slow(CPUState *cpu, const void *vector, const uint64_t *predicate,
                            int register_size, int memory_size, bool write, uintptr_t retaddr)
{
    const SVEContLdSt *elements = vector;
    int flags = elements->page[0].flags | elements->page[1].flags;
    RecorderRange ranges[2];
    unsigned n = ranges_of(elements, register_size, memory_size, ranges);

    if (write) {
        bool one_by_one = flags & ~TLB_WATCHPOINT || elements->mem_off_split >= 0;

        recorder_prepare_stores(cpu, ranges, n, one_by_one, retaddr);
    } else {
        for (unsigned i = 0; i < n; i++) {
            recorder_access(cpu, ranges[i].host, ranges[i].size, false, retaddr);
        }
    }
    if (recorder_notes) {
        note_elements(cpu, elements, predicate, register_size, memory_size, write, retaddr);
    }
}

void recorder_store_elements_slow(CPUState *cpu, void *const *hosts, const uint64_t *predicate,
                                  unsigned n, int register_size, int memory_size,
                                  uintptr_t retaddr)
{
    RecorderRange ranges[ARM_MAX_VQ * 4] = { };
    unsigned n_ranges = 0;

    for (unsigned i = 0; i < n; i++) {
        if (hosts[i]) {
            ranges[n_ranges++] = (RecorderRange){ .host = hosts[i], .size = memory_size };
        } else if (is_active(predicate, i * register_size)) {
            recorder_be_exclusive(cpu, retaddr);        /* it lies in two pages, or in a device */
        }
    }
    recorder_prepare_stores(cpu, ranges, n_ranges, false, retaddr);
    for (unsigned i = 0; i < n_ranges; i++) {
        recorder_note(cpu, ranges[i].host, memory_size, ACCESS_BY_VECTOR, true, retaddr);
    }
}

/* --- memory copies -------------------------------------------------------------- */

/*
 * A page with a watchpoint is accessed byte by byte.  The lines are requested here all the same: no
 * byte may be refused after others were copied.
 */
void *recorder_copy_pointer(CPUArchState *env, uint64_t address, uint64_t size, bool backwards,
                            bool write, int mmu_idx, uintptr_t retaddr)
{
    CPUState *cpu = env_cpu(env);
    void *host;
    int flags = probe_access_flags(env, address, 1, write ? MMU_DATA_STORE : MMU_DATA_LOAD, mmu_idx,
                                   false, &host, retaddr);
    RecorderRange range = {
        .host = (uint8_t *)host - (backwards ? size - 1 : 0),
        .size = size,
    };

    if (host && write) {
        recorder_prepare_stores(cpu, &range, 1, false, retaddr);
    } else if (host) {
        recorder_access(cpu, range.host, range.size, false, retaddr);
    }
    return flags ? NULL : host;
}

void recorder_copied_slow(CPUState *cpu, uint64_t to, uint64_t from, uintptr_t retaddr)
{
    if ((to & ~TARGET_PAGE_MASK) == 0 || (from & ~TARGET_PAGE_MASK) == 0) {
        cpu_restore_state(cpu, retaddr);
        recorder_step_slow(cpu);
        cpu->recorder->record.tries = 0;
        cpu_loop_exit_noexc(cpu);
    }
}
