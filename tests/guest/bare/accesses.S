/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without an operating system that accesses memory in every way, once each, to test the
 * reports of accesses.  Each label that begins with "at_" is an instruction with an access;
 * test_accesses.py knows what to expect of it.  There are no interrupts and no loops, and jumps
 * only over instructions that the CPU lacks.  So from "plain" on, the distance between two
 * instructions is the difference of their positions.
 *
 * For machine virt.  The guest is linked at 0x40200000 and started with `-kernel`.  It runs at EL1,
 * and memory is mapped to itself.  The page `flagged`, whose access flag and dirty state walks set
 * (FEAT_HAFDBS), is also mapped at 0x80000000.
 */
        .arch armv8.5-a+sve+lse
        .arch_extension sme

#define FW_CFG_DMA      0x09020010
#define FLAGGED         0x80000000
#define PTE_PAGE        3
#define PTE_BLOCK       1
#define PTE_NORMAL      ((1 << 2) | (3 << 8))
#define PTE_RO          (1 << 7)
#define PTE_AF          (1 << 10)
#define PTE_DBM         (1 << 51)

        .text
        .globl _start
_start:
        ldr x0, =level1
        msr ttbr0_el1, x0
        mov x0, #0xff00                 /* MAIR 0: device, 1: normal */
        msr mair_el1, x0
        ldr x0, =(25 | 1 << 23 | 2 << 32 | 1 << 39 | 1 << 40)      /* 39 bits, HA, HD */
        msr tcr_el1, x0
        isb
        mrs x0, sctlr_el1
        orr x0, x0, #1                  /* MMU */
        orr x0, x0, #4                  /* C: exclusives need it on real CPUs */
        msr sctlr_el1, x0
        ldr x0, =0x3330000              /* vectors */
        msr cpacr_el1, x0
        isb

        ldr x20, =target
        mov x1, #1
        mov x2, #2
        mov x3, #3
        movi v0.16b, #7
        b plain
        .balign 4096                    /* the code that follows is in one page */

/* --- loads and stores ---------------------------------------------------------------- */

plain:
at_store:
        str x1, [x20]
at_load:
        ldr x4, [x20]
at_store_byte:
        strb w2, [x20, #3]
at_store_pair:
        stp x2, x3, [x20]
at_load_pair:
        ldp x4, x5, [x20]
at_store_q:
        str q0, [x20]
        ldr x6, =page_end
at_across:
        stur x3, [x6, #-4]
at_load_across:
        ldur x4, [x6, #-4]

/* --- exclusive, atomic --------------------------------------------------------------- */

at_clear:
        str xzr, [x20]
at_exclusive_load:
        ldxr x4, [x20]
at_exclusive_store:
        stxr w5, x1, [x20]
at_exclusive_load_2:
        ldxr x4, [x20]
        clrex
at_no_store:                            /* fails, since the monitor is open: not an access */
        stxr w5, x2, [x20]
        mrs x0, id_aa64isar0_el1
        ubfx x0, x0, #20, #4
        cbz x0, zeroes
at_add:
        ldadd x2, x4, [x20]
at_swap:
        swp x1, x4, [x20]
        mov x4, #1
at_compare:
        cas x4, x2, [x20]
        mov x4, #77
at_compare_fails:
        cas x4, x3, [x20]
at_load_pair_2:
        ldp x4, x5, [x20]
        mov x6, #9
        mov x7, #10
at_compare_pair:
        casp x4, x5, x6, x7, [x20]

/* --- DC ZVA ---------------------------------------------------------------------------- */

zeroes:
at_zva:
        dc zva, x20

/* --- the page that is being executed --------------------------------------------------- */

        adr x6, code_word
at_code:
        str w3, [x6]

/* --- DMA: the first 8 bytes of fw_cfg's directory ---------------------------------------- */

        ldr x6, =request
        rev x7, x20
        str x7, [x6, #8]
        rev x7, x6
        ldr x8, =FW_CFG_DMA
        str x7, [x8]

/* --- flags that walks set ---------------------------------------------------------------- */

        mrs x0, id_aa64mmfr1_el1
        and x0, x0, #15
        cmp x0, #2
        b.ne vectors
        ldr x6, =FLAGGED
at_flag:
        ldr x4, [x6]
at_dirty:
        str x1, [x6]

/* --- scalable vectors of 16 bytes --------------------------------------------------------- */

vectors:
        mrs x0, id_aa64pfr0_el1
        ubfx x0, x0, #32, #4
        cbz x0, copies
        ptrue p0.b
        dup z1.b, #5
at_vector_store:
        st1b {z1.b}, p0, [x20]
at_vector_load:
        ld1b {z2.b}, p0/z, [x20]
        pfalse p1.b
        ptrue p2.d, vl1
at_one_element:                         /* the second element is not accessed */
        st1d {z1.d}, p2, [x20]
at_no_element:
        st1b {z1.b}, p1, [x20]
        setffr
at_first_fault:
        ldff1b {z2.b}, p0/z, [x20]
at_no_fault:
        ldnf1b {z2.b}, p0/z, [x20]
        mov x6, #8
        index z3.d, #0, x6
        dup z1.b, #6
at_scatter:
        st1d {z1.d}, p0, [x20, z3.d]
at_gather:
        ld1d {z2.d}, p0/z, [x20, z3.d]
at_gather_first_fault:
        ldff1d {z2.d}, p0/z, [x20, z3.d]
        ldr x6, =page_end
at_vector_across:
        st1b {z1.b}, p0, [x6, #-1, mul vl]
        sub x6, x6, #4
at_vector_in_two:
        st1w {z1.s}, p0, [x6]
        sub x6, x6, #2
        dup z1.b, #8
at_vector_split:
        st1w {z1.s}, p0, [x6]

/* --- matrices ------------------------------------------------------------------------------- */

        mrs x0, id_aa64pfr1_el1
        ubfx x0, x0, #24, #4
        cbz x0, copies
        smstart
        ptrue p0.b
        mov w12, #0
at_matrix_load:
        ld1b {za0h.b[w12, 0]}, p0/z, [x20]
at_matrix_store:
        st1b {za0h.b[w12, 0]}, p0, [x20]
        smstop

/* --- memory copies -------------------------------------------------------------------------- */

copies:
        mrs x0, id_aa64isar2_el1
        ubfx x0, x0, #16, #4
        cbz x0, off
        mov x0, x20
        mov x1, #16
        mov x2, #8
at_set:
        .inst 0x19c20420                /* setp [x0]!, x1!, x2 */
        .inst 0x19c24420
        .inst 0x19c28420
        mov x0, x20
        ldr x1, =source
        mov x2, #16
at_copy:
        .inst 0x1d010440                /* cpyp [x0]!, [x1]!, x2! */
        .inst 0x1d410440
        .inst 0x1d810440
        add x0, x20, #4                 /* overlaps, so it is copied from the end */
        mov x1, x20
        mov x2, #16
at_copy_back:
        .inst 0x1d010440
        .inst 0x1d410440
        .inst 0x1d810440
        add x0, x20, #12                /* overlaps, so bytes that were copied are copied again */
        add x1, x20, #4
        mov x2, #32
at_copy_on:
        .inst 0x19010440                /* cpyfp [x0]!, [x1]!, x2! */
        .inst 0x19410440
        .inst 0x19810440

off:
        ldr x0, =0x84000008             /* PSCI SYSTEM_OFF */
        hvc #0
code_word:
        .word 0
        .ltorg

        .data
        .balign 4096
level1:
        .quad 0x00000000 | PTE_BLOCK | PTE_AF
        .quad 0x40000000 | PTE_BLOCK | PTE_NORMAL | PTE_AF
        .quad level2 + PTE_PAGE
        .space 4096 - 24
level2:
        .quad level3 + PTE_PAGE
        .space 4096 - 8
level3:
        .quad flagged + (PTE_PAGE | PTE_NORMAL | PTE_RO | PTE_DBM)
        .space 4096 - 8
flagged:
        .quad 1
        .space 4096 - 8

        .space 2048
target:
        .space 64
source:
        .quad 0x1111111111111111, 0x2222222222222222
        .balign 4096
page_end:
        .space 4096
request:                                /* big-endian: select 0x19, read; 8 bytes */
        .byte 0x00, 0x19, 0x00, 0x0a
        .byte 0, 0, 0, 8
        .quad 0                         /* target address */
