// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The program private.c, with memory that is mapped for one round only.
 *
 * Exercises: page faults and unmapping by threads of one process.  No two
 * threads share the memory, but 1024 pages a round come from the kernel's
 * allocator and go back there.  So the pages, their descriptors, page tables
 * and the locks of the address space move between vCPUs.
 */
#define PROGRAM "faults"
#define NEW_REGION_EACH_ROUND 1
#include "private.c"
