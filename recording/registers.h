/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The registers of a vCPU as numbers that have names: how they are logged,
 * compared and shown.  Values without locks; no QEMU.
 *
 * In a log, registers are differences to those logged before (most do not
 * change), so a log is read from its start.
 */
#ifndef RECORDING_REGISTERS_H
#define RECORDING_REGISTERS_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recording/arm-registers.h"
#include "recording/log-writer.h"

#define X(name, count, value) + (count)
enum { REGISTERS_COUNT = 0 ARM_REGISTERS(X) };
#undef X

/* All zero is what a log starts from. */
typedef struct Registers {
    uint64_t value[REGISTERS_COUNT];
} Registers;

/* "x0", "pc", "elr_el1"; to be freed. */
char *register_name(unsigned index);

uint64_t registers_digest(const Registers *registers);
bool registers_equal(const Registers *a, const Registers *b);

/* Appends a REGISTERS event, and makes @logged what it was told. */
void registers_log(LogStream *stream, Position position, Registers *logged,
                   const Registers *now);

/* Brings @logged up to date with such an event; what is wrong with it, or NULL. */
const char *registers_apply(Registers *logged, const void *bytes, size_t n_bytes);

/*
 * One line of those that differ: "x3 expected 0x5, seen 0x6; pc expected ...",
 * no more than a few; NULL if none does.
 */
char *registers_difference(const Registers *expected, const Registers *seen);

#endif
