/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kinds of machines that can be recorded.  Each has a file of its own, machine-*.c, which knows
 * its devices by their types alone.  So all kinds are in all emulators.  Main thread, BQL held.
 */
#ifndef RECORDER_MACHINE_H
#define RECORDER_MACHINE_H

#include "hw/boards.h"
#include "recording/manifest.h"

typedef struct RecordedMachine {
    const char *arch;
    const char *const *types;   /* of the QOM classes of such machines; up to NULL */
    /*
     * Types of devices that access guest memory, and those of them that are known to do so through
     * the address space alone; up to NULL.  Any other device of the first list is refused.
     */
    const char *const *reaches_memory, *const *known;
    bool map_may_change;        /* recorder_map_may_change() */
    /* As recorder_machine_objection(), for what only this kind of machine has. */
    char *(*objection)(MachineState *machine);
    /* Return the options of -machine, besides the machine's type.  The caller frees the text. */
    char *(*options)(MachineState *machine);
    /* Set what @manifest says about the console.  It says nothing before. */
    void (*describe_console)(Manifest *manifest);
} RecordedMachine;

extern const RecordedMachine recorded_machine_virt, recorded_machine_pc;

/* Return the kind of @machine, or NULL if it cannot be recorded. */
const RecordedMachine *recorder_machine_kind(MachineState *machine);
/*
 * Return why @machine cannot be recorded, in words that follow "a guest with"; NULL if it can.  The
 * caller frees the text.
 */
char *recorder_machine_objection(MachineState *machine, const RecordedMachine *kind);
/*
 * Return true if guests of this machine may change where they find memory (memory-map.h).  Such a
 * machine can be recorded, or be one that replays.
 */
bool recorder_map_may_change(void);
/* Return true if there is a device of @type. */
bool recorder_machine_has(const char *type);

#endif
