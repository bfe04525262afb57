/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hooks of instructions that look up a page and then access it through a host pointer: scalable
 * vectors (SVE, SME) and memory copies (FEAT_MOPS).  QEMU's helpers of these include this header.
 */
#ifndef RECORDER_ARM_POINTERS_H
#define RECORDER_ARM_POINTERS_H

#include "hw/recorder/recorder.h"

/*
 * Prepare the accesses to all elements of a vector (SVEContLdSt) that @predicate selects.  An
 * element takes @register_size bytes of the register and @memory_size bytes of memory.  Called when
 * all pages have been looked up, before the first element or register changes.  Does not return if
 * the vCPU must wait for a line, or if the instruction must run exclusively.
 */
void recorder_elements_slow(CPUState *cpu, const void *vector, const uint64_t *predicate,
                            int register_size, int memory_size, bool write, uintptr_t retaddr);

static inline void recorder_elements(CPUState *cpu, const void *vector, const uint64_t *predicate,
                                     int register_size, int memory_size, bool write,
                                     uintptr_t retaddr)
{
    if (recorder_active()) {
        recorder_elements_slow(cpu, vector, predicate, register_size, memory_size, write, retaddr);
    }
}

/* Prepare the load of an element, if the instruction has not changed any register yet. */
static inline void recorder_load_element(CPUState *cpu, const void *host, unsigned size,
                                         uintptr_t retaddr)
{
    recorder_access(cpu, host, size, false, retaddr);
    recorder_note(cpu, host, size, ACCESS_BY_VECTOR, false, retaddr);
}

/*
 * Prepare the stores of the @n elements that @predicate selects, as recorder_elements() does.  An
 * element is stored through its pointer in @hosts.  If the pointer is NULL, it is stored by the
 * slow path.
 */
void recorder_store_elements_slow(CPUState *cpu, void *const *hosts, const uint64_t *predicate,
                                  unsigned n, int register_size, int memory_size,
                                  uintptr_t retaddr);

static inline void recorder_store_elements(CPUState *cpu, void *const *hosts,
                                           const uint64_t *predicate, unsigned n,
                                           int register_size, int memory_size, uintptr_t retaddr)
{
    if (recorder_active()) {
        recorder_store_elements_slow(cpu, hosts, predicate, n, register_size, memory_size,
                                     retaddr);
    }
}

/*
 * Prepare an access to @size bytes of one page, from @address on, or up to and including @address
 * if @backwards.  Return the host address of the byte at @address, or NULL if the bytes must be
 * accessed one by one.  Recording or replaying.  Does not return if @address faults, or if the vCPU
 * must wait for a line.
 */
void *recorder_copy_pointer(CPUArchState *env, uint64_t address, uint64_t size, bool backwards,
                            bool write, int mmu_idx, uintptr_t retaddr);

/*
 * End a step of a memory copy, if @rest bytes of the instruction are left and a page ends at @to or
 * at @from.  The registers must be those with which the instruction goes on; then it runs again,
 * and this does not return.
 */
void recorder_copied_slow(CPUState *cpu, uint64_t to, uint64_t from, uintptr_t retaddr);

static inline void recorder_copied(CPUState *cpu, uint64_t rest, uint64_t to, uint64_t from,
                                   uintptr_t retaddr)
{
    if (recorder_active() && rest) {
        recorder_copied_slow(cpu, to, from, retaddr);
    }
}

#endif
