/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Inputs: what an instruction sees of the world outside the sphere.
 *
 * Recording, the outside is asked and its answer goes to the vCPU's data log,
 * with the position of the instruction.  Replaying, the answer comes from there
 * and no device is touched.  Stores are no inputs; a hash of them is compared at
 * every digest.
 *
 * All of these run in the last instruction of a TB: QEMU makes a device access
 * the last (cpu_io_recompile), and system registers with ARM_CP_IO end their TB.
 */
#include "qemu/osdep.h"
#include "exec/memory.h"
#include "hw/core/cpu.h"

#include "hw/recorder/recorder.h"
#include "hw/recorder/replay-port.h"
#include "hw/recorder/session.h"
#include "hw/recorder/translations.h"
#include "hw/recorder/trigger.h"
#include "hw/recorder/vcpu.h"
#include "recording/log-writer.h"

/* Of the values, as many are logged as the event has. */
static void log_input(CPUState *cpu, LogEventKind kind, uint64_t value, uint64_t second)
{
    RecorderVcpu *v = cpu->recorder;

    recorder_count(v, RECORDER_COUNT_INPUTS);
    log_event(v->log, kind, recorder_position_in_insn(cpu), value, second);
}

static bool take_input(CPUState *cpu, LogEventKind kind, uint64_t *value)
{
    return replay_port->take(cpu, recorder_position_in_insn(cpu), kind, value);
}

/*
 * Safe throughout: a device may do DMA, or wait for a thread that does.  The
 * instruction counts as done, so it may not touch memory after this (access.c).
 */
static void be_with_device(CPUState *cpu)
{
    if (recorder_recording()) {
        cpu->recorder->record.device_at = recorder_position(cpu);
    }
    recorder_safe_in_insn(cpu);
}

MemTxResult recorder_device_load(CPUState *cpu, MemoryRegion *mr, hwaddr offset,
                                 uint64_t *value, MemOp op, MemTxAttrs attrs,
                                 hwaddr address)
{
    MemTxResult result;
    uint64_t logged[2];

    if (recorder_replaying()) {
        if (!take_input(cpu, LOG_EVENT_LOAD, logged)) {
            *value = 0;
            return MEMTX_OK;
        }
        *value = logged[0];
        return logged[1];
    }
    be_with_device(cpu);
    result = memory_region_dispatch_read(mr, offset, value, op, attrs);
    recorder_running(cpu);
    if (recorder_recording()) {
        log_input(cpu, LOG_EVENT_LOAD, *value, result);
    }
    return result;
}

/*
 * The result of a store is an input only if the bus refuses it, which raises an
 * abort.  Then the log tells, at this very position.
 */
MemTxResult recorder_device_store(CPUState *cpu, MemoryRegion *mr, hwaddr offset,
                                  uint64_t value, MemOp op, MemTxAttrs attrs,
                                  hwaddr address)
{
    RecorderVcpu *v = cpu->recorder;
    MemTxResult result;
    uint64_t logged;

    if (!recorder_active()) {
        return memory_region_dispatch_write(mr, offset, value, op, attrs);
    }
    if (memop_size(op) < 8) {
        value &= MAKE_64BIT_MASK(0, 8 * memop_size(op));
    }
    recorder_count(v, RECORDER_COUNT_DEVICE_STORES);
    v->store_hash = recorder_mix(recorder_mix(v->store_hash, address), value);
    if (recorder_replaying()) {
        replay_port->store(cpu, address, value);
        return replay_port->take_if_due(cpu, recorder_position_in_insn(cpu),
                                        LOG_EVENT_STORE_RESULT, &logged) ? logged : MEMTX_OK;
    }
    if (mr->rom_device) {
        /* It is read as memory, which no device of a replay would change. */
        recorder_fail("the guest writes to %s", memory_region_name(mr));
    }
    recorder_trigger_console(address, value);
    be_with_device(cpu);
    result = memory_region_dispatch_write(mr, offset, value, op, attrs);
    recorder_running(cpu);
    if (result != MEMTX_OK) {
        log_input(cpu, LOG_EVENT_STORE_RESULT, result, 0);
    }
    return result;
}

/*
 * A page walk was led outside of RAM by a descriptor that is broken, say.  What it reads there is
 * an input of the step that faults by it.  Nothing that is found this way is cached, or it would
 * depend on the TLB how often it is read: so a descriptor that is valid ends the recording.
 *
 * A fetch has no instruction yet that could be charged.  Its fault is a step all the same, and the
 * walk has read memory for it: so the step is counted before the vCPU is safe (recorder_fault()).
 */
static uint64_t record_walk(CPUState *cpu, AddressSpace *as, hwaddr address, MemTxAttrs attrs,
                            bool big_endian, MemTxResult *result)
{
    RecorderVcpu *v = cpu->recorder;
    uint64_t word;

    if (!v->walk_retaddr) {
        recorder_step_slow(cpu);
        v->fault_counted = true;
    }
    be_with_device(cpu);
    word = big_endian ? address_space_ldq_be(as, address, attrs, result)
                      : address_space_ldq_le(as, address, attrs, result);
    recorder_running(cpu);
    if (*result == MEMTX_OK && word & 1) {
        recorder_fail("the guest keeps page tables outside of its main memory");
    }
    log_input(cpu, LOG_EVENT_LOAD, word, *result);
    return word;
}

uint64_t recorder_walk_outside(CPUState *cpu, AddressSpace *as, hwaddr address, MemTxAttrs attrs,
                               bool big_endian, MemTxResult *result)
{
    bool is_fetch = !cpu->recorder->walk_retaddr;
    uint64_t logged[2] = { 0 };

    if (!is_fetch) {
        recorder_be_last_in_tb(cpu, cpu->recorder->walk_retaddr);
    }
    if (recorder_recording()) {
        return record_walk(cpu, as, address, attrs, big_endian, result);
    }
    replay_port->take(cpu, is_fetch ? recorder_position(cpu) : recorder_position_in_insn(cpu),
                      LOG_EVENT_LOAD, logged);
    *result = logged[1];
    return logged[0];
}

bool recorder_replay_sysreg(CPUState *cpu, uint64_t *value)
{
    if (!recorder_replaying()) {
        return false;
    }
    *value = 0;
    take_input(cpu, LOG_EVENT_SYSREG, value);
    return true;
}

void recorder_record_sysreg(CPUState *cpu, uint64_t value)
{
    if (recorder_recording()) {
        log_input(cpu, LOG_EVENT_SYSREG, value, 0);
    }
}

bool recorder_sysreg_write(CPUState *cpu, uint64_t value, bool plain)
{
    if (recorder_active()) {
        cpu->recorder->store_hash = recorder_mix(cpu->recorder->store_hash, value);
    }
    return recorder_replaying() && !plain;
}

bool recorder_wfi_finds_work(CPUState *cpu, bool timed_out)
{
    RecorderVcpu *v = cpu->recorder;
    uint64_t halted = 0;

    if (recorder_replaying()) {
        take_input(cpu, LOG_EVENT_WFI, &halted);
        return !halted;
    }
    halted = !cpu_has_work(cpu) && !timed_out;
    if (recorder_recording() && !v->record.suspended) {
        log_input(cpu, LOG_EVENT_WFI, halted, 0);
    }
    return !halted;
}

/*
 * PSCI runs inside the delivery of an exception, between two steps.  A call that
 * does not return (power off) is followed by the end of the recording.
 */
bool recorder_replay_psci(CPUState *cpu, bool *returns, int32_t *result)
{
    uint64_t logged[2] = { 0 };

    if (!recorder_replaying()) {
        return false;
    }
    take_input(cpu, LOG_EVENT_PSCI, logged);
    *returns = logged[0];
    *result = logged[1];
    return true;
}

void recorder_record_psci(CPUState *cpu, bool returns, int32_t result)
{
    if (recorder_recording()) {
        cpu->recorder->record.suspended = true;
        log_input(cpu, LOG_EVENT_PSCI, returns, (uint32_t)result);
    }
}

/* The call jumps out of the delivery of its exception; replay returns from it, and counts that. */
void recorder_suspends_slow(CPUState *cpu)
{
    if (cpu->recorder->record.suspended) {
        recorder_step_slow(cpu);
    }
}
