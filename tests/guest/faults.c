// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What private does, in memory that is mapped for one round only.
 *
 * Exercises: page faults and unmapping by threads of one process.  The memory
 * is as private as before, but it comes from the kernel's allocator and goes
 * back there 1024 pages a round, so the pages, their descriptors, page tables
 * and the locks of the address space move between vCPUs.
 */
#define PROGRAM "faults"
#define NEW_REGION_EACH_ROUND 1
#include "private.c"
