/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a replay does where a recording asks the world, or goes on as it likes.  The player, which
 * lies above this room, sets it while it replays.
 */
#ifndef RECORDER_REPLAY_PORT_H
#define RECORDER_REPLAY_PORT_H

#include "hw/core/cpu.h"

#include "hw/recorder/recorder.h"
#include "recording/log-events.h"
#include "recording/position.h"

typedef struct ReplayPort {
    /* How far a vCPU may run before an event is due, or somebody waits for it. */
    Position (*limit)(CPUState *cpu);
    /* A step that is no instruction begins, at @position; if an event is due first, it diverges. */
    void (*step)(CPUState *cpu, Position position);
    /* The next input of this vCPU, which must be of this kind, and of the step at @position. */
    bool (*take)(CPUState *cpu, Position position, LogEventKind kind, uint64_t *value);
    /* The same, if it is an input of that step at all. */
    bool (*take_if_due)(CPUState *cpu, Position position, LogEventKind kind, uint64_t *value);
    /* The guest stores to a device: what its console gets is shown. */
    void (*store)(CPUState *cpu, hwaddr address, uint64_t value);
    /* Reports that the guest does what it did not do, in words; replay stops. */
    void (*diverged)(CPUState *cpu, Position position, const char *format, ...)
        G_GNUC_PRINTF(3, 4);
    /* As recorder_note_slow(). */
    void (*note)(CPUState *cpu, const void *host, unsigned size, AccessBy by, bool write,
                 uintptr_t retaddr);
} ReplayPort;

/* Set as long as recorder_replaying(). */
extern const ReplayPort *replay_port;

#endif
