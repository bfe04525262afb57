/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Inputs: what a vCPU gets from outside of the sphere.  A part of recorder.h, which QEMU includes.
 */
#ifndef RECORDER_INPUT_H
#define RECORDER_INPUT_H

/*
 * Dispatch a vCPU's access to a device: @offset in @mr, guest-physical @address.  Return the result
 * of the bus.  The vCPU is SAFE meanwhile, so the device may use DMA.  While replaying no device is
 * accessed: value and result come from the log.  Called with the BQL held, by the last instruction
 * of a TB.
 */
MemTxResult recorder_device_load(CPUState *cpu, MemoryRegion *mr, hwaddr offset,
                                 uint64_t *value, MemOp op, MemTxAttrs attrs,
                                 hwaddr address);
MemTxResult recorder_device_store(CPUState *cpu, MemoryRegion *mr, hwaddr offset,
                                  uint64_t value, MemOp op, MemTxAttrs attrs,
                                  hwaddr address);

/*
 * The same for a vCPU's access to an x86 I/O port.  No bus refuses it.  In logs and manifests ports
 * are addresses that no memory has.
 */
uint32_t recorder_port_load(CPUState *cpu, uint32_t port, unsigned size, MemTxAttrs attrs);
void recorder_port_store(CPUState *cpu, uint32_t port, uint32_t value, unsigned size,
                         MemTxAttrs attrs);

static inline uint64_t recorder_port_address(uint32_t port)
{
    return UINT64_C(1) << 63 | port;
}

/*
 * Replaying: set *@value to the recorded value of a register that looks outside (Arm: ARM_CP_IO)
 * and return true.  Otherwise return false: the caller reads the register, and calls
 * recorder_record_sysreg() with the value.
 */
bool recorder_replay_sysreg(CPUState *cpu, uint64_t *value);
void recorder_record_sysreg(CPUState *cpu, uint64_t value);
/*
 * The same for an access to a register of the local APIC that may raise an exception.  @written:
 * what a write writes, or 0.  Set *@result to -1 or 0.  The caller passes recorder_record_sysreg()
 * whether the access failed.
 */
bool recorder_replay_msr(CPUState *cpu, uint64_t written, int *result);
/*
 * End the recording: the guest does what cannot be recorded, and in replay would do the same.
 * Called in a vCPU's thread.
 */
void recorder_cannot(const char *what);
/*
 * Note a write of @value to a register that looks outside.  Return true if the write must be
 * skipped: while replaying.  All reads of such registers come from the log, so their state is not
 * used.
 */
bool recorder_sysreg_write(CPUState *cpu, uint64_t value);

/*
 * Return true if WFI finds work, so that the vCPU does not halt.  This is cpu_has_work() or
 * @timed_out (the deadline of WFIT has passed), or the recorded answer while replaying.
 */
bool recorder_wfi_finds_work(CPUState *cpu, bool timed_out);

/*
 * Count the delivery of a PSCI call as a step if the vCPU is about to halt inside the call: the
 * halt leaves the delivery by longjmp.  Recording only.
 */
void recorder_suspends_slow(CPUState *cpu);

static inline void recorder_suspends(CPUState *cpu)
{
    if (recorder_recording()) {
        recorder_suspends_slow(cpu);
    }
}

/*
 * Replaying: set *@returns and *@result to what a PSCI call did when it was recorded, and return
 * true; the caller must not execute the call.  Otherwise return false: the caller executes the
 * call, and calls recorder_record_psci() with its result before the call can longjmp.  BQL held.
 */
bool recorder_replay_psci(CPUState *cpu, bool *returns, int32_t *result);
void recorder_record_psci(CPUState *cpu, bool returns, int32_t result);

#endif
