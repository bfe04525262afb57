/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the player does where a recording would use devices, or let a vCPU run freely.  The player
 * lies in a directory above this one (replay/), so it sets the port while it replays.
 *
 * All functions are called in the vCPU's thread.
 */
#ifndef RECORDER_REPLAY_PORT_H
#define RECORDER_REPLAY_PORT_H

#include "hw/core/cpu.h"

#include "hw/recorder/recorder.h"
#include "recording/log-events.h"
#include "recording/position.h"

typedef struct ReplayPort {
    /*
     * Return the position up to which the vCPU may run before an event is due, or another stream
     * waits for it.
     */
    Position (*limit)(CPUState *cpu);
    /* Apply what is due between a fault and its delivery: recorder_replay_boundary(). */
    bool (*boundary)(CPUState *cpu, bool *applied);
    /* Begin a step at @position that is not an instruction; a divergence if an event is due. */
    void (*step)(CPUState *cpu, Position position);
    /*
     * Take the next input of the vCPU, and set @value to its fields.  It is a divergence if the
     * input is not of @kind, or not of the step at @position; return false then.
     */
    bool (*take)(CPUState *cpu, Position position, LogEventKind kind, uint64_t *value);
    /* Take the next input like take(), if it is of @kind and of this step.  Return false if not. */
    bool (*take_if_due)(CPUState *cpu, Position position, LogEventKind kind, uint64_t *value);
    /* Show what the guest stores to its console; @address is any device's. */
    void (*store)(CPUState *cpu, hwaddr address, uint64_t value);
    /*
     * Report, in words, that the guest does something that was not recorded, and stop the replay.
     */
    void (*diverged)(CPUState *cpu, Position position, const char *format, ...)
        G_GNUC_PRINTF(3, 4);
    /* Note an access like recorder_note(). */
    void (*note)(CPUState *cpu, const void *host, unsigned size, AccessBy by, bool write,
                 uintptr_t retaddr);
} ReplayPort;

/* Valid while recorder_replaying(). */
extern const ReplayPort *replay_port;

#endif
