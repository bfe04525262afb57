/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The registers of a vCPU as numbers that have names: how they are logged,
 * compared and shown.  Values without locks; no QEMU.
 *
 * In a log, registers are differences to those logged before, since most do not
 * change.  So a log is read from its start, or from a checkpoint, whose position
 * has the registers that were logged last (checkpoint-position.h).
 */
#ifndef RECORDING_REGISTERS_H
#define RECORDING_REGISTERS_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recording/arm-registers.h"
#include "recording/log-writer.h"
#include "recording/x86-registers.h"

#define X(name, count, value) + (count)
enum {
    ARM_REGISTERS_COUNT = 0 ARM_REGISTERS(X),
    X86_REGISTERS_COUNT = 0 X86_REGISTERS(X),
    REGISTERS_MOST = (int)ARM_REGISTERS_COUNT > (int)X86_REGISTERS_COUNT ?
                     (int)ARM_REGISTERS_COUNT : (int)X86_REGISTERS_COUNT,
};
#undef X

/* The registers that vCPUs of an architecture have. */
typedef struct RegisterSet {
    const char *arch;           /* as QEMU names it: "aarch64" */
    unsigned count;
    const struct RegisterName *names;
} RegisterSet;

extern const RegisterSet arm_register_set, x86_register_set;
/* Return the registers of @arch, or NULL if it cannot be recorded. */
const RegisterSet *register_set(const char *arch);
/*
 * A trace has no manifest: its file `arch` tells whose registers its logs have.  Write this file,
 * or return what a recording or a trace tells.
 */
bool register_set_save(const RegisterSet *set, const char *directory, GError **error);
const RegisterSet *register_set_load(const char *directory, GError **error);

/*
 * The values of a set, and zeroes behind them.  A log starts from registers that are all zero.
 */
typedef struct Registers {
    uint64_t value[REGISTERS_MOST];
} Registers;

/* Return the name, "x0", "pc" or "elr_el1", to be freed by the caller. */
char *register_name(const RegisterSet *set, unsigned index);

uint64_t registers_digest(const RegisterSet *set, const Registers *registers);
bool registers_equal(const Registers *a, const Registers *b);

/* Append a REGISTERS event with the changes from @logged to @now, and set @logged to @now. */
void registers_log(LogStream *stream, Position position, Registers *logged,
                   const Registers *now);

/* Apply such an event to @logged.  Return what is wrong with the event, or NULL. */
const char *registers_apply(const RegisterSet *set, Registers *logged, const void *bytes,
                            size_t n_bytes);

/*
 * Return one line with the first few registers that differ, to be freed by the
 * caller: "x3 expected 0x5, seen 0x6; pc expected ..."; NULL if none differs.
 */
char *registers_difference(const RegisterSet *set, const Registers *expected,
                           const Registers *seen);

#endif
