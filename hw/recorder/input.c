/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Inputs: what an instruction sees of the world outside of the sphere.
 *
 * While recording, the outside gives the answer, which goes to the vCPU's data log with the
 * position of the instruction.  While replaying, the answer comes from that log and no device is
 * accessed.  Stores are not inputs; a hash of them is compared at every digest.
 *
 * An instruction with an input is the last of its TB, so its position is known: QEMU makes device
 * accesses the last (cpu_io_recompile()), and system registers with ARM_CP_IO end their TB.  PSCI
 * calls and walks for a fetch happen between two steps.
 *
 * All functions run in the vCPU's thread.
 */
#include "qemu/osdep.h"
#include "exec/address-spaces.h"
#include "exec/memory.h"
#include "hw/core/cpu.h"

#include "hw/recorder/recorder.h"
#include "hw/recorder/replay-port.h"
#include "hw/recorder/session.h"
#include "hw/recorder/target.h"
#include "hw/recorder/translations.h"
#include "hw/recorder/trigger.h"
#include "hw/recorder/vcpu.h"
#include "recording/log-writer.h"

/* Log as many of the values as the event has. */
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
 * Make the vCPU SAFE for a device access: the device may use DMA, or wait for a thread that does.
 * The instruction counts as completed, so it must not access memory afterwards (was_with_device()).
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
 * Log the result of a store only if the bus refuses the store, which raises an abort.  Then replay
 * finds the result at this very position.
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
    recorder_trigger_console(address, value);
    be_with_device(cpu);
    result = memory_region_dispatch_write(mr, offset, value, op, attrs);
    recorder_running(cpu);
    if (result != MEMTX_OK) {
        log_input(cpu, LOG_EVENT_STORE_RESULT, result, 0);
    }
    return result;
}

static uint32_t load_port(uint32_t port, unsigned size, MemTxAttrs attrs)
{
    switch (size) {
    case 1:
        return address_space_ldub(&address_space_io, port, attrs, NULL);
    case 2:
        return address_space_lduw_le(&address_space_io, port, attrs, NULL);
    default:
        return address_space_ldl_le(&address_space_io, port, attrs, NULL);
    }
}

static void store_port(uint32_t port, uint32_t value, unsigned size, MemTxAttrs attrs)
{
    switch (size) {
    case 1:
        address_space_stb(&address_space_io, port, value, attrs, NULL);
        break;
    case 2:
        address_space_stw_le(&address_space_io, port, value, attrs, NULL);
        break;
    default:
        address_space_stl_le(&address_space_io, port, value, attrs, NULL);
        break;
    }
}

uint32_t recorder_port_load(CPUState *cpu, uint32_t port, unsigned size, MemTxAttrs attrs)
{
    uint64_t logged[2] = { 0 };
    uint32_t value;

    if (recorder_replaying()) {
        take_input(cpu, LOG_EVENT_LOAD, logged);
        return logged[0];
    }
    be_with_device(cpu);
    value = load_port(port, size, attrs);
    recorder_running(cpu);
    if (recorder_recording()) {
        log_input(cpu, LOG_EVENT_LOAD, value, MEMTX_OK);
    }
    return value;
}

/*
 * Log a change of the vCPU's A20 gate, which some ports control.  Only the vCPU's own thread
 * changes it, so it is this store that did.
 */
static void record_port_store(CPUState *cpu, uint32_t port, uint32_t value, unsigned size,
                              MemTxAttrs attrs)
{
    unsigned a20 = recorder_a20(cpu);

    recorder_trigger_console(recorder_port_address(port), value);
    be_with_device(cpu);
    store_port(port, value, size, attrs);
    recorder_running(cpu);
    if (recorder_a20(cpu) != a20) {
        log_input(cpu, LOG_EVENT_STORE_RESULT, !a20, 0);
    }
}

void recorder_port_store(CPUState *cpu, uint32_t port, uint32_t value, unsigned size,
                         MemTxAttrs attrs)
{
    RecorderVcpu *v = cpu->recorder;
    uint64_t address = recorder_port_address(port), a20;

    if (!recorder_active()) {
        store_port(port, value, size, attrs);
        return;
    }
    value &= MAKE_64BIT_MASK(0, 8 * size);
    recorder_count(v, RECORDER_COUNT_DEVICE_STORES);
    v->store_hash = recorder_mix(recorder_mix(v->store_hash, address), value);
    if (recorder_recording()) {
        record_port_store(cpu, port, value, size, attrs);
        return;
    }
    replay_port->store(cpu, address, value);
    if (replay_port->take_if_due(cpu, recorder_position_in_insn(cpu), LOG_EVENT_STORE_RESULT,
                                 &a20)) {
        recorder_set_a20(cpu, a20);
    }
}

void recorder_cannot(const char *what)
{
    if (recorder_recording()) {
        recorder_fail("%s", what);
        if (current_cpu && current_cpu->recorder) {
            recorder_kick(current_cpu);         /* it makes no further step */
        }
    }
}

/*
 * Read a descriptor outside of RAM, where a broken descriptor has led the page walk, for example.
 * The word is an input of the step that faults by it.  Nothing found this way may be cached, or the
 * TLB would decide how often the word is read.  So a valid descriptor ends the recording.
 *
 * A fetch has no instruction yet that could be charged.  Its fault is a step all the same, and the
 * walk has read memory for it.  So the step is counted before the vCPU is SAFE (recorder_fault()).
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

bool recorder_sysreg_write(CPUState *cpu, uint64_t value)
{
    if (recorder_active()) {
        cpu->recorder->store_hash = recorder_mix(cpu->recorder->store_hash, value);
    }
    return recorder_replaying();
}

bool recorder_replay_msr(CPUState *cpu, uint64_t written, int *result)
{
    uint64_t failed;

    recorder_sysreg_write(cpu, written);
    if (!recorder_replay_sysreg(cpu, &failed)) {
        return false;
    }
    *result = failed ? -1 : 0;
    return true;
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
 * Take the result of a PSCI call from the log.  PSCI calls run inside the delivery of an exception,
 * between two steps.  After a call that does not return (power off), the log has a START event or
 * ends.
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

/*
 * Count the delivery of a PSCI call that halts: the call longjmps out of the delivery.  In replay
 * the call returns, and the delivery is counted as usual.
 */
void recorder_suspends_slow(CPUState *cpu)
{
    if (cpu->recorder->record.suspended) {
        recorder_step_slow(cpu);
    }
}
